"""Split of long texts into pieces, since an encoder reads only the beginning of a text."""

from collections.abc import Callable, Iterator
from typing import Annotated

import numpy as np
from pydantic import Field

from emend.memory.errors import BadSettings
from emend.memory.retrieval.base import Corpus, Entry, Hit, Retriever
from emend.memory.retrieval.conversations.turns import speaker_of, utterance
from emend.memory.retrieval.default import Default
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.focus import sentences
from emend.memory.text_pieces import cut_text
from emend.memory.typography import UNSPACED_LETTER

# Words of a piece: with markup and numbers they fit into MiniLM's window of 256 tokens.
WORDS = 120
# Characters at which a word is cut; few URLs are longer.
LONGEST_WORD = 2_000


def pieces_of(text: str, size: int = WORDS) -> list[str]:
    """Split a text into pieces of whole sentences, each with the speaker.

    A longer sentence is cut. Two letters of a script without spaces count as a word.

    Args:
        text: the text of an entry.
        size: maximum number of words of a piece.
    """
    speaker = speaker_of(text)
    head = f"{speaker}: " if speaker else ""
    pieces: list[list[str]] = [[]]
    room = size
    for sentence in sentences(utterance(text)):
        for part in _parts(sentence, size):
            length = sum(map(_length, part))
            if pieces[-1] and length > room:
                pieces.append([])
                room = size
            pieces[-1] += part
            room -= length
    return [head + " ".join(words) for words in pieces if words] or [text]


def _parts(sentence: str, size: int) -> Iterator[list[str]]:
    """Yield the words of a sentence in parts of at most `size`; a longer word is cut."""
    part: list[str] = []
    room = size
    for written in sentence.split():
        for word in cut_text(written, LONGEST_WORD if written.isascii() else 2 * size):
            length = _length(word)
            if part and length > room:
                yield part
                part, room = [], size
            part.append(word)
            room -= length
    if part:
        yield part


def _length(word: str) -> int:
    return 1 if word.isascii() else max(1, (len(UNSPACED_LETTER.findall(word)) + 1) // 2)


class Pieces:
    """Search over pieces of long texts by another strategy.

    A hit is the whole text, with the score of its best piece.

    Args:
        corpus: the entries to search; the vectors must be in memory, since the pieces are embedded.
        inner: the factory of the strategy that searches the pieces.
        size: maximum number of words of a piece.
    """

    def __init__(
        self,
        corpus: Corpus,
        inner: Callable[[Corpus], Retriever] = Default,
        size: Annotated[int, Field(ge=10)] = WORDS,
    ) -> None:
        self._entries = {entry.id: entry for entry in corpus.entries()}
        self._owners: dict[str, str] = {}
        cut = [(entry, pieces_of(entry.text, size)) for entry in corpus.entries()]
        pieces: list[Entry] = []
        for entry, texts in cut:
            for number, text in enumerate(texts):
                piece = entry if len(texts) == 1 else entry.model_copy(update={"text": text})
                pieces.append(piece.model_copy(update={"id": f"{entry.id}/{number:03d}"}))
                self._owners[pieces[-1].id] = entry.id
        self._most = max((len(texts) for _, texts in cut), default=1)
        self._inner = inner(_piece_corpus(corpus, pieces, [len(texts) for _, texts in cut]))

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k entries, best first."""
        best: dict[str, Hit] = {}
        for hit in self._inner.search(query, k * self._most):
            owner = self._owners[hit.entry.id]
            best.setdefault(owner, Hit(entry=self._entries[owner], score=hit.score))
        return list(best.values())[: max(k, 0)]


def _piece_corpus(corpus: Corpus, pieces: list[Entry], counts: list[int]) -> Corpus:
    """Return a corpus of the pieces; those of cut texts are embedded anew.

    Raises:
        BadSettings: the memory is too large to hold its vectors at once.
    """
    if not isinstance(corpus, ExactCorpus):
        raise BadSettings(
            "the strategy 'pieces' needs a memory that is searched exactly, and this one is too "
            "large: cut long texts before they are added."
        )
    vectors = np.repeat(corpus.vectors, counts, axis=0)
    is_cut = np.repeat(np.array(counts, np.intp) > 1, counts)
    if is_cut.any():
        texts = [piece.text for piece, cut in zip(pieces, is_cut, strict=True) if cut]
        vectors[is_cut] = corpus.embedding.documents(texts)
    return corpus.replaced(pieces, vectors)
