"""General ability under weight edits beside the unedited model's: each task's score, and the paired difference."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from emend.evals.log.lines import COSTS, PERPLEXITY, PERPLEXITY_BEFORE
from emend.evals.log.records import read_lines
from emend.evals.metrics.estimate import Estimate, estimate
from emend.evals.metrics.paired import Pair, Paired, compare_pairs
from emend.evals.results.aggregate.columns import MetricRow, ResultGroup, order_by

Places = dict[tuple[str, str, str, int, str, str], list[dict[str, Any]]]
"""Scores by editor, setting, mode, number of edits, task and metric."""


class AbilityRow(MetricRow):
    """A task's score under one editor's edits, in percent; the questions are the cases.

    `standing` is how many edits stood in a sequence, and 0 in other modes, whose rows are means over all sets of edits.
    """

    task: str
    standing: int = 0
    before: Estimate
    change: Paired
    """Under edits less before, of the same questions."""
    reason: str = ""

    @property
    def change_estimate(self) -> Estimate:
        """The change in percentage points, without its test."""
        change = self.change
        return Estimate(mean=change.difference, n=change.n, low=change.low, high=change.high)


def abilities_of(folder: Path, editors: Sequence[str]) -> list[AbilityRow]:
    """Row per editor, setting, mode, task and metric; in a sequence, at each checkpoint."""
    lines = [line for line in read_lines(folder, COSTS) if line.get("ability")]
    before = {
        (score["task"], score["metric"]): score
        for line in lines
        if line["act"] == PERPLEXITY_BEFORE
        for score in line["ability"]
    }
    rank, places = order_by(editors), _places(lines)
    keys = sorted(places, key=lambda key: (rank(ResultGroup(key[1], key[2], key[0])), key[3]))
    return [_row(key, places[key], before.get(key[4:])) for key in keys]


def _places(lines: Sequence[dict[str, Any]]) -> Places:
    names = ("setting", "mode", "editor", "standing", "repeat", "edits")
    # Of two measurements of the same edits the later one counts.
    measured = {tuple(line[name] for name in names): line for line in lines if line["act"] == PERPLEXITY}
    places: Places = defaultdict(list)
    for (setting, mode, editor, standing, *_), line in measured.items():
        number = standing if mode.startswith("sequential") else 0
        for score in line["ability"]:
            places[editor, setting, mode, number, score["task"], score["metric"]].append(score)
    return places


def _row(
    key: tuple[str, str, str, int, str, str], now: Sequence[dict[str, Any]], before: dict[str, Any] | None
) -> AbilityRow:
    editor, setting, mode, standing, task, metric = key
    scored = [score for score in now if not score["unscored"]]
    value = _percent(scored)
    first = _percent([before] if before and not before["unscored"] else [])
    reasons = [score["unscored"] for score in (*now, *([before] if before else [])) if score["unscored"]]
    return AbilityRow(
        editor=editor,
        setting=setting,
        mode=mode,
        metric=metric,
        **value.model_dump() | {"unscored": len(now) - len(scored)},
        task=task,
        standing=standing,
        before=first,
        change=_in_percent(compare_pairs([*_pairs(scored, before)])),
        reason=next(iter(reasons), ""),
    )


def _percent(scores: Sequence[dict[str, Any]]) -> Estimate:
    """Mean over questions, in percent."""
    values = [(number, value) for score in scores for number, value in enumerate(score["scores"])]
    cases = [number for number, _ in values]
    return estimate([value for _, value in values], cases).model_copy(update={"n": len(set(cases))}).scaled(100)


def _pairs(scores: Sequence[dict[str, Any]], before: dict[str, Any] | None) -> Iterator[Pair]:
    for repeat, score in enumerate(scores):
        for number, (first, value) in enumerate(zip((before or {}).get("scores", ()), score["scores"], strict=False)):
            yield Pair(number, "", first, value, repeat)


def _in_percent(change: Paired) -> Paired:
    names = ("mean_a", "mean_b", "difference", "low", "high")
    values = {name: value * 100 for name in names if (value := getattr(change, name)) is not None}
    return change.model_copy(update=values)
