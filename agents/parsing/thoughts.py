"""The thoughts that reasoning models write into their replies, between marks of their own."""

import re

THOUGHTS = re.compile(
    r"(?:<think(?:ing)?>|\A(?:(?!<think(?:ing)?>).)*?(?=</think)).*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE
)
"""From one mark to the other; the first may stand in the chat template, and so not in the reply."""
BEGUN = re.compile(r"<think(?:ing)?>", re.IGNORECASE)


def without_thoughts(reply: str) -> str:
    r"""The reply without its thoughts; of thoughts that have no end, only what stands before them.

    >>> without_thoughts("<think>\nOslo?\n</think>\nNorway")
    '\nNorway'
    >>> without_thoughts("Oslo?\n</think>Norway"), without_thoughts("<think>Oslo?")
    ('Norway', '')
    """
    return BEGUN.split(THOUGHTS.sub("", reply), maxsplit=1)[0]
