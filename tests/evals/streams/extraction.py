"""A model that writes messages down as they are, or what an extractor reads in them, in the forms of LangMem, Mem0,
A-Mem and Graphiti.
"""

import ast
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from emend.evals.streams.sentences.wordings import read_turn, state
from emend.evals.streams.systems.facts import nouns_of_streams
from emend.evals.streams.systems.memory import claims_reader
from emend.evals.streams.turn import FactClaim, StreamRule, Turn
from emend.memory.relations.relation_table import RelationTable
from tests.provider.protocols import Asked, Said, ToolCall

SPOKEN = re.compile(r"^(?P<speaker>[^:\n]{1,60}): (?P<text>.*)", re.DOTALL)


class Writer(NamedTuple):
    """Reads a message as texts to be remembered, and as claims."""

    texts: Callable[[str], Sequence[str]]
    claims: Callable[[str], Sequence[FactClaim | StreamRule]]


VERBATIM = Writer(lambda text: [text], read_turn)


def writer_by_rules() -> Writer:
    """The extractor by rules as a writer: what it reads, as sentences of generated streams; nothing of the rest."""
    read, table = claims_reader("rules", None), RelationTable.load()
    nouns = nouns_of_streams(table)

    def claims(text: str) -> list[FactClaim]:
        read_claims = read(Turn(text=text))
        names = [table.name_of(each.relation) for each in read_claims]
        return [
            each.model_copy(update={"relation": nouns.get(name, each.relation)})
            for each, name in zip(read_claims, names, strict=True)
        ]

    return Writer(lambda text: [state(each.relation, each.subject, each.object or "") for each in claims(text)], claims)


def write_down(asked: Asked, writer: Writer = VERBATIM) -> str | Said | None:
    """Every new message as memories, in the form that is asked for; None if none is."""
    if "Memory" in asked.tools:
        lines = re.findall(r"(\[\d{4}-\d\d-\d\d\] [^:\n]+: )(.*)", asked.prompt)
        head, message = lines[-1] if lines else ("", "")
        calls = [ToolCall("Memory", {"content": head + text}) for text in writer.texts(message)] if lines else []
        return Said(calls=calls) if calls else Said("nothing")
    if "## New Messages" in asked.prompt:
        messages = re.findall(r"(?:user|assistant): (.*)", part(asked.prompt, "## New Messages", "\n##"))
        texts = [text for message in messages for text in writer.texts(message)]
        return json.dumps({"memory": [{"id": str(number), "text": text} for number, text in enumerate(texts)]})
    schema = asked.body.get("response_format", {}).get("json_schema", {}).get("name", "")
    if schema in A_MEM:
        return json.dumps(A_MEM[schema])
    return json.dumps(GRAPHITI[schema](asked.prompt, writer)) if schema in GRAPHITI else None


def part(prompt: str, begin: str, end: str) -> str:
    """The text between two marks, the last of its kind."""
    return prompt.rpartition(begin)[2].partition(end)[0].strip()


def edges_of(message: str, writer: Writer) -> list[dict[str, str]]:
    """A message as edges of a graph; a rule or a request to forget is one between the speaker and the subject."""
    if (spoken := SPOKEN.match(message)) is None:
        return []
    edges = []
    text = spoken["text"].strip()
    for claim, fact in zip(writer.claims(text), writer.texts(text), strict=False):
        source, target, relation = spoken["speaker"], claim.subject, "TOLD_ABOUT"
        if isinstance(claim, FactClaim) and claim.object:
            source, target, relation = claim.subject, claim.object, claim.relation.upper().replace(" ", "_")
        edge = {"source_entity_name": source, "target_entity_name": target, "relation_type": relation}
        edge["fact"] = f"{spoken['speaker']}: {fact}"
        edges.append(edge)
    return edges


def entities(prompt: str, writer: Writer) -> dict[str, Any]:
    """The names of a message's edges."""
    edges = edges_of(part(prompt, "<CURRENT MESSAGE>", "</CURRENT MESSAGE>"), writer)
    names = dict.fromkeys(edge[end] for edge in edges for end in ("source_entity_name", "target_entity_name"))
    return {"extracted_entities": [{"name": name, "entity_type_id": 0} for name in names]}


def resolutions(prompt: str, writer: Writer) -> dict[str, Any]:
    """Entities are the same if their names are."""
    known = {each["name"]: each["candidate_id"] for each in listed(prompt, "EXISTING ENTITIES")}
    return {
        "entity_resolutions": [
            {"id": each["id"], "name": each["name"], "duplicate_candidate_id": known.get(each["name"], -1)}
            for each in listed(prompt, "ENTITIES")
        ]
    }


def contradictions(prompt: str, writer: Writer) -> dict[str, Any]:
    """Facts with the subject and the relation of the new one, and another object."""
    new = edges_of(part(prompt, "<NEW FACT>", "</NEW FACT>"), writer)
    facts = listed(prompt, "EXISTING FACTS") + listed(prompt, "FACT INVALIDATION CANDIDATES")
    contradicted = [
        fact["idx"]
        for fact in facts
        if any(contradicts(edge, old) for edge in new[:1] for old in edges_of(fact["fact"], writer))
    ]
    return {"duplicate_facts": [], "contradicted_facts": contradicted}


def contradicts(new: dict[str, str], old: dict[str, str]) -> bool:
    """True if one of the two edges is wrong."""
    same = all(new[name] == old[name] for name in ("source_entity_name", "relation_type"))
    return same and new["relation_type"] != "TOLD_ABOUT" and new["target_entity_name"] != old["target_entity_name"]


def timestamps(prompt: str, writer: Writer) -> dict[str, Any]:
    """The date of the message, or one that it names as the begin."""
    spoken = SPOKEN.match(part(prompt, "<FACT>", "</FACT>"))
    since = (
        next((claim.since for claim in read_turn(spoken["text"]) if isinstance(claim, FactClaim)), "") if spoken else ""
    )
    return {"valid_at": since or part(prompt, "<REFERENCE TIME>", "</REFERENCE TIME>"), "invalid_at": None}


def listed(prompt: str, name: str) -> list[dict[str, Any]]:
    """The list of records in an element of a prompt, in JSON or as Python shows it."""
    text = part(prompt, f"<{name}>", f"</{name}>")
    try:
        records: list[dict[str, Any]] = json.loads(text)
    except ValueError:
        records = ast.literal_eval(text)
    return records


GRAPHITI = {
    "ExtractedEntities": entities,
    "NodeResolutions": resolutions,
    "ExtractedEdges": lambda prompt, writer: {
        "edges": edges_of(part(prompt, "<CURRENT_MESSAGE>", "</CURRENT_MESSAGE>"), writer)
    },
    "EdgeDuplicate": contradictions,
    "EdgeTimestamps": timestamps,
    "SummarizedEntities": lambda prompt, writer: {"summaries": []},
}
"""By the name of a schema, the reply to a prompt of Graphiti's."""

A_MEM: dict[str, dict[str, Any]] = {
    "NoteAnalysis": {"keywords": [], "context": "General", "tags": []},
    "NoteEvolution": {
        "should_evolve": False,
        "actions": [],
        "suggested_connections": [],
        "tags_to_update": [],
        "new_context_neighborhood": [],
        "new_tags_neighborhood": [],
    },
}
"""By the name of the schema, the reply to a prompt of A-Mem's: a note is its content alone."""
