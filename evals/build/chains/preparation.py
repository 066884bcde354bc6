"""Chains composed of a table of facts before any model is asked, and the benchmark of them that needs no model."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from emend.evals.build.assemble import CARD_TEXT
from emend.evals.build.card import EXAMPLES, BuildCost, Card, FilterCount, count_filter, measure_diversity
from emend.evals.build.card_text import card_text
from emend.evals.build.chains.composition import ChainRequest, compose_chains
from emend.evals.build.chains.fact_graph import Chain
from emend.evals.build.chains.fact_table import read_fact_table
from emend.evals.build.chains.faults import FAULTS
from emend.evals.build.chains.files import (
    FILE,
    ITEMS,
    LIMITS,
    NOTES,
    chain_item,
    read_source,
    worded_questions,
    write_rows,
)
from emend.evals.build.chains.templates import TemplateBook, read_templates
from emend.evals.build.source_items import KeptItem
from emend.evals.config.build_config import BuildConfig
from emend.evals.data.benchmarks.built import CARD
from emend.evals.data.benchmarks.mquake.rows import ChainRow
from emend.evals.log.manifest import now
from emend.evals.log.records import replace
from emend.evals.metrics.estimate import estimate
from emend.graphs.construction.chains import leaked_name
from emend.graphs.construction.text_filters import summary_of
from emend.memory.distribution import installed_version
from emend.memory.errors import BadData, BadSettings, RunRefused
from emend.memory.files import private_folder, replace_file

CHAINS = "chains"
"""The kind whose items are composed of a table of facts first."""


def prepare_chains(config: BuildConfig, out: Path) -> Path:
    """Compose the chains into the benchmark's folder, and return their file; the same call again changes nothing.

    Raises:
        BadSettings: `--hops` or `--edits` are no numbers, or the source is no file of facts.
        BadData: a row or a template is wrong, or the facts give no chain.
        RunRefused: the folder holds other chains.
    """
    request = read_request(config)
    user_templates = read_templates(Path(config.relations).expanduser()) if config.relations else {}
    table = read_fact_table(config.source)
    book = TemplateBook(user_templates, table.templates)

    def is_usable(chain: Chain) -> bool:
        item = chain_item(chain, table.graph, book)
        return not leaked_name(item["question"], item["hidden"])

    chains = compose_chains(table.graph, request, is_usable)
    if not chains:
        raise BadData(
            f"the {len(table.graph)} facts of '{config.source}' give no chain of {config.hops} hops and {config.edits} "
            "edits: objects must be subjects of other rows, and a relation needs two objects for an edit."
        )
    items = [chain_item(chain, table.graph, book) for chain in chains]
    content = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items).encode()
    private_folder(out, links=True)
    if (out / ITEMS).exists() and (out / ITEMS).read_bytes() != content:
        raise RunRefused(f"'{out}' holds chains of other facts or options: give another --out folder.")
    notes = asdict(table.notes) | {"name": f"{config.source}: {len(table.graph)} facts, {_cells(chains)}"}
    replace_file(out / NOTES, json.dumps(notes, ensure_ascii=False, indent=1).encode())
    replace_file(out / ITEMS, content)
    return out / ITEMS


def read_request(config: BuildConfig) -> ChainRequest:
    """The request that the options make.

    Raises:
        BadSettings: an option has no numbers, or no chain has as many edits as asked for.
    """
    hops, edits = _numbers("--hops", config.hops, 2), _numbers("--edits", config.edits, 1)
    cases = config.cases if config.limit is None else min(config.cases, config.limit)
    request = ChainRequest(hops, edits, cases, config.seed, config.allow_conflicts)
    if not request.cells:
        raise BadSettings(
            f"--edits {config.edits} with --hops {config.hops}: a chain has at most an edit for each hop."
        )
    return request


def _numbers(option: str, text: str, lowest: int) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) >= lowest for part in parts):
        raise BadSettings(f"{option} '{text}': give numbers from {lowest} on with commas between them, such as 2,3,4.")
    return tuple(sorted({int(part) for part in parts}))


def _cells(chains: Sequence[Chain]) -> str:
    counts = Counter((len(chain.new), len(chain.edited)) for chain in chains)
    cells = ", ".join(f"{hops}/{edits} {count}" for (hops, edits), count in sorted(counts.items()))
    return f"{len(chains)} chains by hops/edits: {cells}"


def write_composed(config: BuildConfig, out: Path) -> Card:
    """Write the benchmark of the composed chains and questions, for which no model is asked, and return its card."""
    source, notes = read_source(str(prepare_chains(config, out)))
    items = [KeptItem(item.fields, {"questions": [item.fields["question"]]}) for item in source]
    content = write_rows(items, out)
    texts = [worded_questions(item) for item in items]
    files = {name: {"sha256": digest} for name, digest in notes.files.items()}
    card = Card(
        kind=CHAINS,
        recipe=config.recipe,
        status="not reviewed",
        content=content,
        built=now(),
        emend=installed_version(),
        source={"source": notes.name, "licence": notes.licence, "files": files, "dropped": notes.left_out},
        language=config.language,
        seed=config.seed,
        models={},
        one_model=False,
        prompts=(),
        items=len(items),
        kept_share=estimate([1.0] * len(items), texts),
        failed=0,
        dropped={},
        filters=tuple(_faults(out / FILE)),
        attempts=len(items),
        cost=BuildCost(calls=0, input_tokens=0, output_tokens=0),
        cost_per_kept={},
        diversity=measure_diversity(texts),
        examples=tuple(f"{worded_questions(each)}\n{each.fields['row']['new_answer']}" for each in items[:EXAMPLES]),
        limits=LIMITS,
    )
    replace(out / CARD, card)
    replace(out / CARD_TEXT, card_text(card).encode())
    return card


def _faults(file: Path) -> list[FilterCount]:
    """The checks of a file of chains, each with the share of rows that pass."""
    rows = TypeAdapter(list[ChainRow]).validate_json(file.read_bytes())
    counts = []
    for name, find in FAULTS.items():
        faulty = find(rows)
        outcomes = {str(row.id): row.id not in faulty for row in rows}
        counts.append(count_filter(name, outcomes, len(faulty), summary_of(find), ""))
    return counts
