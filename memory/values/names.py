"""Names of people in their usual short and long forms."""

from collections.abc import Iterator, Sequence

from emend.memory.values.text import TextSpan, ValueText
from emend.memory.values.tokens import Token

LONGEST_NAME = 5
_PARTICLES = frozenset("de da di del della der van von le la el al bin ibn dos du".split())
_NO_NAMES = frozenset(
    "the of and in united new north south east west st san saint mount lake city airport "
    "university".split()
)


def is_name(tokens: Sequence[Token]) -> bool:
    """Return whether an answer may be a person's name: two to five capitalised words, with
    particles such as `van`.
    """
    if not 2 <= len(tokens) <= LONGEST_NAME or any(token.form in _NO_NAMES for token in tokens):
        return False
    return all(token.kind == "name" or token.form in _PARTICLES for token in tokens)


def find_name(text: ValueText, name: Sequence[Token]) -> Iterator[TextSpan]:
    """Yield the spans of a name whose first or middle names may be omitted, added or abbreviated.

    The surname must follow another word of the name, or the initials of all words before it. Only
    capitalised words may be in between, and none may contradict a middle name (`George W. Bush` is
    not `George H. W. Bush`).
    """
    tokens = text.tokens
    for last, token in enumerate(tokens):
        if token.form != name[-1].form or token.kind != "name":
            continue
        for first in range(last - 1, max(-1, last - LONGEST_NAME), -1):
            if tokens[first].kind != "name" and tokens[first].form not in _PARTICLES:
                break
            if _agree(tokens[first:last], name[:-1]):
                yield TextSpan(tokens[first].start, token.end)
                break


def _agree(leading: Sequence[Token], first_names: Sequence[Token]) -> bool:
    """Return whether the words before a surname are compatible with the name."""
    begins = leading[0].form
    initials = "".join(token.form[0] for token in first_names)
    if len(begins) > 1 and begins == initials[: len(begins)] or begins == initials:
        return len(leading) == 1
    position = next((i for i, token in enumerate(first_names) if token.form == begins), None)
    if position is None:
        return False
    theirs = [token.form for token in leading[1:]]
    ours = [token.form for token in first_names[position + 1 :]]
    return all(word[0] == other[0] for word, other in zip(theirs, ours, strict=False))
