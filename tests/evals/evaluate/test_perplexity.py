"""The perplexity of held-out texts before and under edits of weights: kept, shown, or unscored with a reason."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console

from emend.agents.scoring import TargetScores
from emend.editors.base import Answerer
from emend.evals.config.mode import NO_CHECKPOINTS, Checkpoints
from emend.evals.data.benchmarks.tinyworld import TinyWorld
from emend.evals.evaluate.side_effects import load_texts, text_likelihoods
from emend.evals.log.lines import COSTS, PERPLEXITY, PERPLEXITY_BEFORE
from emend.evals.log.records import read_lines
from emend.evals.results.aggregate.rows import report
from emend.evals.results.aggregate.side_effects import _over_edits, perplexities_of
from emend.evals.show.report.secondary import perplexity_tables
from emend.memory.edit import Edit
from emend.memory.errors import BadData, MissingData, RunRefused, TooManyFailures
from tests.evals import toy_runs
from tests.evals.toys import EDITOR, FleetingEditor, HeavyEditor, ScriptedModel

HARMING, STACKING = (f"tests.evals.evaluate.test_perplexity:{name}" for name in ("Harming", "Stacking"))
TEXTS = ("one two three", "four five")


class Fragile(ScriptedModel):
    """Every word of a text costs one nat, and one more for each edit that stands."""

    harm: ClassVar[list[float]] = [0.0]

    def score(self, prompt: str, targets: Sequence[str]) -> TargetScores:
        if prompt:
            return super().score(prompt, targets)
        sizes = tuple(len(text.split()) for text in targets)
        return TargetScores(log_probs=tuple(-size * (1 + self.harm[0]) for size in sizes), target_tokens=sizes)


class Harming(HeavyEditor):
    """Country n harms by n."""

    name: ClassVar[str] = "harming"

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        Fragile.harm[0] = sum(float(edit.subject.removeprefix("Land")) for edit in edits)
        try:
            with super().edit(edits) as answerer:
                yield answerer
        finally:
            Fragile.harm[0] = 0.0


class Stacking(FleetingEditor):
    """Each edit of a sequence harms by one."""

    name: ClassVar[str] = "stacking"

    @contextmanager
    def sequence(self) -> Iterator[Any]:
        with super().sequence() as grow:

            def harming(edits: Sequence[Edit]) -> Answerer:
                Fragile.harm[0] += len(edits)
                return grow(edits)

            try:
                yield harming
            finally:
                Fragile.harm[0] = 0.0


@pytest.fixture
def texts(tmp_path: Path) -> str:
    (tmp_path / "held.txt").write_text("\n".join([TEXTS[0], "", TEXTS[1], ""]), encoding="utf-8")
    return str(tmp_path / "held.txt")


def go(folder: Path, model: Any = None, **changed: Any) -> None:
    toy_runs.go(folder, model or Fragile(), **{"editors": (HARMING,), "benchmark_options": {"cases": "3"}} | changed)


def kept(folder: Path, act: str) -> list[dict[str, Any]]:
    return [line for line in read_lines(folder, COSTS) if line["act"] == act]


def test_each_set_of_edits_is_measured_and_the_unedited_model_once(tmp_path: Path, texts: str) -> None:
    go(tmp_path / "run", perplexity_text=texts, editors=(HARMING, EDITOR))
    (before,) = kept(tmp_path / "run", PERPLEXITY_BEFORE)
    assert (before["nats"], before["tokens"]) == ([3.0, 2.0], [3, 2])
    assert [line["nats"] for line in kept(tmp_path / "run", PERPLEXITY)] == [[3.0, 2.0], [6.0, 4.0], [9.0, 6.0]]
    (row,) = perplexities_of(tmp_path / "run", [HARMING, EDITOR], NO_CHECKPOINTS)
    assert row.mean == pytest.approx(math.exp(2)) and row.before.mean == pytest.approx(math.e)
    assert row.n == 3 and row.unscored == 0 and row.mean is not None and row.low is not None and row.high is not None
    assert math.e <= row.low < row.mean < row.high <= math.exp(3) + 1e-9
    go(tmp_path / "run", perplexity_text=texts, editors=(HARMING, EDITOR))
    assert len(kept(tmp_path / "run", PERPLEXITY)) == 3 and len(kept(tmp_path / "run", PERPLEXITY_BEFORE)) == 1


def test_a_perplexity_weighs_tokens_alike(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [{"act": PERPLEXITY_BEFORE, "texts": "t", "nats": [9.0, 1.0], "tokens": [3, 1]}]
    fields = {"editor": "a", "setting": "s", "mode": "all", "repeat": 0, "edits": "e", "standing": 5, "unscored": ""}
    lines.append(fields | {"act": PERPLEXITY, "nats": [18.0, 2.0], "tokens": [3, 1]})
    (tmp_path / COSTS).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (row,) = perplexities_of(tmp_path, ["a"], NO_CHECKPOINTS)
    assert row.before.mean == pytest.approx(math.exp(10 / 4)) and row.mean == pytest.approx(math.exp(20 / 4))
    assert row.n == 2 and row.low == pytest.approx(math.exp(2)) and row.high == pytest.approx(math.exp(6))


def test_a_sequence_is_shown_at_its_checkpoints_and_its_end(tmp_path: Path, texts: str) -> None:
    plan = {"perplexity_text": texts, "editors": (STACKING,), "mode": "sequential", "reevaluate_at": "2,end"}
    go(tmp_path / "run", **plan, benchmark_options={"cases": "5"})
    rows = perplexities_of(tmp_path / "run", [STACKING], Checkpoints.parse("2,end"))
    assert [(row.standing, round(math.log(row.mean or 0))) for row in rows] == [(2, 3), (5, 6)]
    reported = report(tmp_path / "run")
    assert reported.perplexity == tuple(rows)


def test_a_run_that_goes_on_measures_nothing_twice(tmp_path: Path, texts: str) -> None:
    plan = {"perplexity_text": texts, "editors": (STACKING,), "mode": "sequential", "benchmark_options": {"cases": "5"}}
    with pytest.raises(TooManyFailures):
        go(tmp_path / "run", Fragile(fail_on="Land3"), fail_on_error="true", **plan)
    half = len(kept(tmp_path / "run", PERPLEXITY))
    go(tmp_path / "run", fail_on_error="true", **plan)
    assert half < 5
    (row,) = perplexities_of(tmp_path / "run", [STACKING], NO_CHECKPOINTS)
    assert (row.standing, row.n) == (5, 2)


def test_without_probabilities_it_is_unscored_and_the_reason_is_shown(tmp_path: Path, texts: str) -> None:
    go(tmp_path / "run", ScriptedModel(), perplexity_text=texts)  # tells no numbers of tokens
    (row,) = perplexities_of(tmp_path / "run", [HARMING], NO_CHECKPOINTS)
    assert (row.mean, row.n, row.unscored, row.before.mean) == (None, 0, 3, None)
    ((title, table),) = perplexity_tables([row])
    with (console := Console(width=100)).capture() as shown:
        console.print(table)
    assert "unscored: ScriptedModel does not report numbers of tokens" in shown.get() and " 3" in shown.get()
    assert text_likelihoods(object(), TEXTS).unscored == "object has no log-probabilities"


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_a_broken_model_s_numbers_are_unscored(value: float) -> None:
    class Broken(ScriptedModel):
        def score(self, prompt: str, targets: Sequence[str]) -> TargetScores:
            return TargetScores(log_probs=(-1.0, value), target_tokens=(3, 2))

    assert text_likelihoods(Broken(), TEXTS).unscored == "the edited model's log-probabilities are not finite"


def test_where_the_texts_come_from(tmp_path: Path, texts: str) -> None:
    world = TinyWorld()
    assert load_texts(texts, world, 0) == TEXTS
    assert load_texts("none", world, 0) == ()
    assert len(load_texts(None, object(), 0)) == 16
    own = load_texts(None, world, 0)
    edited = {edit.subject for case in world.cases("triplet") for edit in case.edits}
    assert len(own) == 40 and not [text for text in own if any(subject in text for subject in edited)]
    with pytest.raises(MissingData, match="no file .* of held-out texts"):
        load_texts(str(tmp_path / "none.txt"), world, 0)
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(BadData, match="has no text: write one per line"):
        load_texts(str(tmp_path / "empty"), world, 0)
    (tmp_path / "latin").write_bytes("Müll".encode("latin-1"))
    with pytest.raises(BadData, match="cannot be read.*UTF-8"):
        load_texts(str(tmp_path / "latin"), world, 0)


def test_a_wrong_file_of_texts_leaves_no_run_behind(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="held-out texts"):
        go(tmp_path / "run", perplexity_text=str(tmp_path / "none.txt"))
    assert not (tmp_path / "run").exists()


def test_repeats_of_one_set_of_edits_are_one_case(tmp_path: Path) -> None:
    once = [{"nats": [n + 1.0], "tokens": [2], "edits": str(n)} for n in range(8)]
    item, four = _over_edits(once), _over_edits(once * 4)
    assert (item.n, item.low, item.high) == (four.n, four.low, four.high) == (8, item.low, item.high)


def test_none_measures_nothing_and_other_texts_are_refused(tmp_path: Path, texts: str) -> None:
    go(tmp_path / "none", perplexity_text="none")
    assert not kept(tmp_path / "none", PERPLEXITY) and not kept(tmp_path / "none", PERPLEXITY_BEFORE)
    go(tmp_path / "run", perplexity_text=texts)
    Path(texts).write_text("another text\n", encoding="utf-8")
    with pytest.raises(RunRefused, match="held-out texts of the run .* were others"):
        go(tmp_path / "run", perplexity_text=texts)
