"""Views of answers, and of the list of cases."""

from emend.evals.case import Record
from emend.evals.show.view.views.page import Choice
from emend.memory.edit import FrozenModel


class AnswerView(FrozenModel):
    """An answer with its verdict and the score that decides it, on the page `case` of the case with that number."""

    record: Record
    verdict: str
    score: str
    number: int
    case: str
    anchor: str

    @property
    def href(self) -> str:
        """Link to the answer on the page of its case."""
        return f"{self.case}#{self.anchor}"


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
    right: int = 0
    wrong: int = 0
    unscored: int = 0
    failed: int = 0


class CaseRowView(FrozenModel):
    """A case in a list: its first edit, tallies by editor, and the first fitting answer."""

    number: int
    setting: str
    href: str
    title: str
    edits: int
    tallies: tuple[Tally, ...]
    example: AnswerView | None = None


class CasesView(FrozenModel):
    """The cases of a run that fit a filter; counts are None until they are known."""

    filter: CaseFilter
    choices: dict[str, tuple[Choice, ...]] = {}
    rows: tuple[CaseRowView, ...] = ()
    cases: int | None = None
    answers: int | None = None
    first: str = ""
    next: str = ""
    problem: str = ""
