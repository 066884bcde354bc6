"""A benchmark without what a model knows already, or without what it does not know."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from emend.evals.build.assemble import CARD_TEXT, build_cost
from emend.evals.build.card import Card, FilterCount, card_text, count_filter
from emend.evals.build.items import CHOICE, COUNT, PLACE, WORDS
from emend.evals.case import Record
from emend.evals.config.task_config import BuildConfig
from emend.evals.data.benchmarks.fact_file import FactFile
from emend.evals.data.benchmarks.fact_rows import is_fact_file, read_facts
from emend.evals.data.benchmarks.registry import CARD, PLACES, BenchmarkFiles, is_built_folder, read_card, read_places
from emend.evals.log.manifest import Manifest, now
from emend.evals.log.records import read_records, replace
from emend.evals.metrics.estimate import estimate
from emend.evals.run.results import Progress
from emend.evals.run.run import run
from emend.memory.distribution import installed_version
from emend.memory.errors import BadData
from emend.memory.files import private_folder, read_input, replace_file

FRESH, FACTS = "fresh", "facts.jsonl"
"""The kind that only selects from a benchmark, and its file of the facts that it selects from a file."""
WAYS = {
    "in words": (WORDS, "contains", "facts that most wordings are answered with"),
    "as choice": (CHOICE, "choice", "facts that are chosen among four options"),
    "by likelihood": (WORDS, "success", "facts that are more probable than the other object in most wordings"),
}
"""By name, the kind of probe and the score of a way of asking, and what it counts."""
LIMITS = (
    "A fact counts as known if most of its wordings are answered with it, and so does a lucky guess.",
    "What a model knows is asked of this model in this form; another one needs a check of its own.",
)


def build_fresh(config: BuildConfig, out: Path, run_folder: Path, progress: Progress | None = None) -> Card:
    """Ask a model for the facts of a benchmark, and write the benchmark of those that it knows, or does not.

    Args:
        config: source, model, which objects are asked for and which cases are kept.
        out: the benchmark's folder.
        run_folder: folder of the run that asks.
        progress: called for every case.

    Raises:
        BadData: no case is left, or none could be scored.
        EmendError: see `run`.
    """
    private_folder(out, links=True)
    run(config.knowledge_config(), run_folder, progress)
    known, unscored = _known(run_folder)
    chosen = sorted(place for place, is_known in known["in words"].items() if is_known == (config.keep == "known"))
    if not chosen:
        raise BadData(
            f"no case is {config.keep} to {config.model}: of {len(known['in words'])} that could be scored "
            f"{sum(known['in words'].values())} are known, {unscored} could not; see emend report {run_folder}."
        )
    manifest = Manifest.read(run_folder)
    card = _card(config, manifest, known, chosen, list(read_records(run_folder)))
    content = _write_cases(config, chosen, int(manifest.benchmark[COUNT]), out)
    card = card.model_copy(update={"content": content})
    replace(out / CARD, card)
    replace(out / CARD_TEXT, card_text(card).encode())
    return card


def _known(folder: Path) -> tuple[dict[str, dict[int, bool]], int]:
    """By way of asking and place of the case, whether the fact is known; and the number of cases without a score."""
    scores: dict[str, dict[int, list[float]]] = {way: defaultdict(list) for way in WAYS}
    places = set()
    for record in read_records(folder):
        place = int(record.tags[PLACE])
        places.add(place)
        for way, (kind, value, _) in WAYS.items():
            if record.kind == kind and value in record.values:
                scores[way][place].append(record.values[value])
    known = {
        way: {place: sum(each) > len(each) / 2 for place, each in by_place.items()} for way, by_place in scores.items()
    }
    return known, len(places - known["in words"].keys())


def _card(
    config: BuildConfig,
    manifest: Manifest,
    known: Mapping[str, Mapping[int, bool]],
    chosen: list[int],
    records: list[Record],
) -> Card:
    in_words = known["in words"]
    cost = build_cost(manifest, records)
    unwanted = "known already" if config.keep == "unknown" else "not known"
    return Card(
        kind=FRESH,
        recipe=f"keep {config.keep}",
        status="not reviewed",
        content=BenchmarkFiles(benchmark=config.source, files=()),  # filled in by the caller
        built=now(),
        emend=installed_version(),
        source=_source(manifest.benchmark, config.source),
        language="that of the source",
        seed=config.seed,
        models={"author": config.model, "judge": config.model},
        one_model=False,
        prompts=(),
        items=manifest.units,
        kept_share=estimate([float(place in chosen) for place in in_words], list(in_words)),
        failed=manifest.units - len(in_words),
        dropped={unwanted: len(in_words) - len(chosen)},
        filters=tuple(_shares(known)),
        attempts=manifest.units,
        cost=cost,
        cost_per_kept=cost.per(len(chosen)),
        diversity=None,
        examples=tuple(f"{each.prompt} -> {each.answer}" for each in records if int(each.tags[PLACE]) in chosen)[:3],
        limits=LIMITS,
    )


def _write_cases(config: BuildConfig, chosen: Sequence[int], count: int, out: Path) -> BenchmarkFiles:
    """Write the rows of a file of facts that are chosen, or the places of the cases of a benchmark.

    The files of a benchmark that `emend build` made are copied, so that a card names nothing outside of its folder.
    """
    if is_fact_file(config.source):
        rows = read_facts(config.source)
        lines = [rows[place].model_dump_json(exclude_defaults=True) + "\n" for place in chosen]
        replace_file(out / FACTS, "".join(lines).encode())
        return BenchmarkFiles(benchmark=FactFile.name, files=(FACTS,))
    content = BenchmarkFiles(benchmark=config.source, options=config.benchmark_options, files=(PLACES,), cases=count)
    if is_built_folder(config.source):
        folder = Path(config.source).expanduser()
        before = read_card(folder).content
        if PLACES in before.files:
            earlier = read_places(folder)
            chosen = [earlier[place] for place in chosen]
        own_files = [name for name in before.files if name != PLACES]
        for name in own_files:
            replace_file(out / name, read_input(folder / name))
        options = before.options | config.benchmark_options
        content = before.model_copy(
            update={"options": options, "files": (*own_files, PLACES), "cases": before.cases or count}
        )
    replace_file(out / PLACES, json.dumps(chosen).encode())
    return content


def _source(provenance: Mapping[str, Any], name: str) -> dict[str, Any]:
    usual = {"source": name, "licence": "that of the source", "files": {}}
    return usual | {key: value for key, value in provenance.items() if key in ("source", "licence", "files", "date")}


def _shares(known: Mapping[str, Mapping[int, bool]]) -> Iterator[FilterCount]:
    """The share that is known, for each way of asking."""
    for way, (_, _, counts) in WAYS.items():
        outcomes = {str(place): value for place, value in known[way].items()}
        yield count_filter(way, outcomes, sum(not value for value in outcomes.values()), counts, "")
