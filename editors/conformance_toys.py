"""What the contract of editors is tested on: a model that believes its prompt, and a memory without a database."""

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from emend.agents.scoring import Scores
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.probe import Usage
from emend.memory.retrieval.base import Corpus, Entry
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.store.rows import entries_of

UNKNOWN = "I do not know"


class ReadingModel(BaseChatModel):
    """Continues a cloze as a fact above it does, in the wording `new_fact`; knows nothing by itself."""

    @property
    def _llm_type(self) -> str:
        return "emend-reading"

    def score(self, prompt: str, targets: Sequence[str]) -> Scores:
        """What it would say is likely, anything else is not."""
        said = _read(prompt)
        usage = Usage(input_tokens=len(prompt.split()), calls=1)
        return Scores(log_probs=tuple(-0.1 if target == said else -9.0 for target in targets), usage=usage)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt = str(messages[-1].text)
        asked, said = len(prompt.split()), _read(prompt)
        usage: Any = {"input_tokens": asked, "output_tokens": 1, "total_tokens": asked + 1}
        message = AIMessage(said, usage_metadata=usage, response_metadata={"model_name": "reading"})
        return ChatResult(generations=[ChatGeneration(message=message)])


def _read(prompt: str) -> str:
    *above, last = prompt.rpartition("\n\n")[2].split("\n")
    cloze = last.removeprefix("Prompt: ").strip()
    facts = (line.removeprefix("New Fact: ") for line in above if line.startswith("New Fact: "))
    told = [fact.removeprefix(cloze).strip().removesuffix(".") for fact in facts if fact.startswith(cloze)]
    return told[-1] if told else UNKNOWN


class PlainMemory:
    """Keeps entries in a dictionary; searched exactly, by words."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def add(self, edits: Sequence[Edit]) -> None:
        """Store the edits; what is there already is replaced."""
        self.entries |= {entry.id: entry for edit in edits for entry in entries_of(edit)}

    def view(self, edit_ids: Sequence[str] | None = None) -> Corpus:
        """The entries of these edits alone, or of all."""
        found = [e for e in self.entries.values() if edit_ids is None or e.edit_id in edit_ids]
        return ExactCorpus.of(found, LexicalEmbedding())
