"""Protocols: rules for when an answer is correct, and their application to a run's probes and
metrics.
"""

import tomllib
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.case import Metric
from emend.evals.metrics.scoring.base import Output
from emend.evals.metrics.scoring.registry import (
    SCORERS,
    check_scorers,
    is_own,
    own_outputs,
    own_scorers,
    scorer_of,
)
from emend.evals.metrics.scoring.text import is_band
from emend.memory.errors import BadSettings
from emend.memory.probe import NAME_WORDS, Form, Probe
from emend.memory.registry import nearest, summary_of


class Protocol(NamedTuple):
    """A protocol: its scorer, the scorer's output that is the score, and a description."""

    scorer: str
    value: str
    summary: str


_ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
PROTOCOLS: dict[str, Protocol] = {name: Protocol(*row) for name, row in _ROWS.items()}
EXACT, CONTAINS, EQUIVALENCE, LIKELIHOOD = "exact", "contains", "equivalence", "likelihood"


@cache
def output_protocols() -> dict[str, str]:
    """Return the protocol of each replaceable output of the built-in scorers."""
    scorers = own_scorers().values()
    return {
        output.name: scorer.protocol
        for scorer in scorers
        if scorer.protocol
        for output in scorer.outputs
    }


@cache
def right_outputs(protocols: tuple[str, ...] = ()) -> frozenset[str]:
    """Return the built-in outputs that say whether an answer is correct, under any or these
    protocols.
    """
    names: set[str] = set()
    for scorer in own_scorers().values():
        if scorer.verdict is not None and scorer.protocol in (protocols or PROTOCOLS):
            names.add(scorer.verdict.name)
    return frozenset(names)


def says_right(metric: Metric) -> bool:
    """Return whether a metric measures correctness, by a built-in protocol or a plug-in's."""
    return metric.is_right or metric.value in right_outputs()


def is_best_unedited(metric: Metric) -> bool:
    """Return whether a metric compares with the unedited model, which by definition has the best
    value.
    """
    output = own_outputs().get(metric.value)
    return metric.agrees_with_unedited or (output is not None and output.agrees_with_unedited)


def protocol_summary(metric: Metric) -> str:
    """Return the description of a counterpart's protocol; for a plug-in, the text after the
    colon.
    """
    if metric.protocol in PROTOCOLS:
        return PROTOCOLS[metric.protocol].summary
    return metric.summary.rpartition(": ")[2]


def is_foreign(protocol: str) -> bool:
    """Return whether a protocol is a plug-in's scorer."""
    return bool(protocol) and protocol.partition(":")[0] not in PROTOCOLS


def label_of(protocol: str) -> str:
    """Return the name of a protocol in tables: `my_scorer:ManyWords` is `manywords` there.

    >>> label_of("equivalence:0.1"), label_of("my_scorer:Words")
    ('equivalence', 'words')
    """
    base, _, attribute = protocol.partition(":")
    if attribute and base not in PROTOCOLS:
        return attribute.rpartition(".")[2].lower()
    return base


def protocol_of_scorer(name: str) -> str:
    """Return the protocol by which a scorer measures correctness; "" if it measures something
    else.
    """
    scorer = scorer_of(name)
    if is_own(name):
        return scorer.protocol
    if scorer.verdict is not None:
        return name
    return ""


def protocol_named(name: str) -> Protocol:
    """Return a built-in protocol, or that of a plug-in's scorer, which uses its verdict or else its
    first output.
    """
    base = name.partition(":")[0]
    if base in PROTOCOLS:
        return PROTOCOLS[base]
    output = _output_of(name)
    return Protocol(name, output.name, output.summary or first_sentence(scorer_of(name)))


def _output_of(name: str) -> Output:
    scorer = scorer_of(name)
    return scorer.verdict or scorer.outputs[0]


def first_sentence(component: object) -> str:
    """Return the summary of an object's docstring, without its full stop."""
    return summary_of(component).rstrip(".")


# ReCoE's scorer under each protocol.
FLIPS = {EXACT: "correct_flip", CONTAINS: "contains_flip"}
# Outputs of the first scorer, with their counterparts of the second.
FLIP_OUTPUTS = {"correct_flip": "correct_flip_contains", "pre_edit": "pre_edit_contains"}
# Protocols that benchmarks report: their correctness metrics have a counterpart under each
# protocol.
PAPERS = (EXACT, LIKELIHOOD)


def check_protocols(names: Sequence[str]) -> None:
    """Check protocol names, and load the scorers of plug-ins.

    `equivalence` may have a band, as in `equivalence:0.1`.

    Raises:
        BadSettings: a protocol is unknown, has an unsupported band, or is not a scorer.
    """
    labels: dict[str, str] = {}
    for name in names:
        base, _, band = name.partition(":")
        if base in PROTOCOLS and band and (base != EQUIVALENCE or not is_band(band)):
            raise BadSettings(
                f"protocol '{name}': only {EQUIVALENCE} has a band, such as "
                f"{EQUIVALENCE}:0.1, below 0.5"
            )
        if ":" not in name and name not in (*PROTOCOLS, *SCORERS.plugins):
            known = [*PROTOCOLS, *SCORERS.plugins]
            raise BadSettings(f"unknown protocol '{name}': {nearest(base, known)}")
        label = label_of(name)
        if labels.setdefault(label, name) != name or (is_foreign(name) and label in PROTOCOLS):
            raise BadSettings(
                f"protocol '{name}': another protocol is also called '{label}': rename the scorer."
            )
    check_scorers(name for name in names if is_foreign(name))


def under_protocols(probe: Probe, names: Sequence[str]) -> Probe:
    """Return the probe scored under these protocols; without names under the benchmark's own, plus
    `contains` if that is `exact`.

    If the benchmark has scorers for a protocol, these are used. A probe without a correct text
    answer (a choice of options, a comparison with the unedited model) is unchanged.
    """
    protocols = {scorer: protocol_of_scorer(scorer) for scorer in probe.scorers}
    published = [protocol for protocol in protocols.values() if protocol]
    if not published:
        flips = [FLIPS[name] for name in names or FLIPS if name in FLIPS] or [FLIPS[EXACT]]
        scorers = list[str]()
        for scorer in probe.scorers:
            scorers += flips if scorer == FLIPS[EXACT] else [scorer]
        return probe.model_copy(update={"scorers": tuple(scorers)})
    chosen = list(names) or _with_contains(published, has_text_gold(probe))
    scorers = [scorer for scorer, protocol in protocols.items() if protocol in ("", *chosen)]
    scorers += [_scorer_of(name) for name in chosen if name not in published]
    return probe.model_copy(update={"scorers": tuple(dict.fromkeys(scorers))})


def _scorer_of(protocol: str) -> str:
    """Return the scorer of a protocol, with its band if it has one."""
    base, colon, band = protocol.partition(":")
    if base in PROTOCOLS:
        return f"{PROTOCOLS[base].scorer}{colon}{band}"
    return protocol


def form_for(probe: Probe, form: str | None, edits_weights: bool) -> Form:
    """Return the form in which a probe is asked.

    Args:
        probe: the probe, with its scorers in the run.
        form: the run's form. None is the default: plain text for prompts to be continued, and for
            all probes if weights are edited, since such edits are trained and published on plain
            text.
        edits_weights: whether one of the run's editors changes weights.
    """
    if form is not None:
        if form == "plain":
            return "plain"
        return "chat"
    is_plain = edits_weights or probe.style == "cloze" or _is_by_probability(probe)
    if is_plain:
        return "plain"
    return "chat"


def _is_by_probability(probe: Probe) -> bool:
    """Return whether correctness depends only on probabilities, or on a benchmark's own scorer that
    compares them.
    """
    verdicts, others = list[bool](), list[bool]()
    for name in probe.scorers:
        group = verdicts if protocol_of_scorer(name) else others
        group.append(scorer_of(name).prefers_log_probs)
    return (bool(verdicts) and all(verdicts)) or any(others)


def has_text_gold(probe: Probe) -> bool:
    """Return whether a probe's correct answer is a text, not a name or value."""
    return bool(probe.gold) and all(len(gold.split()) > NAME_WORDS for gold in probe.gold)


def metrics_under(
    metrics: Sequence[Metric], names: Sequence[str], text_kinds: Collection[str] = ()
) -> list[Metric]:
    """Return the metrics of a run under these protocols, each labelled with its protocol.

    Args:
        metrics: the benchmark's metrics, in order. Metrics of the first group, the paper's table,
            have a counterpart under each protocol in the same group, named after metric and
            protocol.
        names: the protocols; if empty the benchmark's own, plus `contains` if that is `exact`.
        text_kinds: kinds of probes whose correct answers are texts, which are also scored by
            `equivalence` if there are no names.
    """
    labels = [label_of(name) for name in names]
    labelled = [_labelled(metric) for metric in metrics]
    columns: list[Metric] = []
    for metric in labelled:
        if _is_published(metric) and metric.group == labelled[0].group:
            is_text = bool({*metric.kinds} & {*text_kinds})
            chosen = list(names) or _with_contains([metric.protocol], is_text)
            columns += [_counterpart(metric, name, labelled) for name in chosen]
        elif metric.value in FLIP_OUTPUTS:
            columns += _flip_metrics(metric, labels)
        elif metric.value not in output_protocols() or not names or metric.protocol in labels:
            columns.append(metric)
    by_name: dict[str, Metric] = {}
    for metric in columns:
        by_name.setdefault(metric.name, metric)
    return list(by_name.values())


def _labelled(metric: Metric) -> Metric:
    """Return the metric with its protocol, and whether the unedited model is the best by
    definition.
    """
    return metric.model_copy(update={"protocol": metric.protocol or protocol_of(metric.value)})


def _is_published(metric: Metric) -> bool:
    """Return whether a metric measures correctness as its benchmark does, and not with an
    additional rule.
    """
    return metric.is_right or metric.value in right_outputs(PAPERS)


def plain_name(metric: Metric) -> str:
    """Return the name of a metric without the protocol at its end."""
    if metric.protocol:
        return metric.name.removesuffix(f" {metric.protocol}")
    return metric.name


def protocol_of(output: str) -> str:
    """Return the protocol of an output; "" if it depends on none."""
    entry = own_outputs().get(output)
    return output_protocols().get(output) or (entry.protocol if entry else "")


def _with_contains(protocols: Sequence[str], texts: bool = False) -> list[str]:
    """Return the protocols, adding to `exact` those for free answers: `contains`, and for texts
    `equivalence`.
    """
    if EXACT not in protocols:
        return list(dict.fromkeys(protocols))
    beside = [CONTAINS, EQUIVALENCE] if texts else [CONTAINS]
    return list(dict.fromkeys([*protocols, *beside]))


def _flip_metrics(metric: Metric, names: Sequence[str]) -> list[Metric]:
    """Return a metric of ReCoE's flips under the protocols for which it is defined, or else the
    paper's own.
    """
    named = {
        "name": f"{metric.name} {CONTAINS}",
        "summary": f"{metric.summary}: {PROTOCOLS[CONTAINS].summary}",
    }
    contains = metric.model_copy(
        update={**named, "value": FLIP_OUTPUTS[metric.value], "protocol": CONTAINS}
    )
    chosen = {EXACT: metric, CONTAINS: contains}
    return [chosen[name] for name in names or chosen if name in chosen] or [metric]


def _counterpart(metric: Metric, name: str, metrics: Sequence[Metric]) -> Metric:
    """Return the metric under a protocol: the metric itself, the benchmark's counterpart, or a new
    one.
    """
    label = label_of(name)
    if metric.protocol == label:
        return metric
    for other in metrics:
        is_same = (other.protocol, other.kinds, other.per) == (label, metric.kinds, metric.per)
        if is_same and _is_published(other):
            return other.model_copy(update={"group": metric.group})
    _, value, summary = protocol_named(name)
    changed = {
        "name": f"{metric.name} {label}",
        "summary": f"{metric.summary}: {summary}",
        "value": value,
        "protocol": label,
        "is_right": False,
    }
    if is_foreign(name):
        changed |= described(_output_of(name))
    return metric.model_copy(update=changed)


def described(output: Output) -> dict[str, Any]:
    """Return the fields of a metric that depend on its output."""
    return {
        "higher_is_better": output.higher_is_better,
        "share": output.share,
        "scale": 100.0 if output.share else 1.0,
        "is_right": output.is_right,
        "agrees_with_unedited": output.agrees_with_unedited,
    }
