"""The topic of a request about a conversation, without the words that ask for a reply."""

import re

from emend.memory.retrieval.focus import sentences

_FORM = "(?:summary|overview|recap|outline|timeline|list|account|description|breakdown)"
# What kind of reply is wanted: "Can you give me a short summary of", "Please walk me through".
_LEAD = re.compile(
    r"\A\W*(?:(?:can|could|would|will) you (?:please |kindly )?|please )?(?:"
    r"(?:give|provide|write|offer|show|tell|make|create) (?:me |us )?(?:an? |the )?(?:\w+ ){0,2}?"
    rf"{_FORM} of(?: everything)?"
    r"|summari[sz]e|recap|outline|list|(?:walk|take|guide) (?:me|us) through)\b(?: in order)?",
    re.IGNORECASE,
)
# In which order something was said: "the order in which I brought up different aspects of".
_ORDER = re.compile(
    r"\b(?:the order in which|how|when) (?:i|we) (?:first )?"
    r"(?:brought up|mentioned|raised|discussed|talked about)"
    r"(?: (?:the |my )?(?:different|various))?"
    r"(?: (?:aspects|concepts|topics|ideas|things|ways|parts)(?: of| about| related to)?)?",
    re.IGNORECASE,
)
# The conversation itself: "throughout our conversations", "that we discussed", "so far".
_CONVERSATION = re.compile(
    r",? ?\b(?:throughout|across|in|over|during|from|through) (?:all )?(?:of )?"
    r"(?:our|these|my|this|the) (?:conversation|discussion|chat|session)s?\b"
    r"| ?\b(?:that )?(?:we|i)(?:'ve| have)?(?: been)? "
    r"(?:discuss(?:ed|ing)|talk(?:ed|ing) about|cover(?:ed|ing)|mention(?:ed|ing))\b"
    r"|,? ?\b(?:so far|over time|in order|along the way)\b",
    re.IGNORECASE,
)
# A sentence on the form of the reply: "Mention only five items."
_INSTRUCTION = re.compile(
    r"\W*(?:please )?"
    r"(?:mention|include|list|name|give|use|state|write|keep|limit|answer|reply|respond)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w{3,}")


def topic_of(request: str) -> str:
    """Return a request without the words that say what kind of reply is wanted.

    If hardly a word is left, return the whole request.

    >>> topic_of("Can you give me a short summary of how my garden changed over time?")
    'how my garden changed?'
    """
    plain = " ".join(request.replace("’", "'").split())
    first, *others = sentences(plain) or [plain]
    topic = " ".join([first, *(each for each in others if not _INSTRUCTION.match(each))])
    for pattern in (_LEAD, _ORDER, _CONVERSATION):
        topic = pattern.sub("", topic)
    return " ".join(topic.split()) if _WORD.search(topic) else request
