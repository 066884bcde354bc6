"""The answers of pages are those of the records, however the files were written, torn, cut or replaced."""

import itertools
import json
import os
import shutil

import pytest

from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines, read_records
from emend.evals.log.table_parts import find_parts, parts_folder
from emend.evals.metrics.scores import NO_PROBABILITIES, lacks_score
from emend.evals.show.trace.answers import list_answers
from emend.evals.show.trace.filters import AnswerFilter, texts_of
from emend.evals.show.trace.verdicts import VERDICTS
from emend.evals.show.view.answers import MAX_NEEDLES, RunAnswers
from emend.evals.show.view.library import count_answers
from emend.evals.show.view.views import CaseFilter
from emend.memory.errors import BadData

pytestmark = pytest.mark.usefixtures("own_cache")
COLUMNS = "editor, kind, verdict, repeat, checkpoint, seconds, line"


@pytest.fixture
def run(rough, tmp_path, monkeypatch):
    monkeypatch.setattr("emend.evals.show.view.answers.LARGE", 0)  # the tables of a small run are kept, too
    return shutil.copytree(rough, tmp_path / "run")


def answers(folder):
    return RunAnswers(folder, Manifest.read(folder))


def content(found):
    """What the tables have of each answer, with its record as it is read by them."""
    rows = found._rows(f"SELECT {COLUMNS} FROM answers ORDER BY line")
    records = [record for _, record in found.read_answers([row[-1] for row in rows])]
    return [(*row[:-1], record) for row, record in zip(rows, records, strict=True)]


def expected(folder):
    listed = {(row.case, row.probe, row.editor): row.verdict for row in list_answers(folder, AnswerFilter())}
    return [
        (r.editor, r.kind, VERDICTS.index(listed[r.case, r.probe, r.editor]), r.repeat, r.checkpoint, r.seconds, r)
        for r in read_records(folder)
    ]


@pytest.mark.slow
def test_every_answer_is_there_and_a_run_that_grows_is_read_on(run):
    path = run / "records.jsonl"
    whole = path.read_bytes()
    for size in range(0, len(whole) + 1, max(1, len(whole) // 7)):
        path.write_bytes(whole[:size]) if size == 0 else path.open("ab").write(whole[path.stat().st_size : size])
        found = answers(run)
        assert content(found) == expected(run)
        assert found.totals.records == len(list(read_records(run)))
    path.write_bytes(whole)
    found, records = answers(run), list(read_records(run))
    assert (found.totals.records, found.totals.units) == (len(records), len({record.unit for record in records}))
    assert found.totals.retried > 0 and found.totals.unscored == sum(lacks_score(r.values, r.unscored) for r in records)
    assert found.totals.tokens == sum(r.usage.input_tokens + r.usage.output_tokens for r in records)
    assert sum(found.units_by_editor().values()) == found.totals.units
    assert find_parts(parts_folder(run), "record_lines", path)[-1].end.lines == len(records)


def test_a_torn_line_and_half_a_unit_are_left_out(run):
    path = run / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    first = json.loads(lines[0])
    path.write_bytes(b"".join(lines[: first["of"]]) + b"".join(lines[first["of"] : first["of"] + 1]) + lines[-1][:30])
    assert answers(run).totals.records == first["of"] == len(list(read_records(run)))


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


@pytest.mark.slow
@pytest.mark.parametrize("change", [truncate, replace, rewrite])
def test_another_file_is_read_anew(run, change):
    before = content(answers(run))
    path = run / "records.jsonl"
    change(path, path.read_bytes())
    now = content(answers(run))
    assert now == expected(run) and now != before


def lines_with(found, **chosen):
    fits = found.condition(CaseFilter(**chosen))
    return [line for (line,) in found._rows(f"SELECT line FROM answers WHERE {fits.sql} ORDER BY line", *fits.values)]


def test_texts_are_found_in_answers_and_edits(run):
    path = run / "records.jsonl"
    prompt = '"prompt":"Hauptstra\u00dfe \u039f\u0394\u039f\u03a3 '.encode()
    path.write_bytes(path.read_bytes().replace(b'"prompt":"', prompt, 4))
    found, records = answers(run), list(read_records(run))
    edits = {line["case"]: " ".join(edit["text"] for edit in line["edits"]) for line in read_lines(run, "cases.jsonl")}
    odd = ("STRASSE", "stra\u00dfe", "\u03bf\u03b4\u03bf\u03c2")
    for text in ("Land", "river OF", "nothing", "refusal", "zzz", "a", *odd):
        texts = ["\n".join([*texts_of(record), edits[record.case]]).casefold() for record in records]
        expected_lines = [line for line, whole in enumerate(texts, 1) if text.casefold() in whole]
        assert lines_with(found, text=text) == expected_lines, text
        assert text not in odd or expected_lines == [1, 2, 3, 4]


@pytest.mark.slow
def test_the_matches_of_many_texts_are_not_all_kept(run):
    found = answers(run)
    every = lines_with(found, text="e")
    for number in range(MAX_NEEDLES + 1):
        assert lines_with(found, text=f"none {number}") == []
    assert found._rows("SELECT count(*) FROM matches") == [(0,)] and lines_with(found, text="e") == every


def test_odd_numbers_are_bounded_and_no_score_is_made_of_them(run):
    path = run / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    odd = {"checkpoint": 10**30, "repeat": -5, "probe": "\ud800", "seconds": 1e300}
    fields = json.loads(lines[0]) | odd | {"values": {"em": float("nan"), "hit@1": float("inf")}, "unscored": {}}
    fields["usage"] |= {"input_tokens": 10**30, "output_tokens": 10**30, "retries": -1}
    path.write_bytes(json.dumps(fields | {"of": 1}).encode() + b"\n")
    found = answers(run)
    columns = "checkpoint, repeat, tokens, seconds, hit, is_unscored, is_retried"
    assert found._rows(f"SELECT {columns} FROM answers") == [(2**63 - 1, -5, 2**32 - 1, 1e300, None, True, False)]
    assert found.counts["editor"] == {fields["editor"]: 1} and found.counts["verdict"]["unscored"] == 1


def test_scores_that_no_api_gives_do_not_make_an_answer_unscored(run):
    path = run / "records.jsonl"
    fields = json.loads(path.read_bytes().splitlines()[0])
    why = {"success": f"{NO_PROBABILITIES}: it is asked over an API"}
    scored = fields | {"values": {"em": 1.0}, "unscored": why}
    lost = fields | {"probe": "p", "values": {"em": 1.0}, "unscored": why | {"contains": "the reply is empty"}}
    path.write_text("".join(json.dumps(each | {"of": 2}) + "\n" for each in (scored, lost)))
    assert answers(run).totals.unscored == count_answers(run).unscored == 1


def test_a_damaged_line_is_named(run):
    path = run / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b'{"unit": "u", "of": 1}\n', *lines[1:]]))
    with pytest.raises(BadData, match=r"records\.jsonl, line 2, field case: it is missing"):
        answers(run)
