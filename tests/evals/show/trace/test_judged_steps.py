"""What judges did is kept beside their judgements, and stands in the trace of what they judged."""

import io
import json
import shutil
from collections import Counter

import pytest
from rich.console import Console

from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.judging.scorings.judgements import read_judgements
from emend.evals.judging.scorings.line import read_judgement_lines
from emend.evals.judging.scorings.manifest import FOLDER
from emend.evals.judging.scorings.search import find_scoring
from emend.evals.log.lines import CASES, EVENTS, RECORDS
from emend.evals.log.records import read_lines, read_records
from emend.evals.log.run_index import RunIndex
from emend.evals.show.report.traces.case_text import markdown, show_trace
from emend.evals.show.trace.case_trace import judged_steps, rows, trace
from emend.evals.show.trace.filters import StepFilter
from emend.memory.errors import BadData, BadSettings
from tests.evals.judged_runs import judge_model
from tests.fakes import ScriptedChatModel

JUDGE = "openai:judge"


pytestmark = pytest.mark.usefixtures("own_cache")


def scored(judgeable, name, tmp_path, model=None, **panel):
    folder = shutil.copytree(judgeable[name], tmp_path / name)
    score_run(folder, Panel(judges=(JUDGE,), **panel), models={JUDGE: model or judge_model()})
    return folder


def events(folder):
    scoring = find_scoring(folder)
    assert scoring is not None
    return list(read_lines(scoring.folder(folder), EVENTS))


def all_judged(folder):
    cases = {line["case"] for line in read_lines(folder, CASES)}
    return [item for case in cases for judgement in judged_steps(folder, case).values() for item in judgement]


def test_every_judgement_has_the_steps_prompt_reply_tokens_and_time(judgeable, tmp_path):
    folder = scored(judgeable, "recoe", tmp_path)
    judged = all_judged(folder)
    assert {judgement.judgement.kind for judgement in judged} == {"recall", "coherence"}
    for result in judged:
        nodes = [step["node"] for step in result.steps]
        assert nodes == (
            ["split", "turn", "label", "settle"] if result.judgement.kind == "recall" else ["ask", "settle"]
        )
        calls = [call for step in result.steps for call in step["calls"]]
        assert calls and all(call["messages"][0]["content"] and call["input_tokens"] for call in calls)
        assert calls[-1]["reply"]["content"] == result.judgement.reply
        assert all(step["ms"] > 0 for step in result.steps)
        assert (
            result.judgement.values and result.steps[-1]["update"]["verdicts"][0]["values"] == result.judgement.values
        )


def test_one_call_for_several_items_is_kept_once_and_found_from_each_and_lines_stay_small(judgeable, tmp_path):
    folder = scored(judgeable, "elken", tmp_path)
    scoring = find_scoring(folder)
    assert scoring is not None
    lines = [line for line in read_judgement_lines(folder, scoring) if line.judgement.kind == "tendency"]
    calls = Counter(line.unit for line in lines)
    assert max(calls.values()) > 1
    judged = [judgement for judgement in all_judged(folder) if judgement.judgement.kind == "tendency"]
    assert judged and all(judgement.steps and judgement.together > 1 for judgement in judged)
    asked = [line for line in events(folder) if line["unit"] in calls and line["node"] == "ask"]
    assert len(asked) == len(calls)
    assert all(judgement.steps == () for judgement in read_judgements(folder, scoring))
    line = (scoring.folder(folder) / RECORDS).read_text(encoding="utf-8").splitlines()[0]
    assert "steps" not in json.loads(line)


def test_an_unreadable_reply_is_shown_with_both_tries(judgeable, tmp_path):
    folder = scored(judgeable, "recoe", tmp_path, ScriptedChatModel(reply=lambda prompt: "I would rather not say."))
    (items, *_) = [judgement for judgement in all_judged(folder) if judgement.judgement.kind == "coherence"]
    assert [step["node"] for step in items.steps] == ["ask", "ask", "settle"] and items.judgement.problem
    again = items.steps[1]["calls"][0]["messages"]
    assert [message["role"] for message in again] == ["user", "assistant", "user"]
    assert again[1]["content"] == "I would rather not say."


def test_the_trace_shows_judgements_as_text_markdown_and_json_of_the_step_and_scoring_asked_for(judgeable, tmp_path):
    folder = scored(judgeable, "recoe", tmp_path)
    traced = trace(folder, "1")
    file = io.StringIO()
    show_trace(traced, Console(file=file, width=100))
    text = file.getvalue()
    assert "judged · coherence · openai:judge" in text and "verdict" in text and "to model, user" in text
    page = markdown(traced)
    assert "### judged · coherence · openai:judge" in page and "- verdict: " in page
    (row, *_) = rows(traced)
    assert row["judged"][0]["judgement"]["judge"] == JUDGE and row["judged"][0]["steps"]
    traced = trace(folder, "1", steps=StepFilter(node="split"))
    assert traced.probes and all(not probe.visible_steps for probe in traced.probes)
    assert {item.judgement.kind for probe in traced.probes for item in probe.judged} == {"recall"}
    scoring = find_scoring(folder)
    assert scoring is not None
    assert any(probe.judged for probe in trace(folder, "1", scoring=scoring.id[:8]).probes)
    assert not any(probe.judged for probe in trace(folder, "1", scoring="none").probes)
    with pytest.raises(BadSettings, match=f"has no scoring .*: it has {scoring.id}"):
        trace(folder, "1", scoring=scoring.id + "x")


def test_a_call_that_a_crash_doubled_is_shown_once_and_a_scoring_without_steps_shows_its_verdicts(judgeable, tmp_path):
    folder = scored(judgeable, "recoe", tmp_path)
    scoring = find_scoring(folder)
    assert scoring is not None
    path = scoring.folder(folder) / EVENTS
    before = {judgement.judgement.key: len(judgement.steps) for judgement in all_judged(folder)}
    path.write_bytes(path.read_bytes() * 2)
    assert {judgement.judgement.key: len(judgement.steps) for judgement in all_judged(folder)} == before
    path.unlink()
    judged = all_judged(folder)
    assert judged and all(judgement.judgement.values and not judgement.steps for judgement in judged)
    assert {judgement.together for judgement in judged} == {1}


@pytest.mark.parametrize("name", ["recoe", "elken"])
@pytest.mark.parametrize("large", [0, 10**9])
def test_an_index_gives_the_same_judgements_without_reading_the_others(judgeable, tmp_path, monkeypatch, name, large):
    monkeypatch.setattr("emend.evals.log.run_index.LARGE", large)
    folder = scored(judgeable, name, tmp_path)
    records = list(read_records(folder))
    (steps,) = (folder / FOLDER).glob(f"*/{EVENTS}")
    steps.write_bytes(b"{damaged\n" + steps.read_bytes() + b'{"unit": "torn"')
    cases = [[each for each in records if each.case == case] for case in {each.case for each in records}]
    whole = [judged_steps(folder, case) for case in cases]
    assert any(len(item.steps) > 1 for judged in whole for items in judged.values() for item in items)
    for _ in range(2):
        with RunIndex(folder) as index:
            assert [judged_steps(folder, case, index=index) for case in cases] == whole


def test_a_damaged_judgement_is_named(judgeable, tmp_path):
    folder = scored(judgeable, "recoe", tmp_path)
    (path,) = (folder / FOLDER).glob(f"*/{RECORDS}")
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged in (b"{\n", lines[1].replace(b'"values":{', b'"values":{"x":"y",')):
        path.write_bytes(b"".join([lines[0], damaged, *lines[2:]]))
        with pytest.raises(BadData, match=r"line 2[,:].*Restore the file, or judge in a copy"):
            for case in read_lines(folder, CASES):
                trace(folder, case["case"])
