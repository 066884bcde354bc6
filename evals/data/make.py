"""Files that are not published in the needed form, made from published ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from emend.memory.errors import BadData
from emend.memory.files import replace_file
from emend.memory.json_files import read_json

Json = Any
"""Content of a JSON file, whose shape is checked where it is used."""
SERAC = "serac_event"
"""Key of the choice of ELKEN's scope classifier, a result and no data."""


def make(maker: str, folder: Path, target: Path) -> None:
    """Make the file `target` from others of the folder.

    Raises:
        BadData: one of them is malformed.
    """
    try:
        content = MAKERS[maker](folder)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadData(
            f"{target.name} cannot be made: a record lacks {error}. Remove its input files and fetch again."
        ) from error
    replace_file(target, (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())


def elken_test(folder: Path) -> Json:
    """ELKEN's test events from the outputs of its scope classifier, which hold them completely.

    First the events with tendency questions, in their order, with the fact questions of the same event; then those with
    fact questions alone.
    """
    tendencies = [_bare(row) for row in _read(folder / "serac/tendency.json")]
    facts = {row["event"]: _bare(row) for row in _read(folder / "serac/fact.json")}
    none: dict[str, list[Json]] = {"qas": [], "local_qas": []}
    both = [
        {
            "event_type": row["event_type"],
            "event": row["event"],
            "tendency": row["tendency"],
            "fact": facts.pop(row["event"], {"fact": none})["fact"],
        }
        for row in tendencies
    ]
    return both + [{**row, "tendency": none} for row in facts.values()]


def docter_facts(folder: Path) -> Json:
    """The CounterFact record behind each id that DocTER uses, with `{}` for the subject in its prompt.

    Raises:
        BadData: an id has no record, or its targets are not DocTER's.
    """
    names = ("counterfact-edit.json", "counterfact-train.json", "counterfact-val.json")
    known = {row["case_id"]: row for name in names for row in _read(folder / "counterfact" / name)}
    queries: dict[int, Json] = {}
    for name in ("edit_success_eval.json", "cross_en_eval.json", "reasoning_eval.json"):
        for row in _read(folder / name):
            queries.setdefault(int(row["id"]), row)
    if lost := sorted(queries.keys() - known.keys()):
        raise BadData(f"gold_facts.json cannot be made: CounterFact's files have no record of the ids {lost[:10]}.")
    return {"data": [_fact(number, known[number], queries[number]) for number in sorted(queries)]}


def _fact(number: int, row: Json, query: Json) -> Json:
    for field, theirs in (("original_target", "ground_truth"), ("altered_target", "target_new")):
        if field in query and query[field] != row[theirs]:
            raise BadData(
                f"gold_facts.json cannot be made: id {number}, field '{field}': '{query[field]}' in DocTER and "
                f"'{row[theirs]}' in CounterFact. Fetch the files of one version together."
            )
    if row["subject"] not in row["prompt"]:
        raise BadData(f"gold_facts.json cannot be made: id {number}: subject '{row['subject']}' is not in the prompt.")
    return {
        "id": number,
        "subject": row["subject"],
        "prompt": row["prompt"],
        "prompt_template": row["prompt"].replace(row["subject"], "{}", 1),
        "original_target": row["ground_truth"],
        "altered_target": row["target_new"],
    }


def _bare(row: Json) -> Json:
    """Return the record without the classifier's choices."""
    bare = {key: value for key, value in row.items() if key not in (SERAC, "id")}
    for part in ("fact", "tendency"):
        if part in bare:
            bare[part] = {
                scope: [{k: v for k, v in question.items() if k != SERAC} for question in bare[part][scope]]
                for scope in ("qas", "local_qas")
            }
    return bare


def _read(path: Path) -> list[Json]:
    content = read_json(path, links=True)
    rows = content.get("data") if isinstance(content, dict) else content
    if not isinstance(rows, list):
        raise BadData(f"{path}: a list of records expected. Remove it and fetch it again.")
    return rows


MAKERS: dict[str, Callable[[Path], Json]] = {"elken_test": elken_test, "docter_facts": docter_facts}
