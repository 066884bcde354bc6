"""Side effects of weight edits: perplexity of held-out texts before and after."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from emend.evals.config.run_config import Checkpoints
from emend.evals.log.lines import COSTS, PERPLEXITY, PERPLEXITY_BEFORE
from emend.evals.log.records import read_lines
from emend.evals.metrics.estimate import Estimate, estimate
from emend.evals.results.aggregate.columns import MetricRow, ResultGroup, order_by

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
    return [_row(place, standing, rows[place, standing], before) for place, standing in chosen]


def _at_checkpoints(
    keys: Sequence[tuple[ResultGroup, int]], checkpoints: Checkpoints
) -> Iterator[tuple[ResultGroup, int]]:
    for place, measured in groupby(sorted(keys), key=lambda key: key[0]):
        standings = [standing for _, standing in measured]
        for before, now in zip([0, *standings], standings, strict=False):
            if now == standings[-1] or checkpoints.passed(before, now):
                yield place, now


def _row(place: ResultGroup, standing: int, lines: Lines, before: Estimate) -> PerplexityRow:
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
