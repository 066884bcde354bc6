"""CounterFact's RS: similarity of generated texts to reference texts, as the cosine of tf-idf vectors.

Definitions are those of `tfidf_similarity` in kmeng01/rome (Meng et al. 2022), which gives scikit-learn's vectoriser
published weights. The vectoriser is reimplemented here, as that library is no dependency of Emend.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from emend.evals.case import Record
from emend.evals.metrics.estimate import Estimate, estimate
from emend.memory.errors import BadData, MissingData
from emend.memory.json_files import read_json

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
