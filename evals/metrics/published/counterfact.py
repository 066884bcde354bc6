"""CounterFact's scores: mean token probabilities, fluency (GE), and consistency (RS).

The definitions are those of experiments/py/eval_utils_counterfact.py and summarize.py in
kmeng01/rome (Meng et al. 2022). The paper's formulas compare joint probabilities; those are
`success` and `difference` of `metrics.scores`.

RS follows `tfidf_similarity` there, which gives scikit-learn's vectoriser the published weights.
The vectoriser is reimplemented here, since Emend does not depend on scikit-learn.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

from emend.evals.case import Record
from emend.evals.metrics.estimate import Estimate, estimate
from emend.memory.errors import BadData, MissingData
from emend.memory.json_files import read_json
from emend.memory.probe import Answer

NO_COUNTS = "the model does not report how many tokens a target has"


# Weights by length of n-gram, as published; the code averages the weighted entropies, it does not
# sum them.
WEIGHTS = {2: 2 / 3, 3: 4 / 3}

_CHAR = r"[\w\u0300-\u036f]"  # NFKD separates accents from letters

_ENDING = r"(?:s|m|d|re|ve|ll)\b"

_WORD = re.compile(
    rf"{_CHAR}+(?=n't\b)|n't\b|'{_ENDING}|{_CHAR}+(?:(?:-|'(?!{_ENDING})){_CHAR}+)*|\.\.\.|[^\w\s]",
    re.IGNORECASE,
)


def per_token(answer: Answer) -> tuple[list[float], str]:
    """Return the mean natural-log probability per token of each target, or why there is none.

    Its exponential is the geometric mean of the token probabilities.
    """
    if len(answer.target_tokens) != len(answer.log_probs) or 0 in answer.target_tokens:
        return [], NO_COUNTS
    return [
        min(p, 0.0) / n for p, n in zip(answer.log_probs, answer.target_tokens, strict=True)
    ], ""


def words(text: str) -> list[str]:
    """Split a text into words and punctuation marks; English contractions become two words.

    The released code uses nltk's `word_tokenize`, whose rules for abbreviations and quotes are not
    reimplemented here.

    >>> words("She didn't go, it's late.")
    ['She', 'did', "n't", 'go', ',', 'it', "'s", 'late', '.']
    """
    return _WORD.findall(unicodedata.normalize("NFKD", text))


def fluency(text: str) -> float:
    """Return GE of a text with its prompt: the weighted entropy of bigrams and trigrams, in bits.

    GE is (2/3 H2 + 4/3 H3) / 2; as in the code, H is 0 for a text with fewer than n words.
    Published tables show 100 times this value.
    """
    tokens = words(text)
    return sum(weight * entropy(tokens, n) for n, weight in WEIGHTS.items()) / len(WEIGHTS)


def entropy(tokens: Sequence[str], n: int) -> float:
    """Return the Shannon entropy of the n-gram frequencies in bits; 0.0 for fewer than n words."""
    counts = Counter(tuple(tokens[at : at + n]) for at in range(len(tokens) - n + 1))
    total = sum(counts.values())
    if total:
        return -math.fsum(count / total * math.log2(count / total) for count in counts.values())
    return 0.0


SNIPPETS, IDF, VOCABULARY = "attribute_snippets.json", "idf.npy", "tfidf_vocab.json"


GENERATION, REFERENCE = "generation", "reference"


# Fields of a record that `consistency` reads.
FIELDS = (
    "kind",
    "checkpoint",
    "editor",
    "setting",
    "mode",
    "repeat",
    "case",
    "tags",
    "prompt",
    "answer",
)

_TOKEN = re.compile(r"\b\w\w+\b")


class References(NamedTuple):
    """Reference texts by "relation/target", joined, and the published weight of each word."""

    texts: Mapping[str, str]
    weights: Mapping[str, float]

    @classmethod
    def read(cls, folder: Path) -> "References":
        """Read the three files that are published with CounterFact.

        Raises:
            MissingData: a file is missing.
            BadData: a file is malformed.
        """
        import numpy as np  # imported lazily: of all scores here, only RS needs it

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
        # the files may have any other content
        except (ValueError, LookupError, TypeError, EOFError, AttributeError, BadZipFile) as error:
            raise BadData(
                f"'{folder}': the reference texts cannot be read ({error!r}); fetch the files "
                "again."
            ) from error
        return cls({key: " ".join(parts) for key, parts in texts.items()}, weights)


def _length(vector: Mapping[str, float]) -> float:
    return math.sqrt(math.fsum(value * value for value in vector.values()))


def similarity(first: str, second: str, weights: Mapping[str, float]) -> float | None:
    """Return the cosine of the tf-idf vectors; None (the code's NaN) without a known word."""
    vectors = [_vector(text, weights) for text in (first, second)]
    sizes = [_length(vector) for vector in vectors]
    if not all(sizes):
        return None
    return math.fsum(
        value * vectors[1].get(word, 0.0) for word, value in vectors[0].items()
    ) / math.prod(sizes)


def _vector(text: str, weights: Mapping[str, float]) -> dict[str, float]:
    counts = Counter(word for word in _TOKEN.findall(text.lower()) if word in weights)
    return {word: count * weights[word] for word, count in counts.items()}


def consistency(records: Iterable[Record], references: References) -> dict[str, Estimate]:
    """Return RS by editor, from a run's records of kind `generation`.

    There is one observation per case and repeat. The texts of a case, with their prompts, are
    joined and compared with the joined reference texts of its relation and new target, which the
    records' tag `reference` names. A case without texts or references is unscored.
    """
    texts: dict[tuple[str, ...], list[str]] = defaultdict(list)
    keys: dict[tuple[str, ...], Any] = {}
    for record in records:
        if record.kind == GENERATION and not record.checkpoint:
            case = (record.editor, record.setting, record.mode, str(record.repeat), record.case)
            keys[case] = record.tags.get(REFERENCE, "")
            texts[case] += [] if record.answer is None else [f"{record.prompt} {record.answer}"]
    values: dict[tuple[str, ...], float | None] = {}
    for row, reference in keys.items():
        values[row] = _similarity_to(texts[row], references.texts.get(reference, ""), references)
    estimates: dict[str, Estimate] = {}
    for name in dict.fromkeys(editor for editor, *_ in values):
        scores = {key: value for key, value in values.items() if key[0] == name}
        estimates[name] = estimate(list(scores.values()), [case for *_, case in scores])
    return estimates


def _similarity_to(texts: Sequence[str], reference: str, references: References) -> float | None:
    if texts and reference:
        return similarity(" ".join(texts), reference, references.weights)
    return None
