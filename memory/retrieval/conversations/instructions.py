"""Standing instructions and preferences of a user, which apply to later requests for help.

"Always use bullet points when I ask about my CV" shares few words with "How do I list my jobs?".
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.conversations.turns import USER, speaker_of, utterance

# Bonuses in standard deviations of a part's scores, chosen on BEAM; from 4 to 6 and from 2 to 4
# recall hardly changes.
INSTRUCTION, PREFERENCE = 5.0, 2.0
# A question to the assistant itself, not about what it said: "Can you help me", "do you think".
ADDRESS = re.compile(r"\b(?:can|could|would|will|do) you\b", re.IGNORECASE)
_HELP = re.compile(
    rf"{ADDRESS.pattern}|\bhow (?:can|could|do|should|would) I\b|\bshould I\b"
    r"|\bwhat (?:are|is) (?:some|the best|good)\b",
    re.IGNORECASE,
)
_INSTRUCTION = re.compile(
    r"\W*(?:please )?(?:always|never|from now on|in (?:the )?future|remember to|whenever)\b",
    re.IGNORECASE,
)
_PREFERENCE = re.compile(r"\bI(?:'d|’d| would)?(?: \w+)? prefer\b|\bmy preference\b", re.IGNORECASE)


def asks_for_help(query: str) -> bool:
    """Return whether a query asks the assistant for help, not about the conversation."""
    return bool(_HELP.search(query))


def standing_bonus(entries: Sequence[Entry]) -> NDArray[np.float64]:
    """Return the bonus of every entry for queries that ask for help; shape (entries,).

    Only a user's messages to an assistant have one.
    """
    bonus = np.zeros(len(entries))
    for position, entry in enumerate(entries):
        text = utterance(entry.text)
        if speaker_of(entry.text) != USER:
            continue
        if _INSTRUCTION.match(text):
            bonus[position] = INSTRUCTION
        elif _PREFERENCE.search(text):
            bonus[position] = PREFERENCE
    return bonus
