"""Registry of scorers: built-in ones, those of installed packages, and `module:attribute`."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, get_args

from emend.evals.metrics.scoring.base import Need, Output, Scorer
from emend.memory.errors import BadSettings
from emend.memory.registry import Registry, nearest

_MODULE = "emend.evals.metrics.scoring"
_CLASSES = {
    "text": (
        ("exact_match", "ExactMatch", "the normalised answer equals a gold answer"),
        (
            "value_match",
            "ValueMatch",
            "the answer has the value (number, date or name) of a gold answer",
        ),
        ("strict_match", "StrictMatch", "the answer equals a gold answer character by character"),
        ("contains", "Contains", "the answer asserts a gold answer, and no rival"),
        ("rouge_l", "RougeL", "F1 of the longest common subsequence of words with a gold answer"),
        ("rouge_recall", "RougeRecall", "ROUGE-L recall of a gold answer, as in UnKEBench"),
        ("similarity", "Similarity", "cosine similarity to a gold answer by a sentence encoder"),
        ("choice", "Choice", "the only choice that the answer names is the gold answer"),
        ("abstention", "Abstention", "the answer says that the information is not available"),
        (
            "equivalence",
            "EquivalentAnswer",
            "the answer is equivalent to a gold answer, by a trained scorer",
        ),
        (
            "judged_equivalence",
            "JudgedEquivalence",
            "the answer is equivalent to a gold answer, by a judge",
        ),
        ("fluency", "Fluency", "CounterFact's entropy of n-grams"),
        ("judged", "Judged", "a judge's verdict"),
        (
            "judged_same",
            "JudgedSame",
            "a judge's verdict on the answer compared with the unedited model's",
        ),
        ("generation", "Generation", "the reply names the gold answer and not its rival"),
    ),
    "likelihood": (
        ("likelihood", "LikelierGold", "the gold answer is more probable than its rival"),
        ("likelihood_code", "LikelihoodCode", "like likelihood, as computed by DocTER's code"),
        ("difference", "Difference", "difference of the probabilities of gold answer and rival"),
        ("per_token", "PerToken", "like difference, with mean probabilities per token"),
        (
            "teacher_forced",
            "TeacherForced",
            "share of the gold answer's tokens that are the most probable ones",
        ),
        ("reasoning", "Reasoning", "the more probable of true and false is the gold answer"),
    ),
    "tokens": (
        ("same_tokens", "SameTokens", "share of tokens equal to those of the unedited model"),
        ("token_f1", "TokenF1", "macro-F1 of the most probable tokens against the gold answer's"),
        (
            "likely_target",
            "LikelyTarget",
            "share of the gold answer's tokens among the k most probable ones",
        ),
        (
            "likely_same",
            "LikelySame",
            "share of the unedited model's tokens among the k most probable ones",
        ),
    ),
    "baseline": (
        ("wrong_before", "WrongBefore", "whether the unedited model answers correctly"),
        ("agreement", "SameAsUnedited", "the answer equals that of the unedited model"),
        ("correct_flip", "CorrectFlip", "ReCoE's flips from the old to the new answer"),
        ("contains_flip", "ContainsFlip", "like correct_flip, for answers in sentences"),
        ("effectiveness", "Effectiveness", "ReCoE's effectiveness by perplexities of facts"),
    ),
    "papers": (
        ("elken_fact", "ElkenFact", "accuracy on ELKEN's fact questions"),
        ("elken_fact_same", "ElkenFactSame", "agreement on fact questions out of scope"),
        ("elken_option", "ElkenOption", "accuracy on ELKEN's tendency questions"),
        ("elken_option_same", "ElkenOptionSame", "agreement on tendency questions out of scope"),
        (
            "partial_match",
            "PartialMatch",
            "the answer contains a gold answer or is contained in one",
        ),
        ("partial_same", "PartialSame", "like partial_match, against the unedited model's answer"),
    ),
    "conversations": (
        (
            "conversation",
            "ConversationAnswer",
            "the answer asserts a gold answer, and no wrong one",
        ),
        ("locomo_f1", "LoCoMoF1", "LoCoMo's F1, with its rule for adversarial questions"),
        ("event_order", "EventOrder", "BEAM's score of a list of events: tau-b times F1"),
    ),
}


def _paths() -> dict[str, tuple[str, ...]]:
    paths: dict[str, tuple[str, ...]] = {}
    for module, classes in _CLASSES.items():
        for name, attribute, summary in classes:
            paths[name] = (f"{_MODULE}.{module}:{attribute}", summary)
    return paths


class ScorerRegistry(Registry[Any]):
    """The registry of scorers, with each scorer's needs in its rows."""

    def rows(self) -> Iterator[dict[str, str]]:
        """Name, needs and summary of each scorer; a plug-in that cannot be loaded has no needs."""
        for row in super().rows():
            try:
                needs = ", ".join(scorer_of(row["name"]).needs)
            except BadSettings:
                needs = ""
            yield {"name": row["name"], "needs": needs, "summary": row["summary"]}


SCORERS = ScorerRegistry(
    kind="scorer",
    group="emend.scorers",
    interfaces=(("score", "outputs", "needs"),),
    builtin=_paths(),
)
# The scorer whose name may have a band, as in `equivalence:0.1`.
BANDED = "equivalence"


@cache
def _own_scorer(name: str) -> Scorer:
    base, colon, band = name.partition(":")
    scorer: Scorer = SCORERS.load(base)(*(band,) if colon else ())
    return scorer


@cache
def _made(component: Any) -> Any:
    if isinstance(component, type):
        return component()
    return component


def is_own(name: str) -> bool:
    """Return whether a name, possibly with a band, is a built-in scorer."""
    base, colon, _ = name.partition(":")
    return name in SCORERS.builtin or (bool(colon) and base == BANDED)


def scorer_of(name: str) -> Scorer:
    """Return the scorer of that name; `equivalence:0.1` leaves answers within 0.1 of its threshold
    unscored.

    Raises:
        BadSettings: the name is unknown or not trusted, or the object is not a scorer.
    """
    if is_own(name):
        return _own_scorer(name)
    component = SCORERS.load(name)
    with SCORERS.plugin_errors(name):
        scorer = _made(component)
    if not isinstance(scorer, Scorer):
        raise BadSettings(
            f"scorer '{name}' is not an emend.extend.Scorer: derive a class from it that has "
            "`outputs` and `score(probe, answer, before)`; see docs/how-to/extend.md."
        )
    return scorer


@cache
def own_scorers() -> dict[str, Scorer]:
    """Return the built-in scorers by name."""
    return {name: _own_scorer(name) for name in SCORERS.builtin}


@cache
def own_outputs() -> dict[str, Output]:
    """Return the outputs of the built-in scorers by name; the first for a shared name."""
    outputs: dict[str, Output] = {}
    for scorer in own_scorers().values():
        for output in scorer.outputs:
            outputs.setdefault(output.name, output)
    return outputs


def check_scorers(names: Iterable[str]) -> None:
    """Load the scorers of these names, and check that plug-ins declare their outputs.

    Raises:
        BadSettings: a scorer is unknown, not a scorer, has no outputs, or reuses another's output
            name.
    """
    owners: dict[str, str] = {}
    for name in dict.fromkeys(names):
        scorer = scorer_of(name)
        if not is_own(name):
            _check_outputs(name, scorer, owners)


def _check_outputs(name: str, scorer: Scorer, owners: dict[str, str]) -> None:
    outputs = getattr(scorer, "outputs", ())
    if not outputs or not all(isinstance(output, Output) for output in outputs):
        raise BadSettings(f"scorer '{name}' has no outputs: give a tuple of emend.extend.Output.")
    unknown = [need for need in scorer.needs if need not in get_args(Need)]
    if unknown:
        raise BadSettings(
            f"scorer '{name}' needs {unknown[0]!r}: {nearest(str(unknown[0]), [*get_args(Need)])}"
        )
    for output in outputs:
        owner = owners.setdefault(output.name, name)
        if output.name in own_outputs() or owner != name:
            if output.name in own_outputs():
                other = "a built-in scorer"
            else:
                other = f"'{owner}'"
            raise BadSettings(
                f"scorer '{name}' has the output '{output.name}', which {other} also has: rename "
                "it."
            )
