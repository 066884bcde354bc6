"""Results of scorers, a number per output or why it has none, and protocols, the rules by which an answer is right.

By likelihood, ES, PS, CES and NEM, NPM, CEM compare the new target with the old one (is the edit recalled?); NS and
NNM compare the old one with the new one under unrelated prompts (is the rest unchanged?). Defined as in DocTER's
scoring code (H-shw/DocTER-Data-and-Code, eval_base/). Two things are ours: the ratio is taken on log-probabilities
and not on logarithms of products that may have underflowed, and the 1e-8 that the code adds in NNM is left out,
because it makes the ratio unbounded where both probabilities are nearly 1. `original_success` and
`original_magnitude` give the code's own numbers, its exceptions included.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pydantic import ValidationError

from emend.editors.built_item import BuiltItem
from emend.evals.case import Metric
from emend.memory.errors import BadSettings
from emend.memory.probe import Answer, Form, Probe
from emend.memory.registry import nearest

NO_TEXT = "the model was not asked for text"
EMPTY = "the reply is empty, or has no answer in it"
NO_PROBABILITIES = "the model gives no probabilities"
NO_RIVAL = "the probe has no rival answer"
NO_BASELINE = "the unedited model was not asked"


class ProbeScores(NamedTuple):
    """Scores of one answer: `values` holds a number per output, `unscored` a reason per output that has none."""

    values: dict[str, float]
    unscored: dict[str, str]


Scorer = Callable[[Probe, Answer, Answer | None], ProbeScores]
"""(probe, answer, the unedited model's answer to the same probe or None) -> scores."""
NNM_EPS = 1e-8


def success(gold: float, rival: float) -> float:
    """1.0 when `gold` is strictly more probable than `rival` (natural-log probabilities); a tie fails."""
    return float(gold > rival)


def magnitude(gold: float, rival: float) -> float:
    """Margin by which `gold` beats `rival`, as a share of the larger surprise.

    (gold - rival) / -min(gold, rival) on natural-log probabilities, in [-1, 1]: 1 when gold is certain and rival is
    not, 0 on a tie (both certain included), -1 when rival is certain and gold is not.
    """
    if gold == rival:
        return 0.0
    if math.isinf(min(gold, rival)):
        return 1.0 if gold > rival else -1.0
    return (gold - rival) / -min(gold, rival)


def original_success(gold: float, rival: float) -> float:
    """Success as in the released code, compared after exp(): two underflowed probabilities are a tie."""
    return float(math.exp(gold) > math.exp(rival))


def original_magnitude(gold: float, rival: float, eps: float = 0.0) -> float:
    """Magnitude as in the released code, computed from exp() and log() in float64.

    Its three exceptions give 0 and keep the pair in the denominator: either probability underflows to 0 (logarithm of
    zero) or both are 1 (division by zero). `eps` is added to log(gold), which the code does for NNM alone.
    """
    try:
        log_gold, log_rival = math.log(math.exp(gold)) + eps, math.log(math.exp(rival))
        return -(log_gold - log_rival) / min(log_gold, log_rival)
    except (ValueError, ZeroDivisionError):
        return 0.0


def difference(gold: float, rival: float) -> float:
    """p(gold) - p(rival) from natural-log probabilities, in [-1, 1]: CounterFact's EM, PM and NM (Meng et al. 2022).

    The released code compares the geometric means of the tokens' probabilities instead; both agree for targets of one
    token.
    """
    return math.exp(min(gold, 0.0)) - math.exp(min(rival, 0.0))


KEPT = "kept"
PASSES = "passes_"
"""Before a filter's name, the output that says whether an item that reached it passed it."""


def score_construction(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`kept`, and `passes_FILTER` for each filter that the item reached."""
    if answer.text is None:
        return ProbeScores({}, {KEPT: NO_TEXT})
    try:
        built = BuiltItem.model_validate_json(answer.text)
    except ValidationError:
        return ProbeScores({}, {KEPT: "the answer is not the outcome of a construction"})
    values = {f"{PASSES}{name}": float(passed) for name, passed in built.passed.items()}
    return ProbeScores({KEPT: float(built.result is not None)} | values, {})


class Protocol(NamedTuple):
    """A rule: its scorer, the output of that scorer which is the score, and what it says in words."""

    scorer: str
    value: str
    summary: str


PROTOCOLS: dict[str, Protocol] = {
    "likelihood": Protocol(
        "likelihood", "success", "the right answer is more probable than its rival, as in ROME's ES and PS"
    ),
    "teacher_forced": Protocol(
        "teacher_forced", "token_accuracy", "share of the right answer's tokens that are the most probable ones"
    ),
    "exact": Protocol("exact_match", "em", "the answer is the right one or an alias, normalised"),
    "contains": Protocol("contains", "contains", "the answer names the right one or an alias, and no rival"),
    "rouge_l": Protocol("rouge_l", "rouge_l", "longest common subsequence of words with the right text, F1"),
    "similarity": Protocol("similarity", "similarity", "cosine with the right text by a sentence encoder"),
    "judge": Protocol("equivalence", "equivalent", "a judge finds that the answer means the right one"),
}
EXACT, CONTAINS = "exact", "contains"
WRONG_BEFORE = "wrong_before"
"""Scorer that leaves a probe out where the unedited model is right (HalluEditBench, Huang et al. 2024)."""


def _protocol_by_name(names: Mapping[str, str]) -> dict[str, str]:
    return {name: protocol for protocol, listed in names.items() for name in listed.split()}


SCORERS = _protocol_by_name(
    {
        "likelihood": "likelihood likelihood_code difference per_token",
        "teacher_forced": "teacher_forced",
        EXACT: "exact_match strict_match elken_fact",
        CONTAINS: "contains",
        "rouge_l": "rouge_l",
        "similarity": "similarity",
        "judge": "equivalence",
    }
)
"""Protocol of each scorer that says whether an answer is right; the others compare, choose, or measure something else.
"""
OUTPUTS = _protocol_by_name(
    {
        "likelihood": "success success_code success_token magnitude magnitude_code difference difference_token",
        "teacher_forced": "token_accuracy",
        EXACT: "em strict right overall",
        CONTAINS: "contains",
        "rouge_l": "rouge_l",
        "similarity": "similarity",
        "judge": "equivalent",
    }
)
"""Protocol of each output of these scorers."""
OTHERS = _protocol_by_name(
    {
        "likelihood": "effective acc acc_true acc_false",
        EXACT: "choice option option_lenient correct_flip correct_flip_clean pre_edit",
        CONTAINS: "correct_flip_contains pre_edit_contains generated correct",
        "judge": "judged",
    }
)
"""Protocol of the outputs that a benchmark defines by itself, whatever protocols a run names."""
FLIPS = {EXACT: "correct_flip", CONTAINS: "contains_flip"}
"""ReCoE's scorer under each protocol."""
FLIP_OUTPUTS = {"correct_flip": "correct_flip_contains", "pre_edit": "pre_edit_contains"}
"""Outputs of the first of them, with their counterparts of the second."""
PROBABILITIES = {"reasoning", "effectiveness"}
"""Scorers of benchmarks that compare probabilities, as their papers do on plain text."""
SCORES = ("em", "right", "success", "success_token")
"""Outputs that every protocol has a counterpart of: whether an answer is right."""
DEGREES = frozenset(("rouge_l", "similarity"))
"""Protocols that say how near an answer comes to a text, and not whether it is right."""
RIGHT_VALUES = frozenset((*SCORES, *(each.value for name, each in PROTOCOLS.items() if name not in DEGREES)))
"""Outputs that say whether an answer is right, by some protocol."""


def check_protocols(names: Sequence[str]) -> None:
    """Check names of protocols.

    Raises:
        BadSettings: one is unknown.
    """
    for name in names:
        if name not in PROTOCOLS:
            raise BadSettings(f"unknown protocol '{name}': {nearest(name, list(PROTOCOLS))}")


def under_protocols(probe: Probe, names: Sequence[str]) -> Probe:
    """The probe, scored by these protocols; without names by the benchmark's own, and by `contains` beside `exact`.

    Of a protocol that the benchmark has scorers for, those are taken. A probe that asks for no right answer (a choice
    of options, a comparison with the unedited model) stays as it is.
    """
    published = [SCORERS[scorer] for scorer in probe.scorers if scorer in SCORERS]
    if not published:
        flips = [FLIPS[name] for name in names or FLIPS if name in FLIPS] or [FLIPS[EXACT]]
        scorers = [each for scorer in probe.scorers for each in (flips if scorer == FLIPS[EXACT] else [scorer])]
        return probe.model_copy(update={"scorers": tuple(scorers)})
    chosen = list(names) or _with_contains(published)
    scorers = [scorer for scorer in probe.scorers if SCORERS.get(scorer) in (None, *chosen)]
    scorers += [PROTOCOLS[name].scorer for name in chosen if name not in published]
    return probe.model_copy(update={"scorers": tuple(dict.fromkeys(scorers))})


def form_for(probe: Probe, form: str | None, edits_weights: bool) -> Form:
    """The form in which a probe is asked.

    Args:
        probe: the probe, with the scorers that it has in the run.
        form: the run's; None for the default, plain text for what is to be continued, and for everything where weights
            are edited, since such edits are trained and published on plain text.
        edits_weights: whether one of the run's editors changes weights.
    """
    if form is not None:
        return "plain" if form == "plain" else "chat"
    protocols = {SCORERS[scorer] for scorer in probe.scorers if scorer in SCORERS}
    compared = bool(protocols) and protocols <= {"likelihood", "teacher_forced"}
    by_probability = compared or bool(PROBABILITIES & {*probe.scorers})
    return "plain" if edits_weights or probe.style == "cloze" or by_probability else "chat"


def metrics_under(metrics: Sequence[Metric], names: Sequence[str]) -> list[Metric]:
    """The metrics of a run under these protocols, each labelled with its own.

    Args:
        metrics: of the benchmark, in its order. Those of the first group, the paper's table, have a counterpart under
            each protocol, in the same group; it has the name of the metric and of the protocol.
        names: the protocols; none for the benchmark's own, and `contains` beside `exact`.
    """
    labelled = [metric.model_copy(update={"protocol": protocol_of(metric.value)}) for metric in metrics]
    columns: list[Metric] = []
    for metric in labelled:
        if metric.value in SCORES and metric.group == labelled[0].group:
            chosen = names or _with_contains([metric.protocol])
            columns += [_counterpart(metric, name, labelled) for name in chosen]
        elif metric.value in FLIP_OUTPUTS:
            columns += _flip_metrics(metric, names)
        elif metric.value not in OUTPUTS or not names or metric.protocol in names:
            columns.append(metric)
    by_name: dict[str, Metric] = {}
    for metric in columns:
        by_name.setdefault(metric.name, metric)
    return list(by_name.values())


def plain_name(metric: Metric) -> str:
    """The name of a metric without that of its protocol, which a counterpart ends with."""
    return metric.name.removesuffix(f" {metric.protocol}") if metric.protocol else metric.name


def protocol_of(output: str) -> str:
    """The protocol of an output; empty if it depends on none."""
    return OUTPUTS.get(output) or OTHERS.get(output, "")


def _with_contains(protocols: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*protocols, *([CONTAINS] if EXACT in protocols else [])]))


def _flip_metrics(metric: Metric, names: Sequence[str]) -> list[Metric]:
    """A metric of ReCoE's flips under the protocols that it is defined for; the paper's own where none of them is."""
    named = {"name": f"{metric.name} {CONTAINS}", "summary": f"{metric.summary}: {PROTOCOLS[CONTAINS].summary}"}
    contains = metric.model_copy(update={**named, "value": FLIP_OUTPUTS[metric.value], "protocol": CONTAINS})
    chosen = {EXACT: metric, CONTAINS: contains}
    return [chosen[name] for name in names or chosen if name in chosen] or [metric]


def _counterpart(metric: Metric, name: str, metrics: Sequence[Metric]) -> Metric:
    """The metric under a protocol: itself, the one that the benchmark has for it, or one of its own."""
    if metric.protocol == name:
        return metric
    for other in metrics:
        if other.value in SCORES and (other.protocol, other.kinds, other.per) == (name, metric.kinds, metric.per):
            return other.model_copy(update={"group": metric.group})
    _, value, summary = PROTOCOLS[name]
    named = {"name": f"{metric.name} {name}", "summary": f"{metric.summary}: {summary}"}
    return metric.model_copy(update={**named, "value": value, "protocol": name})
