"""Toy models that believe what they read, and a memory without a database, for the editor contract.

`ReadingModel` continues a cloze as a fact above it does. Its subclasses also answer in the formats
of other editors: MeLLo's steps and thoughts (`StepwiseModel`), or tool calls (`ToolModel`).
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
    """Toy model that continues a cloze as a fact above it does, in the prompt template `new_fact`.

    It knows no facts itself.
    """

    @property
    def _llm_type(self) -> str:
        return "emend-reading"

    def reply(self, prompt: str) -> str:
        """Return the reply to a prompt."""
        *above, last = prompt.rpartition("\n\n")[2].split("\n")
        cloze = last.removeprefix("Prompt: ").strip()
        facts = (line.removeprefix("New Fact: ") for line in above if line.startswith("New Fact: "))
        read = [text for fact in facts if (text := continuation(fact, cloze)) is not None]
        return read[-1] if read else UNKNOWN

    def answer(self, prompt: str) -> str:
        """Return the only continuation of a prompt that `score` finds likely."""
        return self.reply(prompt)

    def score(self, prompt: str, targets: Sequence[str]) -> TargetScores:
        """Return a high log-probability for the model's own answer, a low one for other targets."""
        likely = self.answer(prompt)
        usage = Usage(input_tokens=len(prompt.split()), calls=1)
        return TargetScores(
            log_probs=tuple(-0.1 if target == likely else -9.0 for target in targets), usage=usage
        )

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
    """Toy model that also answers in MeLLo's steps and in thoughts."""

    def reply(self, prompt: str) -> str:
        """Return the next of MeLLo's steps, thoughts with their answer, or a plain reply."""
        steps = next_steps(prompt)
        return super().reply(prompt) if steps is None else steps

    def answer(self, prompt: str) -> str:
        """Return the final answer of steps or thoughts."""
        steps = next_steps(prompt)
        return super().answer(prompt) if steps is None else steps.rpartition(": ")[2]


class ToolModel(ReadingModel):
    """Toy model that calls `tool` with `arguments` (by default a search for the question).

    It believes what the tool returns.
    """

    tool: str = "search_memory"
    arguments: dict[str, Any] = {}

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model with these tools."""
        return self.bind(tools=[tool.name for tool in tools])

    def answer(self, prompt: str) -> str:
        """Return the answer found in the changes of a conversation."""
        if not prompt.endswith("\nai:"):
            return super().answer(prompt)
        question = next(
            line.removeprefix("human: ")
            for line in prompt.split("\n")
            if line.startswith("human: ")
        )
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
    """Return the text with which a fact continues a cloze; None if it does not."""
    return fact.removeprefix(cloze).strip().removesuffix(".") if fact.startswith(cloze) else None


def next_steps(prompt: str) -> str | None:
    """Return the lines that follow a prompt in MeLLo's format, or thoughts; otherwise None."""
    block = prompt.rpartition("\n\n")[2].split("\n")
    last = block[-1] or block[-2]
    question = next(
        (line.removeprefix("Question: ") for line in block if line.startswith("Question: ")), ""
    )
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
    """Return the continuation of a cloze by a tool's returned change, or `UNKNOWN`."""
    changes = [part.partition("</change>")[0] for part in text.split("<change>")[1:]]
    return next(filter(None, (continuation(change, cloze) for change in changes)), UNKNOWN)


def chat_result(text: str, prompt: str, calls: Sequence[Any] = ()) -> ChatResult:
    """Return a reply as LangChain's `ChatResult`, with words counted as tokens."""
    tokens = len(prompt.split()), max(1, len(text.split()))
    usage: Any = {
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "total_tokens": sum(tokens),
    }
    message = AIMessage(
        text,
        tool_calls=list(calls),
        usage_metadata=usage,
        response_metadata={"model_name": "reading"},
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


class PlainMemory:
    """Memory in a dictionary, with exact search by words."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def add(self, edits: Sequence[Edit]) -> None:
        """Store the edits; edits that are already stored are replaced."""
        self.entries |= {entry.id: entry for edit in edits for entry in make_entries(edit)}

    def view(self, edit_ids: Sequence[str] | None = None) -> Corpus:
        """Return the entries of these edits only, or of all edits."""
        entries = [e for e in self.entries.values() if edit_ids is None or e.edit_id in edit_ids]
        return ExactCorpus.of(entries, LexicalEmbedding())
