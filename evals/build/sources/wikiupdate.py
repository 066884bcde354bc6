"""WikiUpdate from Wikidata: updates since a day with the leads of their pages, from a dump or from the servers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError, field_validator

from emend.evals.build.sources.akew import rewrite
from emend.evals.build.sources.stored_items import KeptItem, SourceItem, SourceNotes, write_json, write_lines
from emend.evals.config.task_config import BuildConfig
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.benchmarks.rows import read_text, sha256
from emend.evals.data.wikidata.dump import read_updates
from emend.evals.data.wikidata.fact_update import SHIPPED, FactUpdate, Relations, UpdateCounts
from emend.evals.data.wikidata.query import WikiClient, WikiServers, fetch_leads, query_updates
from emend.memory.edit import FrozenModel, Triplet
from emend.memory.errors import BadData, BadSettings, RunRefused
from emend.memory.files import private_folder, replace_file
from emend.memory.json_files import parse_json
from emend.memory.typography import full_stop

SERVERS = "wikidata"
"""Name of the source that is Wikidata's servers."""
UPDATES, SETTINGS, COUNTS = "updates.jsonl", "updates.json", "updates-counts.json"
STATE, CACHE = "scan.sqlite", "wiki.sqlite"
FILE, HISTORY = "WikiUpdate.json", "history.jsonl"
MOST = 1000
"""Updates that are asked of the servers where no limit is given."""
LICENCE = "Wikidata: CC0 1.0; leads of Wikipedia: CC BY-SA 4.0"
LIMITS = (
    "The leads are those of today: a page that names the old object only was not updated yet, and is dropped.",
    "An update that Wikidata lacks, or dates wrongly, is not found.",
    "The triplets are not filtered, as in the paper: some documents cannot be recovered from them.",
)


class UpdateRow(FrozenModel):
    """An update with the templates of its relation and the leads of its pages: a line of `updates.jsonl`."""

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
    """Read the updates and their leads into the benchmark's folder, once, and return their file.

    Args:
        config: the source: a dump, `wikidata` for the servers, or a file of updates that was read before.
        out: the benchmark's folder.
        servers: addresses of Wikimedia's servers; None for the usual ones.

    Raises:
        BadSettings: `--since`, or both `--contact` and `--leads`, are missing.
        RunRefused: the folder holds updates that were read with other settings.
        EmendError: see `read_updates` and `query_updates`.
    """
    if config.source.endswith(".jsonl"):
        return Path(config.source)
    settings = {name: getattr(config, name) for name in ("source", "since", "recipe", "language", "relations", "leads")}
    file, before = out / UPDATES, out / SETTINGS
    private_folder(out, links=True)
    if before.exists() and parse_json(before.read_bytes(), str(before)) != settings:
        raise RunRefused(f"'{out}' holds updates that were read with other options: give another --out folder.")
    replace_file(before, json.dumps(settings).encode())
    if not file.exists():
        rows, counts = _read(config, out, servers)
        replace_file(file, "".join(row.model_dump_json() + "\n" for row in rows).encode())
        replace_file(out / COUNTS, json.dumps(vars(counts), indent=1).encode())
    return file


def _read(config: BuildConfig, out: Path, servers: WikiServers | None) -> tuple[list[UpdateRow], UpdateCounts]:
    """The updates with their leads, and the counts of what is no update."""
    since, counts = _since(config.since), UpdateCounts()
    relations = Relations.read(Path(config.relations).expanduser() if config.relations else SHIPPED)
    if not config.contact and (config.source == SERVERS or not config.leads):
        raise BadSettings(
            "leads are asked of Wikipedia, which wants to know who asks: give --contact with an e-mail address or a "
            "page; or, with a dump, a file of leads with --leads."
        )
    session: AbstractContextManager[Any] = (
        WikiClient(config.contact, out / CACHE, servers) if config.contact else nullcontext()
    )
    with session as client:
        if config.source == SERVERS:
            limit = config.limit or MOST
            stream = query_updates(client, since, relations, config.recipe, config.language, limit, counts=counts)
        else:
            dump = Path(config.source).expanduser()
            stream = read_updates(
                dump, since, relations, config.recipe, config.language, state=out / STATE, counts=counts
            )
        updates = list(stream)
        titles = [title for update in updates for title in (update.subject_page, update.new_page)]
        leads = _read_leads(config.leads) if config.leads else fetch_leads(client, titles, config.language)
    return [_row(update, relations, leads) for update in updates], counts


def _since(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BadSettings(f"--since is '{text}': give the day from which changes count, as 2026-01-31.") from None


class _Lead(BaseModel):
    title: str
    lead: str


def _read_leads(path: str) -> Mapping[str, str]:
    """Leads by title, of a file with {"title": ..., "lead": ...} in each line.

    Raises:
        BadData: a line is something else.
    """
    remedy = 'Write {"title": "...", "lead": "..."} in each line, in UTF-8.'
    return {row.title: row.lead for row in _parse_lines(Path(path).expanduser(), _Lead, remedy)}


M = TypeVar("M", bound=BaseModel)


def _parse_lines(path: Path, form: type[M], remedy: str) -> Iterator[M]:
    """Yield the rows of a file of JSON lines.

    Raises:
        BadData: a line is something else; names line and field.
    """
    # Texts may have other ends of lines in them, such as U+2028.
    for number, line in enumerate(read_text(path, remedy).split("\n"), 1):
        if line.strip():
            try:
                yield form.model_validate(parse_json(line, f"{path}, line {number}"))
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                field = ".".join(map(str, first["loc"]))
                raise BadData(f"{path}, line {number}, field '{field}': {first['msg']}. {remedy}") from error


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
    """The items of a file of updates, and notes on the source.

    Raises:
        BadData: a line is no update; names line and field.
    """
    path = Path(source).expanduser()
    rows = list(_parse_lines(path, UpdateRow, "Read it again with emend build wikiupdate."))
    notes = SourceNotes(source, LICENCE, files={path.name: sha256(path)})
    counts = path.with_name(COUNTS)
    if counts.exists():
        notes.left_out |= {f"candidates: {name}": n for name, n in json.loads(counts.read_bytes())["reasons"].items()}
    return (SourceItem(_fact(row), _fields(row)) for row in rows), notes


def _fact(row: UpdateRow) -> str:
    return f"{row.cloze.replace('{}', row.update.subject, 1)} {row.update.new}{full_stop(row.update.new)}"


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
    """Write the records in the form of AKEW's WikiUpdate.json, and the history of each fact for `emend memory add`."""
    rows = [
        {"case_id": number, "requested_rewrite": rewrite(item) | item.fields["times"]}
        for number, item in enumerate(items)
    ]
    write_json(folder / FILE, rows)
    write_lines(folder / HISTORY, (line for item in items for line in _history(item.fields)))
    return BenchmarkFiles(benchmark="akew", options={"dataset": "wiki_update"}, files=(FILE, HISTORY))


def _history(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The old and the new object with the days since which they hold, in the form of a file of edits."""
    for name, time in (("old", "time_true"), ("object", "time_new")):
        triplet = Triplet(subject=fields["subject"], relation=fields["relation"], object=fields[name])
        row = triplet.model_dump(include={"subject", "relation", "object"}) | {"prompt": fields["prompt"]}
        start = fields["times"][time]["start_time"]
        yield row | ({"time": start} if start else {})
