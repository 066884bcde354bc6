"""ReCoE's scoring: exact match with aliases, the option that an answer names, correct_flip, perplexities of facts.

The paper says "exact match" and publishes no code; so the normalisation is ours: `text.normalise`, numbers in words
or digits alike, and one way to write a list. Section 3.1 of arXiv 2401.17585. Our choices about perplexity are in
`effectiveness`.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from functools import cache, lru_cache

from emend.agents.parsing.passages import sentences
from emend.evals.metrics.scores import NO_BASELINE, NO_TEXT, ProbeScores
from emend.evals.metrics.text import asserts, normalise
from emend.memory.probe import Answer, Probe
from emend.memory.retrieval.tokens import whole
from emend.memory.typography import fold_typography

_LISTED = "\N{HORIZONTAL ELLIPSIS}"
"""In place of a list that was said again."""
_PAIR = re.compile(r" and | or ")
_NAME = re.compile(r"(?<=\s)[A-Z][\w'-]*")
_GLUE = re.compile(r"\s*(?:,|,? and |,? or |&)\s*$")
_AND = re.compile(r",?\s*(?:and|or|&)\s+$")
_BULLETS = "-*\u2022 0123456789.)"


def names_option(passage: str, golds: Sequence[str], rivals: Iterable[str], question: str) -> bool:
    """Return whether a passage names a gold answer as its answer by the rule of `contains`.

    A list of options said again ("Which of Anguilla, Kosovo and Sudan has ...") is no answer. Where the question names
    the gold answer, among others, it is the first of its names that comes then, and not one of several, and the passage
    does not go through the options one by one.
    """
    rivals = list(rivals)
    rest = _without_list(passage, question, [*golds, *rivals])
    if not asserts(rest, golds, rivals, question):
        return False
    if not any(whole(gold).search(question) for gold in golds):
        return True
    start, end = min((hit.span() for gold in golds for hit in whole(gold).finditer(rest)), default=(0, 0))
    words = {word for gold in golds for word in gold.split()}
    others = {name for name in _NAME.findall(question) if name not in words}
    places = [hit.start() for name in others for hit in whole(name).finditer(rest)]
    places += [hit.start() for hit in re.finditer(_LISTED, rest) if _AND.match(rest[hit.end() : start])]
    if any(place < start or _GLUE.match(rest[end:place]) for place in places):
        return False
    starts = {name for line in sentences(rest) for name in (*others, *golds) if line.lstrip(_BULLETS).startswith(name)}
    return len(starts) < 2


def _without_list(passage: str, question: str, names: Sequence[str]) -> str:
    """The passage with a mark in place of the list of options that it takes over from the question.

    A list has commas where the question has some, since names have an "and" too (Bosnia and Herzegovina).
    """
    reply, listed = (re.sub(r", (and|or) ", r" \1 ", fold_typography(text)) for text in (passage, question))
    match = SequenceMatcher(None, reply, listed, autojunk=False).find_longest_match()
    shared = reply[match.a : match.a + match.size]
    between = shared
    for name in names:
        between = between.replace(name, "")
    is_list = "," in between if "," in listed else bool(_PAIR.search(between))
    return reply.replace(shared, f" {_LISTED} ") if is_list else reply


OUTPUTS = ("pre_edit", "correct_flip")
CONTAINS_OUTPUTS = ("pre_edit_contains", "correct_flip_contains")
"""The same by the rule of `contains`."""
CLEAN = "correct_flip_clean"
"""`correct_flip` over the records that no other record contradicts."""
EFFECTIVE = "effective"
ALIASES_TAG = "original_aliases"
"""The probe's tag that holds the original answer's aliases, one per line (the answer itself is the probe's rival)."""

_NUMBER = re.compile(r"(?P<sign>minus |negative |[-\u2212] ?)?(?P<size>.+)")
_DIGITS = re.compile(r"\d+|\d{1,3}(?:,\d{3})+")
_BETWEEN = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+")
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def number(text: str) -> int | None:
    """Parse a whole number in digits, or in English words below a thousand; None for other text.

    >>> number("minus twenty-one"), number("1,204"), number("two moons")
    (-21, 1204, None)
    """
    match = _NUMBER.fullmatch(text.strip().casefold())
    if match is None:
        return None
    size = match["size"].strip()
    digits = _DIGITS.fullmatch(size)
    value = int(size.replace(",", "")) if digits else _spelled().get(" ".join(size.replace("-", " ").split()))
    return -value if match["sign"] and value is not None else value


@lru_cache(maxsize=65536)
def canonical(text: str) -> str:
    """Canonical form for comparison: a number as digits with its sign, a list as its items, else normalised text.

    >>> canonical("Negative three."), canonical("The Alps; Ural, and Jura"), canonical("Yes.")
    ('-3', 'alps, ural, jura', 'yes')
    """
    line = normalise(text)
    if (value := number(line)) is not None:
        return str(value)
    return ", ".join(item for part in _BETWEEN.split(line) if (item := normalise(part)))


def matches(reply: str, answers: Iterable[str]) -> bool:
    """Return True if the reply is one of the answers; an empty reply is not."""
    form = canonical(reply)
    return bool(form) and any(form == canonical(answer) for answer in answers)


def shared_forms(answers: Iterable[str], others: Iterable[str]) -> set[str]:
    """Canonical forms of both answers, such as "3" for -3 and for 3, between which a reply cannot distinguish."""
    return {canonical(answer) for answer in answers} & {canonical(answer) for answer in others}


def originals(probe: Probe) -> tuple[str, ...]:
    """The original answer and its aliases."""
    aliases = str(probe.tags.get(ALIASES_TAG, "")).splitlines()
    return (probe.rival, *aliases) if probe.rival is not None else tuple(aliases)


def correct_flip(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`pre_edit`: the unedited model gave the original answer; `correct_flip`: the edited one gives the new answer.

    As in the paper, `correct_flip` is taken over the probes that the unedited model answered correctly; others are
    unscored with the reason. So is a probe with a form that stands for both answers, as it cannot show a flip. A probe
    without the tag `contested` has the same value again as `correct_flip_clean`.
    """
    values, unscored = _flip(probe, answer, before, OUTPUTS, lambda reply, golds, _: matches(reply.text or "", golds))
    if not probe.tags.get("contested"):
        values |= {CLEAN: values["correct_flip"]} if "correct_flip" in values else {}
        unscored |= {CLEAN: unscored["correct_flip"]} if "correct_flip" in unscored else {}
    return ProbeScores(values, unscored)


def contains_flip(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`pre_edit_contains` and `correct_flip_contains`: the same of answers in sentences, by the rule of `contains`.

    Chat models answer in sentences, of which the paper's exact match finds none right.
    """

    def gives(reply: Answer, golds: Sequence[str], rivals: Sequence[str]) -> bool:
        passage = (reply.text or "") if reply.passage is None else reply.passage
        return matches(reply.text or "", golds) or names_option(
            passage, _written(golds), _written(rivals), probe.prompt
        )

    return ProbeScores(*_flip(probe, answer, before, CONTAINS_OUTPUTS, gives))


def _flip(
    probe: Probe,
    answer: Answer,
    before: Answer | None,
    outputs: tuple[str, str],
    gives: Callable[[Answer, Sequence[str], Sequence[str]], bool],
) -> tuple[dict[str, float], dict[str, str]]:
    """Both outputs, where `gives` says whether an answer gives one of some answers and none of its rivals."""
    known, flip = outputs
    if before is None or before.text is None:
        reason = NO_BASELINE if before is None else f"{NO_BASELINE} for text"
        return {}, dict.fromkeys(outputs, reason)
    right = gives(before, originals(probe), probe.gold)
    values = {known: float(right)}
    if not right:
        return values, {flip: "the unedited model did not give the original answer"}
    if answer.text is None:
        return values, {flip: NO_TEXT}
    if shared := shared_forms(probe.gold, originals(probe)):
        return values, {flip: f"'{min(shared)}' stands for both the original and the new answer"}
    return values | {flip: float(gives(answer, probe.gold, originals(probe)))}, {}


def _written(answers: Iterable[str]) -> list[str]:
    """The answers, and those that are numbers in digits and in words."""
    forms = []
    for answer in answers:
        value = number(answer)
        forms += [answer, *([] if value is None else [word for word, size in _spelled().items() if size == value])]
    return forms


def indicator(before: float, after: float) -> bool:
    """Return True if an edit was effective, from PPL(counterfactuals) - PPL(facts): min(before, 0) > after (Eq. 1).

    >>> indicator(4.8, -2.4), indicator(4.8, 1.0), indicator(-5.9, -3.0), indicator(-1.0, -1.0)
    (True, False, False, False)
    """
    return min(before, 0.0) > after


def effectiveness(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """Mean perplexity of the record's facts and counterfactuals, before and after, and `effective`, the indicator.

    The paper says "perplexity of facts" and no more. Here it is exp of the mean negative log-probability per token of
    each atomic fact, in natural logs, under the prompt that the editor would answer with (empty for an editor that
    shows nothing), and then the mean over the facts.

    Args:
        probe: `gold` are the counterfactuals, `choices` the facts that they replace.
        answer: log-probabilities and token counts of the former, then the latter.
        before: the same of the unedited model.
    """
    values: dict[str, float] = {}
    unscored: dict[str, str] = {}
    for reply, when, who in ((before, "_before", "the unedited model"), (answer, "", "the model")):
        means, reason = _perplexities(reply, len(probe.gold), len(probe.choices), who)
        names = (f"ppl_counter{when}", f"ppl_fact{when}")
        values |= dict(zip(names, means, strict=True)) if not reason else {}
        unscored |= dict.fromkeys(names, reason) if reason else {}
    if unscored:
        return ProbeScores(values, unscored | {EFFECTIVE: next(iter(unscored.values()))})
    gaps = [values[f"ppl_counter{when}"] - values[f"ppl_fact{when}"] for when in ("_before", "")]
    return ProbeScores(values | {EFFECTIVE: float(indicator(*gaps))}, {})


def _perplexities(answer: Answer | None, golds: int, others: int, who: str) -> tuple[tuple[float, float], str]:
    """Return the mean perplexity of the first targets and of the rest, and the reason if missing ("" if not)."""
    none = (0.0, 0.0)
    if answer is None:
        return none, f"{who} was not asked"
    if not answer.log_probs:
        return none, f"{who} gives no probabilities"
    if not len(answer.log_probs) == len(answer.target_tokens) == golds + others:
        return none, f"{who} does not tell how many tokens each fact has"
    losses = [-min(p, 0.0) / n for p, n in zip(answer.log_probs, answer.target_tokens, strict=True)]
    if not all(loss < _LARGEST for loss in losses):  # false for NaN too
        return none, f"{who} holds a fact to be impossible, its perplexity is no number"
    perplexities = [math.exp(loss) for loss in losses]
    return (math.fsum(perplexities[:golds]) / golds, math.fsum(perplexities[golds:]) / others), ""


_LARGEST = 700.0  # exp of more is no float


@cache
def _spelled() -> dict[str, int]:
    below = {word: value for value, word in enumerate(_SMALL)}
    for place, ten in enumerate(_TENS, 2):
        below |= {ten: place * 10} | {f"{ten} {_SMALL[unit]}": place * 10 + unit for unit in range(1, 10)}
    words = dict(below)
    for hundreds in range(1, 10):
        start = f"{_SMALL[hundreds]} hundred"
        words[start] = hundreds * 100
        for word, value in below.items():
            if value:
                words |= dict.fromkeys((f"{start} {word}", f"{start} and {word}"), hundreds * 100 + value)
    return words
