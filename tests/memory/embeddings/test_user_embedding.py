"""An embedding of the user's own is found by `module:attribute`, named in what it fills, and looked over."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding, load_embedding
from emend.memory.errors import BadSettings, MemoryMismatch
from emend.memory.store.chroma import ChromaMemory

HERE = "tests.memory.embeddings.test_user_embedding"


class Letters:
    """How often each letter from a to z occurs."""

    identity = "letters-1"

    def documents(self, texts: Sequence[str]) -> Any:
        counts = np.array([[text.lower().count(chr(97 + n)) for n in range(26)] for text in texts])
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)

    def queries(self, texts: Sequence[str]) -> Any:
        return self.documents(texts)


class Listed(Letters):
    """Gives plain lists."""

    def documents(self, texts: Sequence[str]) -> Any:
        return super().documents(texts).tolist()


class Dotted(Letters):
    """Keeps the length of its vectors."""

    identity = "letters-1/dot"

    def documents(self, texts: Sequence[str]) -> Any:
        return 3 * super().documents(texts)


class Long(Dotted):
    """As `Dotted`, and does not say so."""

    identity = "long"


class Flat(Letters):
    """One vector for all texts."""

    def documents(self, texts: Sequence[str]) -> Any:
        return super().documents(texts)[0]


class Other(Letters):
    """Questions have fewer dimensions than texts."""

    def queries(self, texts: Sequence[str]) -> Any:
        return np.ones((len(texts), 1))


class Undefined(Letters):
    """Divides by nothing."""

    def documents(self, texts: Sequence[str]) -> Any:
        return np.full((len(texts), 2), np.nan)


class Wordy(Letters):
    """Gives texts for vectors."""

    def documents(self, texts: Sequence[str]) -> Any:
        return list(texts)


class Nameless(Letters):
    """Has no identity."""

    identity = ""


class Later(Letters):
    """Fails on what it was not tried with."""

    def queries(self, texts: Sequence[str]) -> Any:
        if "flood" in texts[0]:
            raise ConnectionError("no service")
        return super().queries(texts)


def load(name: str) -> Any:
    return load_embedding(f"{HERE}:{name}")


@pytest.mark.parametrize("name", ["Letters", "Listed", "Dotted"])
def test_its_vectors_are_those_that_it_gives(name: str) -> None:
    made, plain = load(name), globals()[name]()
    texts = ["Ostrim", "", "城市"]
    assert made.documents(texts).dtype == np.float32
    assert np.allclose(made.documents(texts), plain.documents(texts))
    assert np.allclose(made.queries(texts), plain.queries(texts))
    assert made.documents([]).shape == made.queries([]).shape == (0, 26)


def test_its_identity_has_its_source_and_similarity_and_later_failures_are_named_too() -> None:
    assert load("Letters").identity == f"{HERE}:Letters/letters-1"
    assert load("Dotted").identity == f"{HERE}:Dotted/letters-1/dot"
    with pytest.raises(BadSettings, match="Later' cannot be created or used .ConnectionError: no service"):
        load("Later").queries(["A flood?"])


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Long", "documents of 'The capital of Veldania is Ostrim.' have the length 3 instead of 1"),
        ("Flat", r"documents of 2 texts have the shape \(26,\), not \(2, 26\)"),
        ("Other", r"queries of 2 texts have the shape \(2, 1\), not \(2, 26\)"),
        ("Undefined", "'The capital of Veldania is Ostrim.' are not finite"),
        ("Wordy", "ValueError: could not convert string to float"),
        ("Nameless", "Nameless object.*which has no identity"),
        ("HERE", "'str' object is not callable"),
        ("Missing", "cannot be loaded: module"),
        ("Letters+learned", "cannot be loaded: module"),
    ],
)
def test_objects_that_are_no_embedding_are_refused_by_name(name: str, problem: str) -> None:
    with pytest.raises(BadSettings, match=f"^embedding '{HERE}:{name.replace('+', '.')}'.*{problem}"):
        load(name)


def test_a_memory_stores_the_identity_of_its_embedding(tmp_path: Path) -> None:
    edits = [Edit(form="document", text=text) for text in ("aaa bbb", "ccc ddd", "eee fff")]
    with ChromaMemory(tmp_path, load("Letters")) as memory:
        memory.add(edits)
    with ChromaMemory(tmp_path, load("Letters"), create=False) as memory:
        assert [hit.entry.text for hit in memory.view().nearest("dcdc", 1)] == ["ccc ddd"]
    with pytest.raises(MemoryMismatch, match=f"embedded by '{HERE}:Letters/letters-1'.*--embedding {HERE}:Letters"):
        ChromaMemory(tmp_path, LexicalEmbedding())
