"""Runs are compared probe by probe, and what is not the same data is refused."""

import io
import shutil
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from emend.evals.case import Metric, Record
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.log.manifest import MANIFEST, Manifest
from emend.evals.metrics.protocols import metrics_under
from emend.evals.results.analyses.compare import Comparison, compare
from emend.evals.show.report.analysis import render_comparison
from emend.memory.errors import BadSettings
from tests.evals.judged_runs import judge_model, verdict
from tests.evals.made import record, write_run
from tests.fakes import ScriptedChatModel


def scored(values: Sequence[float], editor: str = "rag", **more: Any) -> list[Record]:
    return [record(str(n), editor, values={"em": value}, **more) for n, value in enumerate(values)]


def test_the_second_run_less_the_first(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", scored([1, 0, 0, 0]))
    b = write_run(tmp_path / "b", scored([1, 1, 1, 0]))
    found = compare(a, b)
    (row,) = found.rows
    assert (row.editor_a, row.metric, row.paired.mean_a, row.paired.mean_b) == ("rag", "EM", 0.25, 0.75)
    assert row.paired.difference == 0.5 and row.paired.test == "McNemar" and row.paired.n == 4
    (told,) = found.coverage
    assert (told.paired, told.cases, told.only_a, told.only_b) == (4, 4, 0, 0)


def test_probes_of_one_side_alone_are_told_and_left_out(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", scored([1, 0, 1, 1]), limit=4)
    b = write_run(tmp_path / "b", scored([0, 0]), limit=2)
    found = compare(a, b)
    (told,) = found.coverage
    assert (told.paired, told.only_a, told.only_b, found.rows[0].paired.n) == (2, 2, 0, 2)
    assert any("2 are only in the first" in note for note in found.notes)
    assert any("limit differs: 4 and 2" in note for note in found.notes)


def test_a_mode_that_the_benchmark_decides_is_no_other_one(tmp_path: Path) -> None:
    a, b, c = (
        write_run(tmp_path / (mode or "own"), scored([1, 0]), mode=mode or None) for mode in ("", "all", "single")
    )
    for folder, mode in ((a, "all"), (b, "all"), (c, "single")):
        manifest = Manifest.read(folder).model_copy(update={"mode": mode})
        (folder / MANIFEST).write_text(manifest.model_dump_json(), "utf-8")
    assert not any("mode" in note for note in compare(a, b).notes)
    assert "mode differs: all and single" in compare(a, c).notes


def test_a_metric_of_several_kinds_is_shown_by_kind_too(tmp_path: Path) -> None:
    records = scored([1, 1]) + scored([0, 1], kind="paraphrase", probe="q")
    a = write_run(tmp_path / "a", records)
    found = compare(a, write_run(tmp_path / "b", scored([0, 0]) + scored([1, 1], kind="paraphrase", probe="q")))
    assert [(row.kind, row.paired.difference) for row in found.rows] == [
        ("", -0.25),
        ("efficacy", -1),
        ("paraphrase", 0.5),
    ]


def test_two_editors_of_one_run(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", scored([1, 1, 0], "rag") + scored([0, 0, 0], "unedited"))
    assert compare(a).rows[0].paired.difference == pytest.approx(-2 / 3)
    assert compare(a, editor_a="unedited").rows[0].paired.difference == pytest.approx(2 / 3)
    assert compare(a, editor_b="rag").rows[0].editor_a == "unedited"
    with pytest.raises(BadSettings, match="no editor 'rga' in that run: did you mean 'rag'"):
        compare(a, editor_a="rga")
    one = write_run(tmp_path / "1", scored([1], "rag"))
    for run, remedy in ((a, "--editor-a and --editor-b"), (one, "a second run")):
        with pytest.raises(BadSettings, match=remedy):
            compare(run, editor_a="rag", editor_b="rag")
    three = write_run(tmp_path / "3", scored([1]) + scored([0], "ft") + scored([0], "ike"))
    with pytest.raises(BadSettings, match="name two of its editors"):
        compare(three)


def test_editors_that_both_runs_have_are_compared_with_themselves(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", scored([1], "rag") + scored([1], "ft"))
    b = write_run(tmp_path / "b", scored([0], "ft") + scored([0], "ike"))
    assert [(row.editor_a, row.editor_b) for row in compare(a, b).rows] == [("ft", "ft")]
    assert [(r.editor_a, r.editor_b) for r in compare(a, b, "rag", "ike").rows] == [("rag", "ike")]
    with pytest.raises(BadSettings, match="one of the runs has no editor 'rag'"):
        compare(a, b, "rag")


@pytest.mark.parametrize(
    ("other", "more", "message"),
    [
        ([record("0", values={"em": 1.0})], {"benchmark": "akew"}, "of 'docter' and 'akew'"),
        ([record("0", setting="gold", values={"em": 1.0})], {}, "the edits differ between settings"),
        ([record("9", values={"em": 1.0})], {}, "no probe of"),
        ([record("0", prompt="else?", values={"em": 1.0})], {}, "different questions under the same id"),
        ([record("0", gold=("other",), values={"em": 1.0})], {}, "different questions under the same id"),
    ],
)
def test_what_is_not_the_same_data_is_refused(
    tmp_path: Path, other: list[Record], more: dict[str, Any], message: str
) -> None:
    a = write_run(tmp_path / "a", scored([1, 1]))
    with pytest.raises(BadSettings, match=message):
        compare(a, write_run(tmp_path / "b", other, **more))


def test_what_was_asked_again_is_left_out_unless_asked_for(tmp_path: Path) -> None:
    later = scored([0, 0], checkpoint=2, mode="sequential")
    a = write_run(tmp_path / "a", scored([1, 1], mode="sequential") + later, mode="sequential:1")
    b = write_run(tmp_path / "b", scored([1, 1], mode="sequential") + scored([1, 1], checkpoint=2))
    first = compare(a, b)
    assert first.rows[0].paired.difference == 0 and any("--checkpoint" in note for note in first.notes)
    again = compare(a, b, checkpoint=2)
    assert again.rows[0].paired.difference == 1 and "answers after 2 edits" in again.notes
    with pytest.raises(BadSettings, match="nothing was asked again at checkpoint 3"):
        compare(a, b, checkpoint=3)


def test_unscored_is_counted_and_unasked_is_not(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [*scored([1, 1]), record("5", unscored={"em": "no text"}), record("6")])
    b = write_run(tmp_path / "b", [*scored([1, 0]), *(record(n, values={"em": 1.0}) for n in "56")])
    paired = compare(a, b).rows[0].paired
    assert (paired.n, paired.unscored, paired.difference) == (2, 1, -0.5)


def test_the_table_shows_scale_sign_and_names(tmp_path: Path) -> None:
    a = write_run(tmp_path / "first", scored([1, 0, 0, 0, 1]))
    b = write_run(tmp_path / "second", scored([1, 1, 1, 1, 1]))
    file = io.StringIO()
    Console(file=file, width=80).print(render_comparison(compare(a, b)))
    text = file.getvalue()
    assert "+60.0" in text and "first" in text and "second" in text and "5 probes of 5 cases" in text
    assert max(map(len, text.splitlines())) <= 80


# --- what judges said: compared where the same judges said it in the same way, and else left out


def copied(judgeable: dict[str, Path], folder: Path) -> Path:
    return Path(shutil.copytree(judgeable["elken"], folder))


def judged_by(folder: Path, judge: str = "openai:judge", mark: int = 5, **panel: Any) -> str:
    model = judge_model(mark)
    return score_run(folder, Panel(judges=(judge,), **panel), ["tendency"], models={judge: model}).scoring.id


def judged(found: Comparison) -> dict[str, float | None]:
    return {row.metric: row.paired.difference for row in found.rows if row.judge}


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_two_editors_of_a_judged_run(judgeable: dict[str, Path], tmp_path: Path) -> None:
    def reply(prompt: str) -> str:
        return verdict(prompt, 5 if "because the clinic" in prompt else 2)

    folder = copied(judgeable, tmp_path / "a")
    assert judged(compare(folder)) == {}
    score_run(folder, Panel(judges=("x:y",), batch=False), models={"x:y": ScriptedChatModel(reply=reply)})
    found = compare(folder, editor_a="unedited", editor_b="rag")
    (level,) = [row for row in found.rows if row.metric == "G Q"]
    assert (level.paired.n, level.paired.difference, level.judge) == (3, 0.0, "tendency by x:y, not calibrated")
    assert level.paired.mean_a == level.paired.mean_b == pytest.approx(1 / 3)
    assert {row.judge for row in found.rows if row.metric.startswith("Fact")} == {""}


@pytest.mark.usefixtures("own_cache")
def test_two_runs_by_the_newest_scoring_that_both_have(judgeable: dict[str, Path], tmp_path: Path) -> None:
    a, b = copied(judgeable, tmp_path / "a"), copied(judgeable, tmp_path / "b")
    first = judged_by(a)
    judged_by(b, mark=4)
    judged_by(b, judge="openai:other")
    found = compare(a, b)
    assert judged(found)["overall"] == -1.0 and judged(found)["G Q"] == -1.0
    assert judged(compare(a, b, scoring=first[:-2])) == judged(found)
    assert judged(compare(a, b, scoring="none")) == {}


@pytest.mark.usefixtures("own_cache")
def test_other_judges_or_other_ways_of_asking_are_not_compared(judgeable: dict[str, Path], tmp_path: Path) -> None:
    a, b = copied(judgeable, tmp_path / "a"), copied(judgeable, tmp_path / "b")
    name = judged_by(a)
    assert any("the second by nobody" in note for note in compare(a, b).notes)
    judged_by(b, repeats=2)
    found = compare(a, b)
    assert judged(found) == {} and any("judged scores are not compared" in note for note in found.notes)
    assert any(row.metric == "Fact Q" for row in found.rows)
    with pytest.raises(BadSettings, match=f"has no scoring '{name}'.* emend judge run .*b --judge openai:judge"):
        compare(a, b, scoring=name)
    with pytest.raises(BadSettings, match="has no scoring 'nobody'"):
        compare(a, b, scoring="nobody")


@pytest.mark.usefixtures("own_cache")
def test_the_table_names_the_judge_and_fits_eighty_columns(judgeable: dict[str, Path], tmp_path: Path) -> None:
    a = copied(judgeable, tmp_path / "a")
    judged_by(a)
    file = io.StringIO()
    Console(file=file, width=80).print(render_comparison(compare(a)))
    lines = file.getvalue().splitlines()
    assert "tendency by openai:judge, not calibrated" in lines and max(map(len, lines)) <= 80
    facts, marks = file.getvalue().split("tendency by openai:judge, not calibrated")
    assert " background " in facts and " unscored " not in facts + marks
    assert "comprehensiveness 5" in marks and "not shown, since no pair is scored" in marks


PROTOCOL_NAMES = ("likelihood", "teacher_forced", "exact", "contains", "judge")


def run_under(folder: Path, protocols: Sequence[str], form: str = "plain", **config: Any) -> Path:
    metrics = metrics_under([Metric(name="EM", value="em", kinds=("efficacy",), scale=100)], protocols)
    values = {metric.value: 1.0 for metric in metrics}
    return write_run(folder, [record(str(n), values=values, form=form) for n in range(3)], metrics=metrics, **config)


@pytest.mark.parametrize(("a", "b"), list(permutations(PROTOCOL_NAMES, 2)))
def test_runs_without_a_protocol_in_common_are_not_compared(tmp_path: Path, a: str, b: str) -> None:
    folders = run_under(tmp_path / "a", [a]), run_under(tmp_path / "b", [b])
    with pytest.raises(BadSettings, match=f"--protocol {a} or {b}"):
        compare(*folders)


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_runs_that_were_asked_in_different_forms_are_not_compared(tmp_path: Path, protocol: str) -> None:
    folders = run_under(tmp_path / "a", [protocol]), run_under(tmp_path / "b", [protocol], "chat")
    with pytest.raises(BadSettings, match="--form plain or --form chat"):
        compare(*folders)


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_runs_that_count_other_probes_are_not_compared(tmp_path: Path, protocol: str) -> None:
    filtered = run_under(tmp_path / "b", [protocol], count_only="wrong_before")
    with pytest.raises(BadSettings, match="--count-only"):
        compare(run_under(tmp_path / "a", [protocol]), filtered)


def test_runs_are_compared_by_the_protocols_that_both_have(tmp_path: Path) -> None:
    a, b = run_under(tmp_path / "a", ["exact", "contains"]), run_under(tmp_path / "b", ["contains", "likelihood"])
    assert [row.metric for row in compare(a, b).rows] == ["EM contains"]
