"""Rule `contains`: a reply is right if it asserts a correct answer and no rival."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from emend.agents.parsing.abstention import abstains
from emend.agents.parsing.passages import sentence_spans
from emend.agents.parsing.patterns import PatternFile
from emend.evals.metrics.scores import AnswerReading
from emend.evals.metrics.text.mentions import CONCESSIVE, OBJECTIONS, Mention
from emend.memory.values.forms import written_forms
from emend.memory.values.search import AnswerHit, find_answers
from emend.memory.values.text import TextSpan, ValueText, value_text

# Number of characters within which an answer must occur; later ones were wrong in 9 of 76 cases
# (docs/reference/reading.md).
OPENING = 250
MOST_HITS = 24
_FILE = PatternFile.beside(__file__)
_UNCOMMITTED = _FILE.read("uncommitted")
_DISCLAIMER = re.compile(
    r"\b(?:AI|language model|access to|real-time|my knowledge|I'm|I am|I "
    r"do)\b"
)
_HISTORY = _FILE.read("history")
# Phrases of sentences that mention a rival without asserting it.
_ASIDE = _FILE.read("aside")
_CONCESSION = re.compile(rf"^{CONCESSIVE}[^,]*,|, (?!while){CONCESSIVE}[^,;]*$", re.IGNORECASE)
_CONCEDED = re.compile(rf"^{CONCESSIVE}", re.IGNORECASE)
_TURN = re.compile(r", (?:he|she|it|they|the)\b", re.IGNORECASE)
_FOLLOWING = re.compile(r"(?: (?:[A-Z][\w-]*|\d[\w-]*))*")


# Rules that accept an answer in another form (`memory/values`).
WRITINGS = (
    "without its brackets",
    "without its addition",
    "without words of the question",
    "as a nation's word",
    "as its initials",
    "as who does it",
    "as a date",
    "less precise",
    "as a name",
    "by its words",
)
# Rules that apply only to whole answers, not to parts.
OF_ONE_ANSWER = ("one of a list", "position")
# Rules that accept incomplete answers, or parts with a denial in between.
LOOSE = ("by its words", "without its addition")
# Names of all rules that can be disabled.
RULES = (*WRITINGS, *OBJECTIONS, "position", "denied elsewhere", "abstention")


def read_contains(
    passage: str,
    golds: Sequence[str],
    rivals: Iterable[str] = (),
    question: str = "",
    left_out: Collection[str] = (),
) -> AnswerReading:
    """Return whether a passage asserts a correct answer and neither denies it nor asserts a rival.

    Args:
        passage: the sentences that answer the question (`read_passage`).
        golds: the correct answer, then its aliases.
        rivals: competing answers. A rival that the question names, alone or at the start of a
            longer name (`Apple Music`), may occur in that form, unless the question offers it as an
            option beside the right answer.
        question: the prompt.
        left_out: names of disabled rules, to measure the effect of each.
    """
    text = value_text(passage)
    rules = {name: rule for name, rule in OBJECTIONS.items() if name not in left_out}
    wrong = _rivals(golds, rivals)
    best = AnswerReading(False, "", "the answer is not named")
    denied = False
    for hit in _hits(text, golds, question, wrong):
        if hit.rule in left_out:
            continue
        reason = ""
        if "position" not in left_out:
            reason = _position_objection(text, hit)
        mention = _mention(text, hit, question)
        reason = reason or next((name for name, objects in rules.items() if objects(mention)), "")
        denied = denied or reason == "denied"
        if not reason and not best.right:
            best = AnswerReading(True, mention.name, hit.rule or "as it is")
        elif not best.value:
            best = AnswerReading(False, mention.name, reason)
    if not best.right:
        return best
    if denied and "denied elsewhere" not in left_out:
        return AnswerReading(False, best.value, "denied elsewhere")
    if (
        "abstention" not in left_out
        and _UNCOMMITTED.search(text.plain)
        and abstains(text.plain, question)
    ):
        return AnswerReading(False, best.value, "the reply says that it does not know")
    for rival in _asserted_rivals(text, wrong, golds, question):
        return AnswerReading(False, rival, "a rival is asserted beside it")
    return best


def read_all_parts(
    passage: str, golds: Sequence[str], rivals: Iterable[str] = (), question: str = ""
) -> AnswerReading:
    """Return whether a passage asserts all parts of an answer, in any order and at any distance.

    Args:
        passage: the sentences that answer the question.
        golds: the parts; a single gold is split at its commas, but may also occur as a whole.
        rivals: competing answers.
        question: the prompt.
    """
    rivals = list(rivals)
    parts = list(golds)
    if len(parts) == 1:
        parts = [part.strip() for part in golds[0].split(",") if part.strip()]
        if len(parts) < 2:
            return read_contains(passage, golds, rivals, question)
        whole = read_contains(passage, golds, rivals, question, LOOSE)
        if whole.right:
            return whole
    named = list[str]()
    for part in parts:
        reading = read_contains(passage, [part], rivals, question, OF_ONE_ANSWER)
        if not reading.right:
            return reading._replace(rule=f"of several golds, {part}: {reading.rule}")
        named.append(reading.value)
    return AnswerReading(True, ", ".join(named), "each of the golds")


def asserts(
    passage: str, golds: Sequence[str], rivals: Iterable[str] = (), question: str = ""
) -> bool:
    """Return whether a passage asserts a right answer and no rival; see `read_contains`."""
    return read_contains(passage, golds, rivals, question).right


def read_abstention(passage: str, question: str = "") -> AnswerReading:
    """Return whether a passage says that the answer is unknown and gives none, with the rule."""
    if abstains(passage, question):
        return AnswerReading(True, "", "it says that it does not know")
    return AnswerReading(False, "", "it does not say that it does not know, or answers too")


def _rivals(golds: Sequence[str], rivals: Iterable[str]) -> list[str]:
    """Return the rivals whose values differ from the right answers."""
    same = {form.glued for gold in golds for form in written_forms(gold)}
    return [rival for rival in rivals if rival and written_forms(rival)[0].glued not in same]


def _hits(
    text: ValueText, golds: Sequence[str], question: str, rivals: Sequence[str]
) -> Iterator[AnswerHit]:
    """Yield the right answers in a text that are not part of a rival's longer name."""
    longer = _longer_spans(text, rivals)
    for number, hit in enumerate(find_answers(text, golds, question)):
        if number >= MOST_HITS:
            return
        if not _is_inside(TextSpan(hit.start, hit.end), longer):
            yield hit


def _is_inside(span: TextSpan, longer: Sequence[TextSpan]) -> bool:
    """Return whether a span lies within one of the longer spans."""
    length = span.end - span.start
    around = (other for other in longer if other.start <= span.start and span.end <= other.end)
    return any(other.end - other.start > length for other in around)


def _longer_spans(text: ValueText, names: Sequence[str]) -> list[TextSpan]:
    forms = (form for name in names for form in written_forms(name)[:1])
    return [span for form in forms for span in text.find(form.glued)]


def _mention(text: ValueText, hit: AnswerHit, question: str) -> Mention:
    first, last = _sentence(text, hit.start)
    plain = text.plain
    after = plain[hit.end : max(last, hit.end)]
    name = plain[hit.start : hit.end]
    return Mention(plain[first : hit.start], name, after, question, verbatim=not hit.rule)


def _sentence(text: ValueText, position: int) -> tuple[int, int]:
    for first, last in sentence_spans(text.plain):
        if first <= position < last:
            return first, last
    return 0, len(text.plain)


def _position_objection(text: ValueText, hit: AnswerHit) -> str:
    """Return why a late mention does not count as an answer; "" if it may count."""
    first, last = sentence_spans(text.plain)[0]
    if hit.start < last:
        return ""
    if hit.start > OPENING:
        return "named late"
    opening = text.plain[first:last]
    if _UNCOMMITTED.search(opening) and not _DISCLAIMER.search(opening):
        return "behind a sentence that gives no answer"
    return ""


def _asserted_rivals(
    text: ValueText, rivals: Sequence[str], golds: Sequence[str], question: str
) -> Iterator[str]:
    question_text = value_text(question)
    offers = _offers(question_text, golds)
    inside = _longer_spans(text, golds)
    for rival in rivals:
        named = [] if offers else _question_forms(question_text, rival)
        if rival in named:
            continue
        expected = inside + _longer_spans(text, named)
        for form in written_forms(rival, question):
            for start, end in text.find(form.glued):
                if _is_inside(TextSpan(start, end), expected):
                    continue
                mention = _mention(text, AnswerHit(start, end, rival, form.rule), question)
                if not _is_aside(mention):
                    yield mention.name


def _is_aside(mention: Mention) -> bool:
    """Return whether a sentence mentions a rival without asserting it."""
    if _CONCEDED.match(mention.before) and _TURN.search(mention.after):
        return True
    sentence = f"{mention.before}\0{mention.after}"
    if "\0" not in _CONCESSION.sub("", sentence) or _HISTORY.search(mention.before):
        return True
    if _ASIDE.search(sentence):
        return True
    return any(objects(mention) for name, objects in OBJECTIONS.items() if name != "an alternative")


def _offers(question: ValueText, golds: Sequence[str]) -> bool:
    """Return whether the question names the correct answer, so that rivals in it are options."""
    return any(
        True
        for gold in golds
        for form in written_forms(gold)[:1]
        for _ in question.find(form.glued)
    )


def _question_forms(question: ValueText, name: str) -> list[str]:
    """Return the forms of a name in a question, with the capitalised words that follow it."""
    spans = [span for form in written_forms(name) for span in question.find(form.glued)]
    ends = [_FOLLOWING.match(question.plain, span.end) for span in spans]
    return [name + (end[0] if end else "") for end in ends]
