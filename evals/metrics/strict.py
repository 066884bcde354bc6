"""The plainest rule for a text answer: the same characters."""

from collections.abc import Iterable


def strict_match(reply: str, golds: Iterable[str]) -> float:
    """1.0 when the reply is, letter for letter and in the same case, one of the gold answers, else 0.0.

    The rule of MeLLo's released code (Zhong et al. 2023), on the line that an editor hands over, of which white space
    around it and one full stop at its end are already gone. An alias is never looked for inside a longer reply.
    """
    return float(any(reply == gold for gold in golds))
