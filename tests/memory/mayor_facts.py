"""Values of a fact, and edits that say them; unless told otherwise, of who is mayor of Veld."""

from emend.memory.edit import Edit, Triplet


def told(object_: str, subject="Veld", relation="mayor") -> Triplet:
    """That the subject has this value."""
    return Triplet(subject=subject, relation=relation, object=object_)


def fact(object_: str, time: str | None = None, **names) -> Edit:
    """An edit that says so, with a time or without."""
    triplet = told(object_, **names)
    return Edit(form="triplet", text=triplet.text, triplets=(triplet,), time=time)
