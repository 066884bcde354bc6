"""Records composed of a table of facts."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

from emend.evals.build.chains.fact_table import read_fact_table
from emend.evals.build.chains.templates import TemplateBook, read_templates
from emend.evals.build.composed.stored_items import store_items
from emend.evals.build.composed.turns import take_turns
from emend.evals.build.recoe.evidence import add_evidence
from emend.evals.build.recoe.files import RecordWriter
from emend.evals.build.recoe.records import RecordComposer
from emend.evals.config.build_config import BuildConfig
from emend.evals.data.benchmarks.recoe.rows import ROWS
from emend.memory.errors import BadData, BadSettings
from emend.memory.registry import nearest

SCHEMES = tuple(ROWS)


def prepare_records(config: BuildConfig, out: Path) -> Path:
    """Compose the records into the benchmark's folder, and return their file; the same call again changes nothing.

    Raises:
        BadSettings: a scheme is unknown, or the source is no file of facts.
        BadData: a row or a template is wrong, or the facts give no record.
        RunRefused: the folder holds other records.
    """
    schemes, table = read_schemes(config.schemes), read_fact_table(config.source)
    user_templates = read_templates(Path(config.relations).expanduser()) if config.relations else {}
    composer = RecordComposer(table.graph, random.Random(config.seed), config.allow_conflicts)
    count = config.cases if config.limit is None else min(config.cases, config.limit)
    records = take_turns((composer.records(scheme, count) for scheme in schemes), count)
    if not records:
        raise BadData(
            f"the {len(table.graph)} facts of '{config.source}' give no question of {', '.join(schemes)}: these "
            "need a relation whose objects are numbers of one unit, or one whose object several entities have."
        )
    writer = RecordWriter(table.graph, TemplateBook(user_templates, table.templates))
    counts = ", ".join(f"{scheme} {number}" for scheme, number in Counter(each.scheme for each in records).items())
    notes = replace(table.notes, name=f"{config.source}: {len(table.graph)} facts, {counts}")
    items = [writer.item(each) for each in records]
    if config.documents:
        notes.files.update(add_evidence(items, config.documents, config.retriever))
    return store_items(items, notes, out)


def read_schemes(text: str) -> tuple[str, ...]:
    """The schemes of a comma list; all of them for an empty text.

    Raises:
        BadSettings: one is unknown.
    """
    schemes = tuple(part.strip() for part in text.split(",") if part.strip()) or SCHEMES
    for scheme in schemes:
        if scheme not in SCHEMES:
            raise BadSettings(f"--schemes {text}: there is no scheme '{scheme}': {nearest(scheme, list(SCHEMES))}")
    return schemes
