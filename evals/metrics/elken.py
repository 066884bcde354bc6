"""ELKEN's scoring rules: how its code reads answers and options, and what it calls the same before and after an edit.

Definitions are those of metric.py in THU-KEG/Event-Level-Knowledge-Editing. Editors hand over the first line that says
something, without its final full stop, so a reply that opens with an empty line is read, where the code reads nothing.
Beside each strict rule stands a lenient one of ours.
"""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from emend.evals.metrics.text import parse_choice
from emend.memory.probe import Answer, Probe

if TYPE_CHECKING:
    from emend.evals.metrics.scorers import Scores

UNKNOWN = "unknown"
UNITED_STATES = "United States"
"""Accepted beside name and aliases when the answer is Q30, none of whose aliases says it."""
LETTERS = ("A", "B", "C")
NO_TEXT = "the model was not asked for text"
NO_BASELINE = "the unedited model was not asked"

_MARKED = re.compile(r"\((A|B|C)\)")
_LETTER = re.compile(
    r"^[(\[]?([ABC])(?=$|[)\].:,;])"  # not "A doctor may tell"
    r"|\b(?i:option|answer|choice|is)\s*:?\s*[(\[]?([ABC])(?=$|[\s)\].:,;])"
)
_EMPHASIS = re.compile(r"[*`]|(?<!\w)_+|_+(?!\w)")
_SEVERAL = re.compile(r"\b[ABC][)\].]?\s*(?:,|/|&|\bor\b|\band\b)\s*(?:option\s+)?[(\[]?[ABC]\b")
_BARE = re.compile(r"[(\[]?([abc])[)\].:]?")


def normalise_answer(text: str) -> str:
    """First line (empty if the text opens with a line break), stripped, lower case, one final full stop off."""
    return text.split("\n", 1)[0].strip().lower().removesuffix(".")


def fact_right(reply: str, golds: Sequence[str]) -> bool:
    """Whether the reply equals the gold name or an alias; where the gold is `unknown`, whether it contains that word.

    Args:
        reply: what the model said.
        golds: the gold name, then its aliases.
    """
    said = normalise_answer(reply)
    if golds[0] == UNKNOWN:
        return UNKNOWN in said
    return said in {normalise_answer(gold) for gold in golds}


def normalise_locality(text: str, aliases: Sequence[str] = ()) -> str:
    """The text that is compared before and after: an alias becomes the first alias, a reply with `unknown` that word.

    The reply is in lower case and the aliases as written, so that only aliases in lower case are ever met; the gold
    name plays no part, because agreement is asked and not correctness.
    """
    said = normalise_answer(text)
    if said in aliases:
        said = aliases[0]
    return UNKNOWN if UNKNOWN in said else said


def parse_option(text: str) -> str:
    """The option as the code reads it: one "(A)" anywhere in the first line, else what stands before its first ".".

    What is no letter then (`a`, `A: Increase`, `A) Increase`) comes back as it is and is wrong.
    """
    line = text.split("\n", 1)[0].strip()
    if "(" in line:
        found = _MARKED.findall(line)
        return str(found[0]) if len(found) == 1 else line
    return line.split(".", 1)[0]


def parse_option_leniently(text: str, options: Sequence[str] = ()) -> str | None:
    """The one option that a reply names, as the code reads it, by a letter in other dress (`a`, `B)`), or by its text.

    Args:
        text: the reply; its first line that is not empty is read.
        options: the texts of A, B and C, in this order; empty: only letters are read.

    Returns:
        "A", "B" or "C"; None when the reply names none or several.
    """
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if (strict := parse_option(line)) in LETTERS:
        return strict
    line = _EMPHASIS.sub("", line)
    if _SEVERAL.search(line):
        return None
    if bare := _BARE.fullmatch(line):
        return bare[1].upper()
    marked = set(_MARKED.findall(line)) or {hit[1] or hit[2] for hit in _LETTER.finditer(line)}
    if marked:
        return marked.pop() if len(marked) == 1 else None
    named, _ = parse_choice(line, options)
    return None if named is None else LETTERS[options.index(named)]


def edit_level(right: Sequence[bool], events: Sequence[str], original: bool = False) -> float | None:
    """Share of events all of whose questions are right; None when there are none.

    Args:
        right: one per question.
        events: the event of each question.
        original: as the code does, start a new event whenever the text differs from the one before, so that an event
            whose questions are not adjacent counts more than once.
    """
    pairs = list(zip(events, right, strict=True))
    if not original:
        pairs.sort(key=lambda pair: pair[0])
    whole = [all(flag for _, flag in group) for _, group in groupby(pairs, key=lambda pair: pair[0])]
    return sum(whole) / len(whole) if whole else None


SCOPE_THRESHOLD = 0.5
"""A classifier's probability from which on the code (serac/retrieve_event.py) takes a question to be in scope."""


def select_event(scores: Sequence[float], threshold: float = SCOPE_THRESHOLD) -> int | None:
    """The place of the event that a scope classifier chooses for one question: the first of the highest scores.

    None where even that is below the threshold, so that the question is asked without any event (the code's `NA`).
    """
    best = max(range(len(scores)), key=lambda place: scores[place], default=None)
    return best if best is not None and scores[best] >= threshold else None


def selection_accuracy(selected: Sequence[int | None], right: Sequence[int | None]) -> float | None:
    """Share of questions with the right choice: their own event, or for those out of scope none; None if empty."""
    found = [chosen == wanted for chosen, wanted in zip(selected, right, strict=True)]
    return sum(found) / len(found) if found else None


def score_fact(probe: Probe, answer: Answer, before: Answer | None) -> "Scores":
    """`right` of a fact question; also `overall` where its event has tendency questions that are in scope.

    `overall` is without the label `United States`, which overall_event_level_metric.py does not add.
    """
    event = bool(probe.tags.get("tendency_event"))
    if answer.text is None:
        return _scores({}, dict.fromkeys(("right", "overall") if event else ("right",), NO_TEXT))
    values = {"right": float(fact_right(answer.text, probe.gold))}
    if event:
        plain = probe.gold[:-1] if probe.tags.get("united_states") else probe.gold
        values["overall"] = float(fact_right(answer.text, plain))
    return _scores(values, {})


def score_option(probe: Probe, answer: Answer, before: Answer | None) -> "Scores":
    """`option` and `option_lenient`: the parsed option is the gold one; `overall` is the first again.

    A reply that names no option, or several, is wrong in both, as it is in the code, which divides by all questions.
    The lead on which the prompt ends is read off before, where a reply repeats it; the code does not do that.
    """
    if answer.text is None:
        return _scores({}, dict.fromkeys(("option", "option_lenient", "overall"), NO_TEXT))
    strict = float(parse_option(answer.text) == probe.gold[0])
    lenient = float(parse_option_leniently(answer.text, probe.choices) == probe.gold[0])
    return _scores({"option": strict, "option_lenient": lenient, "overall": strict}, {})


def score_fact_same(probe: Probe, answer: Answer, before: Answer | None) -> "Scores":
    """`same`: a fact question that is out of scope is answered as before, after the code's normalisation."""
    if (why := _no_pair(answer, before)) or before is None:
        return _scores({}, {"same": why})
    aliases = probe.gold[1:]
    now, then = (normalise_locality(said.text or "", aliases) for said in (answer, before))
    return _scores({"same": float(now == then)}, {})


def score_option_same(probe: Probe, answer: Answer, before: Answer | None) -> "Scores":
    """`same`: the reply's text is as before (the code's rule: `C` and `(C)` differ); `same_option`: its option is.

    `same_option` is unscored where one of the two replies names no option, or several.
    """
    if (why := _no_pair(answer, before)) or before is None:
        return _scores({}, {"same": why, "same_option": why})
    values = {"same": float(normalise_locality(answer.text or "") == normalise_locality(before.text or ""))}
    now, then = (parse_option_leniently(said.text or "", probe.choices) for said in (answer, before))
    if now is None or then is None:
        who = "edited" if now is None else "unedited"
        return _scores(values, {"same_option": f"the {who} model's reply names no option, or several"})
    return _scores(values | {"same_option": float(now == then)}, {})


def _no_pair(answer: Answer, before: Answer | None) -> str:
    if before is None:
        return NO_BASELINE
    return NO_TEXT if answer.text is None or before.text is None else ""


def _scores(values: dict[str, float], unscored: dict[str, str]) -> "Scores":
    from emend.evals.metrics.scorers import Scores  # that module's table lists these scorers

    return Scores(values, unscored)
