"""A model that writes messages down as they are, in the forms of LangMem, Mem0, A-Mem and Graphiti."""

import ast
import json
import re
from typing import Any

from emend.evals.stream.turn import FactClaim
from emend.evals.stream.wordings import read_turn
from tests.provider.protocols import Asked, Said, ToolCall

SPOKEN = re.compile(r"^(?P<speaker>[^:\n]{1,60}): (?P<text>.*)", re.DOTALL)


def write_down(asked: Asked) -> str | Said | None:
    """Every new message as a memory, in the form that is asked for; None if none is."""
    if "Memory" in asked.tools:
        lines = re.findall(r"\[\d{4}-\d\d-\d\d\] [^:\n]+: .*", asked.prompt)
        return Said(calls=[ToolCall("Memory", {"content": lines[-1]})]) if lines else Said("nothing")
    if "## New Messages" in asked.prompt:
        texts = re.findall(r"(?:user|assistant): (.*)", part(asked.prompt, "## New Messages", "\n##"))
        return json.dumps({"memory": [{"id": str(number), "text": text} for number, text in enumerate(texts)]})
    schema = asked.body.get("response_format", {}).get("json_schema", {}).get("name", "")
    if schema in A_MEM:
        return json.dumps(A_MEM[schema])
    return json.dumps(GRAPHITI[schema](asked.prompt)) if schema in GRAPHITI else None


def part(prompt: str, begin: str, end: str) -> str:
    """The text between two marks, the last of its kind."""
    return prompt.rpartition(begin)[2].partition(end)[0].strip()


def edges_of(message: str) -> list[dict[str, str]]:
    """A message as edges of a graph; a rule or a request to forget is one between the speaker and the subject."""
    if (spoken := SPOKEN.match(message)) is None:
        return []
    edges = []
    for claim in read_turn(spoken["text"].strip()):
        source, target, relation = spoken["speaker"], claim.subject, "TOLD_ABOUT"
        if isinstance(claim, FactClaim) and claim.object:
            source, target, relation = claim.subject, claim.object, claim.relation.upper().replace(" ", "_")
        edge = {"source_entity_name": source, "target_entity_name": target, "relation_type": relation, "fact": message}
        edges.append(edge)
    return edges


def entities(prompt: str) -> dict[str, Any]:
    """The names of a message's edges."""
    edges = edges_of(part(prompt, "<CURRENT MESSAGE>", "</CURRENT MESSAGE>"))
    names = dict.fromkeys(edge[end] for edge in edges for end in ("source_entity_name", "target_entity_name"))
    return {"extracted_entities": [{"name": name, "entity_type_id": 0} for name in names]}


def resolutions(prompt: str) -> dict[str, Any]:
    """Entities are the same if their names are."""
    known = {each["name"]: each["candidate_id"] for each in listed(prompt, "EXISTING ENTITIES")}
    return {
        "entity_resolutions": [
            {"id": each["id"], "name": each["name"], "duplicate_candidate_id": known.get(each["name"], -1)}
            for each in listed(prompt, "ENTITIES")
        ]
    }


def contradictions(prompt: str) -> dict[str, Any]:
    """Facts with the subject and the relation of the new one, and another object."""
    new = edges_of(part(prompt, "<NEW FACT>", "</NEW FACT>"))
    facts = listed(prompt, "EXISTING FACTS") + listed(prompt, "FACT INVALIDATION CANDIDATES")
    contradicted = [fact["idx"] for fact in facts if any(contradicts(new[0], old) for old in edges_of(fact["fact"]))]
    return {"duplicate_facts": [], "contradicted_facts": contradicted}


def contradicts(new: dict[str, str], old: dict[str, str]) -> bool:
    """True if one of the two edges is wrong."""
    same = all(new[name] == old[name] for name in ("source_entity_name", "relation_type"))
    return same and new["relation_type"] != "TOLD_ABOUT" and new["target_entity_name"] != old["target_entity_name"]


def timestamps(prompt: str) -> dict[str, Any]:
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
    "ExtractedEdges": lambda prompt: {"edges": edges_of(part(prompt, "<CURRENT_MESSAGE>", "</CURRENT_MESSAGE>"))},
    "EdgeDuplicate": contradictions,
    "EdgeTimestamps": timestamps,
    "SummarizedEntities": lambda prompt: {"summaries": []},
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
