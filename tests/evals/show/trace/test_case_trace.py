"""A trace shows every step of one case, and says what there is when nothing fits."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emend.evals.log.lines import CASES
from emend.evals.log.records import read_lines
from emend.evals.log.run_index import RunIndex
from emend.evals.show.report.traces.case_text import markdown, show_trace, steps_lines
from emend.evals.show.report.traces.values import log_probs
from emend.evals.show.trace.case_trace import Trace, new_hits, rows, trace
from emend.evals.show.trace.filters import RecordFilter, StepFilter
from emend.memory.errors import BadData, BadSettings
from tests.evals.toy_runs import go
from tests.evals.toys import ScriptedModel
from tests.fakes import ScriptedChatModel


def shown(found: Trace, width: int = 100) -> str:
    file = io.StringIO()
    show_trace(found, Console(file=file, width=width))
    return file.getvalue()


def test_a_graph_editor_shows_nodes_hits_prompt_reply_tokens_and_time(smooth: Path) -> None:
    traced = trace(smooth, "2", records=RecordFilter(editor="rag", kind="efficacy"))
    (probe,) = traced.probes
    nodes = [step["node"] for step in probe.steps]
    assert nodes == ["retrieve", "compose", "respond"] * 2  # asked for a text, and for probabilities
    hit = probe.steps[0]["update"]["hits"][0]
    assert hit["edit_id"] == traced.edits[0]["id"] and hit["score"] > 0
    assert all(step["ms"] > 0 for step in probe.steps)
    text = shown(traced)
    assert "case 2" in text and "New Fact: The capital of Land1 is New-1." in text
    assert f"score {hit['score']:.4f}" in text
    assert "New-1 -1.000, Old-1 -2.000" in text and "em 1" in text
    assert "tokens in" in text and " ms" in text


def test_a_case_is_found_by_id_beginning_and_number(smooth: Path) -> None:
    lines = list(read_lines(smooth, CASES))
    third = lines[2]["case"]
    for wanted in (third, third[:10], "3"):
        assert trace(smooth, wanted).case == third
    assert trace(smooth, "3").number == 3


def test_an_unknown_case_names_the_nearest(smooth: Path) -> None:
    third = list(read_lines(smooth, CASES))[2]["case"]
    with pytest.raises(BadSettings, match=f"no case '{third[:-1]}x' .*number from 1 to 6, or an id such as {third}"):
        trace(smooth, third[:-1] + "x")
    with pytest.raises(BadSettings, match="number from 1 to 6"):
        trace(smooth, "7")


def test_an_ambiguous_id_an_editor_that_is_not_there_and_no_run_are_refused(smooth: Path, tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="'' begins 6 cases"):
        trace(smooth, "")
    with pytest.raises(BadSettings, match="case .* has no editor 'ike': known: rag"):
        trace(smooth, "1", records=RecordFilter(editor="ike"))
    with pytest.raises(BadData, match=r"is not a run folder: manifest.json is missing"):
        trace(tmp_path, "1")


def test_a_probe_is_chosen_by_the_beginning_of_its_id(smooth: Path) -> None:
    every = trace(smooth, "1").probes
    assert len(every) == 4
    wanted = every[0].record.probe
    assert {p.record.probe for p in trace(smooth, "1", records=RecordFilter(probe=wanted[:12])).probes} == {wanted}


def test_rows_are_json_and_hold_record_and_steps(smooth: Path) -> None:
    first = json.loads(json.dumps(rows(trace(smooth, "1", records=RecordFilter(editor="rag")))))[0]
    assert first["number"] == 1 and first["editor"] == "rag"
    assert first["values"]["em"] == 1.0
    assert [step["update"].get("reply") for step in first["steps"]] == [None, None, "New-0", None, None, None]
    assert first["steps"][-1]["update"]["log_probs"] == [-1.0, -2.0]


def test_a_failed_unit_shows_its_error(tmp_path: Path) -> None:
    failing = ScriptedModel(fail_on="Land0")
    go(tmp_path / "run", failing, editors=("rag",), embedding="lexical", fail_on_error="false")
    traced = trace(tmp_path / "run", "1")
    assert traced.probes == ()
    text = shown(traced)
    assert "ConnectionError: no connection for Land0" in text
    assert "retrieve" in text  # the steps that went well are shown too


def test_what_a_model_said_cannot_steer_the_terminal(tmp_path: Path) -> None:
    class Rude(ScriptedModel):
        def reply(self, prompt: str) -> str:
            super().reply(prompt)
            return "\x1b[2J\x1b]0;owned\x07[bold]red[/bold]\u202e"

    go(tmp_path / "run", Rude())
    text = shown(trace(tmp_path / "run", "1"))
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert "\\x1b[2J" in text and "[bold]red[/bold]\\u202e" in text


# --- walks over several hops: each step shows what it found itself, also where the others are hidden

FIRST, SECOND = "The capital of Land0 is New-0.", "The capital of Land1 is New-1."
AGREES = "Retrieved fact does not contradict to generated answer, so the intermediate answer is: Blue.\n"


def two_hops(prompt: str) -> str:
    """Asks for one land after the other, whatever the question."""
    walked = prompt.rpartition("Question: ")[2].count("Retrieved fact: ")
    asked = f"Subquestion: What is the capital of Land{walked}?\nGenerated answer: Blue.\n"
    return (AGREES if walked else "") + ("Final answer: New-0\n" if walked == 2 else asked)


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "walked"
    run_mello = {"editors": ("mello",), "embedding": "lexical", "mode": "all", "retriever": "bm25"}
    go(folder, ScriptedChatModel(reply=two_hops), **run_mello, benchmark_options={"cases": "2"})
    return folder


def found(walked, **wanted):
    return trace(walked, "1", records=RecordFilter(kind="efficacy"), steps=StepFilter(**wanted))


def shown_walk(walked, **wanted):
    return shown(found(walked, **wanted), 400)


def hits(text):
    return [line.strip() for line in text.splitlines() if line.strip().startswith(("hit ", "- hit "))]


def test_each_retrieval_shows_its_own_hit_and_json_the_state_as_it_was(walked):
    first, second = hits(shown_walk(walked, node="retrieve"))
    assert first.startswith("hit 1") and first.endswith(FIRST)
    assert second.startswith("hit 1") and second.endswith(SECOND)
    (row,) = rows(found(walked, node="retrieve"))
    assert [len(step["update"]["hits"]) for step in row["steps"]] == [1, 2]


def test_the_steps_that_are_hidden_count_as_well(walked):
    text = shown_walk(walked, node="retrieve", grep="Land1 is New-1")
    (only,) = hits(text)
    assert only.startswith("hit 1") and only.endswith(SECOND)
    assert f"transcript +  Retrieved fact: {SECOND}" in text and FIRST not in text.split("retrieve", 1)[1]


def test_markdown_tells_what_grew_once(walked):
    result = markdown(found(walked, node="retrieve"))
    first, second = hits(result)
    assert first.startswith("- hit 1, ") and "Land0" in first
    assert second.startswith("- hit 1, ") and "Land1" in second
    assert result.count(f"Retrieved fact: {FIRST}") == 1 and "\ntranscript +:\n" in result and "- hops 2" in result


def test_hits_that_took_the_place_of_others_are_shown_and_those_that_stayed_are_said_to():
    item, two = {"text": "one", "score": 2.0}, {"text": "two", "score": 1.0}
    assert new_hits([two], [item, two]) == [two] and new_hits([item], []) == [item]
    assert new_hits([item, item], [item]) == [item] and new_hits([item], [item]) == []

    def step(place, *kept):
        made = {"hits": list(kept), "tried": place}
        return {"node": f"n{place}", "place": place, "ms": 1.0, "update": made, "calls": [], "error": None}

    lines = [line.text.plain for line in steps_lines([step(1, item, two), step(2, item, two), step(3, two), step(4)])]
    result = [line for line in lines if line.startswith("hit")]
    assert result == ["hit 1  score 2.0000   one", "hit 2  score 1.0000   two", "hits  as before",
                    "hit 1  score 1.0000   two", "hits  none"]  # fmt: skip


def test_the_beginning_of_a_prompt_that_an_earlier_step_had_is_one_line_in_a_terminal():
    shots = "\n".join(f"Question {number}" for number in range(20))

    def step(place, question):
        made = {"prompt": f"{shots}\n{question}"}
        return {"node": "ask", "place": place, "ms": 1.0, "update": made, "calls": [], "error": None}

    lines = list(steps_lines([step(1, "Who?"), step(2, "Where?"), step(3, "Where?\nWhen?")]))
    first, second, third = (line for line in lines if line.text.plain.startswith("prompt"))
    assert shots in first.text.plain
    assert second.text.plain == "prompt\n(20 lines as in step 1 ask)\nWhere?"
    assert third.text.plain == "prompt\n(21 lines as in step 2 ask)\nWhen?"
    assert shots in second.markdown and shots in third.markdown


def test_every_target_has_a_name_beside_its_log_probability(walked):
    record = found(walked).probes[0].record
    assert record.gold == ("New-0",) and record.rival == "Old-0"
    assert log_probs(record.model_copy(update={"log_probs": (-1.0, -2.0)})) == "New-0 -1.000, Old-0 -2.000"
    many = {"gold": ("A is c.", "B " * 50), "rival": None, "log_probs": (-118.8, -9.0, -148.7, -1.5)}
    first, second, *rest = log_probs(record.model_copy(update=many)).split(", ")
    assert first == "A is c. -118.800" and len(second) < 80 and second.endswith("… -9.000")
    assert rest == ["choice 1 -148.700", "choice 2 -1.500"]


def test_the_demonstrations_that_each_call_of_a_step_repeats_are_one_line_in_a_terminal():
    """A trace of two steps of MeLLo behind a chat template had 741 lines."""
    shots = [{"role": role, "content": f"{role} {n}"} for n in range(13) for role in ("user", "assistant")]

    def call(*texts):
        asked = [*shots, *({"role": "user", "content": text} for text in texts)]
        rest = {"model": "m", "input_tokens": 1, "output_tokens": 1, "retries": [], "reply": None, "error": None}
        return {"messages": asked, "messages_field": None, **rest}

    prompt = [*shots, {"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Final answer:"}]
    steps = [
        {"node": "ask", "place": 1, "ms": 1.0, "update": {}, "calls": [call("Who?"), call("Who?", "Where?")]},
        {"node": "compose", "place": 2, "ms": 1.0, "update": {"prompt": "all of it", "turns": prompt}, "calls": []},
    ]
    lines = list(steps_lines([step | {"error": None} for step in steps]))
    texts = [line.text.plain for line in lines]
    assert texts.count("to model, user  user 0") == 1 and "all of it" not in "".join(texts)
    assert texts[-5:-3] == ["to model  (27 messages as in step 1 ask)", "to model, user  Where?"]
    assert texts[-2:] == ["prompt  (27 messages as in step 1 ask)", "prompt, assistant  Final answer:"]
    assert "".join(line.markdown for line in lines).count("user 12") == 3


def test_the_steps_of_a_unit_are_read_once(smooth: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units, read_events = list[str](), RunIndex.events

    def count_reads(index: RunIndex, unit: str) -> dict[str, list[dict[str, Any]]]:
        units.append(unit)
        return read_events(index, unit)

    monkeypatch.setattr(RunIndex, "events", count_reads)
    records = [each.record for each in trace(smooth, "1").probes]
    assert len(units) == len({record.unit for record in records}) < len(records)
