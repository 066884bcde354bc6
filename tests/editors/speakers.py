"""Toy models that believe what they read, in the forms that graph editors ask for: steps, thoughts, tool calls."""

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from emend.agents.scoring import Scores
from emend.editors.conformance_toys import UNKNOWN, ReadingModel
from emend.memory.probe import Usage

CHECKED = "Retrieved fact {} to generated answer, so the intermediate answer is: {}"


def said_of(fact: str, cloze: str) -> str | None:
    """How a fact continues a cloze, if it does."""
    return fact.removeprefix(cloze).strip().removesuffix(".") if fact.startswith(cloze) else None


def walk(prompt: str) -> str | None:
    """What follows a walk in MeLLo's lines, or thoughts; None for another prompt."""
    block = prompt.rpartition("\n\n")[2].split("\n")
    last = block[-1] or block[-2]
    asked = next((line.removeprefix("Question: ") for line in block if line.startswith("Question: ")), "")
    if last.startswith("Retrieved fact: "):
        found = said_of(last.removeprefix("Retrieved fact: "), asked)
        verdict = CHECKED.format("contradicts" if found else "does not contradict", found or UNKNOWN)
        return f"{verdict}\nFinal answer: {found or UNKNOWN}"
    if last == "Final answer:":
        return block[-2].rpartition(": ")[2]
    if last.startswith("Question: "):
        return f"Subquestion: {asked}\nGenerated answer: {asked} {UNKNOWN}."
    if last == "Thoughts:":
        facts = [line.removeprefix("New Fact: ") for line in block if line.startswith("New Fact: ")]
        found = next((told for fact in facts if (told := said_of(fact, asked))), UNKNOWN)
        return f"I look at the facts.\nAnswer: {found}"
    if last == "Answer:":
        return walk("\n".join(block[:-2]) + "\nThoughts:")
    return None


class StepwiseModel(ReadingModel):
    """Also walks in steps, and thinks aloud."""

    def score(self, prompt: str, targets: Sequence[str]) -> Scores:
        """What it would say is likely, anything else is not."""
        said = walk(prompt)
        if said is None:
            return super().score(prompt, targets)
        usage = Usage(input_tokens=len(prompt.split()), calls=1)
        answer = said.rpartition(": ")[2]
        return Scores(log_probs=tuple(-0.1 if target == answer else -9.0 for target in targets), usage=usage)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt = str(messages[-1].text)
        said = walk(prompt)
        if said is None:
            return super()._generate(messages)
        return spoken(said, prompt)


class ToolModel(ReadingModel):
    """Searches the memory for what it is asked, and believes what it finds; chooses one of the tools."""

    tool: str = "search_memory"
    arguments: dict[str, Any] = {}

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        """Remembers that it has tools."""
        return self.bind(tools=[tool.__name__ for tool in tools])

    def score(self, prompt: str, targets: Sequence[str]) -> Scores:
        """What it would say is likely, anything else is not."""
        if not prompt.endswith("\nai:"):
            return super().score(prompt, targets)
        asked = next(line.removeprefix("human: ") for line in prompt.split("\n") if line.startswith("human: "))
        said = found_in(prompt, asked)
        usage = Usage(input_tokens=len(prompt.split()), calls=1)
        return Scores(log_probs=tuple(-0.1 if target == said else -9.0 for target in targets), usage=usage)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if "tools" not in kwargs:
            return super()._generate(messages)
        asked = str(messages[1].text)
        if isinstance(messages[-1], ToolMessage):
            return spoken(found_in(str(messages[-1].text), asked), asked)
        call = {"name": self.tool, "args": self.arguments or {"query": asked}, "id": "call-1"}
        return spoken("", asked, [call])


def found_in(text: str, cloze: str) -> str:
    """What the changes in a text say about a cloze."""
    changes = [part.partition("</change>")[0] for part in text.split("<change>")[1:]]
    return next((told for change in changes if (told := said_of(change, cloze))), UNKNOWN)


def spoken(text: str, prompt: str, calls: Sequence[Any] = ()) -> ChatResult:
    """A reply as a chat model gives it."""
    sizes = len(prompt.split()), max(1, len(text.split()))
    usage: Any = {"input_tokens": sizes[0], "output_tokens": sizes[1], "total_tokens": sum(sizes)}
    message = AIMessage(text, tool_calls=list(calls), usage_metadata=usage, response_metadata={"model_name": "toy"})
    return ChatResult(generations=[ChatGeneration(message=message)])


SPEAKERS: dict[str, type[BaseChatModel]] = {"mello": StepwiseModel, "cot": StepwiseModel, "agent": ToolModel}
"""Which toy model a method needs; the others do with `ReadingModel`."""


def speaker_for(name: str) -> BaseChatModel:
    """A model in whose forms the method can be asked."""
    return SPEAKERS.get(name, ReadingModel)()
