"""The index of answers has what the records have, however the files were written, torn, cut or replaced."""

import itertools
import json
import os
import shutil

import numpy as np
import pytest

from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records
from emend.evals.log.run_index import RunIndex
from emend.evals.show.trace.answers import list_answers
from emend.evals.show.trace.filters import AnswerFilter, texts_of
from emend.evals.show.view.answer_rows import CUT, LACKS_SCORE
from emend.evals.show.view.answers import RunAnswers, search_texts
from emend.evals.show.view.index import ANSWERS, open_index
from emend.memory.errors import BadData

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def run(rough, tmp_path, monkeypatch):
    monkeypatch.setattr("emend.evals.show.view.index.LARGE", 0)  # the index of a small run is kept, too
    monkeypatch.setattr("emend.evals.show.view.index.CHUNK", 2)
    return shutil.copytree(rough, tmp_path / "run")


def answers(folder, before=None):
    manifest = Manifest.read(folder)
    with open_index(folder) as index:
        return RunAnswers(index, tuple(manifest.cases), manifest.config.editors, before)


def content(folder, found):
    """What the index has of each answer, in a form that records give, too."""
    with open_index(folder) as index:
        lines = [json.loads(index._files[ANSWERS].readline()) for start in starts(index, found)]
    names = found.names
    columns = {name: found.columns[name].tolist() for name in ("editor", "kind", "verdict", "repeat", "checkpoint")}
    rows = zip(*columns.values(), strict=True)
    return [
        (names["editor"][editor], names["kind"][kind], verdict, repeat, checkpoint, line["probe"])
        for (editor, kind, verdict, repeat, checkpoint), line in zip(rows, lines, strict=True)
    ]


def starts(index, found):
    index._update(ANSWERS)
    index._open(ANSWERS)
    for start in found.columns["start"].tolist():
        index._files[ANSWERS].seek(start)
        yield start


def expected(folder):
    verdicts = {row: number for number, row in enumerate(("right", "wrong", "unscored"))}
    listed = {(row.case, row.probe, row.editor): verdicts[row.verdict] for row in list_answers(folder, AnswerFilter())}
    return [
        (r.editor, r.kind, listed[r.case, r.probe, r.editor], r.repeat, r.checkpoint, r.probe)
        for r in read_records(folder)
    ]


def test_the_index_has_every_answer_and_is_continued(run):
    path = run / "records.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    before = None
    for size in range(0, len(whole) + 1, max(1, len(whole) // 7)):
        path.write_bytes(whole[:size]) if size == 0 else path.open("ab").write(whole[path.stat().st_size : size])
        before = answers(run, before)
        assert content(run, before) == expected(run)
        assert before.totals.records == len(list(read_records(run)))
    path.write_bytes(whole)
    found = answers(run)
    units_of_lines = {json.loads(line)["unit"] for line in lines}
    assert (found.totals.records, found.totals.units) == (len(lines), len(units_of_lines))
    assert found.totals.retried > 0 and found.totals.unscored == sum(bool(r.unscored) for r in read_records(run))
    assert sum(found.units_by_editor().values()) == found.totals.units


@pytest.mark.parametrize("first", [RunIndex, open_index])
def test_the_lines_of_a_case_are_found_whoever_indexed_them_first(run, first, monkeypatch):
    monkeypatch.setattr("emend.evals.log.run_index.LARGE", 0)
    path = run / "records.jsonl"
    whole = path.read_bytes()
    for size in (len(whole) // 3, len(whole) // 2, len(whole)):
        path.write_bytes(whole[:size])
        records = list(read_records(run))
        by_case = {case: [each for each in records if each.case == case] for case in {each.case for each in records}}
        for kind in (first, open_index, RunIndex):
            with kind(run) as index:
                index.update()
                assert index._path and {case: list(index.records(case)) for case in by_case} == by_case


def test_a_torn_line_and_half_a_unit_are_left_out(run):
    path = run / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    first = json.loads(lines[0])
    path.write_bytes(b"".join(lines[: first["of"]]) + b"".join(lines[first["of"] : first["of"] + 1]) + lines[-1][:30])
    assert answers(run).totals.records == first["of"] == len(list(read_records(run)))


def test_a_unit_that_is_there_twice_counts_once(run):
    path = run / "records.jsonl"
    before = answers(run)
    with path.open("ab") as file:
        file.write(b"".join(path.read_bytes().splitlines(keepends=True)[: 2 * 3]))
    again = answers(run, before)
    assert again.totals == before.totals and content(run, again) == expected(run)


def truncate(path, content):
    os.truncate(path, len(content) // 2)


def replace(path, content):
    other = path.with_name("other")
    lines = content.splitlines(keepends=True)
    other.write_bytes(b"".join(reversed(list(itertools.chain(*units(lines))))))
    other.replace(path)


def rewrite(path, content):
    changed = content.replace(b'"seconds":0.', b'"seconds":9.')
    assert changed != content
    path.write_bytes(changed)


def units(lines):
    grouped = [list(group) for _, group in itertools.groupby(lines, lambda line: json.loads(line)["unit"])]
    return [list(reversed(unit)) for unit in grouped]


@pytest.mark.parametrize("change", [truncate, replace, rewrite])
def test_the_index_is_made_anew_when_the_file_is_another(run, change):
    before = answers(run)
    path = run / "records.jsonl"
    change(path, path.read_bytes())
    now = answers(run, before)
    assert content(run, now) == expected(run)
    assert any(now.columns[name].tolist() != before.columns[name].tolist() for name in now.columns)


def test_texts_are_found_in_all_chunks(run):
    found = answers(run)
    assert len(found.chunk_sizes) > 2
    records = list(read_records(run))
    for text in ("Land", "river OF", "nothing", "refusal", "zzz", "a"):
        matches = np.zeros(len(records), bool)
        with open_index(run) as index:
            for chunk in range(len(found.chunk_sizes)):
                search_texts(index, found, text, matches, chunk)
        assert matches.tolist() == [text.casefold() in "\n".join(texts_of(r)).casefold() for r in records]


def test_odd_numbers_are_bounded_and_no_score_is_made_of_them(run):
    path = run / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    odd = {"checkpoint": 10**30, "repeat": -5, "cut_tokens": 10**25, "probe": "\ud800", "seconds": 1e300}
    fields = json.loads(lines[0]) | odd | {"values": {"em": float("nan"), "hit@1": float("inf")}, "unscored": {}}
    fields["usage"] |= {"input_tokens": 10**30, "retries": -1}
    path.write_bytes(json.dumps(fields | {"of": 1}).encode() + b"\n")
    index = answers(run)
    row = {name: column[0].item() for name, column in index.columns.items()}
    assert (row["checkpoint"], row["repeat"], row["tokens"]) == (2**32 - 1, 0, 2**32 - 1)
    assert row["seconds"] == float("inf") and row["flags"] == LACKS_SCORE | CUT
    assert index.count("editor") == {fields["editor"]: 1} and index.verdict_counts()["unscored"] == 1


def test_a_damaged_line_is_named(run):
    path = run / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b'{"unit": "u", "of": 1}\n', *lines[1:]]))
    with pytest.raises(BadData, match=r"records\.jsonl, line 2, field case: Field required"):
        answers(run)
