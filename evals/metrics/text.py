"""Comparison of text answers with gold answers: exact match with aliases, choices, and the `contains` rule."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from emend.agents.parsing.passages import sentences
from emend.memory.retrieval.tokens import whole, words
from emend.memory.typography import fold_text, fold_typography

EDGES = " \t.,;:!?…、。，；：！？\"'`“”‘’«»「」『』*_()[]"
"""Characters stripped from both ends; inner punctuation stays, as it distinguishes names (`C++`, `AC/DC`, `U.S.`)."""

_ARTICLE = re.compile(r"^(?:a|an|the)\s+(?=\S)")
_NEGATION = re.compile(r"(?:\b(?:not|never|neither|nor|no|without|cannot)|n['’]t)\s+(?:\w+\s+){0,2}$")
_NEGATION_CJK = re.compile(r"(?:不是|并非|不|没有|非)\s*$")


def fold(text: str) -> str:
    """First non-empty line, its typography and case folded, punctuation and quotes off both ends."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return fold_text(line).strip(EDGES)


@lru_cache(maxsize=65536)
def normalise(text: str) -> str:
    """`fold`, and one leading English article off.

    Plainer than SQuAD's rule, which drops all punctuation and every article: that would make `C++` and `C`, or `The A`
    and nothing, the same.
    """
    return _ARTICLE.sub("", fold(text))


def exact_match(reply: str, golds: Iterable[str]) -> float:
    """1.0 when the normalised reply equals one of the gold answers (the right one or an alias), else 0.0."""
    answer = normalise(reply)
    return float(bool(answer) and any(answer == normalise(gold) for gold in golds))


def strict_match(reply: str, golds: Iterable[str]) -> float:
    """1.0 when the reply equals a gold answer character by character, in the same case, else 0.0.

    The rule of MeLLo's released code (Zhong et al. 2023): the reply is without white space around it, and with its
    final full stop. An alias is never looked for inside a longer reply.
    """
    return float(any(reply == gold for gold in golds))


def rouge_l(reply: str, gold: str) -> float:
    """F1 of the longest common subsequence of words, from 0 to 1 (Lin 2004, ROUGE-L), in any case, without stemming."""
    first, second = words(reply), words(gold)
    row = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for place, match in enumerate(second, 1):
            before, row[place] = row[place], before + 1 if word == match else max(row[place], row[place - 1])
    return 2 * row[-1] / max(1, len(first) + len(second))


_VERDICT = re.compile(r"(?:^|(?<=[.;:!,] ))(yes|no|true|false)\s*(?=[.;:!]|,(?! or\b)|$)")
"""A word that is the verdict by itself, at the beginning of a reply or of a clause."""


def parse_choice(reply: str, choices: Sequence[str]) -> tuple[str | None, str]:
    """The one choice that the reply's first line names, as (choice, ""), or (None, the reason why it is undecidable).

    A choice counts as whole words, and not inside a longer choice that also occurs (`York` in `New York`). A reply
    that names none or several, or negates what it names (`not true`), is undecidable. Of two choices such as yes and no
    the one with which a reply begins counts, whatever it goes on to say (`Yes, he no longer lives there`).
    """
    if not choices:
        return None, "the probe has no choices"
    rest = fold(reply)
    if not rest:
        return None, "empty reply"
    verdicts = {hit[1] for hit in _VERDICT.finditer(rest)}
    if len(choices) == 2 and len(verdicts) == 1 and _VERDICT.match(rest):
        if verdict := next((choice for choice in choices if fold(choice) in verdicts), ""):
            return verdict, ""
    named: list[str] = []
    for choice in sorted(choices, key=lambda c: len(fold(c)), reverse=True):
        if not (name := fold(choice)) or not (hits := list(whole(name).finditer(rest))):
            continue
        before = [rest[: hit.start()] for hit in hits]
        if any(_NEGATION.search(text) or _NEGATION_CJK.search(text) for text in before):
            return None, f"reply negates '{choice}'"
        named.append(choice)
        rest = whole(name).sub("\0", rest)
    if len(named) == 1:
        return named[0], ""
    if not named:
        return None, "reply names none of the choices"
    return None, f"reply names several choices: {', '.join(sorted(named))}"


def parse_truth(reply: str) -> tuple[str | None, str]:
    """`parse_choice` between "true" and "false", with `yes` and `no` read as these."""
    # Within a reply `no` before another word is no verdict (`there is no doubt`).
    line = re.sub(r"\byes\b", "true", re.sub(r"^no\b|\bno\b(?! \w)", "false", fold(reply)))
    return parse_choice(line, ("true", "false"))


NAME_WORDS = 10
"""A gold answer of more words is a text, of which the words before a comma are no short form."""
_DENIED_BEFORE = re.compile(
    r"(?:\b(?:not(?! only)|never|neither|nor|no longer|no evidence|without|cannot|rather than|instead of|unlike"
    r"|formerly|previously|(?<!none )other than|whether|unclear|old answer|(?:wrong|incorrect) answer|used to be"
    r"|before that|some (?:people )?(?:still )?say|others say|(?:could|may|might) be|sorry)\b|n't\b)"
    r"(?![^,;:]*\buntil\s+$)"
    r"(?:(?!\b(?:but|whereas|now)\b)[^,;:])*$"
    r"|\b(?:ported|moved|changed|switched) from\s+$|(?:不是|不再是|并非|不|没有|非)\s*$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"^(?:(?!\b(?:but|though|although|whose|and (?:its?|his|her|their|the|he|she|they))\b)[^,;:]){0,60}?"
    r"(?:\b(?:is|was|are)\s+(?:not\b|wrong|incorrect|false|out of date|unclear|unknown)|isn't|wasn't"
    r"|\bused to be\b)|^,?\s*but (?:this|that|it) is wrong|^, (?:which|and) (?:is|was) wrong"
    r"|^[^;:]*\bbut it's actually\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"\b(?:out of date|used to|remember|formerly|previously|before that|some (?:people )?(?:still )?say|old answer"
    r"|(?:wrong|incorrect) answer|not mentioned|is wrong|succeeded|replaced|a genre of|in reality)\b|\bsorry\b",
    re.IGNORECASE,
)
"""Words of a sentence that names the rival without asserting it."""
_PAST = re.compile(r"\b(?:formerly|previously)\b", re.IGNORECASE)
_BESIDE = re.compile(r", which\b[^,]*$")
"""A clause about something else than the answer."""
_CONCESSION = re.compile(
    r"^(?:even though|although|though|while|despite)\b[^,]*,|, (?:even though|although|though|despite)\b[^,;]*$",
    re.IGNORECASE,
)
"""A clause that grants something else than the answer."""
_RESTATED = re.compile(r"\b(?:that|which) is\b.*\b(?:with|of|in|by)\s+$")
"""A question said again, before the answer."""
_FOLLOWING = re.compile(r"(?: (?:[A-Z][\w-]*|\d[\w-]*))*")
_LONGER_BEFORE = re.compile(r"\b(?:New|North|South|East|West|Northern|Southern|Eastern|Western|Saint|St\.|San|Air)\s+$")
_NUMBER = re.compile(r"(?:\d,\d{3}|(?<![\d.])\d+\.\d+)$")
"""A number at the end, of which an answer may be only the last digits (`1,500`, `1.5`); `12.05.2011` is none."""
_LONGER_AFTER = re.compile(
    r"^(?:[+#]|[.,]\d|\s+(?!(?:Inc|Ltd|Corp|Corporation|Company|Group|City|Jr|FC|F\.C|University|Church)\b)[A-Z][a-z]+)"
)


def asserts(passage: str, golds: Sequence[str], rivals: Iterable[str] = (), question: str = "") -> bool:
    """Return whether the passage gives a gold answer, and neither denies it nor gives a rival beside it.

    Args:
        passage: the sentences that answer.
        golds: the right answer, then its aliases.
        rivals: answers that compete with it.
        question: the prompt; a rival that it names, alone or as the beginning of a longer name (`Apple Music`), is
            expected in the passage in that form, and is not held against it.
    """
    right = [name for gold in golds for name in _names(gold)]
    same = {_plain(name) for name in right}
    wrong = [name for rival in rivals for name in _names(rival) if _plain(name) not in same]
    named = {name: _in_question(name, _plain(question)) for name in wrong}
    wrong = [name for name in wrong if name not in named[name]]
    longer = [*right, *(form for forms in named.values() for form in forms)]
    rows = [_CONCESSION.sub("", _plain(row)) for row in sentences(fold_typography(passage))]
    if past := _PAST.findall(question):  # then they deny nothing
        rows = [re.sub(rf"\b(?:{'|'.join(past)})\b ?", "", row, flags=re.IGNORECASE) for row in rows]
    if not any(_given(row, right, wrong) for row in rows) or any(_denied(row, right) for row in rows):
        return False
    return not any(_given(row, wrong, longer) and not _ASIDE.search(row) for row in rows)


def _in_question(name: str, question: str) -> set[str]:
    """Forms in which a question gives a name: each with the capitalised words and numbers that follow it."""
    hits = _pattern(name).finditer(question)
    return {name + following[0] for hit in hits if (following := _FOLLOWING.match(question, hit.end()))}


def _given(row: str, names: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether a sentence gives one of the names; inside one of the others, if longer, a name does not count."""
    for name in names:
        pattern = _pattern(name)
        text = row
        for other in others:
            if len(other) > len(name) and pattern.search(_plain(other)):
                text = _pattern(other).sub("\0", text)
        if any(_asserted(text, hit) for hit in pattern.finditer(text)):
            return True
    return False


def _asserted(text: str, hit: re.Match[str]) -> bool:
    before, after = text[: hit.start()], _without_loop(hit[0], text[hit.end() :])
    if hit[0][:1].isupper() and (_LONGER_BEFORE.search(before) or _LONGER_AFTER.match(after)):
        return False
    if (number := _NUMBER.search(before + hit[0])) and number.start() < len(before) < number.end():
        return False
    if re.match(r"[+#]|[.,]\d", after) or (len(hit[0]) == 1 and re.match(r"[.)]\s+\w", after)):
        return False
    if _DENIED_BEFORE.search(before) or _DENIED_AFTER.match(after):
        return False
    if _BESIDE.search(before) or (_RESTATED.search(before) and re.match(r"\s+is\s", after)):
        return False
    return not _in_list(before, after, is_name=hit[0][:1].isupper())


def _without_loop(name: str, after: str) -> str:
    """Return what follows a name, without its last word said again and again (`David Davis Davis`)."""
    words = name.split()
    return re.sub(rf"^(?:\s+{re.escape(words[-1])}\b){{{1 if len(words) > 1 else 2},}}", "", after)


def _denied(row: str, names: Sequence[str]) -> bool:
    """Return whether a sentence denies one of the names."""
    hits = [hit for name in names for hit in _pattern(name).finditer(row)]
    return any(_DENIED_BEFORE.search(row[: hit.start()]) or _DENIED_AFTER.match(row[hit.end() :]) for hit in hits)


def _in_list(before: str, after: str, is_name: bool) -> bool:
    """Return whether an answer is one of several alternatives or items."""
    if re.match(r"\s*,?\s+or\s", after) or re.search(r"\bor\s+(?:the\s+)?$", before):
        return True
    # Beside a name there are names: `Berlin, Germany, and studied in Paris` is no list.
    names = "(?![a-z])" if is_name and re.match(r",\s*[A-Z]", after) else ""
    item = rf"\s*(?:and |or )?(?:the )?{names}[^,;\s]+(?: [^,;\s]+){{0,2}}\.?"
    if re.match(rf"(?:,{item}){{2,}}$", after) and re.search(r"\b(?:and|or)\b", after):
        return True
    items = re.search(r"(?:[^,;]+,\s*){2,}(and |or )?$", before)
    return bool(items and (items[1] or re.match(r"\s*(?:[,;.]|(?:and|or)\b|$)", after)))


@lru_cache(maxsize=65536)
def _names(gold: str) -> tuple[str, ...]:
    """The answer as it may be written: without an article, an addition after a comma, or as adjective or initials."""
    plain = re.sub(r"^(?:the|a|an)\s+(?=\S)", "", fold_typography(gold).strip(), flags=re.IGNORECASE)
    head, _, addition = plain.partition(",")
    out = [plain, re.sub("^(United States) of America$", r"\1", plain), plain.removesuffix(" music")]
    # The year of a date is no addition, and neither is what a sentence says of its subject.
    if len(head.split()) > 1 and re.search(r"[^\W\d]", addition) and len(plain.split()) <= NAME_WORDS:
        out.append(head)
    if plain in ("America", "United States of America"):
        out.append("American")
    if re.fullmatch(r"[^\W\d_]{5,}(?:ia|y|ism)", plain):
        out += [plain + "n"] if plain.endswith("ia") else [re.sub("ism$|y$", "ist", plain)]
        out += ["German"] if plain == "Germany" else []
    initials = "".join(word[0] for word in plain.split() if word[0].isupper())
    if len(initials) > 2 and len(initials) == len(plain.split()):
        out.append(initials)
    return tuple(dict.fromkeys(name.rstrip("!.?") for name in out if name.strip("!.? ")))


@lru_cache(maxsize=65536)
def _pattern(name: str) -> re.Pattern[str]:
    """A pattern of the whole name; short names of capitals, such as `IT` and `C`, are matched in their case."""
    plain = _plain(name)
    return whole(plain, any_case=not (len(plain) < 4 and plain.isupper()))


@lru_cache(maxsize=65536)
def _plain(text: str) -> str:
    """The text in plain typography without accents."""
    letters = unicodedata.normalize("NFD", fold_typography(text))
    plain = unicodedata.normalize("NFC", "".join(c for c in letters if not 0x300 <= ord(c) < 0x370))
    return re.sub(r"(?<=[^\W\d_])-(?=[^\W\d_])", " ", plain)
