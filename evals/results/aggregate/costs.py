"""Costs of a run, and side effects of weight edits: perplexity, general ability, and checks that edits failed."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np

from emend.evals.case import Metric
from emend.evals.config.run_config import Checkpoints
from emend.evals.log.baseline import baseline_usage
from emend.evals.log.lines import BROKEN_RATIO, COSTS, EDIT_CHECK, PERPLEXITY, PERPLEXITY_BEFORE
from emend.evals.log.records import read_lines
from emend.evals.metrics.estimate import Estimate, estimate
from emend.evals.metrics.paired import Pair, Paired, compare_pairs
from emend.evals.results.aggregate.columns import (
    RETRIES,
    SECONDS,
    TOKENS_IN,
    TOKENS_OUT,
    Column,
    Columns,
    GroupRow,
    MetricRow,
    RecordTable,
    ResultGroup,
    estimate_of,
    order_by,
)
from emend.memory.edit import FrozenModel

MIB = 2**20
PER_PROBE = (
    Metric(name="s/probe", value=SECONDS, kinds=(), summary="seconds that a probe took, waiting included"),
    Metric(name="in/probe", value=TOKENS_IN, kinds=(), summary="tokens into the model per probe"),
    Metric(name="out/probe", value=TOKENS_OUT, kinds=(), summary="tokens out of the model per probe"),
    Metric(name="retries/probe", value=RETRIES, kinds=(), summary="times a provider was asked again, per probe"),
)
PER_EDIT = (
    Metric(name="s/edit", value="seconds", kinds=(), summary="seconds of editing per edit"),
    Metric(name="CPU s/edit", value="cpu_seconds", kinds=(), summary="processor seconds of editing per edit"),
    Metric(name="tok/edit", value="tokens", kinds=(), summary="tokens through the model per edit, forward passes"),
    Metric(name="peak MiB", value="peak_bytes", kinds=(), summary="memory that editing took above what was held"),
)
ALL_COSTS = (*PER_PROBE, *PER_EDIT)


class RunCost(FrozenModel):
    """Total tokens and calls of a run, with those of the unedited model before any edit; time and memory.

    Time is of the processes that came to their own end; a killed one leaves none.
    """

    input_tokens: int
    output_tokens: int
    calls: int
    baseline_tokens: int
    baseline_calls: int
    processes: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int | None = None
    untold: int = 0
    """Calls whose tokens nobody told."""


def costs_of(gathered: RecordTable, folder: Path, editors: Sequence[str]) -> list[MetricRow]:
    """Row per result group and known cost, as the metrics of `ALL_COSTS`; editors in the order of the run.

    Retries have rows only where there were some.
    """
    edits = _edits(folder)
    rows = [
        group.row(metric, _estimate(columns.get(group, {}), metric))
        for group in sorted(gathered.places, key=order_by(editors))
        for metrics, columns in ((PER_PROBE, gathered.places), (PER_EDIT, edits))
        for metric in metrics
    ]
    retried = any(row.mean for row in rows if row.metric == PER_PROBE[-1].name)
    return [row for row in rows if row.n and (retried or row.metric != PER_PROBE[-1].name)]


def _estimate(columns: Columns, metric: Metric) -> Estimate:
    """Estimate of a cost. A constant cost is no proportion, so its interval is that number."""
    value = estimate_of(columns, metric)
    numbers = [column.values for (name, _), column in columns.items() if name == metric.value]
    constant = value.n > 1 and np.ptp(np.concatenate(numbers)) == 0
    return value.model_copy(update={"low": value.mean, "high": value.mean}) if constant else value


def _edits(folder: Path) -> dict[ResultGroup, Columns]:
    """Cost of each application of edits, per edit; the applications are the cases.

    Workers, shares and a resumed run apply the same edits once more: the first time counts, so that the number of
    applications does not depend on how a run was run.
    """
    by_group: dict[ResultGroup, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    known = set()
    for number, line in enumerate(read_lines(folder, COSTS)):
        if line.get("act") != "edit" or not line["edits"]:
            continue
        place = ResultGroup(line["setting"], line["mode"], line["editor"])
        application = (*place, line.get("repeat"), line["edits"], *line.get("of", ()))
        if line.get("of") and application in known:
            continue
        known.add(application)
        for metric in PER_EDIT:
            totals = line[metric.value]
            if totals is not None:
                memory = metric.value == "peak_bytes"  # of all edits at once: it is not shared out among them
                value = totals / MIB if memory else totals / line["edits"]
                by_group[place][metric.value][number] = value
    return {
        place: {(name, ""): Column.of(values.values(), values) for name, values in costs.items()}
        for place, costs in by_group.items()
    }


def spent_of(gathered: RecordTable, folder: Path) -> RunCost:
    """Total cost of a run, from its files."""
    before = baseline_usage(folder)
    runs = [line for line in read_lines(folder, COSTS) if line.get("act") == "run"]
    return RunCost(
        **{name: gathered.spent[name] + before[name] for name in ("input_tokens", "output_tokens", "calls", "untold")},
        baseline_tokens=before["input_tokens"] + before["output_tokens"],
        baseline_calls=before["calls"],
        processes=len(runs),
        seconds=round(sum(line["seconds"] for line in runs), 3),
        cpu_seconds=round(sum(line["cpu_seconds"] for line in runs), 3),
        peak_bytes=max((line["peak_bytes"] for line in runs if line["peak_bytes"]), default=None),
    )


Line = dict[str, Any]
Lines = list[Line]


def _latest(lines: Iterable[Line]) -> dict[tuple[ResultGroup, int], Lines]:
    """Measurements by result group and number of edits that stood, which is 0 but in a sequence.

    Of two measurements of the same edits the later one counts.
    """
    latest: dict[tuple[Any, ...], Line] = {}
    for line in lines:
        group, standing = ResultGroup(line["setting"], line["mode"], line["editor"]), line.get("standing", 0)
        latest[group, standing, line["repeat"], line["edits"]] = line
    by_group: dict[tuple[ResultGroup, int], Lines] = {}
    for (group, standing, *_), line in latest.items():
        by_group.setdefault((group, standing if group.mode.startswith("sequential") else 0), []).append(line)
    return by_group


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
    def ratio(self) -> float | None:
        """Perplexity over that before; infinite where it is no finite number, None if unmeasured."""
        if not self.before.mean:
            return None
        return math.inf if self.mean is None else self.mean / self.before.mean


def perplexities_of(folder: Path, editors: Sequence[str], checkpoints: Checkpoints) -> list[PerplexityRow]:
    """Row per editor, setting and mode; in a sequence, at each checkpoint and at its end."""
    rank = order_by(editors)
    before = _over_texts([line for line in read_lines(folder, COSTS) if line.get("act") == PERPLEXITY_BEFORE][:1])
    lines = (line for line in read_lines(folder, COSTS) if line.get("act") == PERPLEXITY)
    rows = _latest(line for line in lines if line["tokens"] or line["unscored"])
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
    scores: dict[tuple[ResultGroup, int, str, str], Lines] = defaultdict(list)
    for (group, standing), measured in _latest(line for line in lines if line["act"] == PERPLEXITY).items():
        for score in chain.from_iterable(line["ability"] for line in measured):
            scores[group, standing, score["task"], score["metric"]].append(score)
    rank = order_by(editors)
    keys = sorted(scores, key=lambda key: (rank(key[0]), key[1]))
    return [_ability_row(key, scores[key], before.get(key[2:])) for key in keys]


def _ability_row(key: tuple[ResultGroup, int, str, str], now: Lines, before: Line | None) -> AbilityRow:
    group, standing, task, metric = key
    scored = [score for score in now if not score["unscored"]]
    value = _percent(scored)
    first = _percent([before] if before and not before["unscored"] else [])
    reasons = [score["unscored"] for score in (*now, *([before] if before else [])) if score["unscored"]]
    return AbilityRow(
        **group._asdict(),
        metric=metric,
        **value.model_dump() | {"unscored": len(now) - len(scored)},
        task=task,
        standing=standing,
        before=first,
        change=_in_percent(compare_pairs([*_pairs(scored, before)])),
        reason=next(iter(reasons), ""),
    )


def _percent(scores: Sequence[Line]) -> Estimate:
    """Mean over questions, in percent."""
    values = [(number, value) for score in scores for number, value in enumerate(score["scores"])]
    cases = [number for number, _ in values]
    return estimate([value for _, value in values], cases).model_copy(update={"n": len(set(cases))}).scaled(100)


def _pairs(scores: Sequence[Line], before: Line | None) -> Iterator[Pair]:
    for repeat, score in enumerate(scores):
        for number, (first, value) in enumerate(zip((before or {}).get("scores", ()), score["scores"], strict=False)):
            yield Pair(number, "", first, value, repeat)


def _in_percent(change: Paired) -> Paired:
    names = ("mean_a", "mean_b", "difference", "low", "high")
    values = {name: value * 100 for name in names if (value := getattr(change, name)) is not None}
    return change.model_copy(update=values)


class EditCheckRow(GroupRow):
    """The edits of an editor that were checked and that took, their neighbouring prompts and those that turned."""

    checked: int
    took: int
    neighbours: int
    turned: int


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
