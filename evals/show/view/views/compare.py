"""Views of comparisons, and of two traces beside each other."""

from emend.evals.results.analyses.compare import ComparisonRow
from emend.evals.show.view.views.case import EditView, ProbeView
from emend.evals.show.view.views.cases import AnswerView
from emend.evals.show.view.views.page import NamedValue, Status
from emend.memory.edit import FrozenModel


class Side(FrozenModel):
    """An editor of a run, as one side of a comparison; the key is the run's id, a full stop and the editor's place."""

    key: str
    run: str
    editor: str
    label: str


class FourCells(FrozenModel):
    """The 2 x 2 counts of a comparison: probes that both, one or neither of the sides has right.

    The links lead to the cases of those that one side alone has right, where both are of one run.
    """

    both: int
    only_a: int
    only_b: int
    neither: int
    href_a: str = ""
    href_b: str = ""


class PairRow(ComparisonRow):
    """A metric of both sides as text; `mean`, `low` and `high` are those of the difference, in the metric's unit."""

    unit: str
    a: str
    b: str
    difference: str
    interval: str
    mean: float | None
    low: float | None
    high: float | None
    p: str
    cells: FourCells | None = None
    verdict: str = ""


class Flip(FrozenModel):
    """A probe that one side has right and the other has not."""

    a: AnswerView
    b: AnswerView
    href: str


class PairView(FrozenModel):
    """The comparison of a side with the base."""

    a: Side
    b: Side
    coverage: tuple[NamedValue, ...] = ()
    notes: tuple[str, ...] = ()
    rows: tuple[PairRow, ...] = ()
    flips: tuple[Flip, ...] = ()
    flips_total: int = 0


class CompareView(FrozenModel):
    """Several sides, each compared with the first."""

    sides: tuple[Side, ...]
    pairs: tuple[PairView, ...]
    status: Status


class CompareChoice(FrozenModel):
    """The sides that can be compared."""

    sides: tuple[Side, ...]
    chosen: tuple[str, ...] = ()
    problem: str = ""


class ProbePair(FrozenModel):
    """The answers of both sides to one probe."""

    a: ProbeView | None
    b: ProbeView | None
    flipped: bool


class BesideView(FrozenModel):
    """A case under two sides, probe by probe."""

    a: Side
    b: Side
    setting: str
    edits: tuple[EditView, ...]
    pairs: tuple[ProbePair, ...]
