"""The thoughts that reasoning models write into their replies, between marks of their own."""

import re

REASONING = re.compile(
    r"(?:<think(?:ing)?>|\A(?:(?!<think(?:ing)?>).)*?(?=</think)).*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE
)
"""From one mark to the other; the first may stand in the chat template, and so not in the reply."""
REASONING_START = re.compile(r"<think(?:ing)?>", re.IGNORECASE)


def strip_reasoning(reply: str) -> str:
    r"""The reply without its thoughts; of thoughts that have no end, only what stands before them.

    >>> strip_reasoning("<think>\nOslo?\n</think>\nNorway")
    '\nNorway'
    >>> strip_reasoning("Oslo?\n</think>Norway"), strip_reasoning("<think>Oslo?")
    ('Norway', '')
    """
    return REASONING_START.split(REASONING.sub("", reply), maxsplit=1)[0]
