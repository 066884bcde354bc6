"""Records of comparisons, and of two traces beside each other."""

from emend.evals.view.records.case import EditView, ProbeView
from emend.evals.view.records.page import Fact, Status
from emend.memory.edit import FrozenModel


class Side(FrozenModel):
    """An editor of a run, as one side of a comparison; the key is the run's id, a full stop and the editor's place."""

    key: str
    run: str
    editor: str
    label: str
    href: str


class FourCells(FrozenModel):
    """The 2 x 2 counts of a comparison: probes that both, one or neither of the sides has right."""

    both: int
    only_a: int
    only_b: int
    neither: int


class PairRow(FrozenModel):
    """A metric of both sides; `mean`, `low` and `high` are those of the difference, second less first, in its unit."""

    setting: str
    metric: str
    kind: str
    judge: str
    unit: str
    a: str
    b: str
    difference: str
    interval: str
    mean: float | None
    low: float | None
    high: float | None
    p: str
    test: str
    n: int
    unscored: int
    cells: FourCells | None = None
    verdict: str = ""


class Flip(FrozenModel):
    """A probe that one side has right and the other has not."""

    setting: str
    number: int
    kind: str
    question: str
    gold: tuple[str, ...]
    answer_a: str | None
    answer_b: str | None
    verdict_a: str
    verdict_b: str
    href: str


class PairView(FrozenModel):
    """The comparison of a side with the base."""

    a: Side
    b: Side
    coverage: tuple[Fact, ...]
    notes: tuple[str, ...]
    rows: tuple[PairRow, ...]
    flips: tuple[Flip, ...]
    flips_total: int


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
    number: int
    setting: str
    edits: tuple[EditView, ...]
    pairs: tuple[ProbePair, ...]
