"""Tokenizers as files, by which the texts of a benchmark are counted.

A SentencePiece file is read without the package `sentencepiece`: its pieces and scores are those of
a BPE model of the package `tokenizers`, and both cut texts alike.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from emend.memory.embeddings.tokenizer_growth import LARGEST, check_tokenizer
from emend.memory.errors import BadSettings

# Maximum length of a piece; SentencePiece cuts pieces at 16 characters unless told otherwise.
LONGEST_PIECE = 256
# The mark for a space in the pieces of SentencePiece.
SPACE = "\u2581"
REMEDY = (
    "Give a tokenizer.json, a folder that has one, or a SentencePiece file (.model) of type BPE."
)


class PieceType(IntEnum):
    """Types of pieces in a SentencePiece file that matter here."""

    NORMAL = 1
    UNKNOWN = 2
    USER_DEFINED = 4


class Piece(NamedTuple):
    """A piece of a SentencePiece vocabulary; pieces of a higher score are merged first."""

    text: str
    score: float
    type: int


class TokenCount(NamedTuple):
    """A tokenizer that counts the tokens of texts."""

    name: str
    """Name of the file or folder."""
    sha256: str
    """Digest of the file."""
    tokenizer: Any
    """A `tokenizers.Tokenizer`."""
    begin: int
    """Number of tokens that the model's tokenizer puts before a text, and this one does not."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, with those that stand around a text.

        Raises:
            BadSettings: the tokenizer cannot encode one of the texts.
        """
        with _errors_named(self.name):
            encoded = self.tokenizer.encode_batch(list(texts))
        return [len(encoding.ids) + self.begin for encoding in encoded]


def token_count(path: Path) -> TokenCount:
    """Read a tokenizer: a `tokenizer.json`, a folder that has one, or a SentencePiece file of type
    BPE, to whose tokens the begin token is added.

    Raises:
        BadSettings: there is no such file, or it cannot be read as one.
        ModelError: it makes too long texts.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise BadSettings(f"no tokenizer at '{file}'. {REMEDY}")
    if file.stat().st_size > LARGEST:
        raise BadSettings(f"'{file}' has more than {LARGEST:,} bytes: it is not a tokenizer.")
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if file.suffix == ".json":
        return TokenCount(path.name, digest, _json_tokenizer(content, file), 0)
    return TokenCount(path.name, digest, _sentencepiece_tokenizer(content, file), 1)


def _json_tokenizer(content: bytes, file: Path) -> Any:
    from tokenizers import Tokenizer

    check_tokenizer(content, file)
    with _errors_named(str(file)):
        tokenizer = Tokenizer.from_buffer(content)
        tokenizer.no_truncation()
        tokenizer.no_padding()
    return tokenizer


@contextmanager
def _errors_named(name: str) -> Iterator[None]:
    """Name the tokenizer in errors of the package `tokenizers`, which raises `Exception` and, where
    its code panics, a class of its own below `BaseException`.

    Raises:
        BadSettings: instead of these.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        raise BadSettings(f"'{name}' is not a usable tokenizer: {error}. {REMEDY}") from error


def _sentencepiece_tokenizer(content: bytes, file: Path) -> Any:
    from google.protobuf.message import DecodeError
    from tokenizers import AddedToken, Tokenizer, normalizers
    from tokenizers.models import BPE

    try:
        pieces, prefix = _pieces(content)
    except (DecodeError, ValueError) as error:
        raise BadSettings(
            f"'{file}' is not a SentencePiece file of type BPE ({error}). {REMEDY}"
        ) from error
    vocabulary = {piece.text: number for number, piece in enumerate(pieces)}
    unknown = next((piece.text for piece in pieces if piece.type == PieceType.UNKNOWN), None)
    tokenizer = Tokenizer(
        BPE(vocabulary, _merges(pieces), unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    spaces = normalizers.Replace(" ", SPACE)
    if prefix:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces])
    else:
        tokenizer.normalizer = spaces
    user_defined = [piece.text for piece in pieces if piece.type == PieceType.USER_DEFINED]
    tokenizer.add_tokens([AddedToken(text, normalized=True) for text in user_defined])
    return tokenizer


def _merges(pieces: Sequence[Piece]) -> list[tuple[str, str]]:
    """Return all pairs of pieces that make up a piece, those of the highest score first."""
    texts = {piece.text for piece in pieces}
    pairs = [
        (piece.score, piece.text[:cut], piece.text[cut:])
        for piece in pieces
        if piece.type == PieceType.NORMAL
        for cut in range(1, len(piece.text))
        if piece.text[:cut] in texts and piece.text[cut:] in texts
    ]
    pairs.sort(key=lambda pair: -pair[0])
    return [(left, right) for _, left, right in pairs]


def _pieces(content: bytes) -> tuple[list[Piece], bool]:
    """Return the pieces of a file, and whether a space is put before a text.

    Raises:
        DecodeError: the content is not a SentencePiece file.
        ValueError: the model is not BPE, has a piece that is too long, or normalizes texts by rules
            of its own.
    """
    from transformers.utils import sentencepiece_model_pb2_new

    definitions: Any = sentencepiece_model_pb2_new  # its classes are made at import
    model = definitions.ModelProto.FromString(content)
    if model.trainer_spec.model_type != definitions.TrainerSpec.BPE or not model.pieces:
        raise ValueError("not of type BPE")
    if any(len(piece.piece) > LONGEST_PIECE for piece in model.pieces):
        raise ValueError(f"a piece of more than {LONGEST_PIECE} characters")
    if model.normalizer_spec.precompiled_charsmap:
        raise ValueError("rules of normalization")
    pieces = [Piece(piece.piece, piece.score, piece.type) for piece in model.pieces]
    return pieces, model.normalizer_spec.add_dummy_prefix
