"""Recall by ROUGE-L as published by UnKEBench, with the algorithm of the package `rouge` 1.0."""

from collections.abc import Sequence


def rouge_recall(reply: str, gold: str) -> float:
    """Return the share of gold's distinct words in longest common subsequences with a reply.

    Each sentence of gold is compared with each sentence of the reply, and the union of the
    subsequences is taken, as in the package (Lin 2004, summary level). Case and punctuation count;
    sentences end at full stops.
    """
    sentences = [_sentences(text) for text in (gold, reply)]
    words = {word for sentence in sentences[0] for word in sentence}
    if not words:
        return 0.0
    common: set[str] = set()
    for sentence in sentences[0]:
        for other in sentences[1]:
            common.update(_common_subsequence(sentence, other))
    return len(common) / len(words)


def _sentences(text: str) -> list[list[str]]:
    return [sentence.split() for sentence in text.split(".") if sentence]


def _common_subsequence(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Return the longest common subsequence that the package finds."""
    rows = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, word in enumerate(first, 1):
        for j, other in enumerate(second, 1):
            longest = max(rows[i - 1][j], rows[i][j - 1])
            rows[i][j] = rows[i - 1][j - 1] + 1 if word == other else longest
    words, i, j = list[str](), len(first), len(second)
    while i and j:
        if first[i - 1] == second[j - 1]:
            words.append(first[i - 1])
            i, j = i - 1, j - 1
        elif rows[i - 1][j] > rows[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return words
