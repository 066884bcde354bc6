"""Stories of operations with answers that were worked out by hand: what holds, was held, or is unknown, after each.

A step is an operation with its arguments, or a question with its answer. `{name}` stands for the id of the fact, rule
or conflict that the step of that name made. An answer is the set of objects, `DISPUTED` with them where they are, and
`UNKNOWN` where nothing holds; facts of a history are (object, status, first day, last day).
"""

from typing import Any, NamedTuple


class Step(NamedTuple):
    """An operation or question of `FactMemory`, its arguments, and the answer or the name of what it makes."""

    call: str
    arguments: dict[str, Any]
    result: Any = None


DISPUTED, UNKNOWN = "DISPUTED", ()


def say(subject: str, relation: str, object_: str, name: str = "", **more: Any) -> Step:
    """Somebody states a fact."""
    return Step("remember", {"subject": subject, "relation": relation, "object": object_, **more}, name)


def change(subject: str, relation: str, object_: str, name: str = "", **more: Any) -> Step:
    """Somebody says that a fact has changed, or with no object that it has ended."""
    return Step("update", {"subject": subject, "relation": relation, "object": object_, **more}, name)


def do(call: str, name: str = "", **arguments: Any) -> Step:
    """Any other operation."""
    return Step(call, arguments, name)


def ask(subject: str, relation: str, *answer: str, **more: Any) -> Step:
    """A question about one relation."""
    return Step("lookup", {"subject": subject, "relation": relation, **more}, answer)


def past(subject: str, relation: str, *versions: tuple[str, ...], **more: Any) -> Step:
    """A question about all that was said."""
    return Step("history", {"subject": subject, "relation": relation, **more}, versions)


STORIES: dict[str, list[Step]] = {
    "a newer fact replaces an older one, and a back-dated one enters history": [
        say("Veld", "mayor", "Mira", valid_from="2020"),
        ask("Veld", "mayor", "Mira"),
        say("Veld", "mayor", "Tobin", valid_from="2024-05"),
        ask("Veld", "mayor", "Tobin"),
        say("Veld", "mayor", "Odo", valid_from="2018"),
        ask("Veld", "mayor", "Tobin"),
        ask("Veld", "mayor", "Mira", at="2024-04-30"),
        ask("Veld", "mayor", "Tobin", at="2024-05-01"),
        ask("Veld", "mayor", "Odo", at="2019"),
        ask("Veld", "mayor", at="2017"),
        say("Veld", "mayor", "Ilse", valid_from="2022-01-01"),
        ask("Veld", "mayor", "Ilse", at="2023"),
        ask("Veld", "mayor", "Tobin"),
        past(
            "Veld",
            "mayor",
            ("Odo", "past", "2018-01-01", "2020-01-01"),
            ("Mira", "past", "2020-01-01", "2022-01-01"),
            ("Ilse", "past", "2022-01-01", "2024-05-01"),
            ("Tobin", "current", "2024-05-01", ""),
        ),
    ],
    "of facts without a date the one that was said later holds": [
        say("Ann", "employer", "Acme", recorded_at="2024-01-10"),
        say("Ann", "employer", "Bolt", recorded_at="2024-03-02T12:00"),
        ask("Ann", "employer", "Bolt"),
        ask("Ann", "employer", "Acme", at="2024-02"),
        ask("Ann", "employer", "Acme", known_at="2024-02"),
        say("Ann", "employer", "Acme", recorded_at="2024-04-01"),
        ask("Ann", "employer", "Acme"),
        ask("Ann", "employer", "Bolt", at="2024-03-05"),
    ],
    "of two facts of the same day the later one holds, by its time or by its order": [
        say("Ann", "deadline", "Monday", valid_from="2024-05-01"),
        say("Ann", "deadline", "Friday", valid_from="2024-05-01"),
        ask("Ann", "deadline", "Friday"),
        say("Ann", "deadline", "Sunday", valid_from="2024-05-01T17:00"),
        say("Ann", "deadline", "Tuesday", valid_from="2024-05-01T09:00"),
        ask("Ann", "deadline", "Sunday"),
        ask("Ann", "deadline", "Tuesday", at="2024-05-01T16:59"),
        ask("Ann", "deadline", "Friday", at="2024-05-01T08:00"),
    ],
    "instants of different time zones are compared as instants": [
        say("Desk", "status", "open", valid_from="2024-05-01T09:00+09:00"),  # 00:00 UTC
        say("Desk", "status", "closed", valid_from="2024-05-01T02:00+03:00"),  # an hour before, in UTC
        ask("Desk", "status", "open"),
        ask("Desk", "status", "closed", at="2024-04-30T23:30+00:00"),
        ask("Desk", "status", "closed", at="2024-05-01T01:30+02:00"),
        ask("Desk", "status", "open", at="2024-04-30T20:00-04:00"),
    ],
    "what has an end holds no longer after it, and what had ended when it was said never held now": [
        say("Ann", "club", "Rovers", valid_from="2020", valid_to="2022"),
        ask("Ann", "club", "Rovers", at="2021-12-31"),
        ask("Ann", "club", at="2022"),
        ask("Ann", "club"),
        say("Ben", "club", "United", valid_to="2019"),
        ask("Ben", "club"),
        ask("Ben", "club", "United", at="2010"),
        say("Cleo", "club", "Rovers"),
        change("Cleo", "club", ""),
        ask("Cleo", "club"),
        say("Cleo", "club", "United"),
        ask("Cleo", "club", "United"),
    ],
    "what begins in the future does not hold yet": [
        say("Ann", "home city", "Bern", valid_from="2020"),
        say("Ann", "home city", "Oslo", valid_from="2199"),
        ask("Ann", "home city", "Bern"),
        ask("Ann", "home city", "Oslo", at="2200"),
        past(
            "Ann",
            "home city",
            ("Bern", "current", "2020-01-01", "2199-01-01"),
            ("Oslo", "future", "2199-01-01", ""),
        ),
    ],
    "a correction, a correction of it, and both taken back": [
        say("Ann", "birthday", "1 May", name="first"),
        do("correct", "second", fact_id="{first}", object="2 May"),
        ask("Ann", "birthday", "2 May"),
        do("correct", "third", fact_id="{second}", object="3 May"),
        ask("Ann", "birthday", "3 May"),
        do("retract", id="{second}"),
        ask("Ann", "birthday", "3 May"),
        do("retract", id="{third}"),
        ask("Ann", "birthday", "1 May"),
    ],
    "a correction of a correction taken back gives the correction": [
        say("Ann", "birthday", "1 May", name="first"),
        do("correct", "second", fact_id="{first}", object="2 May"),
        do("correct", "third", fact_id="{second}", object="3 May"),
        do("retract", id="{third}"),
        ask("Ann", "birthday", "2 May"),
        do("retract", id="{second}"),
        ask("Ann", "birthday", "1 May"),
    ],
    "a correction of an old fact does not touch the current one, and says what should have been known": [
        say("Veld", "mayor", "Mira", name="old", valid_from="2020", recorded_at="2020-01-05"),
        say("Veld", "mayor", "Tobin", valid_from="2024", recorded_at="2024-01-05"),
        do("correct", fact_id="{old}", object="Mina", recorded_at="2024-06"),
        ask("Veld", "mayor", "Tobin"),
        ask("Veld", "mayor", "Mina", at="2021"),
        ask("Veld", "mayor", "Mira", at="2021", known_at="2024-05"),
        ask("Veld", "mayor", "Mira", at="2025", known_at="2023"),
    ],
    "a correction of a date moves the fact": [
        say("Veld", "mayor", "Mira", valid_from="2020"),
        say("Veld", "mayor", "Tobin", name="tobin", valid_from="2019"),
        ask("Veld", "mayor", "Mira"),
        do("correct", fact_id="{tobin}", object="Tobin", valid_from="2021"),
        ask("Veld", "mayor", "Tobin"),
        ask("Veld", "mayor", "Mira", at="2020-06"),
        ask("Veld", "mayor", at="2019-06"),
    ],
    "an update taken back gives the earlier fact": [
        say("Veld", "mayor", "Mira", valid_from="2020"),
        change("Veld", "mayor", "Tobin", name="wrong", valid_from="2024"),
        ask("Veld", "mayor", "Tobin"),
        do("retract", id="{wrong}"),
        ask("Veld", "mayor", "Mira"),
        past("Veld", "mayor", ("Mira", "current", "2020-01-01", ""), ("Tobin", "retracted", "2024-01-01", "")),
    ],
    "facts of a set stand side by side until one is said to end": [
        say("Ann", "friend", "Ben"),
        say("Ann", "friends", "Cleo"),
        ask("Ann", "friend", "Ben", "Cleo"),
        say("Ann", "is friends with", "ben"),
        ask("Ann", "friend", "Ben", "Cleo"),
        change("Ann", "friend", "", replaces="Ben"),
        ask("Ann", "friend", "Cleo"),
        change("Ann", "friend", "Dora", replaces="Cleo", name="swap"),
        ask("Ann", "friend", "Dora"),
        do("retract", id="{swap}"),
        ask("Ann", "friend", "Cleo"),
        say("Ann", "friend", "Ben"),
        ask("Ann", "friend", "Ben", "Cleo"),
    ],
    "members of a set have their own times": [
        say("Ann", "language", "Thai", valid_from="2010"),
        say("Ann", "speaks", "Lao", valid_from="2015", valid_to="2020"),
        ask("Ann", "languages", "Thai", "Lao", at="2016"),
        ask("Ann", "languages", "Thai", at="2011"),
        ask("Ann", "languages", "Thai"),
    ],
    "where no rule decides both sides are shown until somebody does": [
        say("Ann", "likes", "tea", name="tea"),
        say("Ann", "likes", "coffee", name="coffee"),
        ask("Ann", "likes", DISPUTED, "tea", "coffee"),
        do("resolve", conflict_id="{conflict}", keep=["{coffee}"]),
        ask("Ann", "likes", "coffee"),
        say("Ann", "likes", "cocoa", name="cocoa"),
        ask("Ann", "likes", DISPUTED, "coffee", "cocoa"),
        do("resolve", conflict_id="{conflict}", keep=["{coffee}", "{cocoa}"]),
        ask("Ann", "likes", "coffee", "cocoa"),
        past(
            "Ann",
            "likes",
            ("tea", "retracted"),
            ("coffee", "current"),
            ("cocoa", "current"),
        ),
    ],
    "an update decides where no rule does, and taking it back opens the question no more": [
        say("Ann", "prefers", "tea"),
        change("Ann", "likes", "coffee"),
        ask("Ann", "likes", "coffee"),
        say("Ann", "likes", "cocoa"),
        ask("Ann", "likes", DISPUTED, "coffee", "cocoa"),
        change("Ann", "likes", "milk"),
        ask("Ann", "likes", "milk"),
        change("Ann", "likes", ""),
        ask("Ann", "likes"),
    ],
    "a side that is taken back settles the dispute": [
        say("Ann", "diet", "vegan"),
        say("Ann", "diet", "everything", name="joke"),
        ask("Ann", "diet", DISPUTED, "vegan", "everything"),
        do("retract", id="{joke}"),
        ask("Ann", "diet", "vegan"),
    ],
    "one user's facts are not another's, and shared ones are everybody's": [
        say("I", "home city", "Bern", user="ann"),
        say("I", "home city", "Oslo", user="ben"),
        ask("I", "home city", "Bern", user="ann"),
        ask("I", "home city", "Oslo", user="ben"),
        ask("I", "home city", user="cleo"),
        ask("I", "home city"),
        say("office", "address", "1 High Street", user="*"),
        ask("office", "address", "1 High Street", user="ann"),
        say("office", "address", "2 Low Street", user="ann"),
        ask("office", "address", "2 Low Street", user="ann"),
        ask("office", "address", "1 High Street", user="ben"),
        say("team", "skill", "sewing", user="*"),
        say("team", "skill", "cooking", user="ann"),
        ask("team", "skill", "sewing", "cooking", user="ann"),
        ask("team", "skill", "sewing", user="ben"),
        do("forget", subject="office", user="ann"),
        ask("office", "address", "1 High Street", user="ann"),
    ],
    "what is forgotten is unknown, and may be said again": [
        say("Ann", "phone number", "555-1", name="first"),
        say("Ann", "phone number", "555-2", name="second"),
        do("forget", id="{second}"),
        ask("Ann", "phone number"),
        say("Ann", "phone number", "555-3"),
        ask("Ann", "phone number", "555-3"),
        do("forget", subject="Ann", relation="telephone"),
        ask("Ann", "phone number"),
        past("Ann", "phone number"),
        say("Ann", "phone number", "555-1", valid_from="2010"),
        ask("Ann", "phone number", "555-1"),
    ],
    "what is forgotten by its id leaves its place in time empty": [
        say("Ann", "phone number", "555-1", valid_from="2020"),
        say("Ann", "phone number", "555-2", name="second", valid_from="2022"),
        do("forget", id="{second}"),
        ask("Ann", "phone number", "555-1", at="2021"),
        ask("Ann", "phone number", at="2023"),
        past("Ann", "phone number", ("555-1", "past", "2020-01-01", "2022-01-01"), ("", "forgotten", "2022-01-01", "")),
        say("Ann", "phone number", "555-3", valid_from="2021-06"),
        ask("Ann", "phone number", "555-3"),
    ],
    "what replaced a fact and is forgotten does not bring it back, whatever is stated later": [
        say("Ann", "tasks", "paint"),
        change("Ann", "tasks", "plaster", name="second", replaces="paint"),
        do("forget", id="{second}"),
        say("Ann", "tasks", "sweep"),
        ask("Ann", "tasks", "sweep"),
        say("Ann", "tasks", "paint"),
        ask("Ann", "tasks", "sweep", "paint"),
        say("Ann", "phone number", "555-1", valid_from="2020"),
        change("Ann", "phone number", "555-2", name="newer", valid_from="2022"),
        do("forget", id="{newer}"),
        say("Ann", "phone number", "555-3", valid_from="2024"),
        ask("Ann", "phone number", at="2023"),
        ask("Ann", "phone number", "555-3"),
    ],
    "a cascade of two rules follows each change": [
        do("depend", subject="Ann", relation="office", base=("Ann", "home city"), condition=["Bern"], value="Aare 1"),
        do("depend", subject="Ann", relation="office", base=("Ann", "home city"), condition=["Oslo"], value="Fjord 2"),
        do("depend", subject="Ann", relation="parking lot", base=("Ann", "office"), condition=["Fjord 2"], value="P9"),
        ask("Ann", "office"),
        say("Ann", "home city", "Bern", valid_from="2020"),
        ask("Ann", "office", "Aare 1"),
        ask("Ann", "parking lot"),
        say("Ann", "home city", "Oslo", valid_from="2022", name="oslo"),
        ask("Ann", "office", "Fjord 2"),
        ask("Ann", "parking lot", "P9"),
        ask("Ann", "office", "Aare 1", at="2021"),
        say("Ann", "lives in", "Rome", valid_from="2023"),
        ask("Ann", "office"),
        ask("Ann", "parking lot"),
        do("retract", id="{oslo}"),
        ask("Ann", "office", "Aare 1", at="2022-06"),
    ],
    "a derived value is made of the object": [
        do("depend", subject="Ann", relation="email address", base=("Ann", "employer"), value="ann@{object}.example"),
        say("Ann", "employer", "acme"),
        ask("Ann", "email address", "ann@acme.example"),
        say("Ann", "employer", "bolt"),
        ask("Ann", "email address", "ann@bolt.example"),
        change("Ann", "employer", ""),
        ask("Ann", "email address"),
    ],
    "what depends on a fact without a rule is unknown after a change, until it is stated anew": [
        say("Ann", "commute", "30 minutes", valid_from="2020-02"),
        say("Ann", "home city", "Bern", valid_from="2020"),
        do("depend", subject="Ann", relation="commute", base=("Ann", "home city"), name="rule"),
        ask("Ann", "commute", "30 minutes"),
        say("Ann", "home city", "Oslo", valid_from="2022"),
        ask("Ann", "commute"),
        ask("Ann", "commute", "30 minutes", at="2021"),
        say("Ann", "commute", "10 minutes", valid_from="2022-03"),
        ask("Ann", "commute", "10 minutes"),
        say("Ann", "home city", "Bern", valid_from="2023"),
        ask("Ann", "commute"),
        do("retract", id="{rule}"),
        ask("Ann", "commute", "10 minutes"),
    ],
    "a value that is stated after the change that derives another one counts": [
        do(
            "depend",
            subject="Ann",
            relation="office",
            base=("Ann", "home city"),
            condition=["Bern"],
            value="Aare 1",
            recorded_at="2019",
        ),
        say("Ann", "home city", "Bern", recorded_at="2020"),
        say("Ann", "office", "at home", recorded_at="2021"),
        ask("Ann", "office", "at home"),
        say("Ann", "home city", "Oslo", recorded_at="2022"),
        ask("Ann", "office"),
        say("Ann", "home city", "Bern", recorded_at="2023"),
        ask("Ann", "office", "Aare 1"),
        do("forget", subject="Ann", relation="office"),
        ask("Ann", "office"),
    ],
    "wordings of a relation are one relation": [
        say("Veld", "mayor", "Mira"),
        say("Tobin", "became mayor of", "Veld"),
        ask("Veld", "mayor", "Tobin"),
        say("Ann", "lives in", "Bern"),
        say("Ann", "has moved to", "Oslo"),
        ask("ANN", "place of residence", "Oslo"),
        say("Ann", "is married to", "Ben"),
        ask("Ann", "Spouse", "Ben"),
        ask("Ann", "husband", "Ben"),
    ],
    "the unknown relations: a noun is functional, a plural is a set, a verb is undecided": [
        say("Ann", "favourite colour", "red"),
        say("Ann", "favourite colour", "blue"),
        ask("Ann", "favourite colour", "blue"),
        say("Ann", "tasks", "sweep"),
        say("Ann", "tasks", "cook"),
        ask("Ann", "tasks", "sweep", "cook"),
        say("Ann", "runs", "a shop"),
        say("Ann", "runs", "a marathon"),
        ask("Ann", "runs", DISPUTED, "a shop", "a marathon"),
    ],
}
