"""ELKEN's scores of facts and tendencies.

The definitions are those of metric.py, examiner/ and overall_event_level_metric.py in
THU-KEG/Event-Level-Knowledge-Editing. Unlike there, a reply that begins with an empty line can be
right, since editors return the first non-empty line without its final full stop. Each strict rule
has a lenient counterpart of ours.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby

from emend.evals.metrics.scores import NO_BASELINE, NO_TEXT, AnswerReading, ProbeScores
from emend.evals.metrics.scoring.base import Output, ReasonedScorer
from emend.evals.metrics.text.choices import parse_choice
from emend.memory.probe import Answer, Probe

UNKNOWN = "unknown"
# Accepted in addition to the name and aliases if the answer is Q30, whose aliases lack it.
UNITED_STATES = "United States"
LETTERS = ("A", "B", "C")
SCALES = ("accuracy", "coherence", "comprehensive", "overall")
FULL_MARK = 5

# Marks of a judge for one free-form answer, from 1 to 5 by scale.
Marks = Mapping[str, int]

_MARKED = re.compile(r"\((A|B|C)\)")
_LETTER = re.compile(
    r"^[(\[]?([ABC])(?=$|[)\].:,;])"  # not "A doctor may tell"
    r"|\b(?i:option|answer|choice|is)\s*:?\s*[(\[]?([ABC])(?=$|[\s)\].:,;])"
)
_EMPHASIS = re.compile(r"[*`]|(?<!\w)_+|_+(?!\w)")
_SEVERAL = re.compile(r"\b[ABC][)\].]?\s*(?:,|/|&|\bor\b|\band\b)\s*(?:option\s+)?[(\[]?[ABC]\b")
_BARE = re.compile(r"[(\[]?([abc])[)\].:]?")


def normalise_answer(text: str) -> str:
    """Return the first line, stripped, in lower case, and without a final full stop.

    It is empty if the text begins with a line break.
    """
    return text.split("\n", 1)[0].strip().lower().removesuffix(".")


def fact_right(reply: str, golds: Sequence[str]) -> bool:
    """Return whether the reply equals the gold name or an alias.

    If the gold is `unknown`, the reply only has to contain that word.

    Args:
        reply: the model's reply.
        golds: the gold name, then its aliases.
    """
    line = normalise_answer(reply)
    if golds[0] == UNKNOWN:
        return UNKNOWN in line
    return line in {normalise_answer(gold) for gold in golds}


def read_fact(reply: str, golds: Sequence[str]) -> AnswerReading:
    """Return whether the reply is right by `fact_right`, with the rule that decided."""
    right, line = fact_right(reply, golds), normalise_answer(reply)
    if golds[0] == UNKNOWN:
        return AnswerReading(right, line, f"whether the first line has the word '{UNKNOWN}'")
    return AnswerReading(right, line, "whether the first line is the name or an alias")


def normalise_locality(text: str, aliases: Sequence[str] = ()) -> str:
    """Normalise a reply so that aliases, and replies with `unknown`, become equal.

    An alias becomes the first alias, and a reply with `unknown` becomes that word. The reply is in
    lower case but the aliases are not, so that only lower-case aliases can match. The gold name is
    not used, since agreement is measured and not correctness.
    """
    line = normalise_answer(text)
    if line in aliases:
        line = aliases[0]
    if UNKNOWN in line:
        return UNKNOWN
    return line


def parse_option(text: str) -> str:
    """Parse the option as the code does: a single "(A)", else the text before the first ".".

    Only the first line is parsed. A result that is not a plain letter (`a`, `A: Increase`, `A)
    Increase`) is returned unchanged and counts as wrong.
    """
    line = text.split("\n", 1)[0].strip()
    if "(" in line:
        letters = _MARKED.findall(line)
        if len(letters) == 1:
            return str(letters[0])
        return line
    return line.split(".", 1)[0]


def parse_option_leniently(text: str, options: Sequence[str] = ()) -> str | None:
    """Parse the one option that a reply names, by its letter in any form or by its text.

    Args:
        text: the reply, of which the first non-empty line is parsed.
        options: the texts of A, B and C, in this order; if empty, only letters are parsed.

    Returns:
        "A", "B" or "C"; None if the reply names none or several.
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
    if named is None:
        return None
    return LETTERS[options.index(named)]


def full_mark_rate(marks: Sequence[Marks | None], scale: str) -> float | None:
    """Return the share of answers with mark 5; unparsable marks count as less, as in the code."""
    if marks:
        return sum(_full(mark, scale) for mark in marks) / len(marks)
    return None


def judged_edit_level(
    marks: Sequence[Marks | None], events: Sequence[str], original: bool = False
) -> float | None:
    """Return the share of events whose free-form answers all have 5 overall; None without events.

    Unparsable marks count as failures.

    Args:
        marks: marks of each judged answer.
        events: event of each judged answer.
        original: count as `compute_event_score` does: a new event begins wherever the event text
            changes; an event without parsable marks fails and is not counted; the verdict of the
            last event is lost, and it is counted as often as it has parsable marks.
    """
    full = [_full(mark, "overall") for mark in marks]
    if not original:
        failed = {event for event, flag in zip(events, full, strict=True) if not flag}
        count = len(set(events))
        if count:
            return (count - len(failed)) / count
        return None
    runs = [
        list(run)
        for _, run in groupby(zip(events, marks, full, strict=True), key=lambda answer: answer[0])
    ]
    parsed: list[int] = []
    passed = 0
    for run in runs:
        parsed.append(sum(mark is not None for _, mark, _ in run))
    for run in runs[:-1]:  # the verdict of the last event is lost
        passed += all(flag for _, _, flag in run)
    total = sum(map(bool, parsed[:-1])) + sum(parsed[-1:])
    if total:
        return passed / total
    return None


def _full(marks: Marks | None, scale: str) -> bool:
    return marks is not None and marks[scale] == FULL_MARK


class ElkenFact(ReasonedScorer):
    """`right` of a fact question, and `overall` if its event has tendency questions.

    Only tendency questions in scope count. `overall` does not accept the label `United States`,
    since overall_event_level_metric.py does not add it.
    """

    outputs = (Output("right", is_right=True, reads="answer"), Output("overall"))
    protocol = "exact"

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        """Compare the answer with the gold ones."""
        event = bool(probe.tags.get("tendency_event"))
        if answer.text is None:
            names = ("right", "overall") if event else ("right",)
            return ProbeScores({}, dict.fromkeys(names, NO_TEXT))
        reading = read_fact(answer.text, probe.gold)
        values = {"right": float(reading.right)}
        if event:
            plain = probe.gold[:-1] if probe.tags.get("united_states") else probe.gold
            values["overall"] = float(fact_right(answer.text, plain))
        return ProbeScores(values, {}, {"right": reading})


class ElkenOption(ReasonedScorer):
    """Scorer of the strictly (`option`) and the leniently parsed option of a tendency question.

    `overall` equals `option`. A reply that names no option, or several, is wrong in all, as in the
    code, which divides by all questions. Unlike the code, Emend strips the prompt's last words from
    a reply that repeats them.
    """

    outputs = (
        Output("option", protocol="exact", reads="answer"),
        Output("option_lenient", protocol="exact", reads="answer"),
        Output("overall"),
    )

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        """Read the option."""
        if answer.text is None:
            return ProbeScores({}, dict.fromkeys(("option", "option_lenient", "overall"), NO_TEXT))
        strict = parse_option(answer.text)
        lenient = parse_option_leniently(answer.text, probe.choices)
        gold, form = probe.gold[0], "the option in the form that the code reads"
        readings = {
            "option": AnswerReading(strict == gold, strict, form),
            "option_lenient": AnswerReading(
                lenient == gold, lenient or "", "the one option in any form"
            ),
        }
        values = {name: float(reading.right) for name, reading in readings.items()}
        return ProbeScores(values | {"overall": values["option"]}, {}, readings)


class ElkenFactSame(ReasonedScorer):
    """`same`: a fact question out of scope is answered as before, both normalised as in the
    code.
    """

    outputs = (Output("same", agrees_with_unedited=True),)
    needs = ("text", "baseline")

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        """Compare both answers."""
        if (reason := _no_pair(answer, before)) or before is None:
            return ProbeScores({}, {"same": reason})
        aliases = probe.gold[1:]
        now, then = (normalise_locality(reply.text or "", aliases) for reply in (answer, before))
        return ProbeScores({"same": float(now == then)}, {})


class ElkenOptionSame(ReasonedScorer):
    """`same` and `same_option`: a tendency question out of scope is answered as before, by the text
    of the reply and by its option.

    `same` follows the code, in which `C` and `(C)` differ. `same_option` is unscored if one of the
    replies names no option, or several.
    """

    outputs = (
        Output("same", agrees_with_unedited=True),
        Output("same_option", agrees_with_unedited=True),
    )
    needs = ("text", "baseline")

    def score(self, probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
        """Compare both answers."""
        if (reason := _no_pair(answer, before)) or before is None:
            return ProbeScores({}, {"same": reason, "same_option": reason})
        texts = [reply.text or "" for reply in (answer, before)]
        first, second = map(normalise_locality, texts)
        values = {"same": float(first == second)}
        now, then = (parse_option_leniently(text, probe.choices) for text in texts)
        if now is None or then is None:
            who = "edited" if now is None else "unedited"
            reason = f"the {who} model's reply names no option, or several"
            return ProbeScores(values, {"same_option": reason})
        return ProbeScores(values | {"same_option": float(now == then)}, {})


def _no_pair(answer: Answer, before: Answer | None) -> str:
    if before is None:
        return NO_BASELINE
    if answer.text is None or before.text is None:
        return NO_TEXT
    return ""
