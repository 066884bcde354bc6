"""Entities in Wikidata's true JSON, as its dumps and API have them."""

import json
from typing import Any

PRECISIONS = {1: 9, 2: 10, 3: 11}


def time_value(date: str, precision: int | None = None) -> dict[str, Any]:
    """The value of a date such as `2022-10-25`, `2022-10` or `2022`."""
    parts = date.split("-")
    time = "-".join([*parts, *["00"] * (3 - len(parts))])
    return {
        "time": f"+{time}T00:00:00Z", "timezone": 0, "before": 0, "after": 0,
        "precision": PRECISIONS[len(parts)] if precision is None else precision,
        "calendarmodel": "http://www.wikidata.org/entity/Q1985727",
    }  # fmt: skip


def snak(relation: str, value: Any) -> dict[str, Any]:
    """A snak: of an item (`Q5`), a date, or of no or an unknown value (`novalue`, `somevalue`)."""
    if value in ("novalue", "somevalue"):
        datatype = "time" if relation in ("P580", "P582") else "wikibase-item"
        return {"snaktype": value, "property": relation, "hash": "0" * 40, "datatype": datatype}
    if str(value).startswith("Q"):
        item = {"entity-type": "item", "numeric-id": int(value[1:]), "id": value}
        datavalue, datatype = {"value": item, "type": "wikibase-entityid"}, "wikibase-item"
    else:
        datavalue = {"value": value if isinstance(value, dict) else time_value(value), "type": "time"}
        datatype = "time"
    return {"snaktype": "value", "property": relation, "datavalue": datavalue, "datatype": datatype}


def statement(
    relation: str, value: str, start: Any = None, end: Any = None, rank: str = "normal", replaced_by: str = ""
) -> dict[str, Any]:
    """A statement with its qualifiers and a reference; several starts are given as a list."""
    pairs = {"P580": start, "P582": end, "P1366": replaced_by}
    qualifiers = {
        name: [dict(snak(name, value), hash="0" * 40) for value in (values if isinstance(values, list) else [values])]
        for name, values in pairs.items()
        if values
    }
    reference = {"hash": "1" * 40, "snaks": {"P813": [snak("P813", "2023-09-01")]}, "snaks-order": ["P813"]}
    content: dict[str, Any] = {"mainsnak": snak(relation, value), "type": "statement", "id": "Q1$x", "rank": rank}
    if qualifiers:
        content |= {"qualifiers": qualifiers, "qualifiers-order": list(qualifiers)}
    return content | {"references": [reference]}


def entity(id_: str, label: str = "", claims: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """An item with a label in two languages, an alias and a page; `more` replaces fields."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for claim in claims or []:
        groups.setdefault(claim["mainsnak"]["property"], []).append(claim)
    languages = {"en": label, "de": f"{label} (de)"} if label else {}
    return {
        "type": "item",
        "id": id_,
        "labels": {code: {"language": code, "value": text} for code, text in languages.items()} or [],
        "descriptions": [],
        "aliases": {"en": [{"language": "en", "value": f"{label} alias"}]} if label else [],
        "claims": groups or [],
        "sitelinks": {"enwiki": {"site": "enwiki", "title": f"{label} page", "badges": []}} if label else [],
        "lastrevid": 1,
        "modified": "2026-01-01T00:00:00Z",
        **more,
    }


def line(thing: Any) -> bytes:
    """An entity as a line of a dump, without the comma."""
    return json.dumps(thing, separators=(",", ":"), ensure_ascii=False).encode()


def dump_of(*entities: Any) -> bytes:
    """A dump of entities, and of lines given as bytes."""
    lines = [thing if isinstance(thing, bytes) else line(thing) for thing in entities]
    return b"[\n" + b",\n".join(lines) + b"\n]\n"
