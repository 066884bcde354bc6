"""Scores as the papers define them: AKEW's types of error, CounterFact's by the mean of tokens and RS, ELKEN's rules.

CounterFact's definitions are those of experiments/py/eval_utils_counterfact.py and summarize.py in kmeng01/rome (Meng
et al. 2022). The paper's formulas compare joint probabilities; those are `success` and `difference` of
`metrics.scores`.

ELKEN's definitions are those of metric.py, examiner/ and overall_event_level_metric.py in
THU-KEG/Event-Level-Knowledge-Editing. Editors return the first non-empty line without its final full stop, so a reply
that opens with an empty line is parsed, where the code finds nothing. Each strict rule has a lenient counterpart of
ours.

RS has the definition of `tfidf_similarity` in kmeng01/rome (Meng et al. 2022), which gives scikit-learn's vectoriser
published weights. The vectoriser is reimplemented here, as that library is no dependency of Emend.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

from emend.evals.case import Record
from emend.evals.metrics.estimate import Estimate, estimate
from emend.evals.metrics.scores import NO_BASELINE, NO_TEXT, ProbeScores
from emend.evals.metrics.text import fold, parse_choice
from emend.memory.errors import BadData, MissingData
from emend.memory.json_files import read_json
from emend.memory.probe import Answer, Probe
from emend.memory.retrieval.tokens import stems

EDITED = ("efficacy", "efficacy_contaminated", "efficacy_repeated")
INCOMPLETE, AMBIGUOUS = "triplet: incomplete", "triplet: ambiguous"
OLD, IRRELEVANT = "answer: old", "answer: irrelevant"
ERROR_FIELDS = ("prompt", "gold", "rival", "answer", "tags")
"""Fields of a record by which an error is sorted, beside its setting."""


def akew_error(record: Record, edits: Sequence[dict[str, Any]]) -> str:
    """The error type of a failed edit.

    Args:
        record: its record; the tag `recoverable` says whether a triplet names subject and new object. Without it the
            edits do.
        edits: the edits of its case, as `cases.jsonl` has them.
    """
    if record.setting == "extract" and not record.tags.get("recoverable", _names_both(record, edits)):
        return AMBIGUOUS if any(_states_relation(edit, record.prompt) for edit in edits) else INCOMPLETE
    if record.answer is None or record.rival is None:
        return IRRELEVANT
    named, _ = parse_choice(record.answer, (record.gold[0], record.rival))
    return OLD if named == record.rival else IRRELEVANT


def _names_both(record: Record, edits: Sequence[dict[str, Any]]) -> bool:
    """Return True if a triplet names the prompt's subject and the new object, ignoring case."""
    request, gold = record.prompt.lower(), record.gold[0].lower()
    triplets = [(str(edit.get("subject", "")).lower(), str(edit["text"]).lower()) for edit in edits]
    return any(subject and subject in request and gold in text for subject, text in triplets)


def _states_relation(edit: dict[str, Any], prompt: str) -> bool:
    """Return True if a triplet has the prompt's subject and its relation."""
    subject, fact = str(edit.get("subject", "")), str(edit["text"])
    if not subject or fold(subject) not in fold(prompt):
        return False
    request = set(stems(_without(prompt, subject)))
    relation = _without(_without(fact, subject), str(edit.get("target_new", "")))
    return bool(request & set(stems(relation)))


def _without(text: str, part: str) -> str:
    at = text.casefold().find(part.casefold()) if part else -1
    return text if at < 0 else f"{text[:at]} {text[at + len(part) :]}"


NO_COUNTS = "the model does not tell how many tokens a target has"
WEIGHTS = {2: 2 / 3, 3: 4 / 3}
"""Weights by length of n-gram, as published; their mean is taken, not their sum."""

_CHAR = r"[\w\u0300-\u036f]"  # NFKD separates accents from letters
_ENDING = r"(?:s|m|d|re|ve|ll)\b"
_WORD = re.compile(
    rf"{_CHAR}+(?=n't\b)|n't\b|'{_ENDING}|{_CHAR}+(?:(?:-|'(?!{_ENDING})){_CHAR}+)*|\.\.\.|[^\w\s]",
    re.IGNORECASE,
)


def per_token(answer: Answer) -> tuple[list[float], str]:
    """Mean natural-log probability of each target's tokens (exp of it is the geometric mean), or the reason why not."""
    if len(answer.target_tokens) != len(answer.log_probs) or 0 in answer.target_tokens:
        return [], NO_COUNTS
    return [min(p, 0.0) / n for p, n in zip(answer.log_probs, answer.target_tokens, strict=True)], ""


def words(text: str) -> list[str]:
    """Words, English contractions in two, and punctuation marks each for itself.

    The released code takes nltk's `word_tokenize`, whose rules for abbreviations and quotes are not reimplemented here.

    >>> words("She didn't go, it's late.")
    ['She', 'did', "n't", 'go', ',', 'it', "'s", 'late', '.']
    """
    return _WORD.findall(unicodedata.normalize("NFKD", text))


def fluency(text: str) -> float:
    """GE of one text, its prompt included: weighted entropy in bits of its bigrams and trigrams.

    (2/3 H2 + 4/3 H3) / 2; a text with fewer than n words has an H of 0, as coded. Tables print 100 times this.
    """
    tokens = words(text)
    return sum(weight * entropy(tokens, n) for n, weight in WEIGHTS.items()) / len(WEIGHTS)


def entropy(tokens: Sequence[str], n: int) -> float:
    """Shannon entropy in bits of the n-grams' frequencies; 0.0 for fewer than n words."""
    counts = Counter(tuple(tokens[at : at + n]) for at in range(len(tokens) - n + 1))
    total = sum(counts.values())
    return -math.fsum(count / total * math.log2(count / total) for count in counts.values()) if total else 0.0


UNKNOWN = "unknown"
UNITED_STATES = "United States"
"""Accepted in addition to name and aliases when the answer is Q30, none of whose aliases has this form."""
LETTERS = ("A", "B", "C")
SCALES = ("accuracy", "coherence", "comprehensive", "overall")
FULL_MARK = 5

Marks = Mapping[str, int]
"""A judge's marks for one free answer: scale -> 1 to 5."""

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
    """Return True if the reply equals the gold name or an alias; for the gold `unknown`, if it contains that word.

    Args:
        reply: the model's reply.
        golds: the gold name, then its aliases.
    """
    line = normalise_answer(reply)
    if golds[0] == UNKNOWN:
        return UNKNOWN in line
    return line in {normalise_answer(gold) for gold in golds}


def normalise_locality(text: str, aliases: Sequence[str] = ()) -> str:
    """Normalise a reply for comparison: any alias becomes the first alias, a reply with `unknown` becomes that word.

    The reply is in lower case and the aliases as written, so that only aliases in lower case are ever met; the gold
    name plays no part, because agreement is asked and not correctness.
    """
    line = normalise_answer(text)
    if line in aliases:
        line = aliases[0]
    return UNKNOWN if UNKNOWN in line else line


def parse_option(text: str) -> str:
    """Parse the option as the code does: one "(A)" anywhere in the first line, else the text before its first ".".

    A result that is no letter (`a`, `A: Increase`, `A) Increase`) is returned unchanged and is wrong.
    """
    line = text.split("\n", 1)[0].strip()
    if "(" in line:
        letters = _MARKED.findall(line)
        return str(letters[0]) if len(letters) == 1 else line
    return line.split(".", 1)[0]


def parse_option_leniently(text: str, options: Sequence[str] = ()) -> str | None:
    """Parse the one option that a reply names: as the code does, by a letter in another form (`B)`) or by its text.

    Args:
        text: the reply, of which the first non-empty line is parsed.
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


def full_mark_rate(marks: Sequence[Marks | None], scale: str) -> float | None:
    """Share of answers with 5 on a scale; unparsable marks count as less than 5, as in the code."""
    return sum(_full(mark, scale) for mark in marks) / len(marks) if marks else None


def judged_edit_level(marks: Sequence[Marks | None], events: Sequence[str], original: bool = False) -> float | None:
    """Share of events whose free answers all have 5 overall, so that unparsable marks fail; None when there are none.

    Args:
        marks: per judged answer.
        events: the event of each.
        original: count as `compute_event_score` does: an event begins wherever the text differs from the one before;
            one without any parsable marks fails and is not counted; the last one's verdict is lost, and the number of
            its parsable marks counts in the place of 1.
    """
    full = [_full(mark, "overall") for mark in marks]
    if not original:
        failed = {event for event, flag in zip(events, full, strict=True) if not flag}
        count = len(set(events))
        return (count - len(failed)) / count if count else None
    runs = [list(run) for _, run in groupby(zip(events, marks, full, strict=True), key=lambda answer: answer[0])]
    parsed = [sum(mark is not None for _, mark, _ in run) for run in runs]
    total = sum(map(bool, parsed[:-1])) + sum(parsed[-1:])
    return sum(all(flag for _, _, flag in run) for run in runs[:-1]) / total if total else None


def _full(marks: Marks | None, scale: str) -> bool:
    return marks is not None and marks[scale] == FULL_MARK


def score_elken_fact(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`right` of a fact question; also `overall` where its event has tendency questions that are in scope.

    `overall` does not accept the label `United States`, as overall_event_level_metric.py does not add it.
    """
    event = bool(probe.tags.get("tendency_event"))
    if answer.text is None:
        return ProbeScores({}, dict.fromkeys(("right", "overall") if event else ("right",), NO_TEXT))
    values = {"right": float(fact_right(answer.text, probe.gold))}
    if event:
        plain = probe.gold[:-1] if probe.tags.get("united_states") else probe.gold
        values["overall"] = float(fact_right(answer.text, plain))
    return ProbeScores(values, {})


def score_elken_option(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`option` and `option_lenient`: the parsed option is the gold one; `overall` is the first again.

    A reply that names no option, or several, is wrong in both, as in the code, which divides by all questions. Unlike
    the code, Emend strips the prompt's last words from a reply that repeats them.
    """
    if answer.text is None:
        return ProbeScores({}, dict.fromkeys(("option", "option_lenient", "overall"), NO_TEXT))
    strict = float(parse_option(answer.text) == probe.gold[0])
    lenient = float(parse_option_leniently(answer.text, probe.choices) == probe.gold[0])
    return ProbeScores({"option": strict, "option_lenient": lenient, "overall": strict}, {})


def score_elken_fact_same(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`same`: a fact question that is out of scope is answered as before, after the code's normalisation."""
    if (reason := _no_pair(answer, before)) or before is None:
        return ProbeScores({}, {"same": reason})
    aliases = probe.gold[1:]
    now, then = (normalise_locality(reply.text or "", aliases) for reply in (answer, before))
    return ProbeScores({"same": float(now == then)}, {})


def score_elken_option_same(probe: Probe, answer: Answer, before: Answer | None) -> ProbeScores:
    """`same`: the reply's text is as before (the code's rule: `C` and `(C)` differ); `same_option`: its option is.

    `same_option` is unscored where one of the two replies names no option, or several.
    """
    if (reason := _no_pair(answer, before)) or before is None:
        return ProbeScores({}, {"same": reason, "same_option": reason})
    values = {"same": float(normalise_locality(answer.text or "") == normalise_locality(before.text or ""))}
    now, then = (parse_option_leniently(reply.text or "", probe.choices) for reply in (answer, before))
    if now is None or then is None:
        who = "edited" if now is None else "unedited"
        return ProbeScores(values, {"same_option": f"the {who} model's reply names no option, or several"})
    return ProbeScores(values | {"same_option": float(now == then)}, {})


def _no_pair(answer: Answer, before: Answer | None) -> str:
    if before is None:
        return NO_BASELINE
    return NO_TEXT if answer.text is None or before.text is None else ""


SNIPPETS, IDF, VOCABULARY = "attribute_snippets.json", "idf.npy", "tfidf_vocab.json"
GENERATION, REFERENCE = "generation", "reference"
FIELDS = ("kind", "checkpoint", "editor", "setting", "mode", "repeat", "case", "tags", "prompt", "answer")
"""Fields of a record that are read."""
_TOKEN = re.compile(r"\b\w\w+\b")


class References(NamedTuple):
    """The reference texts of each "relation/target", joined, and the published weight of each word."""

    texts: Mapping[str, str]
    weights: Mapping[str, float]

    @classmethod
    def read(cls, folder: Path) -> "References":
        """Read the three files that are published with CounterFact.

        Raises:
            MissingData: a file is absent.
            BadData: a file is malformed.
        """
        import numpy as np  # lazily: of all scores here, RS alone needs it

        for name in (SNIPPETS, IDF, VOCABULARY):
            if not (folder / name).is_file():
                raise MissingData(
                    f"RS needs {SNIPPETS}, {IDF} and {VOCABULARY}, and '{folder}' lacks {name}: "
                    f"get it from rome.baulab.info/data/dsets/{name}."
                )
        try:
            texts: defaultdict[str, list[str]] = defaultdict(list)
            for group in read_json(folder / SNIPPETS, links=True):
                key = f"{group['relation_id']}/{group['target_id']}"
                texts[key] += [sample["text"] for sample in group["samples"]]
            idf = np.load(folder / IDF, allow_pickle=False)
            places: dict[str, int] = read_json(folder / VOCABULARY, links=True)
            weights = {word: float(idf[place]) for word, place in places.items()}
        except (ValueError, KeyError, TypeError, IndexError, EOFError, AttributeError, BadZipFile) as error:
            raise BadData(
                f"'{folder}': the reference texts cannot be read ({error!r}); fetch the files again."
            ) from error
        return cls({key: " ".join(parts) for key, parts in texts.items()}, weights)


def similarity(first: str, second: str, weights: Mapping[str, float]) -> float | None:
    """Cosine of the tf-idf vectors; None where a text has no word of the vocabulary (the code's NaN)."""
    vectors = [_vector(text, weights) for text in (first, second)]
    sizes = [math.sqrt(math.fsum(value * value for value in vector.values())) for vector in vectors]
    if not all(sizes):
        return None
    return math.fsum(value * vectors[1].get(word, 0.0) for word, value in vectors[0].items()) / math.prod(sizes)


def _vector(text: str, weights: Mapping[str, float]) -> dict[str, float]:
    counts = Counter(word for word in _TOKEN.findall(text.lower()) if word in weights)
    return {word: count * weights[word] for word, count in counts.items()}


def consistency(records: Iterable[Record], references: References) -> dict[str, Estimate]:
    """RS by editor, from a run's records of kind `generation`; one observation per case and repeat.

    A case's texts, prompts included, are joined and compared with the joined reference texts of its relation and new
    target, which the records' tag `reference` names. A case without texts or references is unscored.
    """
    texts: dict[tuple[str, ...], list[str]] = defaultdict(list)
    keys: dict[tuple[str, ...], Any] = {}
    for record in records:
        if record.kind == GENERATION and not record.checkpoint:
            place = (record.editor, record.setting, record.mode, str(record.repeat), record.case)
            keys[place] = record.tags.get(REFERENCE, "")
            texts[place] += [] if record.answer is None else [f"{record.prompt} {record.answer}"]
    values = {place: _similarity_to(texts[place], references.texts.get(keys[place], ""), references) for place in keys}
    return {
        editor: estimate([v for p, v in values.items() if p[0] == editor], [p[-1] for p in values if p[0] == editor])
        for editor in dict.fromkeys(place[0] for place in values)
    }


def _similarity_to(texts: Sequence[str], reference: str, references: References) -> float | None:
    return similarity(" ".join(texts), reference, references.weights) if texts and reference else None
