"""Texts on which the output of an edited block is to stay what it is."""

import random
from collections.abc import Sequence
from pathlib import Path

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.prefixes import Ids
from emend.editors.numerics.contexts import context_prefixes
from emend.memory.errors import BadData, BadSettings, MissingData
from emend.memory.files import read_input

SAMPLED_TOKENS = 40
"""Tokens of each text that the unedited model writes itself."""


def read_preserved_texts(lm: CausalLM, file: str, number: int, seed: int) -> tuple[str, ...]:
    """The texts of a file, one a line; without a file as many as are needed, as the unedited model continues openers.

    The published code draws from Alpaca's instructions with their answers; the model's own texts need no data.

    Raises:
        MissingData: there is no such file.
        BadData: it is not UTF-8, or has too few lines.
    """
    if not file:
        return context_prefixes(lm, [(SAMPLED_TOKENS, number)], seed)[1:] if number else ()
    try:
        lines = read_input(Path(file).expanduser()).decode().splitlines()
    except FileNotFoundError as error:
        raise MissingData(f"no file '{file}' of preserved texts: name one with a text a line.") from error
    except UnicodeDecodeError as error:
        raise BadData(f"file '{file}' of preserved texts is not UTF-8: {error}.") from error
    except OSError as error:
        raise BadSettings(f"file '{file}' of preserved texts cannot be read: {error.strerror or error}.") from error
    texts = tuple(line.strip() for line in lines if line.strip())
    if len(texts) < number:
        raise BadData(f"file '{file}' has {len(texts)} texts, and {number} are to be preserved: set ex_data_num.")
    return texts


def draw_preserved(lm: CausalLM, texts: Sequence[str], number: int, seed: int) -> list[Ids]:
    """Token ids of some of the texts, cut to the model's window."""
    return [lm.encode(text)[: lm.window or None] for text in random.Random(seed).sample(list(texts), number)]
