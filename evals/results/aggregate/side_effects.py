"""Side effects of weight edits: perplexity and general ability before and after, and checks that edits failed."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from emend.evals.config.run_config import Checkpoints
from emend.evals.log.lines import BROKEN_RATIO, COSTS, EDIT_CHECK, PERPLEXITY, PERPLEXITY_BEFORE
from emend.evals.log.records import read_lines
from emend.evals.metrics.estimate import Estimate, estimate
from emend.evals.metrics.paired import Pair, Paired, compare_pairs
from emend.evals.results.aggregate.columns import MetricRow, ResultGroup, order_by
from emend.memory.edit import FrozenModel

Lines = list[dict[str, Any]]


class PerplexityRow(MetricRow):
    """The perplexity under one editor's edits; `before` is the unedited model's, and `reason` why some have none.

    `standing` is how many edits stood in a sequence, and 0 in other modes, whose rows are over all sets of edits.
    """

    standing: int = 0
    over: Literal["edits", "texts"] = "texts"
    """Unit of n and of the interval: sets of edits, or texts under one set; `before` is always over texts."""
    before: Estimate
    reason: str = ""
    drift: float | None = None
    """1 less the mean cosine of hidden states before the head, then and now, at a checkpoint or in mode all."""
    growth: float | None = None
    """Largest norm of a changed matrix over that before."""

    @property
    def place(self) -> ResultGroup:
        """The place whose figures the edits stand behind."""
        return ResultGroup(self.setting, self.mode, self.editor)

    @property
    def ratio(self) -> float | None:
        """Perplexity over that before; infinite where it is no finite number, None if unmeasured."""
        if not self.before.mean:
            return None
        return math.inf if self.mean is None else self.mean / self.before.mean


def perplexities_of(folder: Path, editors: Sequence[str], checkpoints: Checkpoints) -> list[PerplexityRow]:
    """Row per editor, setting and mode; in a sequence, at each checkpoint and at its end."""
    rank = order_by(editors)
    before = _over_texts([line for line in read_lines(folder, COSTS) if line.get("act") == PERPLEXITY_BEFORE][:1])
    key = itemgetter("setting", "mode", "editor", "standing", "repeat", "edits")  # of two lines the later one counts
    lines = (line for line in read_lines(folder, COSTS) if line.get("act") == PERPLEXITY)
    measured = {key(line): line for line in lines if line["tokens"] or line["unscored"]}
    rows: dict[tuple[ResultGroup, int], Lines] = {}
    for (setting, mode, editor, standing, *_), line in measured.items():
        rows.setdefault(
            (ResultGroup(setting, mode, editor), standing if mode.startswith("sequential") else 0), []
        ).append(line)
    chosen = sorted(_at_checkpoints(list(rows), checkpoints), key=lambda key: (rank(key[0]), key[1]))
    return [_perplexity_row(place, standing, rows[place, standing], before) for place, standing in chosen]


def _at_checkpoints(
    keys: Sequence[tuple[ResultGroup, int]], checkpoints: Checkpoints
) -> Iterator[tuple[ResultGroup, int]]:
    for place, measured in groupby(sorted(keys), key=lambda key: key[0]):
        standings = [standing for _, standing in measured]
        for before, now in zip([0, *standings], standings, strict=False):
            if now == standings[-1] or checkpoints.passed(before, now):
                yield place, now


def _perplexity_row(place: ResultGroup, standing: int, lines: Lines, before: Estimate) -> PerplexityRow:
    scored = [line for line in lines if not line["unscored"]]
    several = len(scored) > 1 and not standing
    value = _over_edits(scored) if several else _over_texts(scored)
    return PerplexityRow(
        **place._asdict(),
        metric="perplexity",
        **value.model_dump() | {"unscored": len(lines) - len(scored)},
        standing=standing,
        over="edits" if several else "texts",
        before=before,
        reason=next((line["unscored"] for line in lines if line["unscored"]), ""),
        drift=lines[-1].get("drift"),
        growth=lines[-1].get("growth"),
    )


def _over_edits(lines: Lines) -> Estimate:
    """Sets of edits being the cases, in however many repeats: the mean is that of nats per token; n counts the sets."""
    values = [sum(line["nats"]) / sum(line["tokens"]) for line in lines]
    cases = [line["edits"] for line in lines]
    return _exponential(estimate(values, cases)).model_copy(update={"n": len(set(cases))})


def _over_texts(lines: Lines) -> Estimate:
    """Texts being the cases, each counting with its tokens; n is the number of texts."""
    texts = [text for line in lines for text in enumerate(zip(line["nats"], line["tokens"], strict=True))]
    values = [nats / tokens for _, (nats, tokens) in texts for _ in range(tokens)]
    cases = [number for number, (_, tokens) in texts for _ in range(tokens)]
    return _exponential(estimate(values, cases)).model_copy(update={"n": len(set(cases))})


def _exponential(nats: Estimate) -> Estimate:
    """Perplexity of nats per token; one too large for a number is left out."""
    bounds = {
        name: None if value is None or value > 700 else math.exp(value)
        for name, value in (("mean", nats.mean), ("low", nats.low), ("high", nats.high))
    }
    return nats.model_copy(update=bounds)


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
    return [_ability_row(key, places[key], before.get(key[4:])) for key in keys]


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


def _ability_row(
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


class EditCheckRow(FrozenModel):
    """The edits of an editor that were checked and that took, their neighbouring prompts and those that turned."""

    setting: str
    mode: str
    editor: str
    checked: int
    took: int
    neighbours: int
    turned: int

    @property
    def place(self) -> ResultGroup:
        """The place whose figures the edits stand behind."""
        return ResultGroup(self.setting, self.mode, self.editor)


def edit_checks_of(folder: Path, editors: Sequence[str]) -> list[EditCheckRow]:
    """Row per editor, setting and mode, in the order of the editors; of two checks of the same edits the later one."""
    latest = {
        (ResultGroup(line["setting"], line["mode"], line["editor"]), line["repeat"], line["edits"]): line
        for line in read_lines(folder, COSTS)
        if line.get("act") == EDIT_CHECK
    }
    places = sorted({place for place, *_ in latest}, key=order_by(editors))
    return [
        EditCheckRow(
            **place._asdict(),
            **{
                name: sum(line[name] for (where, *_), line in latest.items() if where == place)
                for name in ("checked", "took", "neighbours", "turned")
            },
        )
        for place in places
    ]


def broken_places(perplexity: Sequence[PerplexityRow], checks: Sequence[EditCheckRow]) -> tuple[ResultGroup, ...]:
    """Where the perplexity more than doubled, or most neighbouring prompts turned to the new object."""
    worse = [row.place for row in perplexity if row.ratio is not None and row.ratio > BROKEN_RATIO]
    turned = [row.place for row in checks if 2 * row.turned > row.neighbours]
    return tuple(dict.fromkeys([*worse, *turned]))


def side_effect_notes(perplexity: Sequence[PerplexityRow], checks: Sequence[EditCheckRow]) -> Iterator[str]:
    """Sentences for what went wrong with edits, an editor and a fault each."""
    several = len({row.place.setting for row in perplexity} | {row.place.setting for row in checks}) > 1
    last = {row.place: row for row in perplexity if row.ratio is not None and row.ratio > BROKEN_RATIO}
    for place, row in last.items():
        after = "no finite number" if row.mean is None else f"{row.mean:,.4g}"
        change = f"perplexity more than doubled, {row.before.mean:,.4g} to {after}"
        yield _sentence(place, several, f"{change}: no best mark")
    for check in checks:
        if check.took < check.checked:
            yield _sentence(check.place, several, f"{check.checked - check.took} of {check.checked} edits did not take")
        if check.turned:
            mark = ": no best mark" if 2 * check.turned > check.neighbours else ""
            counts = f"{check.turned} of {check.neighbours} neighbouring prompts"
            yield _sentence(check.place, several, f"{counts} turned to the new object{mark}")


def _sentence(place: ResultGroup, several: bool, text: str) -> str:
    return f"{place.editor}{f', {place.setting}' if several else ''}: {text}"
