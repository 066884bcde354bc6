"""Rule-based filters of authored texts, each of which returns why a text is rejected, or an empty
text.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from emend.graphs.construction.filters.name_forms import leaves, names
from emend.graphs.construction.filters.patterns import (
    DENIAL,
    HEADING,
    INSTRUCTION,
    MARKUP,
    QUOTATION,
    REFUSAL,
    TALK,
    USUAL_WORDS,
)
from emend.graphs.extraction.sentences import split_sentences
from emend.memory.retrieval.tokens import FUNCTION_WORDS, whole, words
from emend.memory.typography import fold_text, fold_typography


class AuthoredDraft(NamedTuple):
    """Text about a fact as written by an author.

    `prompt` is the author's prompt; `fact` the sentence to write about, whose words the text may
    repeat; `aliases` are other names of the new object. `bounds` are the minimum and maximum
    length in words or, for scripts without spaces, in characters; None for the default ones.
    """

    text: str
    subject: str
    new: str
    old: str = ""
    prompt: str = ""
    fact: str = ""
    language: str = "en"
    is_cut_off: bool = False
    is_refused: bool = False
    aliases: tuple[str, ...] = ()
    bounds: tuple[int, int] | None = None


# Minimum and maximum number of words of a paragraph; the prompt asks for 60 to 120, and AKEW's
# paragraphs have 76 on average (section 4.1).
SHORTEST, LONGEST = 40, 300
# Minimum and maximum number of characters for scripts without spaces.
SHORTEST_CHARACTERS, LONGEST_CHARACTERS = 40, 900
# Number of consecutive words of the prompt from which a text counts as repeating it.
REPEATED_WORDS = 9
# Minimum share of letters of the language's script.
LETTERS = 0.6
# Minimum share of the language's most frequent words in a text of at least `RUNNING` words, low for
# texts with many names; in running text it is above 0.15.
FEWEST, RUNNING = 0.08, 12
# Minimum share of function words in an English text; in running text it is about 0.4.
ENGLISH = 0.18
# Number of equal sentences from which a text counts as repetitive.
SAME_SENTENCES = 3
# Minimum share of distinct trigrams; in running text it is above 0.95.
DISTINCT = 0.8

_TASK = re.compile(
    r"\A\W*(?:compose|generate|rephrase|reword|rewrite|translate|write)\b", re.IGNORECASE
)
_STUTTER = re.compile(r"\b(\w+)(?:\W+\1\b){3}", re.IGNORECASE)
FINAL = re.compile(r"[.!?。！？…][\"'”’)\]）」』]*\s*\Z")
# Letters of languages with non-Latin scripts.
_LETTERS = {
    "zh": re.compile(r"[\u3400-\u9fff]"),
    "ja": re.compile(r"[\u3040-\u30ff\u3400-\u9fff]"),
    "ru": re.compile(r"[\u0400-\u04ff]"),
    "el": re.compile(r"[\u0370-\u03ff]"),
    "ar": re.compile(r"[\u0600-\u06ff]"),
    "he": re.compile(r"[\u0590-\u05ff]"),
    "ko": re.compile(r"[\uac00-\ud7af]"),
    "hi": re.compile(r"[\u0900-\u097f]"),
}
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_UNSPACED = ("zh", "ja")
_USUAL_WORDS = {language: frozenset(usual.split()) for language, usual in USUAL_WORDS.items()}


def find_empty(draft: AuthoredDraft) -> str:
    """The text is empty."""
    return "" if re.search(r"\w", draft.text) or draft.is_refused else "the text is empty"


def find_refusal(draft: AuthoredDraft) -> str:
    """The author refuses to write, or refers to itself as a model."""
    hit = REFUSAL.search(without_quotations(draft.text))
    return "the author declined to write" if draft.is_refused or hit else ""


def find_instruction(draft: AuthoredDraft) -> str:
    """The text contains an instruction to a model, a URL, an e-mail address or active markup."""
    hit = INSTRUCTION.search(draft.text)
    if hit:
        quoted = hit[0].strip()[:40]
        return f"the text holds an instruction, an address or a turn of its own: '{quoted}'"
    return ""


def find_talk(draft: AuthoredDraft) -> str:
    """The author comments on its own text, or addresses the reader."""
    hit = TALK.search(without_quotations(draft.text))
    return f"the text speaks of itself or to its reader: '{hit[0].strip()[:40]}'" if hit else ""


def find_repeated_prompt(draft: AuthoredDraft) -> str:
    """The text copies the prompt or its demonstration, or begins with an instruction to write."""
    if hit := _TASK.search(draft.text):
        return f"the text begins with a task: '{hit[0].strip()}'"
    prompt, text, fact = words(draft.prompt), words(draft.text), " ".join(words(draft.fact))
    runs = {
        " ".join(prompt[at : at + REPEATED_WORDS]) for at in range(len(prompt) - REPEATED_WORDS + 1)
    }
    for at in range(len(text) - REPEATED_WORDS + 1):
        run = " ".join(text[at : at + REPEATED_WORDS])
        if run in runs and run not in fact:
            return f"the text repeats the prompt: '{run}'"
    return ""


def find_markup(draft: AuthoredDraft) -> str:
    """The text has headings, lists, labels or placeholders instead of prose."""
    hit = MARKUP.search(draft.text) or HEADING.search(draft.text)
    return f"the text is not running text: '{hit[0].strip()[:40]}'" if hit else ""


def find_other_language(draft: AuthoredDraft) -> str:
    """The text is not in the requested language."""
    tokens = words(draft.text)
    common = sum(word in FUNCTION_WORDS for word in tokens) / max(1, len(tokens))
    if foreign := find_foreign_language(draft):
        return foreign
    if draft.language == "en" and common < ENGLISH:
        return f"only {100 * common:.0f}% of the words are usual English ones"
    return ""


def find_foreign_language(draft: AuthoredDraft) -> str:
    """The text has letters or frequent words of another language; names do not count."""
    if foreign := find_foreign_words(draft):
        return foreign
    tokens, usual = words(draft.text), _USUAL_WORDS.get(draft.language)
    is_other = (
        usual
        and len(tokens) >= RUNNING
        and sum(word in usual for word in tokens) < FEWEST * len(tokens)
    )
    if is_other:
        return f"the text has almost no usual words of the language '{draft.language}'"
    return ""


def find_foreign_words(draft: AuthoredDraft) -> str:
    """The text has letters of another language, or more of its usual words; a sentence may have
    none of its own.
    """
    if foreign := find_foreign_letters(draft):
        return foreign
    tokens = words(draft.text)
    counts = {
        language: sum(word in usual for word in tokens) for language, usual in _USUAL_WORDS.items()
    }
    likeliest = max(counts, key=lambda language: counts[language])
    if draft.language in counts and counts[likeliest] > counts[draft.language]:
        return f"the words are usual ones of the language '{likeliest}', and not '{draft.language}'"
    return ""


def find_foreign_besides(draft: AuthoredDraft, names: Iterable[str]) -> str:
    """The text is in another language without these names, which say nothing about it."""
    text = draft.text
    for name in names:
        text = whole(name).sub("", text)
    return find_foreign_language(draft._replace(text=text))


def find_foreign_letters(draft: AuthoredDraft) -> str:
    """Most letters of the text are not those of the language."""
    letters = _LETTERS.get(draft.language, _LATIN)
    written = [letter for letter in draft.text if letter.isalpha()]
    share = sum(bool(letters.match(letter)) for letter in written) / max(1, len(written))
    if share >= LETTERS:
        return ""
    return (
        f"{100 * (1 - share):.0f}% of the letters are not those of the language '{draft.language}'"
    )


def find_wrong_length(draft: AuthoredDraft) -> str:
    """The text is too short or too long for a paragraph."""
    if draft.language in _UNSPACED:
        count = len(draft.text)
        usual = (SHORTEST_CHARACTERS, LONGEST_CHARACTERS)
        unit = "characters"
    else:
        count, usual, unit = len(words(draft.text)), (SHORTEST, LONGEST), "words"
    bounds = draft.bounds or usual
    if bounds[0] <= count <= bounds[1]:
        return ""
    return f"the text has {count} {unit}, and not {bounds[0]} to {bounds[1]}"


def find_cut(draft: AuthoredDraft) -> str:
    """The text ends in the middle of a sentence."""
    if draft.is_cut_off or not FINAL.search(draft.text):
        return "the text ends within a sentence"
    return ""


def find_loop(draft: AuthoredDraft) -> str:
    """The text repeats the same sentence or phrase several times."""
    sentences = [fold_text(sentence) for sentence in split_sentences(draft.text)]
    sentence, count = next(iter(Counter(sentences).most_common(1)), ("", 0))
    tokens = words(draft.text)
    trigrams = list(zip(tokens, tokens[1:], tokens[2:], strict=False))
    looped = len(trigrams) > 30 and len(set(trigrams)) / len(trigrams) < DISTINCT
    stutter = _STUTTER.search(draft.text)
    if count >= SAME_SENTENCES or looped or stutter:
        return f"the text repeats itself: '{sentence[:60]}'"
    return ""


def find_denial(draft: AuthoredDraft) -> str:
    """The text comments on whether the fact is right."""
    text, fact = without_quotations(draft.text), draft.fact.casefold()
    hit = next((each for each in DENIAL.finditer(text) if each[0].casefold() not in fact), None)
    return f"the text comments on the fact: '{hit[0]}'" if hit else ""


def find_missing_subject(draft: AuthoredDraft) -> str:
    """The text does not name the subject."""
    if names(draft.text, draft.subject):
        return ""
    return f"the text does not name the subject '{draft.subject}'"


def find_missing_object(draft: AuthoredDraft) -> str:
    """The text does not name the new object."""
    if any(names(draft.text, name) for name in (draft.new, *draft.aliases)):
        return ""
    return f"the text does not name the new object '{draft.new}'"


def find_old_object(draft: AuthoredDraft) -> str:
    """The text names the old object."""
    others = draft.subject, draft.new
    if leaves(draft.fact, draft.old, others):
        return ""
    if leaves(draft.text, draft.old, others):
        return f"the text names the old object '{draft.old}'"
    return ""


def find_two_objects(draft: AuthoredDraft) -> str:
    """The text names two objects as alternatives."""
    new = re.escape(fold_text(draft.new))
    hit = re.search(rf"\beither\b[^.]*{new}|{new},? or\b|\bor {new}\b", fold_text(draft.text))
    return f"the text names two possible objects: '{hit[0][:60]}'" if hit else ""


def without_quotations(text: str) -> str:
    """Return a text in folded typography with the content of its quotations removed."""
    return QUOTATION.sub('""', fold_typography(text))


TextFilter = Callable[[AuthoredDraft], str]
# Filters in the order in which they are applied; the first that rejects a text gives the reason.
TEXT_FILTERS: Mapping[str, TextFilter] = {
    "empty": find_empty,
    "refusal": find_refusal,
    "talk": find_talk,
    "instruction": find_instruction,
    "repeated_prompt": find_repeated_prompt,
    "markup": find_markup,
    "language": find_other_language,
    "length": find_wrong_length,
    "cut_off": find_cut,
    "loop": find_loop,
    "denial": find_denial,
    "subject": find_missing_subject,
    "new_object": find_missing_object,
    "old_object": find_old_object,
    "two_objects": find_two_objects,
}
# Filters of texts about one fact with an old and a new object.
ABOUT_OBJECTS = frozenset({"subject", "new_object", "old_object", "two_objects"})


class FilterFault(NamedTuple):
    """Name of the filter that rejects a text, and the reason; both are empty if none does."""

    filter: str = ""
    reason: str = ""


def first_fault(
    draft: Any, filters: Mapping[str, Callable[..., str]] = TEXT_FILTERS, *others: object
) -> FilterFault:
    """Return the first filter that rejects a draft.

    Args:
        draft: first argument of the filters, such as a text.
        filters: filters by name, in order.
        others: further arguments of each filter.
    """
    return next(
        (
            FilterFault(name, reason)
            for name, find in filters.items()
            if (reason := find(draft, *others))
        ),
        FilterFault(),
    )
