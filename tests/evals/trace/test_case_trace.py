"""A trace shows every step of one case, and says what there is when nothing fits."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from emend.evals.log.config import RunConfig
from emend.evals.log.lines import CASES
from emend.evals.log.records import read_lines
from emend.evals.report.tracing import show_trace
from emend.evals.runner.run import run
from emend.evals.trace.case_trace import Trace, rows, trace
from emend.evals.trace.filters import RecordFilter
from emend.memory.errors import BadData, BadSettings
from tests.evals.toys import BENCHMARK, EDITOR, ScriptedModel

DEMONSTRATED = ("rag", EDITOR)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two editors."""
    out = tmp_path_factory.mktemp("runs") / "run"
    config = RunConfig(benchmark=BENCHMARK, editors=DEMONSTRATED, model="scripted", embedding="lexical", mode="all")
    run(config, out, model=ScriptedModel())
    return out


def shown(found: Trace) -> str:
    file = io.StringIO()
    show_trace(found, Console(file=file, width=100))
    return file.getvalue()


def test_a_graph_editor_shows_nodes_hits_prompt_reply_tokens_and_time(folder: Path) -> None:
    found = trace(folder, "2", records=RecordFilter(editor="rag", kind="efficacy"))
    (probe,) = found.probes
    nodes = [step["node"] for step in probe.steps]
    assert nodes == ["retrieve", "compose", "respond"] * 2  # asked for a text, and for probabilities
    hit = probe.steps[0]["update"]["hits"][0]
    assert hit["edit_id"] == found.edits[0]["id"] and hit["score"] > 0
    assert all(step["ms"] > 0 for step in probe.steps)
    text = shown(found)
    assert "case 2" in text and "New Fact: The capital of Land1 is New-1." in text
    assert f"score {hit['score']:.4f}" in text
    assert "New-1 -1.000, Old-1 -2.000" in text and "em 1" in text
    assert "tokens in" in text and " ms" in text


def test_a_case_is_found_by_id_beginning_and_number(folder: Path) -> None:
    lines = list(read_lines(folder, CASES))
    third = lines[2]["case"]
    for wanted in (third, third[:10], "3"):
        assert trace(folder, wanted).case == third
    assert trace(folder, "3").number == 3


def test_an_unknown_case_names_the_nearest(folder: Path) -> None:
    third = list(read_lines(folder, CASES))[2]["case"]
    with pytest.raises(BadSettings, match=f"no case '{third[:-1]}x' .*number from 1 to 6, or an id such as {third}"):
        trace(folder, third[:-1] + "x")
    with pytest.raises(BadSettings, match="number from 1 to 6"):
        trace(folder, "7")


def test_a_beginning_of_several_ids_is_told(folder: Path) -> None:
    with pytest.raises(BadSettings, match="'' begins 6 cases"):
        trace(folder, "")


def test_what_fits_nothing_names_what_there_is(folder: Path) -> None:
    with pytest.raises(BadSettings, match="case .* has no editor 'ike': known: rag"):
        trace(folder, "1", records=RecordFilter(editor="ike"))


def test_a_probe_is_chosen_by_the_beginning_of_its_id(folder: Path) -> None:
    every = trace(folder, "1").probes
    assert len(every) == 4
    wanted = every[0].record.probe
    assert {p.record.probe for p in trace(folder, "1", records=RecordFilter(probe=wanted[:12])).probes} == {wanted}


def test_rows_are_json_and_hold_record_and_steps(folder: Path) -> None:
    first = json.loads(json.dumps(rows(trace(folder, "1", records=RecordFilter(editor="rag")))))[0]
    assert first["number"] == 1 and first["editor"] == "rag"
    assert first["values"]["em"] == 1.0
    assert [step["update"].get("reply") for step in first["steps"]] == [None, None, "New-0", None, None, None]
    assert first["steps"][-1]["update"]["log_probs"] == [-1.0, -2.0]


def test_a_failed_unit_shows_its_error(tmp_path: Path) -> None:
    config = RunConfig(benchmark=BENCHMARK, editors=("rag",), model="m", embedding="lexical", fail_on_error="false")
    run(config, tmp_path / "run", model=ScriptedModel(fail_on="Land0"))
    found = trace(tmp_path / "run", "1")
    assert found.probes == ()
    text = shown(found)
    assert "ConnectionError: no connection for Land0" in text
    assert "retrieve" in text  # the steps that went well are shown too


def test_what_a_model_said_cannot_steer_the_terminal(tmp_path: Path) -> None:
    class Rude(ScriptedModel):
        def reply(self, prompt: str) -> str:
            super().reply(prompt)
            return "\x1b[2J\x1b]0;owned\x07[bold]red[/bold]\u202e"

    config = RunConfig(benchmark=BENCHMARK, editors=(EDITOR,), model="m")
    run(config, tmp_path / "run", model=Rude())
    text = shown(trace(tmp_path / "run", "1"))
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert "\\x1b[2J" in text and "[bold]red[/bold]\\u202e" in text


def test_no_run_there(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"is no run folder: it has no manifest.json"):
        trace(tmp_path, "1")
