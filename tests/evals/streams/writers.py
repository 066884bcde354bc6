"""A model that writes a memory of facts by tools and looks facts up, for the sentences of generated streams."""

import json
import re
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from emend.evals.streams.fairness import answer_prompt
from emend.evals.streams.sentences.wordings import read_question, read_turn
from emend.evals.streams.turn import StreamRule

SPOKEN = re.compile(r"\[[^\]]*\] (?P<speaker>[^:\n]{1,60}): (?P<text>[^<]*)")
PLANTED = re.compile(r"[Tt]he (?P<relation>[^.:]+) of (?P<subject>[^.:]+) is (?P<object>Zzyx\w+)")
USAGE: Any = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}


class FactWriter(BaseChatModel):
    """Writes what users say; one that `obeys` also writes what documents demand."""

    obeys: bool = False

    @property
    def _llm_type(self) -> str:
        return "fact-writer"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self.bind(tools=[tool.name for tool in tools])

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        if tools := kwargs.get("tools"):
            answer = self.write(messages) if "remember" in tools else look_up(messages)
        else:
            answer = AIMessage(answer_prompt("\n".join(str(each.text) for each in messages)))
        answer.usage_metadata = USAGE
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def write(self, messages: list[BaseMessage]) -> AIMessage:
        """The changes that the message asks for, and after their results the end."""
        spoken = SPOKEN.search(str(messages[1].text))
        if isinstance(messages[-1], ToolMessage) or spoken is None:
            return AIMessage("done")
        if spoken["speaker"] == "document":
            planted = PLANTED.search(spoken["text"]) if self.obeys else None
            calls = [("update", planted.groupdict())] if planted else []
        else:
            calls = [call for each in read_turn(spoken["text"]) if (call := change(each))]
        return call_of(*calls) if calls else AIMessage("done")


def change(claim: Any) -> tuple[str, dict[str, Any]] | None:
    """The call by which a claim or a rule about one relation is written."""
    fact = {"subject": claim.subject, "relation": claim.relation}
    if isinstance(claim, StreamRule):
        if len(claim.path) > 1 or claim.condition is None:
            return None
        base = {"base_subject": claim.subject, "base_relation": claim.path[0]}
        return "depend", fact | base | {"condition": [claim.condition], "value": claim.object}
    if claim.object is None:
        return "forget", fact
    if claim.since:
        return "remember", fact | {"object": claim.object, "valid_from": claim.since}
    return "update", fact | {"object": claim.object}


def look_up(messages: list[BaseMessage]) -> AIMessage:
    """The next relation of the question's path, and the last one's object as the answer."""
    spoken = SPOKEN.search(str(messages[1].text))
    target = read_question(spoken["text"].strip()) if spoken else None
    results = [json.loads(str(each.text)) for each in messages if isinstance(each, ToolMessage)]
    objects = [result["facts"][0]["object"] if result.get("facts") else "unknown" for result in results]
    if target is None or target.value or "unknown" in objects:
        return AIMessage("unknown")
    if len(objects) == len(target.path):
        return AIMessage(objects[-1])
    subject = objects[-1] if objects else target.subject
    return call_of(("lookup", {"subject": subject, "relation": target.path[len(objects)], "at": target.on}))


def call_of(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    """A message with these calls."""
    return AIMessage(
        "", tool_calls=[{"name": name, "args": fields, "id": f"c{place}"} for place, (name, fields) in enumerate(calls)]
    )
