"""Tool calling over a memory of edits: search, lookup of a fact, list of an entity's updates, and
the model call.

Facts are delimited in the text for the model.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import BaseTool

from emend.agents.parsing.delimiters import strip_delimiters
from emend.agents.parsing.messages import cut_off_error, was_cut_off
from emend.agents.parsing.tool_calls import with_calls_from_text
from emend.agents.roles import PROMPTS
from emend.memory.edit import Edit
from emend.memory.retrieval.base import Hit, Retriever, search
from emend.memory.retrieval.tokens import FUNCTION_WORDS, whole, words
from emend.memory.store.superseding import Claim, in_order, parse_time
from emend.memory.typography import fold_text

SYSTEM = PROMPTS["tools"]["system"]
WRITING = PROMPTS["tools"]["writing"]
# The tag around an update in a tool's result.
CHANGE = "change"
NOTHING = "Nothing was found: no change bears on this."
# Maximum number of listed updates of an entity; the newest are kept.
LISTED = 20


class ToolResult(NamedTuple):
    """The text that a tool returns to the model, with its hits."""

    text: str
    hits: tuple[Hit, ...] = ()


@dataclass(frozen=True)
class Toolbox:
    """The tools' searches over the applied edits.

    Args:
        retriever: searches the applied edits.
        edits: those edits, oldest first.
        k: maximum number of entries that a search returns.
        current: ids of the entries that are not superseded; None for all.
    """

    retriever: Retriever
    edits: Sequence[Edit] = ()
    k: int = 5
    current: Collection[str] | None = None

    def search(self, query: str) -> ToolResult:
        """Return the entries nearest to a query."""
        return _result(search(self.retriever, query, self.k)[: self.k])

    def lookup(self, subject: str, relation: str) -> ToolResult:
        """Return the newest edit of the subject whose relation shares the most content words (at
        least one).
        """
        words_of_relation = _content_words(relation)
        about = [update for update in self._updates if update.is_about(subject)]
        shared = [len(words_of_relation & _content_words(update.relations)) for update in about]
        if any(shared):
            best = max(range(len(about)), key=lambda place: (shared[place], place))
            return _result([about[best].hit])
        if not about:
            return ToolResult(
                f"No change is listed under '{subject}'. Its name may be written otherwise: "
                "search_memory."
            )
        listed = _result([update.hit for update in about[-LISTED:]])
        text = (
            f"None of the changes under '{subject}' names that relation. They are:\n{listed.text}"
        )
        return ToolResult(text, listed.hits)

    def list_updates(self, entity: str) -> ToolResult:
        """Return the edits that mention an entity, oldest first."""
        return _result(
            [update.hit for update in self._updates if update.names_entity(entity)][-LISTED:]
        )

    @cached_property
    def _updates(self) -> list["_Update"]:
        """The current updates, oldest first."""
        updates = {
            update.hit.entry.id: update for edit in self.edits for update in _list_updates(edit)
        }
        entries = [
            updates[id].hit.entry for id in updates if self.current is None or id in self.current
        ]
        claims = [
            Claim(e.id, e.edit_id, (), parse_time(e.time), place) for place, e in enumerate(entries)
        ]
        return [updates[claim.entry_id] for claim in in_order(claims)]


class _Update(NamedTuple):
    """An entry of an edit with its subjects and relations, in lower case."""

    hit: Hit
    subjects: frozenset[str]
    names: frozenset[str]
    """The subjects and the objects."""
    relations: str
    """Relations in the words of cloze and triplets; the whole text if there are neither."""

    def is_about(self, subject: str) -> bool:
        """Return whether this is its subject, or, for a text without subject, whether the text
        mentions it.
        """
        return fold_text(subject) in self.subjects if self.subjects else self.names_entity(subject)

    def names_entity(self, entity: str) -> bool:
        """Return whether the text contains the whole name."""
        name = fold_text(entity)
        return name in self.names or bool(whole(name).search(fold_text(self.hit.entry.text)))


def _list_updates(edit: Edit) -> list[_Update]:
    """Return the entries of an edit, each with its triplets; none for a blank edit."""
    from emend.memory.store.rows import make_entries

    entries = make_entries(edit)
    apart = edit.form == "triplets" and len(entries) == len(edit.triplets)
    out = []
    for place, entry in enumerate(entries):
        triplets = edit.triplets[place : place + 1] if apart else edit.triplets
        subjects = {fold_text(triplet.subject) for triplet in triplets} | (
            {fold_text(edit.subject)} - {""}
        )
        objects = {fold_text(triplet.object) for triplet in triplets}
        relations = (
            " ".join([edit.prompt, *(triplet.relation for triplet in triplets)]).strip()
            or entry.text
        )
        out.append(
            _Update(
                Hit(entry=entry, score=1.0),
                frozenset(subjects),
                frozenset(subjects | objects),
                relations,
            )
        )
    return out


def _content_words(text: str) -> set[str]:
    return {word for word in words(text) if word not in FUNCTION_WORDS}


def _result(hits: Sequence[Hit]) -> ToolResult:
    texts = (strip_delimiters(hit.entry.text, CHANGE) for hit in hits)
    lines = [f"<{CHANGE}>{text}</{CHANGE}>" for text in texts]
    return ToolResult("\n".join(lines) or NOTHING, tuple(hits))


def can_call_tools(model: BaseChatModel) -> bool:
    """Return whether the model, or the wrapped one, supports tool calling, by its attribute or else
    its class.
    """
    inner: Any = getattr(model, "inner", model)
    declared = getattr(inner, "calls_tools", None)
    if isinstance(declared, bool):
        return declared
    return inner.__class__.bind_tools is not BaseChatModel.bind_tools


def call_with_tools(
    model: BaseChatModel, messages: Sequence[BaseMessage], tools: Sequence[BaseTool]
) -> AIMessage:
    """Return the model's next message, which may contain tool calls; calls written as text are
    parsed.

    If the reply is truncated at its token limit, its complete calls count.

    Raises:
        ReplyCutOff: the reply is truncated and has no complete call.
    """
    message: AIMessage = model.bind_tools(list(tools)).invoke(list(messages))
    if was_cut_off(message):
        if not message.tool_calls:
            raise cut_off_error(message, str(message.text))
        return message.model_copy(update={"content": "", "invalid_tool_calls": []})
    if message.tool_calls or message.invalid_tool_calls:
        return message
    return with_calls_from_text(message, {each.name for each in tools}, str(len(messages)))


def as_text(messages: Sequence[BaseMessage]) -> str:
    """Format a conversation with tool calls as plain text."""
    lines = []
    for message in messages:
        calls = getattr(message, "tool_calls", ())
        parts = [str(message.text)] if str(message.text).strip() else []
        parts += [
            f"{call['name']}({json.dumps(call['args'], ensure_ascii=False)})" for call in calls
        ]
        lines.append(f"{message.type}: {' '.join(parts)}")
    return "\n".join(lines)
