"""Reasoning that models write into their replies between `<think>` tags."""

import re

REASONING = re.compile(
    r"(?:<think(?:ing)?>|\A(?:(?!<think(?:ing)?>).)*?(?=</think)).*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE
)
"""Text from one tag to the other; the first may be in the chat template, and so not in the reply."""
REASONING_START = re.compile(r"<think(?:ing)?>", re.IGNORECASE)


def strip_reasoning(reply: str) -> str:
    r"""Return the reply without its reasoning; for reasoning without an end, only what is before it.

    >>> strip_reasoning("<think>\nOslo?\n</think>\nNorway")
    '\nNorway'
    >>> strip_reasoning("Oslo?\n</think>Norway"), strip_reasoning("<think>Oslo?")
    ('Norway', '')
    """
    return REASONING_START.split(REASONING.sub("", reply), maxsplit=1)[0]
