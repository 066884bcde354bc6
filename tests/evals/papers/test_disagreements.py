"""What disagrees within the papers, allowing for rounding, is exactly what `disagreements.csv` lists."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import pytest

from emend.evals.papers.tables import Cell, Disagreement, known_disagreements, papers, table

UNKNOWN, KNOWN = 797, 1374
"""Fact questions of ELKEN's test whose answer is unknown or known after the edit (its section 4.1, and the data)."""
ERRORS = {
    "triplet error": ("incomplete triplet", "ambiguous triplet"),
    "editing error": ("old answer", "irrelevant answer"),
}
WHOLE = 100.0
Parts = Sequence[Cell]


def half_digit(cell: Cell) -> float:
    """Half of the last printed digit: rounding hides so much."""
    return 0.5 * 10.0**-cell.decimals


def find_disagreements() -> list[Disagreement]:
    """Disagreements found by each check over each figure that it applies to."""
    return [disagreement for check in CHECKS for disagreement in check() if disagreement]


def count_checked(check: str) -> int:
    """Number of figures that a check of that (function) name examines."""
    return sum(1 for _ in next(disagreement for disagreement in CHECKS if disagreement.__name__ == check)())


def _compare(
    paper: str, check: str, cell: Cell, parts: Parts, formula: Callable[..., float], printed: float | None = None
) -> Disagreement | None:
    """Disagreement of a printed figure with its parts; None if unrounded parts exist that explain it."""
    printed_value, half = (cell.value, half_digit(cell)) if printed is None else (printed, 0.5)
    corners = [formula(*ends) for ends in product(*((p.value - half_digit(p), p.value + half_digit(p)) for p in parts))]
    if min(corners) - half - 1e-9 <= printed_value <= max(corners) + half + 1e-9:
        return None
    computed = formula(*(part.value for part in parts))
    names = ("table", "model", "method", "data", "setting", "metric")
    return Disagreement(
        paper=paper,
        check=check,
        printed=printed_value,
        computed=round(computed, 3),
        off=round(printed_value - computed, 3),
        **cell.model_dump(include=set(names)),
    )


def drops() -> Iterator[Disagreement | None]:
    """The printed drop is the rounded percentage by which a figure is below that of `struct`."""
    for paper in papers():
        for disagreement in paper.tables:
            base = {_without(cell, "setting"): cell for cell in disagreement.cells if cell.setting == "struct"}
            for cell in disagreement.cells:
                if cell.drop is not None:
                    pair = (base[_without(cell, "setting")], cell)
                    yield _compare(paper.name, "drop", cell, pair, lambda a, b: 100 * (a - b) / a, cell.drop)


def averages() -> Iterator[Disagreement | None]:
    """ReCoE's averages are the means of the six schemes."""
    for number in (3, 4, 5, 6):
        cells = table(f"recoe:{number}").cells
        for cell in cells:
            if cell.data == "average":
                same = [c for c in cells if _without(c, "data") == _without(cell, "data") and c.data != "average"]
                if len(same) == 6:
                    yield _compare("recoe", "average", cell, same, lambda *v: sum(v) / len(v))


def differences() -> Iterator[Disagreement | None]:
    """ReCoE's differences of perplexity, facts minus counterfactuals."""
    cells = {cell.key(): cell for cell in table("recoe:6").cells}
    for cell in cells.values():
        if cell.metric == "Δ":
            pair = [cells[(*cell.key()[:-1], name)] for name in ("PPL(F)", "PPL(CF)")]
            yield _compare("recoe", "difference", cell, pair, lambda a, b: a - b)


def sums() -> Iterator[Disagreement | None]:
    """Shares of kinds of errors make up their sum: AKEW's table 4, and DocTER's table 6 with 100."""
    shares = {cell.metric: cell for cell in table("akew:4").cells}
    for name, kinds in ERRORS.items():
        yield _compare("akew", "sum", shares[name], [shares[kind] for kind in kinds], lambda a, b: a + b)
    yield _compare("akew", "sum", shares["editing error"], [shares["triplet error"]], lambda a: WHOLE - a)
    cells = {cell.key(): cell for cell in table("docter:6").cells}
    for cell in cells.values():
        if cell.metric == "IR":
            rest = [cells[(*cell.key()[:-1], name)] for name in ("AT", "IS")]
            yield _compare("docter", "sum", cell, rest, lambda a, b: WHOLE - a - b)


def f1_scores() -> Iterator[Disagreement | None]:
    """DocTER's F1 follows from precision and recall."""
    for number in (6, 8):
        cells = {cell.key(): cell for cell in table(f"docter:{number}").cells}
        for cell in cells.values():
            if cell.metric == "F1":
                pair = [cells[(*cell.key()[:-1], name)] for name in ("Precision", "Recall")]
                yield _compare("docter", "F1", cell, pair, lambda p, r: 2 * p * r / (p + r))


def weighted() -> Iterator[Disagreement | None]:
    """ELKEN's overall reliability is that of unknown and known questions by their numbers."""
    cells = {cell.key(): cell for cell in table("elken:3").cells}
    for cell in cells.values():
        if cell.metric == "Overall":
            pair = [cells[(*cell.key()[:-1], name)] for name in ("Unknown", "Known")]
            yield _compare("elken", "weighted", cell, pair, _by_questions)


def repeats() -> Iterator[Disagreement | None]:
    """A figure that stands in two tables is the same in both; told of the later one."""
    cells = {(paper.name, cell.table, cell.key()): cell for paper in papers() for t in paper.tables for cell in t.cells}
    for (name, number, key), cell in cells.items():
        for earlier, renamed in REPEATED.get((name, number), ()):
            other = cells.get((name, earlier, (*key[:-1], renamed.get(cell.metric, ""))))
            if other:
                yield _compare(name, "repeat", cell, [], lambda same=other: same.value)


def _by_questions(unknown: float, known: float) -> float:
    return (UNKNOWN * unknown + KNOWN * known) / (UNKNOWN + KNOWN)


def _without(cell: Cell, dimension: str) -> tuple[str, ...]:
    return tuple(str(value) for name, value in cell.model_dump().items() if name in SAME and name != dimension)


SAME = ("table", "model", "method", "data", "setting", "metric")
DIMENSIONS_OF_FULL_MARKS = {name: name for name in ("Correctness", "Coherence", "Comprehensiveness")}
REPEATED: dict[tuple[str, int], tuple[tuple[int, dict[str, str]], ...]] = {
    ("docter", 8): ((6, {name: name for name in ("#Tri", "Recall", "Precision", "F1")}),),
    ("elken", 3): ((2, {"Overall": "Q-Level"}),),
    ("elken", 15): ((2, {"Overall": "Q-Level"}), (5, DIMENSIONS_OF_FULL_MARKS)),
}
"""Repeated tables by paper and table: the earlier table, and its metric for each of the later one's."""
CHECKS: tuple[Callable[[], Iterator[Disagreement | None]], ...] = (
    drops, averages, differences, sums, f1_scores, weighted, repeats,
)  # fmt: skip


def test_the_list_of_disagreements_is_right_in_both_directions_within_what_rounding_hides() -> None:
    assert find_disagreements() == list(known_disagreements())
    parts = [cell("12.69"), cell("17.52")]
    assert _compare("p", "difference", cell("-4.84"), parts, lambda a, b: a - b) is None
    assert _compare("p", "difference", cell("-4.86"), parts, lambda a, b: a - b) is not None


def test_every_figure_that_follows_from_others_is_checked() -> None:
    looked = {check.__name__: count_checked(check.__name__) for check in CHECKS}
    # Drops of AKEW's tables 2, 3, 6 and 7; averages of ReCoE, 6 + 16 + 6 + 29; differences of its table 6, 42 + 14
    assert looked == {
        "drops": 132, "averages": 57, "differences": 56, "sums": 7, "f1_scores": 10, "weighted": 6, "repeats": 59,
    }  # fmt: skip
    assert sum(cell.drop is not None for told in papers() for found in told.tables for cell in found.cells) == 132
    assert [found for found in drops() if found] == []


def test_what_disagrees_is_where_the_notes_say() -> None:
    told = [(found.paper, found.table, found.check) for found in known_disagreements()]
    assert told.count(("recoe", 3, "average")) == 6
    assert told.count(("elken", 3, "weighted")) == 6
    assert [one for one in told if one[0] == "docter"] == [("docter", 6, "F1")]
    assert [one for one in told if one[2] == "repeat"] == [("elken", 15, "repeat")]
    assert len(told) == 14


def cell(printed: str, drop: int | None = None) -> Cell:
    return Cell(
        table=2, model="m", method="x", data="d", setting="s", metric="a", printed=printed, unit="percent", drop=drop
    )


@pytest.mark.parametrize(("drop", "agrees"), [(89, False), (91, True), (92, True), (93, False)])
def test_a_drop_agrees_if_some_rounding_gives_it(drop: int, agrees: bool) -> None:
    """76.00 to 6.46 is 91.5: the figures before rounding may have given 91 or 92."""
    found = _compare("p", "drop", cell("6.46"), [cell("76.00"), cell("6.46")], lambda a, b: 100 * (a - b) / a, drop)
    assert (found is None) == agrees
    if found:
        assert (found.printed, found.computed, found.off) == (drop, 91.5, drop - 91.5)
