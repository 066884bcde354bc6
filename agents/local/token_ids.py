"""Encoding of prompts and targets with any tokenizer: begin token, boundary and window.

Target tokens are those after the longest common token prefix of "prompt" and "prompt + space +
target", so a target is scored completely even if it changes the tokenisation of the prompt's end
(DocTER counts tokens instead).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from emend.agents.local.prefixes import Encoded, Ids, common
from emend.agents.scoring import join_target
from emend.memory.embeddings.model_load import model_load
from emend.memory.embeddings.tokenizer_growth import check_tokenizers
from emend.memory.errors import BadData, ContextOverflow, ModelError

# Maps texts to token ids, without the tokenizer's special tokens.
Tokenize = Callable[[list[str]], list[list[int]]]


class SpecialTokens(NamedTuple):
    """Begin tokens: `lead` precedes every text, `first` replaces an empty one."""

    lead: Ids
    """The begin token, if the tokenizer adds one."""
    first: int | None
    """The begin token, or else the end token."""

    @classmethod
    def of(cls, tokenizer: Any) -> "SpecialTokens":
        """Return the begin tokens of a Hugging Face tokenizer."""
        bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
        puts_bos = bos is not None and tokenizer("a")["input_ids"][:1] == [bos]
        return cls((bos,) if puts_bos else (), eos if bos is None else bos)


class Encoder:
    """Encodes prompts and targets for a model with a window.

    Args:
        tokenize: the tokenizer.
        special: tokens that begin a text.
        window: maximum number of positions; None is no limit.
        name: the tokenizer's name, for errors.
    """

    def __init__(
        self, tokenize: Tokenize, special: SpecialTokens, window: int | None, name: str
    ) -> None:
        self.window, self.special = window, special
        self._tokenize, self._name = tokenize, name

    @classmethod
    def of(cls, tokenizer: Any, window: int | None, name: str) -> "Encoder":
        """Return the encoder of a Hugging Face tokenizer."""

        def tokenize(texts: list[str]) -> list[list[int]]:
            with _panics_named(name):
                ids: list[list[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
            return ids

        with _panics_named(name):
            special = SpecialTokens.of(tokenizer)
        return cls(tokenize, special, window, name)

    def text(self, text: str) -> Ids:
        """Return token ids with exactly one begin token, if the tokenizer has one; never empty."""
        return self._all([text])[0]

    def prompt(self, text: str, room: int) -> Encoded:
        """Return the token ids of a prompt, truncated on the left so that `room` new tokens fit the
        window.
        """
        return self._cut(self.text(text), None, room)

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> list[Encoded]:
        """Return the token ids of prompts and targets, truncated to the window, and the start of
        each target (never 0).

        Raises:
            BadData: a target is blank, or adds no token.
            ContextOverflow: a target alone does not fit the window.
        """
        texts = dict.fromkeys(
            text for prompt, target in pairs for text in (prompt, join_target(prompt, target))
        )
        ids = dict(zip(texts, self._all(list(texts)), strict=True))
        return [
            self._pair(prompt, target, ids[prompt], ids[join_target(prompt, target)])
            for prompt, target in pairs
        ]

    def _all(self, texts: list[str]) -> list[Ids]:
        encoded: list[Ids] = []
        lead = self.special.lead
        for plain in self._tokenize(texts) if texts else ():
            ids = tuple(plain)
            if ids[: len(lead)] != lead:  # a chat template has already written it
                ids = lead + ids
            encoded.append(ids or self._begin())
        return encoded

    def _pair(self, prompt: str, target: str, alone: Ids, whole: Ids) -> Encoded:
        start = common(alone, whole)
        if start == len(whole):
            raise BadData(
                f"target {target!r} adds no token to {prompt[-60:]!r}: this tokenizer "
                "cannot score it."
            )
        if start == 0:  # the first token must be conditioned on something
            whole, start = self._begin() + whole, 1
        return self._cut(whole, start, 0)

    def _begin(self) -> Ids:
        if self.special.first is None:
            raise ModelError(
                f"{self._name}: its tokenizer has no begin or end token, so an empty prompt "
                "cannot be scored."
            )
        return (self.special.first,)

    def _cut(self, ids: Ids, start: int | None, room: int) -> Encoded:
        """Drop the tokens after the begin token that do not fit; the last token of a target needs
        no position.
        """
        over = len(ids) + room - (start is not None) - (self.window or math.inf)
        begin, cut = len(self.special.lead), max(0, int(over)) if over > 0 else 0
        place = len(ids) if start is None else start
        if place - cut < max(1, begin):
            raise ContextOverflow(
                f"a target of {len(ids) - place} tokens does not fit the window of {self.window} "
                "tokens: use a model with a larger window."
            )
        return Encoded(ids[:begin] + ids[begin + cut :], place - cut, cut)


def load_tokenizer(folder: Path) -> Any:
    """Return the Hugging Face tokenizer of a folder, without network access.

    Raises:
        ModelError: it cannot be read, or makes too long texts.
    """
    from transformers import AutoTokenizer

    check_tokenizers(folder)
    try:
        with model_load(), _panics_named(str(folder)):
            return AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except ModelError:
        raise
    except Exception as error:  # noqa: BLE001  the library raises all kinds
        pass_interrupt(error)
        raise ModelError(
            f"the tokenizer of {folder} cannot be read: {first_line(error)}. Save it again with "
            "`tokenizer.save_pretrained`."
        ) from error


@contextmanager
def _panics_named(name: str) -> Iterator[None]:
    """Name the tokenizer if the code of the package `tokenizers` panics, which raises a class of
    its own below `BaseException`.

    Raises:
        ModelError: instead of it.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ModelError(
            f"the tokenizer of {name} fails ({first_line(error)}): take it from the model's "
            "publisher."
        ) from error


def pass_interrupt(error: BaseException | None) -> None:
    """Raise KeyboardInterrupt if a compiled module converted a Ctrl-C into another error while it
    was loaded.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt
        error = error.__cause__ or error.__context__


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip() or type(error).__name__).partition("\n")[0].rstrip(".")
