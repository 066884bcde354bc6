"""Side effects of weight edits: perplexity, general ability, and checks for failed edits."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal

from emend.evals.config.mode import Checkpoints
from emend.evals.log.lines import (
    BROKEN_RATIO,
    COSTS,
    EDIT_CHECK,
    PERPLEXITY,
    PERPLEXITY_BEFORE,
)
from emend.evals.log.records import read_lines
from emend.evals.metrics.estimate import Estimate, estimate
from emend.evals.metrics.fact_checks import CHECKS, CONTRADICTIONS
from emend.evals.metrics.paired import Pair, Paired, compare_pairs
from emend.evals.results.aggregate.columns import (
    Columns,
    GroupRow,
    MetricRow,
    ResultGroup,
    order_by,
)

# Largest nats per token that are exponentiated; e^709 is about the largest float.
LARGEST_EXPONENT = 700
# Minimum number of fact checks before a note says that all had the same verdict.
FEWEST_CHECKS = 10

Line = dict[str, Any]
Lines = list[Line]


def _latest(lines: Iterable[Line]) -> dict[tuple[ResultGroup, int], Lines]:
    """Group the latest measurements by result group and number of edits in the sequence.

    The number is 0 in other modes. If the same edits were measured twice, the later measurement
    counts.
    """
    latest: dict[tuple[Any, ...], Line] = {}
    for line in lines:
        group = ResultGroup(line["setting"], line["mode"], line["editor"])
        standing = line.get("standing", 0)
        latest[group, standing, line["repeat"], line["edits"]] = line
    by_group: dict[tuple[ResultGroup, int], Lines] = {}
    for (group, standing, *_), line in latest.items():
        if not group.mode.startswith("sequential"):
            standing = 0
        by_group.setdefault((group, standing), []).append(line)
    return by_group


class PerplexityRow(MetricRow):
    """The perplexity of one editor's edited model.

    `before` is that of the unedited model, and `reason` says why measurements are unscored.
    `standing` is the number of edits so far in a sequence, and 0 in other modes, whose rows cover
    all sets of edits.
    """

    standing: int = 0
    over: Literal["edits", "texts"] = "texts"
    """Unit of n and of the interval: sets of edits, or texts under one set; `before` uses texts."""
    before: Estimate
    reason: str = ""
    drift: float | None = None
    """1 minus the mean cosine of last hidden states to those before (checkpoints, mode all)."""
    growth: float | None = None
    """Largest ratio of a changed matrix's norm to its norm before the edits."""

    @property
    def ratio(self) -> float | None:
        """Perplexity divided by that before the edits; None if unmeasured, infinite on overflow."""
        if not self.before.mean:
            return None
        if self.mean is None:
            return math.inf
        return self.mean / self.before.mean


def perplexities_of(
    folder: Path, editors: Sequence[str], checkpoints: Checkpoints
) -> list[PerplexityRow]:
    """Return a row per editor, setting and mode; in a sequence, per checkpoint and at its end."""
    rank = order_by(editors)
    before = _over_texts(
        [line for line in read_lines(folder, COSTS) if line.get("act") == PERPLEXITY_BEFORE][:1]
    )
    lines = (line for line in read_lines(folder, COSTS) if line.get("act") == PERPLEXITY)
    rows = _latest(line for line in lines if line["tokens"] or line["unscored"])
    chosen = sorted(
        _at_checkpoints(list(rows), checkpoints), key=lambda key: (rank(key[0]), key[1])
    )
    return [
        _perplexity_row(place, standing, rows[place, standing], before)
        for place, standing in chosen
    ]


def _at_checkpoints(
    keys: Sequence[tuple[ResultGroup, int]], checkpoints: Checkpoints
) -> Iterator[tuple[ResultGroup, int]]:
    for place, measured in groupby(sorted(keys), key=lambda key: key[0]):
        standings = [standing for _, standing in measured]
        for before, now in zip([0, *standings], standings, strict=False):
            if now == standings[-1] or checkpoints.passed(before, now):
                yield place, now


def _perplexity_row(
    place: ResultGroup, standing: int, lines: Lines, before: Estimate
) -> PerplexityRow:
    scored = [line for line in lines if not line["unscored"]]
    several = len(scored) > 1 and not standing
    if several:
        value = _over_edits(scored)
    else:
        value = _over_texts(scored)
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
    """Return the perplexity with sets of edits as cases, over all repeats; n counts the sets.

    The mean is taken over the sets' nats per token.
    """
    values = [sum(line["nats"]) / sum(line["tokens"]) for line in lines]
    cases = [line["edits"] for line in lines]
    return _exponential(estimate(values, cases, share=False)).model_copy(
        update={"n": len(set(cases))}
    )


def _over_texts(lines: Lines) -> Estimate:
    """Return the perplexity with texts as cases, weighted by their tokens; n counts the texts."""
    texts = [
        text for line in lines for text in enumerate(zip(line["nats"], line["tokens"], strict=True))
    ]
    values = [nats / tokens for _, (nats, tokens) in texts for _ in range(tokens)]
    cases = [number for number, (_, tokens) in texts for _ in range(tokens)]
    return _exponential(estimate(values, cases, share=False)).model_copy(
        update={"n": len(set(cases))}
    )


def _exponential(nats: Estimate) -> Estimate:
    """Return the perplexity for nats per token; None if it is too large for a float."""
    bounds: dict[str, float | None] = {"mean": None, "low": None, "high": None}
    for name in bounds:
        value = getattr(nats, name)
        if value is not None and value <= LARGEST_EXPONENT:
            bounds[name] = math.exp(value)
    return nats.model_copy(update=bounds)


class AbilityRow(MetricRow):
    """A task's score under one editor's edits, in percent; the questions are the cases.

    `standing` is the number of edits so far in a sequence, and 0 in other modes, whose rows are
    means over all sets of edits.
    """

    task: str
    standing: int = 0
    before: Estimate
    change: Paired
    """Score under edits minus score before, paired by question."""
    reason: str = ""

    @property
    def change_estimate(self) -> Estimate:
        """The change in percentage points, without its test."""
        change = self.change
        return Estimate(mean=change.difference, n=change.n, low=change.low, high=change.high)


def abilities_of(folder: Path, editors: Sequence[str]) -> list[AbilityRow]:
    """Return a row per editor, setting, mode, task and metric, in a sequence per checkpoint too."""
    lines = [line for line in read_lines(folder, COSTS) if line.get("ability")]
    before = {
        (score["task"], score["metric"]): score
        for line in lines
        if line["act"] == PERPLEXITY_BEFORE
        for score in line["ability"]
    }
    scores: dict[tuple[ResultGroup, int, str, str], Lines] = defaultdict(list)
    for (group, standing), measured in _latest(
        line for line in lines if line["act"] == PERPLEXITY
    ).items():
        for score in chain.from_iterable(line["ability"] for line in measured):
            scores[group, standing, score["task"], score["metric"]].append(score)
    rank = order_by(editors)
    keys = sorted(scores, key=lambda key: (rank(key[0]), key[1]))
    return [_ability_row(key, scores[key], before.get(key[2:])) for key in keys]


def _ability_row(
    key: tuple[ResultGroup, int, str, str], now: Lines, before: Line | None
) -> AbilityRow:
    group, standing, task, metric = key
    scored = [score for score in now if not score["unscored"]]
    value = _percent(scored)
    baseline: Lines = []
    if before:
        baseline = [before]
    first = _percent([score for score in baseline if not score["unscored"]])
    reasons = [score["unscored"] for score in (*now, *baseline) if score["unscored"]]
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
    """Return the mean over questions, in percent."""
    values = [(number, value) for score in scores for number, value in enumerate(score["scores"])]
    cases = [number for number, _ in values]
    return (
        estimate([value for _, value in values], cases)
        .model_copy(update={"n": len(set(cases))})
        .scaled(100)
    )


def _pairs(scores: Sequence[Line], before: Line | None) -> Iterator[Pair]:
    for repeat, score in enumerate(scores):
        for number, (first, value) in enumerate(
            zip((before or {}).get("scores", ()), score["scores"], strict=False)
        ):
            yield Pair(number, "", first, value, repeat)


def _in_percent(change: Paired) -> Paired:
    names = ("mean_a", "mean_b", "difference", "low", "high")
    values = {name: value * 100 for name in names if (value := getattr(change, name)) is not None}
    return change.model_copy(update=values)


class EditCheckRow(GroupRow):
    """Counts of an editor's checked and effective edits, and of its neighbouring prompts."""

    checked: int
    took: int
    neighbours: int
    turned: int


def edit_checks_of(folder: Path, editors: Sequence[str]) -> list[EditCheckRow]:
    """Return a row per editor, setting and mode, in the order of the editors.

    If the same edits were checked twice, the later check counts.
    """
    latest = {
        (
            ResultGroup(line["setting"], line["mode"], line["editor"]),
            line["repeat"],
            line["edits"],
        ): line
        for line in read_lines(folder, COSTS)
        if line.get("act") == EDIT_CHECK
    }
    places = sorted({place for place, *_ in latest}, key=order_by(editors))
    rows = []
    for place in places:
        lines = [line for (where, *_), line in latest.items() if where == place]
        counts: dict[str, Any] = {}
        for name in ("checked", "took", "neighbours", "turned"):
            counts[name] = sum(line[name] for line in lines)
        rows.append(EditCheckRow(**place._asdict(), **counts))
    return rows


def broken_places(
    perplexity: Sequence[PerplexityRow], checks: Sequence[EditCheckRow]
) -> tuple[ResultGroup, ...]:
    """Return the groups with more than doubled perplexity, or most neighbouring prompts changed."""
    worse = [row.place for row in perplexity if row.ratio is not None and row.ratio > BROKEN_RATIO]
    turned = [row.place for row in checks if 2 * row.turned > row.neighbours]
    return tuple(dict.fromkeys([*worse, *turned]))


def side_effect_notes(
    perplexity: Sequence[PerplexityRow], checks: Sequence[EditCheckRow]
) -> Iterator[str]:
    """Yield a sentence per editor and problem with its edits."""
    several = (
        len({row.place.setting for row in perplexity} | {row.place.setting for row in checks}) > 1
    )
    last = {
        row.place: row for row in perplexity if row.ratio is not None and row.ratio > BROKEN_RATIO
    }
    for place, row in last.items():
        if row.mean is None:
            after = "no finite number"
        else:
            after = f"{row.mean:,.4g}"
        change = f"perplexity more than doubled, {row.before.mean:,.4g} to {after}"
        yield _sentence(place, several, f"{change}: not marked as best")
    for check in checks:
        if check.took < check.checked:
            yield _sentence(
                check.place,
                several,
                f"{check.checked - check.took} of {check.checked} edits failed",
            )
        if check.turned:
            if 2 * check.turned > check.neighbours:
                mark = ": not marked as best"
            else:
                mark = ""
            counts = f"{check.turned} of {check.neighbours} neighbouring prompts"
            yield _sentence(check.place, several, f"{counts} changed to the new object{mark}")


def _total(columns: Columns, output: str) -> float:
    """Return the sum of an output's values."""
    same_name = [column for (name, _), column in columns.items() if name == output]
    return sum(float(column.values.sum()) for column in same_name)


def fact_check_notes(places: Mapping[ResultGroup, Columns]) -> Iterator[str]:
    """Yield a sentence per editor whose check gave the same verdict on all of its facts.

    Editors with fewer than `FEWEST_CHECKS` checks are left out.
    """
    for place, columns in places.items():
        checks = _total(columns, CHECKS)
        contradictions = _total(columns, CONTRADICTIONS)
        if checks >= FEWEST_CHECKS and contradictions in (0, checks):
            if contradictions:
                verdict = "contradicts"
            else:
                verdict = "does not contradict"
            text = f"its check said '{verdict}' for all {checks:.0f} facts, so it decided nothing"
            yield _sentence(place, len(places) > 1, text)


def _sentence(place: ResultGroup, several: bool, text: str) -> str:
    return f"{place.editor}{f', {place.setting}' if several else ''}: {text}"
