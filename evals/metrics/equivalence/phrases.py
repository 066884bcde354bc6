"""Phrases that show whether a reply denies, hedges or only gives general terms."""

import re

from emend.agents.parsing.patterns import PatternFile

_FILE = PatternFile.beside(__file__)

# General words instead of a value.
VAGUE = _FILE.read("vague")
HEDGE = _FILE.read("hedge")
NEGATION = _FILE.read("negation")
# Words before a value that deny it or say that it no longer holds.
PAST_MENTION = _FILE.read("past_mention")
EITHER = re.compile(r"\b(?:or|either|alternatively)\b", re.IGNORECASE)
YES = re.compile(r"\A\W*(?:yes|yeah|yep|correct|true)\b", re.IGNORECASE)
NO = re.compile(r"\A\W*(?:no|nope|false|incorrect)\b", re.IGNORECASE)
APPROXIMATE = _FILE.read("approximate")
# Types of questions.
ASKS = {
    f"asks a {kind}": _FILE.read(f"asks_{kind}")
    for kind in ("date", "number", "person", "location", "reason")
}
