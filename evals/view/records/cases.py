"""Records of the list of cases."""

from emend.evals.view.records.page import Choice
from emend.evals.view.records.run import RunEntry
from emend.memory.edit import FrozenModel


class CaseFilter(FrozenModel):
    """Filter and order of a run's cases; all that is given must hold, and `after` is the key of the last page's end."""

    editor: str = ""
    kind: str = ""
    tag: str = ""
    verdict: str = ""
    text: str = ""
    where: str = ""
    errors: bool = False
    sort: str = ""
    after: str = ""


class Tally(FrozenModel):
    """The fitting answers of a case under one editor, and its units that failed."""

    editor: str
    right: int
    wrong: int
    unscored: int
    failed: int = 0


class AnswerExample(FrozenModel):
    """An answer beside what would be right, and its score."""

    editor: str
    kind: str
    question: str
    gold: tuple[str, ...]
    answer: str | None
    verdict: str
    score: str
    href: str


class CaseRowView(FrozenModel):
    """A case in a list: its first edit, tallies by editor, and the first fitting answer."""

    number: int
    setting: str
    href: str
    title: str
    edits: int
    tallies: tuple[Tally, ...]
    example: AnswerExample | None = None


class CasesView(FrozenModel):
    """The cases of a run that fit a filter; counts are None and `searched` is below 1 while a text is searched for."""

    run: RunEntry
    filter: CaseFilter
    editors: tuple[Choice, ...] = ()
    kinds: tuple[Choice, ...] = ()
    tags: tuple[Choice, ...] = ()
    verdicts: tuple[Choice, ...] = ()
    sorts: tuple[Choice, ...] = ()
    rows: tuple[CaseRowView, ...] = ()
    cases: int | None = None
    answers: int | None = None
    searched: float = 1.0
    first: str = ""
    next: str = ""
    problem: str = ""
