"""Phrases that show whether a reply denies, hedges or only gives general terms."""

import re

# General words instead of a value.
VAGUE = re.compile(
    r"\b(?:some|several|various|many|multiple|numerous|certain|different|various|few|couple|"
    r"someone|"
    r"somebody|something|somewhere|sometime|sometimes|somehow|recently|related|similar|general|"
    r"generally|kind|kinds|type|types|sort|sorts|variety|range|things?|stuff|other|others|popular|"
    r"famous|well-known|notable|known|certain|particular|special|specific|important|significant|"
    r"interesting|nice|great|good|positive|overall|usually|often|typically|possibly|maybe|perhaps|"
    r"a while|a lot|ago|now|these days|in the past|at some point)\b",
    re.IGNORECASE,
)
HEDGE = re.compile(
    r"\b(?:may|might|could|possibly|probably|perhaps|maybe|likely|unclear|uncertain|unknown|unsure|"
    r"depends?|difficult to|hard to|it is (?:possible|believed)|not sure|no "
    r"(?:information|evidence)|"
    r"as an ai|as of my|cannot|can't|i'm sorry|sorry|unfortunately|not (?:clear|known|specified|"
    r"mentioned|provided)|does not (?:mention|say|specify|provide)|more (?:information|context))\b",
    re.IGNORECASE,
)
NEGATION = re.compile(
    r"\b(?:not|no|never|none|nor|neither|without|nobody|nothing|isn't|wasn't|aren't|weren't|"
    r"doesn't|"
    r"didn't|don't|hasn't|haven't|hadn't|won't|couldn't|wouldn't|no longer|instead of|rather than|"
    r"unlike|incorrect|false)\b|n't\b",
    re.IGNORECASE,
)
# Words before a value that deny it or say that it no longer holds.
PAST_MENTION = re.compile(
    r"\b(?:not|no longer|instead of|rather than|formerly|previously|replac\w+|succeed\w+|used to "
    r"be|"
    r"until|unlike|than|former|before|after)\W+(?:\w+\W+){0,3}\Z",
    re.IGNORECASE,
)
EITHER = re.compile(r"\b(?:or|either|alternatively)\b", re.IGNORECASE)
YES = re.compile(r"\A\W*(?:yes|yeah|yep|correct|true)\b", re.IGNORECASE)
NO = re.compile(r"\A\W*(?:no|nope|false|incorrect)\b", re.IGNORECASE)
APPROXIMATE = re.compile(
    r"\b(?:about|around|approximately|roughly|nearly|almost|over|more than|less "
    r"than|early|mid|late|"
    r"before|after|between|circa|sometime)\b",
    re.IGNORECASE,
)
# Types of questions.
ASKS = {
    "asks a date": re.compile(
        r"\b(?:when|what (?:year|date|day|month)|which "
        r"(?:year|date))\b",
        re.I,
    ),
    "asks a number": re.compile(r"\bhow (?:many|much|long|old|far|tall|big|often)\b", re.I),
    "asks a person": re.compile(r"\b(?:who|whom|whose)\b", re.I),
    "asks a location": re.compile(
        r"\b(?:where|which (?:city|country|state)|what "
        r"(?:city|country))\b",
        re.I,
    ),
    "asks a reason": re.compile(
        r"\b(?:why|how "
        r"(?:do|does|did|is|are|was|were|can|has|have))\b",
        re.I,
    ),
}
