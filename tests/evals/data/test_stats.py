"""The papers' tables are counted from the files, beside what is printed."""

from collections import Counter
from pathlib import Path

import pytest

from emend.evals.data.benchmarks.editing.knowedit import LOCALITY, PORTABILITY, KnowEdit
from emend.evals.data.check import check
from emend.evals.data.data_table import DataFigure, DataTable
from emend.evals.data.download import SOURCES
from emend.evals.data.stats import stats
from emend.memory.errors import BadSettings, MissingData
from tests.paths import DATA, SHARED

REAL = SHARED / "data"
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")


def table(name: str, folder: Path) -> DataTable:
    return stats(name, folder / name)[0]


def cell(found: DataTable, row: str, column: str) -> DataFigure:
    return found.cell(row, column)


def here(found: DataTable, row: str) -> list[float | None]:
    return [cell(found, row, column).here for column in found.columns]


NOT_PRINTED = (
    "locomo",
    "beam",
    "longmemeval",
    "memory_agent_bench",
    "halluedit",
    "wikibigedit",
    "uniedit",
)


@pytest.mark.parametrize("name", NOT_PRINTED)
def test_a_benchmark_without_a_printed_table_is_counted_by_the_check(name):
    with pytest.raises(BadSettings, match=f"emend data check {name}"):
        stats(name, DATA / name)
    checked = check(name, DATA / name)
    assert not checked.faults and any(what == "cases" and count for _, what, count in checked.counts)


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in NOT_PRINTED])
def test_every_benchmark_has_a_table_with_printed_and_counted_figures(name):
    found = table(name, DATA)
    assert any(figure.here is not None and figure.paper is not None for figure in found.figures)
    assert len({(figure.row, figure.column) for figure in found.figures}) == len(found.figures)


def test_a_figure_agrees_when_it_is_as_printed_and_an_absent_file_has_none_and_never_zero():
    assert DataFigure(row="", column="", here=6.249, paper=6.2, digits=1).agrees is True
    assert DataFigure(row="", column="", here=6.251, paper=6.2, digits=1).agrees is False
    assert DataFigure(row="", column="", here=None, paper=6.2).agrees is None
    assert DataFigure(row="", column="", here=1067, paper=None).text(1067.0) == "1,067"
    found = table("mquake", DATA)
    assert here(found, "CF") == [None] * 5
    assert cell(found, "CF", "instances").paper == 9218


@real
def test_elkens_training_events_give_its_table_1():
    found = table("elken", REAL)
    assert [cell(found, row, "train").agrees for row in found.rows] == [True] * 5
    assert here(found, "facts, in scope") == [971, 1856]
    assert here(found, "tendency, out of scope") == [1353, 796]
    assert any("a part, 723 of 844" in note for note in found.notes)


@real
def test_akews_means_come_near_its_table_5_on_a_part_of_it():
    found = table("akew", REAL)
    edits, questions, fact, text, triplet, per_edit = here(found, "MQuAKE-CF")
    assert (edits, questions) == (377, 303)
    assert (fact, triplet, per_edit) == pytest.approx((9.0, 10.1, 6.2), abs=0.05)
    assert text == pytest.approx(78, abs=0.5)  # the paper prints 76.3, the whole file has 78.0
    assert cell(found, "MQuAKE-CF", "text").agrees is False


def test_knowedits_rows_and_the_questions_that_are_asked_of_them_are_counted():
    found = table("knowedit", DATA)
    rows, paraphrases, portability, locality = here(found, "WikiData counterfact")
    cases = KnowEdit(DATA / "knowedit").cases("fact")
    kinds = Counter(probe.kind for case in cases for probe in case.probes)
    assert (rows, paraphrases) == (kinds["edit"], kinds["rephrase"]) and portability and locality
    assert portability == sum(kinds[name.lower()] for name in PORTABILITY)
    assert locality == sum(kinds[name.lower()] for name in LOCALITY)
    assert cell(found, "WikiData counterfact", "rows").agrees is False  # the README prints 885


@real
def test_docters_instances_are_those_of_its_files():
    found = table("docter", REAL)
    assert [here(found, row)[0] for row in found.rows] == [2578, 860, 1718, 1718, 495, 860, 860]
    assert here(found, "locality") == [1718, 17180]


@pytest.mark.slow
@real
def test_recoes_atoms_are_counted_after_and_before_the_change():
    found = table("recoe", REAL)
    assert [here(found, scheme)[0] for scheme in found.rows] == [None, 988, 551, 886, 435, 429, None]
    _, altered, before = here(found, "aggregation")
    assert altered and before and altered < before  # the paper's 1,822 is the number before the change


def test_what_is_absent_or_unknown_is_said(tmp_path):
    with pytest.raises(MissingData, match="emend data pull elken"):
        stats("elken", tmp_path)
    with pytest.raises(BadSettings, match="recoe"):
        stats("recoo", tmp_path)
