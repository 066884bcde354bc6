"""CounterFact's scores as the released code takes them: by the geometric mean of a target's token probabilities.

Definitions are those of experiments/py/eval_utils_counterfact.py and summarize.py in kmeng01/rome (Meng et al. 2022).
The paper's formulas compare joint probabilities; those are `likelihood.success` and `likelihood.difference`.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from emend.memory.probe import Answer

NO_COUNTS = "the model does not tell how many tokens a target has"
WEIGHTS = {2: 2 / 3, 3: 4 / 3}
"""Weights by length of n-gram, as published; their mean is taken, not their sum."""

_LETTER = r"[\w\u0300-\u036f]"  # NFKD separates accents from letters
_ENDING = r"(?:s|m|d|re|ve|ll)\b"
_WORD = re.compile(
    rf"{_LETTER}+(?=n't\b)|n't\b|'{_ENDING}|{_LETTER}+(?:(?:-|'(?!{_ENDING})){_LETTER}+)*|\.\.\.|[^\w\s]", re.IGNORECASE
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
