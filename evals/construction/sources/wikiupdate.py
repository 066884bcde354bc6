"""WikiUpdate from a Wikidata dump or Wikidata's servers: fact updates since a day, with the lead
sections of their Wikipedia pages.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError, field_validator

from emend.evals.config.build_config import BuildConfig, read_day
from emend.evals.construction.sources.akew import rewrite
from emend.evals.construction.sources.stored_items import (
    KeptItem,
    SourceItem,
    SourceNotes,
    write_json,
    write_lines,
)
from emend.evals.construction.wikidata.dump import read_updates
from emend.evals.construction.wikidata.fact_update import FactUpdate, UpdateCounts
from emend.evals.construction.wikidata.query import (
    WikiClient,
    WikiServers,
    fetch_leads,
    query_updates,
)
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.benchmarks.rows import read_text, sha256
from emend.evals.data.facts.relation_tables import SHIPPED, Relations
from emend.memory.edit import FrozenModel, Triplet
from emend.memory.errors import BadData, BadSettings, RunRefused, field_problem
from emend.memory.files import private_folder, replace_file
from emend.memory.json_files import parse_json, value_lines
from emend.memory.typography import full_stop

# Source name for Wikidata's servers.
SERVERS = "wikidata"
UPDATES, SETTINGS, COUNTS = "updates.jsonl", "updates.json", "updates-counts.json"
STATE, CACHE = "scan.sqlite", "wiki.sqlite"
FILE, HISTORY = "WikiUpdate.json", "history.jsonl"
# Default limit of updates queried from the servers.
MOST = 1000
LICENCE = "Wikidata: CC0 1.0; leads of Wikipedia: CC BY-SA 4.0"


class UpdateRow(FrozenModel):
    """Line of `updates.jsonl`: an update, its relation's templates and the leads of its pages."""

    update: FactUpdate
    cloze: str
    question: str
    subject_lead: str = ""
    new_lead: str = ""

    @field_validator("update")
    @classmethod
    def _has_labels(cls, update: FactUpdate) -> FactUpdate:
        if not (update.relation and update.old and update.new):
            raise ValueError("relation, old or new is missing")
        return update


def prepare_updates(config: BuildConfig, out: Path, servers: WikiServers | None = None) -> Path:
    """Read the updates and their leads into a file of the benchmark folder, unless it exists, and
    return it.

    Args:
        config: configuration whose source is a dump, `wikidata` for the servers, or an existing
            file of updates.
        out: benchmark folder.
        servers: addresses of Wikimedia's servers; None for the default ones.

    Raises:
        BadSettings: `--since` is missing, or `--contact` is missing where it is needed.
        RunRefused: the folder holds updates that were read with other settings.
        EmendError: see `read_updates` and `query_updates`.
    """
    if config.source.endswith(".jsonl"):
        return Path(config.source)
    settings = {
        name: getattr(config, name)
        for name in ("source", "since", "recipe", "language", "relations", "leads")
    }
    file, before = out / UPDATES, out / SETTINGS
    private_folder(out, links=True)
    if before.exists() and parse_json(before.read_bytes(), str(before)) != settings:
        raise RunRefused(
            f"'{out}' contains updates that were read with other options: give another --out "
            "folder."
        )
    replace_file(before, json.dumps(settings).encode())
    if not file.exists():
        rows, counts = _read(config, out, servers)
        replace_file(file, "".join(row.model_dump_json() + "\n" for row in rows).encode())
        replace_file(out / COUNTS, json.dumps(vars(counts), indent=1).encode())
    return file


def _read(
    config: BuildConfig, out: Path, servers: WikiServers | None
) -> tuple[list[UpdateRow], UpdateCounts]:
    """Return the updates with their leads, and the counts of candidates that are not updates."""
    since, counts = read_day(config.since), UpdateCounts()
    relations = Relations.read(Path(config.relations).expanduser() if config.relations else SHIPPED)
    if not config.contact and (config.source == SERVERS or not config.leads):
        raise BadSettings(
            "leads are fetched from Wikipedia, which requires a contact: give --contact with an "
            "e-mail address or a page; or, with a dump, a file of leads with --leads."
        )
    session: AbstractContextManager[Any] = (
        WikiClient(config.contact, out / CACHE, servers) if config.contact else nullcontext()
    )
    with session as client:
        if config.source == SERVERS:
            limit = config.limit or MOST
            stream = query_updates(
                client, since, relations, config.recipe, config.language, limit, counts=counts
            )
        else:
            dump = Path(config.source).expanduser()
            stream = read_updates(
                dump,
                since,
                relations,
                config.recipe,
                config.language,
                state=out / STATE,
                counts=counts,
            )
        updates = list(stream)
        titles = [title for update in updates for title in (update.subject_page, update.new_page)]
        if config.leads:
            leads = _read_leads(config.leads)
        else:
            leads = fetch_leads(client, titles, config.language)
    return [_row(update, relations, leads) for update in updates], counts


class _Lead(BaseModel):
    title: str
    lead: str


def _read_leads(path: str) -> Mapping[str, str]:
    """Read leads by title from a JSON Lines file of {"title": ..., "lead": ...}.

    Raises:
        BadData: a line has another form.
    """
    remedy = 'Write {"title": "...", "lead": "..."} in each line, in UTF-8.'
    return {row.title: row.lead for row in _parse_lines(Path(path).expanduser(), _Lead, remedy)}


M = TypeVar("M", bound=BaseModel)


def _parse_lines(path: Path, form: type[M], remedy: str) -> Iterator[M]:
    """Yield the rows of a JSON Lines file.

    Raises:
        BadData: a line has another form; the message names line and field.
    """
    for place, value in value_lines(read_text(path, remedy), str(path)):
        try:
            yield form.model_validate(value)
        except ValidationError as error:
            raise BadData(f"{place}, {field_problem(error)}. {remedy}") from error


def _row(update: FactUpdate, relations: Relations, leads: Mapping[str, str]) -> UpdateRow:
    relation = relations.by_id[update.relation_id]
    return UpdateRow(
        update=update,
        cloze=relation.cloze,
        question=relation.question,
        subject_lead=leads.get(update.subject_page, ""),
        new_lead=leads.get(update.new_page, ""),
    )


def read_source(source: str) -> tuple[Iterator[SourceItem], SourceNotes]:
    """Return the items of a file of updates, and notes on the source.

    Raises:
        BadData: a line is not an update; the message names line and field.
    """
    path = Path(source).expanduser()
    rows = list(_parse_lines(path, UpdateRow, "Read it again with emend build wikiupdate."))
    notes = SourceNotes(source, LICENCE, files={path.name: sha256(path)})
    counts = path.with_name(COUNTS)
    if counts.exists():
        notes.left_out |= {
            f"candidates: {name}": n
            for name, n in json.loads(counts.read_bytes())["reasons"].items()
        }
    return (SourceItem(_fact(row), _fields(row)) for row in rows), notes


def _fact(row: UpdateRow) -> str:
    return (
        f"{row.cloze.replace('{}', row.update.subject, 1)} "
        f"{row.update.new}{full_stop(row.update.new)}"
    )


def _fields(row: UpdateRow) -> dict[str, Any]:
    update = row.update
    return {
        "subject": update.subject,
        "object": update.new,
        "old": update.old,
        "fact": _fact(row),
        "prompt": row.cloze,
        "question": row.question.replace("{}", update.subject, 1),
        "relation": update.relation,
        "relation_id": update.relation_id,
        "object_id": update.new_id,
        "old_id": update.old_id,
        "aliases": list(update.aliases_new),
        "time": update.new_start,
        "times": {
            "time_true": {"start_time": update.old_start, "end_time": update.old_end},
            "time_new": {"start_time": update.new_start, "end_time": update.new_end},
        },
        "subject_lead": row.subject_lead,
        "new_lead": row.new_lead,
    }


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write the records in the format of AKEW's WikiUpdate.json, and the history of each fact for
    `emend memory add`.
    """
    rows = [
        {"case_id": number, "requested_rewrite": rewrite(item) | item.fields["times"]}
        for number, item in enumerate(items)
    ]
    write_json(folder / FILE, rows)
    write_lines(folder / HISTORY, (line for item in items for line in _history(item.fields)))
    return BenchmarkFiles(
        benchmark="akew", options={"dataset": "wiki_update"}, files=(FILE, HISTORY)
    )


def _history(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield rows of an edit file for old and new object, with their start dates if known."""
    for name, time in (("old", "time_true"), ("object", "time_new")):
        triplet = Triplet(
            subject=fields["subject"], relation=fields["relation"], object=fields[name]
        )
        row = triplet.model_dump(include={"subject", "relation", "object"}) | {
            "prompt": fields["prompt"]
        }
        start = fields["times"][time]["start_time"]
        yield row | ({"time": start} if start else {})
