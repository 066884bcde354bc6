"""Chains composed of a table of facts before any model is asked, and the checks of their rows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from emend.evals.build.card import FilterCount, count_filter
from emend.evals.build.chains.composition import ChainRequest, compose_chains
from emend.evals.build.chains.fact_graph import Chain
from emend.evals.build.chains.fact_table import read_fact_table
from emend.evals.build.chains.faults import FAULTS
from emend.evals.build.chains.files import FILE, chain_item
from emend.evals.build.chains.templates import TemplateBook, read_templates
from emend.evals.build.composed.stored_items import store_items
from emend.evals.config.build_config import BuildConfig
from emend.evals.data.benchmarks.mquake.rows import ChainRow
from emend.graphs.construction.chains import leaked_name
from emend.graphs.construction.filters.texts import summary_of
from emend.memory.errors import BadData, BadSettings


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
        return not leaked_name(item["text"], item["hidden"])

    chains = compose_chains(table.graph, request, is_usable)
    if not chains:
        raise BadData(
            f"the {len(table.graph)} facts of '{config.source}' give no chain of {config.hops} hops and {config.edits} "
            "edits: objects must be subjects of other rows, and a relation needs two objects for an edit."
        )
    items = [chain_item(chain, table.graph, book) for chain in chains]
    notes = replace(table.notes, name=f"{config.source}: {len(table.graph)} facts, {_cells(chains)}")
    return store_items(items, notes, out)


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


def check_chains(folder: Path) -> list[FilterCount]:
    """The checks of a folder of chains, each with the share of rows that pass."""
    rows = TypeAdapter(list[ChainRow]).validate_json((folder / FILE).read_bytes())
    counts = []
    for name, find in FAULTS.items():
        faulty = find(rows)
        outcomes = {str(row.id): row.id not in faulty for row in rows}
        counts.append(count_filter(name, outcomes, len(faulty), summary_of(find), ""))
    return counts
