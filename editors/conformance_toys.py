"""Toys for the contract of editors: models that believe what they read, and a memory without a database.

`ReadingModel` continues a cloze as a fact above it does. Its subclasses also answer in the forms that editors of other
kinds ask for: in MeLLo's steps and in thoughts (`StepwiseModel`), or by calling tools (`ToolModel`).
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from emend.agents.scoring import TargetScores
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.probe import Usage
from emend.memory.retrieval.base import Corpus, Entry
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.store.rows import make_entries

UNKNOWN = "I do not know"
CHECKED = "Retrieved fact {} to generated answer, so the intermediate answer is: {}"


class ReadingModel(BaseChatModel):
    """Continues a cloze as a fact above it does, in the prompt template `new_fact`; knows nothing by itself."""

    @property
    def _llm_type(self) -> str:
        return "emend-reading"

    def reply(self, prompt: str) -> str:
        """The reply to a prompt."""
        *above, last = prompt.rpartition("\n\n")[2].split("\n")
        cloze = last.removeprefix("Prompt: ").strip()
        facts = (line.removeprefix("New Fact: ") for line in above if line.startswith("New Fact: "))
        read = [text for fact in facts if (text := continuation(fact, cloze)) is not None]
        return read[-1] if read else UNKNOWN

    def answer(self, prompt: str) -> str:
        """The only continuation of a prompt that `score` finds likely."""
        return self.reply(prompt)

    def score(self, prompt: str, targets: Sequence[str]) -> TargetScores:
        """A high log-probability for the model's own answer, a low one for any other target."""
        likely = self.answer(prompt)
        usage = Usage(input_tokens=len(prompt.split()), calls=1)
        return TargetScores(log_probs=tuple(-0.1 if target == likely else -9.0 for target in targets), usage=usage)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt = str(messages[-1].text)
        return chat_result(self.reply(prompt), prompt)


class StepwiseModel(ReadingModel):
    """A `ReadingModel` that also answers in MeLLo's steps and in thoughts."""

    def reply(self, prompt: str) -> str:
        """The next lines of a walk in steps, thoughts with their answer, or a reply as of `ReadingModel`."""
        steps = next_steps(prompt)
        return super().reply(prompt) if steps is None else steps

    def answer(self, prompt: str) -> str:
        """The final answer of a walk or of thoughts."""
        steps = next_steps(prompt)
        return super().answer(prompt) if steps is None else steps.rpartition(": ")[2]


class ToolModel(ReadingModel):
    """A `ReadingModel` that calls `tool` with `arguments` (by default a search for the question), and believes it."""

    tool: str = "search_memory"
    arguments: dict[str, Any] = {}

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model with these tools."""
        return self.bind(tools=[tool.name for tool in tools])

    def answer(self, prompt: str) -> str:
        """The answer in the changes of a conversation."""
        if not prompt.endswith("\nai:"):
            return super().answer(prompt)
        question = next(line.removeprefix("human: ") for line in prompt.split("\n") if line.startswith("human: "))
        return change_about(prompt, question)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if "tools" not in kwargs:
            return super()._generate(messages)
        question = str(messages[1].text)
        if isinstance(messages[-1], ToolMessage):
            return chat_result(change_about(str(messages[-1].text), question), question)
        call = {"name": self.tool, "args": self.arguments or {"query": question}, "id": "call-1"}
        return chat_result("", question, [call])


def continuation(fact: str, cloze: str) -> str | None:
    """The text with which a fact continues a cloze; None if it does not."""
    return fact.removeprefix(cloze).strip().removesuffix(".") if fact.startswith(cloze) else None


def next_steps(prompt: str) -> str | None:
    """The lines that follow a prompt in MeLLo's form, or thoughts; None for another prompt."""
    block = prompt.rpartition("\n\n")[2].split("\n")
    last = block[-1] or block[-2]
    question = next((line.removeprefix("Question: ") for line in block if line.startswith("Question: ")), "")
    if last.startswith("Retrieved fact: "):
        new = continuation(last.removeprefix("Retrieved fact: "), question)
        verdict = CHECKED.format("contradicts" if new else "does not contradict", new or UNKNOWN)
        return f"{verdict}\nFinal answer: {new or UNKNOWN}"
    if last == "Final answer:":
        return block[-2].rpartition(": ")[2]
    if last.startswith("Question: "):
        return f"Subquestion: {question}\nGenerated answer: {question} {UNKNOWN}."
    if last == "Thoughts:":
        facts = [line.removeprefix("New Fact: ") for line in block if line.startswith("New Fact: ")]
        answers = filter(None, (continuation(fact, question) for fact in facts))
        return f"I look at the facts.\nAnswer: {next(answers, UNKNOWN)}"
    if last == "Answer:":
        return next_steps("\n".join(block[:-2]) + "\nThoughts:")
    return None


def change_about(text: str, cloze: str) -> str:
    """The text with which a change that a tool returned continues a cloze; `UNKNOWN` if none does."""
    changes = [part.partition("</change>")[0] for part in text.split("<change>")[1:]]
    return next(filter(None, (continuation(change, cloze) for change in changes)), UNKNOWN)


def chat_result(text: str, prompt: str, calls: Sequence[Any] = ()) -> ChatResult:
    """A reply in LangChain's form, with words counted as tokens."""
    tokens = len(prompt.split()), max(1, len(text.split()))
    usage: Any = {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": sum(tokens)}
    message = AIMessage(text, tool_calls=list(calls), usage_metadata=usage, response_metadata={"model_name": "reading"})
    return ChatResult(generations=[ChatGeneration(message=message)])


class PlainMemory:
    """A memory in a dictionary, searched exactly, by words."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def add(self, edits: Sequence[Edit]) -> None:
        """Store the edits; replace those that are stored already."""
        self.entries |= {entry.id: entry for edit in edits for entry in make_entries(edit)}

    def view(self, edit_ids: Sequence[str] | None = None) -> Corpus:
        """The entries of these edits alone, or of all."""
        entries = [e for e in self.entries.values() if edit_ids is None or e.edit_id in edit_ids]
        return ExactCorpus.of(entries, LexicalEmbedding())
