"""Labels are read or refused by line, and the agreement with them is stored where reports look."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emend.agents.judging.base import Item
from emend.agents.llm import MODELS
from emend.evals.cli.main import app
from emend.evals.judging.calibration.agreement import Verdict, calibrate, panel_verdicts, store_calibration
from emend.evals.judging.calibration.labels import read_labels
from emend.evals.judging.calibration.stored import read_calibration
from emend.evals.judging.calibration.stress import parts_of
from emend.evals.judging.disputes import CONTRADICTED
from emend.evals.judging.panel import Panel, load_judge
from emend.evals.results.aggregate.judged import describe_calibration
from emend.evals.show.report.judges import render_calibration
from emend.graphs.registry import JUDGES as JUDGE_KINDS
from emend.memory.errors import BadData, ModelUnreachable
from tests.evals.judged_runs import judge_model, verdict
from tests.fakes import ScriptedChatModel

JUDGES = ("openai:judge",)


pytestmark = pytest.mark.usefixtures("own_cache")


def line(label: Any, kind: str = "tendency", case: str = "", text: str = "x", **more: Any) -> dict[str, Any]:
    parts = parts_of(kind if kind in JUDGE_KINDS.names() else "tendency")
    return {"kind": kind, "case": case, "item": dict.fromkeys(parts, text), "label": label} | more


def written(folder: Path, *lines: Any) -> Path:
    path = folder / "labels.jsonl"
    path.write_text("\n".join(item if isinstance(item, str) else json.dumps(item) for item in lines), encoding="utf-8")
    return path


def said(*verdicts: Sequence[Verdict]):
    return lambda items: [list(item)[: len(items)] for item in verdicts]


def test_labels_are_read_on_the_scale_of_their_kind(tmp_path: Path) -> None:
    path = written(
        tmp_path, line("Yes", "coherence"), line("not-support", "coherence", text="y"), "", line(4), line("5"),
        line(0.25, "recall", item={"thoughts": "t", "reference": ["a", "b"]}), line(None, text="open"),
    )  # fmt: skip
    rows = read_labels(path)
    assert [row.label for row in rows] == [1.0, 0.0, 4.0, 5.0, 0.25, None]
    assert rows[4].item.parts == {"thoughts": ("t",), "reference": ("a", "b")}
    assert rows[0].case == rows[0].item.id != rows[1].case


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", "line 2, field 'the whole line'"),
        ({"kind": "tendency", "label": 3}, "line 2, field 'item'"),
        (line(3, kind="tendancy"), "line 2, field 'kind': unknown judge 'tendancy': did you mean 'tendency'"),
        (line(6), "line 2, field 'label': 6 is not a whole number from 1 to 5"),
        (line(2.5), "2.5 is not a whole number"),
        (line(True), "true is not a whole number"),
        (line("maybe", "coherence"), '"maybe" is not yes or no'),
        (line(1.5, "recall"), "1.5 is not a share from 0 to 1"),
        (line("yes", "coherence", item={"answer": "a"}), "a judge of coherence is shown answer, question, thoughts"),
        (
            line("yes", "coherence", item={"question": "q", "thoughts": "t", "answer": []}),
            "'item.answer': an empty list",
        ),
    ],
)
def test_a_bad_line_is_refused_with_its_place(tmp_path: Path, bad: Any, message: str) -> None:
    with pytest.raises(BadData) as refused:
        read_labels(written(tmp_path, line(3), bad))
    assert message in str(refused.value)


def test_numbers_may_be_written_as_strings_and_texts_may_hold_any_end_of_line(tmp_path: Path) -> None:
    odd = json.dumps(line("2", text="a\u2028b"), ensure_ascii=False)
    share = line("0", "recall", item={"thoughts": "t", "reference": ["a"]})
    rows = read_labels(written(tmp_path, line("1"), share, odd))
    assert [row.label for row in rows] == [1.0, 0.0, 2.0] and rows[2].item.parts["answer"] == ("a\u2028b",)


def test_no_file_and_no_line_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="cannot read the labels"):
        read_labels(tmp_path / "none.jsonl")
    with pytest.raises(BadData, match="has no label"):
        read_labels(written(tmp_path, ""))


def test_agreement_missing_labels_and_missing_verdicts_are_told_apart(tmp_path: Path) -> None:
    labels = [line(mark, case=str(n), text=str(n)) for n, mark in enumerate([5, 4, 1, 2, 3, None])]
    rows = read_labels(written(tmp_path, *labels))
    (outcome,) = calibrate(rows, JUDGES, said([5.0, 4.0, 2.0, 2.0, "no verdict", 1.0]))
    assert (outcome.labelled, outcome.missing, outcome.n, outcome.unscored) == (5, 1, 4, 1)
    assert outcome.reasons == {"no verdict": 1} and outcome.raw.mean == 0.75
    assert outcome.mae is not None and outcome.mae.mean == 0.25
    assert outcome.retest is None


def test_disputed_acceptances_are_left_out_and_counted_beside_the_agreement(tmp_path: Path) -> None:
    rows = read_labels(written(tmp_path, *(line("yes", "coherence", text=str(n)) for n in range(4))))
    (outcome,) = calibrate(rows, JUDGES, said([1.0, "disputed: too vague", "disputed: not quoted", "no verdict"]))
    assert (outcome.n, outcome.unscored, outcome.disputed, outcome.raw.mean) == (1, 3, 2, 1.0)
    head, *lines = _text(outcome).splitlines()
    assert "1 of 4 labels" in head and "3 left out (2 disputed)" in head
    raw = next(line.split() for line in lines if line.lstrip().startswith("equal labels"))
    assert raw[-2:] == ["1", "3"]
    described = describe_calibration(outcome.model_dump())
    assert described.startswith("calibrated: raw 1.00, n=1, 3 left out (2 disputed)")


def test_a_calibration_disputes_what_the_scorer_finds_impossible_as_a_judged_run_does() -> None:
    item = Item.of("equivalence", question="Who wrote it?", one="Ida Holm", other="Ida Holm")
    reply = '{"reason": "It says so.", "quote": "Ida Holm", "verdict": "yes"}'
    panel, models = Panel(judges=("a",)), {"a": ScriptedChatModel(reply=lambda prompt: reply)}
    assert panel_verdicts(panel, models)([item]) == [[1.0]]
    assert panel_verdicts(panel, models, scorer=lambda *_: 0.0)([item]) == [[f"disputed: {CONTRADICTED}"]]


def test_one_label_only_has_no_kappa_in_the_table(tmp_path: Path) -> None:
    rows = read_labels(written(tmp_path, *(line("yes", "coherence", text=str(n)) for n in range(4))))
    (outcome,) = calibrate(rows, JUDGES, said([1.0, 0.0, 1.0, 1.0]))
    text = _text(outcome)
    assert "undefined: people gave one label only, 1" in text and "nan" not in text.lower()
    assert outcome.kappa is not None and outcome.kappa.value is None and outcome.spearman is None


def _text(found: Any) -> str:
    import io

    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=100).print(render_calibration(found))
    return file.getvalue()


def test_repeats_are_held_against_each_other(tmp_path: Path) -> None:
    labels = [line(mark, case=str(n), text=str(n)) for n, mark in enumerate([5, 4, 1, 2])]
    rows = read_labels(written(tmp_path, *labels))
    (outcome,) = calibrate(
        rows, JUDGES, said([5.0, 4.0, 1.0, 2.0], [5.0, 4.0, 1.0, 3.0], [5.0, 4.0, "no verdict", 2.0])
    )
    assert outcome.repeats == 3 and outcome.raw.mean == 1.0
    assert outcome.retest is not None
    assert (outcome.retest.n, outcome.retest.unscored, outcome.retest.raw.mean) == (10, 2, 0.8)
    assert "agreement between 3 repeats" in _text(outcome)


def test_of_repeats_none_is_called_people(tmp_path: Path) -> None:
    rows = read_labels(written(tmp_path, line(5), line(1, text="y")))
    (outcome,) = calibrate(rows, JUDGES, said([4.0, 4.0], [4.0, 4.0]))
    assert outcome.spearman is not None and outcome.spearman.why == "undefined: the judge gave one label only, 4"
    assert outcome.retest is not None and outcome.retest.spearman is not None
    assert outcome.retest.spearman.why == "undefined: one repeat gave one label only, 4"
    (shown,) = [item for item in _text(outcome).splitlines() if "mean label by the judge" in item]
    assert "4.00" in shown and "[" not in shown  # no interval, which would claim certainty


def test_marks_show_who_is_milder_beside_what_elken_says_of_its_judge(tmp_path: Path) -> None:
    rows = read_labels(written(tmp_path, line(5), line(1, text="y"), line(3, text="z")))
    (outcome,) = calibrate(rows, JUDGES, said([5.0, 4.0, 3.0], [5.0, 4.0, 3.0]))
    first, again = _text(outcome).split("agreement between 2 repeats")
    assert (
        "mean label by people" in first and "3.00" in first and "mean label by the judge" in first and "4.00" in first
    )
    assert "gpt-4-1106-preview" in _text(outcome) and "mean label" not in again


def test_it_is_kept_where_reports_look(tmp_path: Path) -> None:
    rows = read_labels(written(tmp_path, line(5), line(1, text="y")))
    (outcome,) = calibrate(rows, JUDGES, said([5.0, 2.0]))
    assert read_calibration(JUDGES, "tendency") is None
    store_calibration(outcome, JUDGES)
    result = read_calibration(JUDGES, "tendency")
    assert result == outcome.model_dump(mode="json") and read_calibration(("openai:other",), "tendency") is None
    assert result is not None and result["n"] == 2 and "value" in result["kappa"]


def test_every_shipped_judge_can_be_calibrated() -> None:
    assert {"tendency", "agreement", "recall", "coherence", "equivalence", "supports"} <= set(JUDGE_KINDS.builtin)
    assert all(parts_of(name) and load_judge(name).role.prompt_id for name in JUDGE_KINDS.builtin)
    assert parts_of("coherence") == {"question", "thoughts", "answer"}


def test_judges_are_asked_about_the_items_and_unreadable_replies_are_reasons() -> None:
    items = [Item(kind="tendency", parts=dict.fromkeys(("event", "question", "answer", "label"), (t,))) for t in "ab"]
    panel = Panel(judges=JUDGES, repeats=2, batch=False, retries=0)
    ask = panel_verdicts(panel, {JUDGES[0]: judge_model(mark=4)}, 1)
    assert ask(items) == [[4.0, 4.0], [4.0, 4.0]]
    silent = ScriptedChatModel(reply=lambda prompt: "nothing to say")
    (result,) = panel_verdicts(Panel(judges=JUDGES, retries=0), {JUDGES[0]: silent}, 1)(items[:1])
    assert isinstance(result[0], str)


def test_judges_that_cannot_be_reached_leave_no_calibration() -> None:
    def fail(prompt: str) -> str:
        raise ModelUnreachable("no connection")

    item = Item(kind="coherence", parts=dict.fromkeys(("question", "thoughts", "answer"), ("x",)))
    with pytest.raises(ModelUnreachable, match="no call to the judges succeeded"):
        panel_verdicts(Panel(judges=JUDGES), {JUDGES[0]: ScriptedChatModel(reply=fail)}, 1)([item])


def load_echo(name: str, **settings: Any) -> ScriptedChatModel:
    """As a model provider: says yes where the answer holds the word."""
    return ScriptedChatModel(reply=lambda prompt: verdict(prompt, yes="yes" if "blue" in prompt else "no"))


@pytest.mark.slow
def test_the_command_prints_keeps_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'emend-eval[plot]'")
    monkeypatch.setitem(MODELS.builtin, "echo", ("tests.evals.judging.test_calibration:load_echo", ""))
    lines = [
        line("yes" if n % 2 else "no", "coherence", str(n), f"{'blue' if n % 2 else 'grey'} {n}") for n in range(8)
    ]
    plot = tmp_path / "plot.svg"
    words = ["judge", "calibrate", str(written(tmp_path, *lines)), "--judge", "echo:x", "--plot", str(plot)]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    assert "Cohen's kappa" in result.output and "1.00" in result.output and "8 labels of 8 cases" in result.output
    assert plot.read_text(encoding="utf-8").startswith("<?xml")
    assert read_calibration(("echo:x",), "coherence") is not None
    rows = json.loads(CliRunner().invoke(app, [*words[:5], "--json"]).output)["rows"]
    assert rows[0]["confusion"] == [[4, 0], [0, 4]]


def load_silent(name: str, **settings: Any) -> ScriptedChatModel:
    """As a model provider: gives no verdict."""
    return ScriptedChatModel(reply=lambda prompt: "nothing to say")


def test_without_a_verdict_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS.builtin, "silent", ("tests.evals.judging.test_calibration:load_silent", ""))
    file = written(tmp_path, *(line("yes", "coherence", str(n), f"text {n}") for n in range(3)))
    result = CliRunner().invoke(app, ["judge", "calibrate", str(file), "--judge", "silent:x"])
    assert "no readable verdict on any label of coherence" in str(result.exception) and result.exit_code
    assert read_calibration(("silent:x",), "coherence") is None


def test_a_calibration_without_kappa_says_why():
    text = {"n": 3, "kappa": {"value": None, "why": "the judge gave one label"}, "raw": {"mean": 2 / 3}}
    assert describe_calibration(text) == "calibrated: raw 0.67, n=3 (no kappa: the judge gave one label)"
