"""The tables are whole, in their ranges, and letter by letter what the papers print."""

import re
from collections.abc import Iterator

import pytest

from emend.evals.papers.tables import NAMES, Cell, PaperTable, paper, papers, table
from emend.memory.errors import BadSettings
from tests.paths import SHARED

TABLES = [found for told in papers() for found in told.tables]
SIZES = {
    # rows x columns of the printed table, and how many of its places hold a figure
    "akew:2": (18, 9, 144),
    "akew:3": (16, 3, 42),
    "akew:4": (6, 1, 6),
    "akew:6": (2, 9, 18),
    "akew:7": (2, 3, 6),
    "docter:2": (26, 7, 182),
    "docter:3": (22, 7, 127),
    "docter:4": (32, 1, 32),
    "docter:5": (17, 4, 54),
    "docter:6": (4, 7, 28),
    "docter:7": (0, 0, 0),
    "docter:8": (6, 4, 24),
    "elken:2": (27, 10, 270),
    "elken:3": (6, 3, 18),
    "elken:4": (6, 3, 18),
    "elken:5": (6, 3, 18),
    "elken:15": (27, 4, 108),
    "recoe:3": (6, 7, 42),
    "recoe:4": (16, 7, 112),
    "recoe:5": (14, 3, 42),
    "recoe:6": (21, 11, 203),
}


def by_id(found: PaperTable) -> str:
    return found.id


def test_every_result_table_is_there_every_paper_cited_and_rows_hold_numbers() -> None:
    assert {found.id for found in TABLES} == set(SIZES)
    for told in papers():
        assert told.arxiv in told.citation and told.title in told.citation
        assert told.benchmark == told.name
    (first, *_) = table("akew:2").cells
    assert first.as_row()["value"] == 97.33 and "printed" not in first.as_row()
    assert table("akew:2").as_row()["cells"] == 144


@pytest.mark.parametrize("found", TABLES, ids=by_id)
def test_a_table_has_the_papers_cells_told_apart_and_within_the_range_of_their_metric(found: PaperTable) -> None:
    rows, columns, cells = SIZES[found.id]
    shape = (len(found.keys(found.rows)), len(found.keys(found.columns)), len(found.cells))
    assert shape == (rows, columns, cells)
    assert rows * columns == cells + found.dashes + found.blanks
    assert len(found.not_legible) == found.blanks
    places = [cell.key(found.rows) + cell.key(found.columns) for cell in found.cells]
    assert len(set(places)) == len(places) == len(set(map(Cell.key, found.cells)))
    for cell in found.cells:
        low, high = limits(cell)
        assert low <= cell.value <= high, cell
        assert cell.drop is None or 0 <= cell.drop <= 100, cell


def limits(cell: Cell) -> tuple[float, float]:
    if cell.metric == "Δ":
        return float("-inf"), float("inf")
    if cell.unit == "percent":
        return (-100 if cell.metric in ("NEM", "NPM", "NNM", "CEM") else 0), 100
    return (1 if cell.unit == "perplexity" else 0), float("inf")


def test_drops_stand_beside_every_figure_of_akew_but_the_structured_ones() -> None:
    for number in (2, 3, 6, 7):
        for cell in table(f"akew:{number}").cells:
            assert (cell.drop is None) == (cell.setting == "struct"), cell


def test_one_figure_each_that_is_easily_shifted() -> None:
    def figure(name: str, *key: str) -> str:
        (cell,) = [cell for cell in table(name).cells if cell.key() == key]
        return cell.printed

    assert figure("akew:2", "Mistral (7B)", "IKE (all)", "WikiUpdate", "extract", "editing accuracy") == "23.34"
    assert figure("docter:3", "ChatGPT", "IKE(D)", "en", "doc", "Acc") == "43.39"
    assert figure("docter:5", "ChatGPT", "IKE", "zh->en", "llm", "CES") == "56.17"
    assert figure("elken:2", "Gemini Pro", "ICE", "Overall", "event", "E-Level") == "7.2"
    assert figure("recoe:4", "Tulu 33B", "QLoRA", "subtraction", "CoT", "correct_flip") == "11.06"
    assert figure("recoe:6", "Tulu 13B", "MEMIT", "comparative", "", "Δ") == "-178.10"


def test_the_notes_count_rightly() -> None:
    """Figures that no whole count of the stated sizes gives, rounded or cut off."""
    sizes = {"CounterFact": (975,), "MQuAKE-CF": (436, 337), "WikiUpdate": (1067,)}
    edited = [*table("akew:2").cells, *table("akew:6").cells]
    assert len(edited) == 162
    assert sum(not any(counts(cell.printed, size) for size in sizes[cell.data]) for cell in edited) == 16
    answered = {c.printed for n in (2, 3, 4) for c in table(f"docter:{n}").cells if c.metric == "Acc"}
    assert (len(answered), sum(not counts(value, 583) for value in answered)) == (69, 30)


def counts(printed: str, size: int) -> bool:
    hundredths = round(float(printed) * 100)
    return any(hundredths in (10_000 * n // size, (20_000 * n + size) // (2 * size)) for n in range(size + 1))


@pytest.mark.parametrize("name", ["akew:9", "akew", "akew:", "akew:two"])
def test_an_unknown_table_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(BadSettings, match="the tables of akew are akew:2, akew:3"):
        table(name)
    with pytest.raises(BadSettings, match="did you mean 'docter'"):
        paper("docterr")


# The texts of the papers, where they are at hand.

GAP = r"(?:[^\d\n-]|-(?!\d))*"
"""What may stand between two figures of a line: no digit, no minus sign, no line end."""


def printed_lines(found: PaperTable) -> Iterator[list[Cell]]:
    """The cells of each printed line; DocTER's table 4 has two models side by side."""
    rows = [[cell for cell in found.cells if cell.key(found.rows) == key] for key in found.keys(found.rows)]
    if found.id != "docter:4":
        yield from rows
        return
    for left, right in ((0, 1), (2, 3)):
        for place in range(8):
            yield rows[8 * left + place] + rows[8 * right + place]


@pytest.mark.parametrize("name", NAMES)
def test_the_papers_text_has_every_line_in_order(name: str) -> None:
    path = SHARED / "papers" / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    text = path.read_text(encoding="utf-8")
    for found in paper(name).tables:
        at = 0
        for line in printed_lines(found):
            figures = [re.escape(c.printed) + (f" ↓{c.drop}%" if c.drop is not None else "") for c in line]
            gap = r"[^\n]*?" if found.id == "docter:4" else GAP  # a model's name stands between its two halves
            match = re.compile(r"(?<![\d.-])" + gap.join(figures) + r"(?![\d.])").search(text, at)
            assert match, f"{found.id}: {line}"
            at = match.end() if len(figures) > 1 else match.start()
