"""Lines of a job in a run folder: whole by their own type, and by every reader as records with what both have."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from emend.agents.providers.usage import ProviderUsage
from emend.evals.case import Record
from emend.evals.jobs.line import JobLine
from emend.evals.jobs.registry import load_job
from emend.evals.jobs.results import spent_lines
from emend.evals.log.folder import finished_units
from emend.evals.log.lines import RECORDS
from emend.evals.log.record_fields import read_fields
from emend.evals.log.records import json_line, read_job_lines, read_records
from emend.evals.log.run_index import RunIndex
from emend.evals.log.run_table import RunTable
from emend.memory.errors import BadData, BadSettings


class SizeLine(JobLine):
    """A line with a field of its own, and one that a record has too."""

    size: int
    prompt: str = "how large?"


def size_line(unit: str, size: int, of: int = 1) -> SizeLine:
    return SizeLine(
        job="sizes", unit=unit, of=of, case=f"item {size}", probe=f"item {size}", kind="size", editor="scales",
        model="", setting="all", mode="", values={"size": float(size)}, size=size,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [size_line("a", 1, of=2), size_line("a", 2, of=2), size_line("b", 3), size_line("c", 4, of=2)]
    (tmp_path / RECORDS).write_bytes(b"".join(map(json_line, lines)))
    return tmp_path


def test_a_job_reads_its_own_lines_of_complete_units(folder: Path) -> None:
    assert [line.size for line in read_job_lines(folder, SizeLine)] == [1, 2, 3]
    assert finished_units(folder)[0] == {"a", "b"}


def test_every_other_reader_has_what_lines_of_all_jobs_have(folder: Path) -> None:
    records = list(read_records(folder))
    assert [(each.case, each.values) for each in records[:2]] == [("item 1", {"size": 1.0}), ("item 2", {"size": 2.0})]
    assert (records[0].prompt, records[0].gold, records[0].job) == ("how large?", (), "")
    assert [each.editor for each in read_fields(folder, ["editor", "values"])] == ["scales"] * 3


def test_a_line_that_answers_nothing_is_for_readers_of_its_own_type_alone(folder: Path) -> None:
    lines = [size_line("d", 6, of=2).model_copy(update={"probe": ""}), size_line("d", 7, of=2)]
    (folder / RECORDS).write_bytes(b"".join(map(json_line, lines)))
    assert [line.size for line in read_job_lines(folder, SizeLine)] == [6, 7]
    assert [record.case for record in read_records(folder)] == ["item 7"]
    with RunTable(folder) as table:
        assert table.rows("SELECT case_id FROM record_lines") == [("item 7",)]
    with RunIndex(folder) as index:
        assert (list(index.records("item 6")), finished_units(folder)[0]) == ([], {"d"})


def test_a_line_that_names_no_job_is_a_record_or_damaged(folder: Path) -> None:
    fields = size_line("d", 5).model_dump(exclude={"job"})
    (folder / RECORDS).write_bytes(json_line(fields))
    with pytest.raises(BadData, match="gold"):
        list(read_records(folder))
    assert "job" not in Record.model_fields


def test_a_damaged_line_of_a_job_is_refused_with_its_field(folder: Path) -> None:
    broken = json_line(size_line("d", 5)).replace(b'"kind":"size"', b'"kind":5')
    (folder / RECORDS).write_bytes(broken)
    with pytest.raises(BadData, match="kind"):
        list(read_records(folder))


def test_a_run_folder_cannot_name_code_as_its_job() -> None:
    with pytest.raises(BadSettings, match="install"):
        load_job("os:system")


def test_spending_names_retries_cached_replies_and_missing_counts_only_where_there_are_some(tmp_path: Path) -> None:
    manifest = SimpleNamespace(prices={"currency": "EUR"})
    plain = ProviderUsage(requests=3, input_tokens=1200, output_tokens=5)
    full = plain.model_copy(update={"retries": 1, "cached": 2, "cost": 0.5, "untold": 1})
    assert spent_lines(tmp_path, {"a": plain, "b": full}, lambda folder: manifest) == [
        "a: 3 calls, 1,200 tokens in, 5 out",
        "b: 3 calls, 1 of them retries, 2 replies from the cache, 1,200 tokens in, 5 out, 0.5000 EUR, "
        "1 replies without token counts",
    ]
