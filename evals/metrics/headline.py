"""Headline metrics: the protocol that fits a metric's probes, used if a metric is named without a
protocol.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from emend.evals.case import Metric
from emend.evals.metrics.protocols import (
    CONTAINS,
    EQUIVALENCE,
    EXACT,
    FLIP_OUTPUTS,
    has_text_gold,
    label_of,
    plain_name,
    says_right,
)
from emend.memory.probe import Probe

CHAT = "chat"
# ReCoE's outputs with counterparts under other protocols.
FLIPS = {*FLIP_OUTPUTS, *FLIP_OUTPUTS.values()}


class ProbeKinds(NamedTuple):
    """Kinds of probes that were asked as messages, and kinds whose correct answers are mostly
    texts.
    """

    chat: Collection[str] = ()
    texts: Collection[str] = ()


class Headlines(NamedTuple):
    """The metric for each name, with and without a protocol; the headlines; and the metrics hidden
    in default tables.
    """

    metrics: Mapping[str, str]
    main: Collection[str]
    hidden: Collection[str]

    def resolve(self, name: str) -> str:
        """Return the metric of a name: `efficacy` is the headline, `efficacy exact` that of a
        protocol.
        """
        return self.metrics.get(name, name)


def headlines_of(
    metrics: Sequence[Metric], kinds: ProbeKinds, protocols: Collection[str] = ()
) -> Headlines:
    """Return the headlines of a run's metrics.

    If answers are compared with the correct one (`exact`), and the model was asked as messages or
    no paper reports the metric, the headline uses `equivalence` for correct answers that are texts,
    and else `contains`. Likelihood metrics, and metrics on plain text that a paper reports, keep
    the benchmark's own protocol.

    Args:
        metrics: the run's metrics, each with its protocol.
        kinds: the kinds of the run's probes.
        protocols: protocols requested by the run, which are never hidden.
    """
    labels = {label_of(name) for name in protocols}
    names, main, hidden = dict[str, str](), set[str](), set[str]()
    for counterparts in _counterparts(metrics):
        plain, headline = plain_name(counterparts[0]), headline_of(counterparts, kinds)
        names = {f"{plain} {metric.protocol}": metric.name for metric in counterparts} | names
        names.setdefault(plain, headline.name)
        main.add(headline.name)
        others = [
            metric
            for metric in counterparts
            if metric != headline and metric.protocol not in labels
        ]
        hidden.update(metric.name for metric in others if not _stands_beside(metric, headline))
    return Headlines(names, main, hidden)


def headline_of(counterparts: Sequence[Metric], kinds: ProbeKinds) -> Metric:
    """Return the counterpart whose protocol fits the probes; the benchmark's own is first in the
    list.
    """
    first, by_protocol = counterparts[0], {metric.protocol: metric for metric in counterparts}
    if first.protocol not in (EXACT, CONTAINS):
        return first
    if EQUIVALENCE in by_protocol and {*first.kinds} & {*kinds.texts}:
        return by_protocol[EQUIVALENCE]
    is_open = not first.published or bool({*first.kinds} & {*kinds.chat})
    if is_open:
        return by_protocol.get(CONTAINS, first)
    return first


def _stands_beside(metric: Metric, headline: Metric) -> bool:
    """Return whether a default table has a metric next to its headline, because a paper reports it
    or as a check.
    """
    if metric.protocol == EXACT:
        return metric.published
    return headline.protocol == EXACT and metric.protocol == CONTAINS


def _counterparts(metrics: Sequence[Metric]) -> Iterable[list[Metric]]:
    """Yield groups of metrics with the same plain name that score correctness with different
    protocols.
    """
    groups: dict[tuple[str, str], list[Metric]] = {}
    for metric in metrics:
        if metric.protocol and (metric.value in FLIPS or says_right(metric)):
            groups.setdefault((metric.group, plain_name(metric)), []).append(metric)
    return groups.values()


def text_kinds(probes: Iterable[Probe]) -> tuple[str, ...]:
    """Return the kinds of probes whose correct answers are mostly texts with more words than a
    name.
    """
    counts: dict[str, list[int]] = {}
    for probe in probes:
        if probe.gold:
            counts.setdefault(probe.kind, []).append(has_text_gold(probe))
    return tuple(sorted(kind for kind, texts in counts.items() if 2 * sum(texts) > len(texts)))
