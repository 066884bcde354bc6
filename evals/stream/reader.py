"""A reader without faults: it answers by what its context says, so that every wrong answer is the memory's."""

import re
from collections.abc import Iterator
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from emend.evals.metrics.stream_answers import UNKNOWN
from emend.evals.stream.gold import GoldState
from emend.evals.stream.turn import Turn
from emend.evals.stream.wordings import read_question

_LINE = re.compile(r"^(?:Q: )?\[(?P<date>[^\]]*)\] (?P<speaker>[^:\n]{1,60}): (?P<text>.*)$", re.MULTILINE)
_ENDED = re.compile(r" \(until (?P<date>\d{4}-\d\d-\d\d)\)$")
"""After a fact that held until a date, as systems write it that know of its end."""
NOT_USERS = ("document", "assistant")


def answer_prompt(prompt: str) -> str:
    """The answer to the question that ends a prompt, by the sentences of its messages and their dates."""
    lines = list(_LINE.finditer(prompt))
    target = read_question(lines[-1]["text"]) if lines else None
    if target is None:
        return UNKNOWN
    last = lines.pop()
    state = GoldState(read_texts=True)
    for turn in _turns(lines, target.on):
        state.apply(turn)
    return " and ".join(state.answer(last["speaker"], target)) or UNKNOWN


def _turns(lines: list[re.Match[str]], on: str) -> Iterator[Turn]:
    """The messages; facts that ended count for a question about an earlier date alone."""
    for number, line in enumerate(lines):
        ended = _ENDED.search(line["text"])
        if ended and not (on and on < ended["date"]):
            continue
        is_user = line["speaker"] not in NOT_USERS
        yield Turn.model_construct(
            id=str(number),
            date=line["date"],
            user=line["speaker"],
            role="user" if is_user else "document",
            text=line["text"][: ended.start() if ended else None],
        )


class OracleReader(BaseChatModel):
    """A chat model that answers the questions of generated streams by `answer_prompt`."""

    @property
    def _llm_type(self) -> str:
        return "oracle-reader"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **settings: Any,
    ) -> ChatResult:
        prompt = "\n".join(str(message.text) for message in messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(answer_prompt(prompt)))])
