"""Extraction of the passage that answers, without markdown, lead-ins, a restated question and
invented turns.
"""

import re
from functools import lru_cache

from emend.agents.parsing.reply_marks import strip_marks
from emend.memory.text_pieces import SENTENCE_ENDS
from emend.memory.typography import fold_typography

# Lines with which a model continues with invented turns or options.
_NEXT_TURN = re.compile(r"\n\s*(?:(?:Q|Question|Prompt|New Fact|User|Human)\s*:|[B-H]\s*[:)])")
_LABEL = re.compile(
    r"\b(?:(?:final |correct )?answer(?: is)?)\s*[:：]\s*|\\boxed\{"
    r"|\b(?:therefore|thus|hence|so),? the (?:final |correct )?answer is\s+",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"\A\s*(?:A\s*[:：]|(?:sure|certainly|of course|great question|absolutely)\b[!.,]+|"
    r"(?:based on|according to)\b[^,.\n]{0,80}, )\s*",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"\b(?:let me know|would you like|hope this helps|feel "
    r"free)\b.*\Z",
    re.IGNORECASE | re.DOTALL,
)
_MARKDOWN = re.compile(r"(?im)\*\*|__|`+|^\s*#+\s*(?:answer\s*$)?|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)")
_SENTENCE = re.compile(
    r"(?<=[^\W\d_A-Z]{2}[.!?])\s+|(?<=\d{4}[.!?])\s+|(?<=[\"')][.!?])\s+"
    rf"|(?<=[{SENTENCE_ENDS}])|\n+"
)
_COPULA = re.compile(r"\s+(is|are|was|were)\s+")
_WORD = re.compile(r"\w+")
# Words that may be added to those of the question in a sentence that restates it.
_WORDS_BESIDE = frozenset("a an the it he she they this that in at on by of from to".split())


def read_passage(reply: str, continues: bool = False) -> str:
    r"""Return the sentences of a reply that answer the question, in plain typography and without
    the final full stop.

    >>> read_passage("Sure! The capital is **Paris**. Let me know if you need more.")
    'The capital is Paris'
    >>> read_passage(" Ostrim. It is the largest city.\nQ: And?", continues=True)
    'Ostrim'

    Args:
        reply: the raw reply.
        continues: whether the reply continues a plain prompt, so that its first sentence is the
            answer.
    """
    text = _MARKDOWN.sub("", fold_typography(strip_marks(reply))).strip()
    text = _LEAD.sub("", _LEAD.sub("", _NEXT_TURN.split(text, maxsplit=1)[0])).strip()
    if continues:
        return next(iter(sentences(text)), "").removesuffix(".")
    if labels := [*_LABEL.finditer(text)]:
        line = text[labels[-1].end() :].lstrip().partition("\n")[0].rstrip("} ")
        text = line or text
    parts = sentences(_CLOSING.sub("", text))
    answers = [part for part in parts if not part.endswith("?") or len(part.split()) < 3]
    return "\n".join(answers).removesuffix(".")


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text; full stops after initials and short titles do not
    end a sentence.
    """
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


@lru_cache(maxsize=4096)
def sentence_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return the beginning and end of each sentence or line of a text, in characters; one span for
    an empty text.
    """
    ends = [(match.start(), match.end()) for match in _SENTENCE.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    stops = [*(start for start, _ in ends), len(text)]
    return tuple(zip(starts, stops, strict=True))


def without_question(passage: str, question: str) -> str:
    """Return the answer in a passage that is one sentence restating the question, or else the
    passage.

    >>> without_question("The capital of France is Paris", "What is the capital of France?")
    'Paris'
    >>> without_question("Paris is the capital of France", "What is the capital of France?")
    'Paris'
    """
    first, verb, second = (_COPULA.split(passage, maxsplit=1) + ["", ""])[:3]
    if not verb or len(sentences(passage)) > 1:
        return passage
    known = _WORDS_BESIDE | set(_WORD.findall(question.casefold()))
    for stated, answer in ((first, second), (second, first)):
        if known.issuperset(_WORD.findall(stated.casefold())):
            words = answer.split()
            start = next(
                (i for i, word in enumerate(words) if word not in known or not word.islower()), 0
            )
            return " ".join(words[start:])
    return passage
