"""MeLLo's graph on the published transcripts leads to the same queries and answers."""

import json
import re
from itertools import takewhile

import pytest

from emend.memory.errors import ModelReplyError
from tests.fakes import ScriptedChatModel
from tests.graphs.mello_walks import TextsInTurn, walk
from tests.paths import SHARED

TRANSCRIPTS = SHARED / "data/mquake/mello_gptj_transcripts.sample.json"


def transcripts() -> list[tuple[str, str, str]]:
    """Question, text and final answer of each."""
    return [
        told
        for case in json.loads(TRANSCRIPTS.read_text(encoding="utf-8"))
        for told in zip(case["questions"], case["gens"], case["preds"], strict=False)
    ]


NO_ANSWER = "!!!!!"


FOUND = re.compile(r"Retrieved fact: ([^\n]*)\n?")


def logged(text: str) -> tuple[list[str], list[str]]:
    """What the model said, round by round, and what was retrieved between, in one transcript."""
    parts = FOUND.split(text.partition("\n")[2])
    return parts[::2], parts[1::2]


def queries_of(said: list[str]) -> list[str]:
    """The published rule: the line before the last, if it is a subquestion."""
    found = []
    for text in said:
        *_, asked, _ = ["", "", *text.strip().splitlines()]
        found.append(asked.removeprefix("Subquestion: ") if asked.startswith("Subquestion: ") else "")
    return found


def replayed(question: str, said: list[str], found: list[str]) -> tuple[str, list[str]]:
    """The graph's answer and queries, when the model says and the memory finds what the transcript has."""
    left, memory = iter(said), TextsInTurn(*found)
    try:
        final, _ = walk(ScriptedChatModel(reply=lambda prompt: next(left, "")), memory, question=question, hops=5)
    except ModelReplyError:
        return NO_ANSWER, memory.asked
    return final["reply"], memory.asked


@pytest.mark.slow
@pytest.mark.skipif(not TRANSCRIPTS.is_file(), reason=f"no transcripts at {TRANSCRIPTS}")
def test_the_published_transcripts_lead_to_the_same_queries_and_answers():
    """Differences: the log reads no final answer after the fourth fact, and goes on behind the first one.

    A generation that stops in the middle, without a fact after it, may hold a subquestion that was never looked up;
    and twice the log looks something up for a reply without a subquestion, which here cannot be read.
    """
    later, unread, cases = 0, 0, transcripts()
    for question, text, told in cases:
        said, found = logged(text)
        answer, asked = replayed(question, said, found)
        ended = next((place for place, part in enumerate(said) if "Final answer: " in part), len(said))
        wanted = list(takewhile(bool, queries_of(said[: len(found)])[:ended]))
        unread += len(wanted) < min(ended, len(found))
        assert asked[: len(found)] == wanted, question
        if told == NO_ANSWER and answer != NO_ANSWER:
            assert ended == 4 == len(found), question  # said in the fifth generation
            later += 1
        else:
            assert answer == told, question
    assert later < len(cases) / 4 and unread <= len(cases) / 100
