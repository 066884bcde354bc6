"""The benchmark folder made of a finished construction, or of a benchmark without what a model knows, and its card."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emend.agents.roles.author import SHIPPED
from emend.editors.built_item import BuiltItem
from emend.evals.build.card import (
    EXAMPLES,
    BuildCost,
    Card,
    FilterCount,
    PromptNote,
    Status,
    count_filter,
    measure_diversity,
    write_card,
)
from emend.evals.build.items import CHOICE, COUNT, PLACE, WORDS, Items
from emend.evals.build.kinds import BuildKind, build_kind
from emend.evals.build.sources.stored_items import KeptItem
from emend.evals.case import Record
from emend.evals.config.task_config import BuildConfig
from emend.evals.data.benchmarks.fact_file import FactFile
from emend.evals.data.benchmarks.fact_formats import is_fact_file, read_facts
from emend.evals.data.benchmarks.registry import PLACES, BenchmarkFiles, is_built_folder, read_card, read_places
from emend.evals.judging.annotation import final_label, read_key, read_sheets, results_of
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records
from emend.evals.metrics.estimate import estimate
from emend.evals.run.results import Progress
from emend.evals.run.run import run
from emend.graphs.registry import CONSTRUCTIONS
from emend.memory.errors import BadData
from emend.memory.files import private_folder, read_input, replace_file
from emend.memory.probe import Usage
from emend.memory.typography import fold_text

STUDY, QUESTION, REJECT = "build", "keep", "no"


class Review(NamedTuple):
    """The cases that people rejected, how many they labelled, and how far they agreed."""

    rejected: frozenset[str]
    labelled: int
    agreement: dict[str, Any]


def read_review(folder: Path, cases: Collection[str]) -> Review:
    """Read the filled sheets of a construction's items.

    Args:
        folder: where `emend judge annotate RUN --study build` wrote the sheets.
        cases: those of the items that are kept so far; each needs a label.

    Raises:
        BadData: the sheets are of another study, or an item has no label on which they agree.
    """
    key = read_key(folder)
    if key.study.name != STUDY:
        raise BadData(f"'{folder}' has sheets of the study '{key.study.name}': make them with --study {STUDY}.")
    sheets = read_sheets(folder, key)
    question = next(each for each in key.study.questions if each.name == QUESTION)
    labels = {item.case: final_label(item, sheets, question) for item in key.items}
    if unlabelled := sorted(case for case in cases if labels.get(case) is None):
        raise BadData(
            f"{len(unlabelled)} of {len(cases)} items in '{folder}' have no label that the reviewers agree on, such as "
            f"{unlabelled[0]}: label them, or decide with emend judge agreement {folder}."
        )
    results = results_of(key, sheets)
    pairs = [pair.model_dump(mode="json") for pair in results.pairs]
    rejected = frozenset(case for case, label in labels.items() if label == REJECT)
    return Review(rejected, len(labels), {"labelled": results.labelled, "pairs": pairs})


REPEATED, REVIEWERS = "repeated text", "reviewers"


class BuiltRecord(NamedTuple):
    """An item with its record; `built` is None where the item failed or could not be read."""

    record: Record
    built: BuiltItem | None


def read_built(run: Path) -> list[BuiltRecord]:
    """The items of a construction's run folder, in the order of their source."""
    records = sorted(read_records(run), key=lambda record: int(record.tags.get(PLACE, 0)))
    return [
        BuiltRecord(record, BuiltItem.model_validate_json(record.answer) if record.answer and record.values else None)
        for record in records
    ]


def assemble(run: Path, out: Path, status: Status, review: Review | None = None) -> Card:
    """Write the files and the card of a benchmark; those of an earlier call are replaced.

    Args:
        run: run folder of the construction.
        out: the benchmark's folder.
        status: of the folder.
        review: what people said of the items; theirs are dropped too.

    Raises:
        BadData: no item was kept, or the run cannot be read.
    """
    manifest = Manifest.read(run)
    if manifest.config.benchmark != Items.name:
        raise BadData(f"'{run}' is a run of '{manifest.config.benchmark}', and no construction of emend build.")
    kind = build_kind(manifest.config.benchmark_options["kind"])
    built = read_built(run)
    selected, dropped = _select(
        built, kind, review, filters_repeats=manifest.config.benchmark_options["recipe"] == "best"
    )
    if not selected:
        reasons = ", ".join(f"{name} {count}" for name, count in dropped.items()) or "none was finished"
        raise BadData(f"no item of {len(built)} was kept ({reasons}): look at them with emend view {run}.")
    sources = [each.built.item for each in built if each.built]
    options = manifest.config.benchmark_options
    items, counts = kind.thin([item for _, item in selected], options["recipe"], options["language"])
    content = kind.write(items, sources, out)
    fields = _card_fields(manifest, built, selected, kind)
    fields["filters"] += counts
    return write_card(
        out,
        content=content,
        status=status,
        dropped=dict(sorted(dropped.items(), key=lambda pair: -pair[1])),
        agreement=review.agreement if review else {},
        **fields,
    )


def _select(
    built: Sequence[BuiltRecord], kind: BuildKind, review: Review | None, *, filters_repeats: bool
) -> tuple[list[tuple[BuiltRecord, KeptItem]], Counter[str]]:
    """The items that are kept, and the others counted by what dropped them; no paper filters repeated texts."""
    selected: list[tuple[BuiltRecord, KeptItem]] = []
    dropped: Counter[str] = Counter()
    texts: set[str] = set()
    for each in built:
        if each.built is None:
            continue
        if each.built.result is None:
            dropped[each.built.rejections[-1]["filter"] if each.built.rejections else "unknown"] += 1
            continue
        item = KeptItem(each.built.item, each.built.result)
        text = fold_text(kind.text(item))
        if text in texts and filters_repeats:
            dropped[REPEATED] += 1
        elif review is not None and each.record.case in review.rejected:
            dropped[REVIEWERS] += 1
        else:
            texts.add(text)
            selected.append((each, item))
    return selected, dropped


def _card_fields(
    manifest: Manifest,
    built: Sequence[BuiltRecord],
    selected: Sequence[tuple[BuiltRecord, KeptItem]],
    kind: BuildKind,
) -> dict[str, Any]:
    """The fields of a card that come from the run."""
    config, options = manifest.config, manifest.config.benchmark_options
    chosen = {each.record.case for each, _ in selected}
    cases = [each.record.case for each in built]
    cost = build_cost(manifest, (each.record for each in built))
    judge = config.overrides["build"]["judge"] or config.model
    limit = "The author also judged what it wrote: take another model as the judge."
    return {
        "kind": options["kind"],
        "recipe": options["recipe"],
        "source": {name: value for name, value in manifest.benchmark.items() if name != "options"},
        "language": options["language"],
        "seed": config.seed,
        "models": {"author": config.model, "judge": judge},
        "one_model": judge == config.model,
        "prompts": tuple(_prompts(manifest)),
        "items": manifest.units,
        "kept_share": estimate([float(case in chosen) for case in cases], cases),
        "failed": manifest.units - sum(each.built is not None for each in built),
        "filters": tuple(_filters(options, built)),
        "attempts": sum(each.built.attempts for each in built if each.built),
        "cost": cost,
        "cost_per_kept": cost.per(len(selected)),
        "diversity": measure_diversity([kind.text(item) for _, item in selected]),
        "examples": tuple(f"{each.record.prompt}\n\n{kind.text(item)}" for each, item in selected[:EXAMPLES]),
        "limits": (*([limit] if judge == config.model else []), *kind.limits),
    }


def _filters(options: Mapping[str, str], built: Iterable[BuiltRecord]) -> Iterable[Any]:
    filters = CONSTRUCTIONS.load(options["kind"]).filters(options["recipe"])  # type: ignore[arg-type]
    items = [(each.record.case, each.built) for each in built if each.built]
    rejected = Counter(rejection["filter"] for _, item in items for rejection in item.rejections)
    for name, info in filters.items():
        outcomes = {case: item.passed[name] for case, item in items if name in item.passed}
        yield count_filter(name, outcomes, rejected[name], info.rejects, info.published)


def _prompts(manifest: Manifest) -> Iterable[PromptNote]:
    """The prompts by the ids that the run had; one of the user's own carries out no step of a paper."""
    (editors,) = manifest.editors.values()
    for name, used in editors["build"]["settings"]["prompts"].items():
        shipped = SHIPPED.get(name)
        source = shipped.source if shipped and shipped.id == used else "the user's own"
        yield PromptNote(name=name, id=used, source=source)


def build_cost(manifest: Manifest, records: Iterable[Record]) -> BuildCost:
    """The cost of a construction, by its records and by what its models were paid."""
    usage = Usage()
    for record in records:
        usage = usage.plus(record.usage)
    prices = [spent.cost for spent in manifest.spent.values()]
    money = sum(price for price in prices if price is not None) if any(price is not None for price in prices) else None
    return BuildCost(
        calls=usage.calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        money=money,
        currency=str((manifest.prices or {}).get("currency", "")),
    )


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
    manifest, records, in_words = Manifest.read(run_folder), list(read_records(run_folder)), known["in words"]
    cost = build_cost(manifest, records)
    unwanted = "known already" if config.keep == "unknown" else "not known"
    usual = {"source": config.source, "licence": "that of the source", "files": {}}
    provenance = {
        name: manifest.benchmark[name] for name in ("source", "licence", "files", "date") if name in manifest.benchmark
    }
    return write_card(
        out,
        kind=FRESH,
        recipe=f"keep {config.keep}",
        status="not reviewed",
        content=_write_cases(config, chosen, int(manifest.benchmark[COUNT]), out),
        source=usual | provenance,
        language="that of the source",
        seed=config.seed,
        models={"author": config.model, "judge": config.model},
        items=manifest.units,
        kept_share=estimate([float(place in chosen) for place in in_words], list(in_words)),
        failed=manifest.units - len(in_words),
        dropped={unwanted: len(in_words) - len(chosen)},
        filters=tuple(_shares(known)),
        attempts=manifest.units,
        cost=cost,
        cost_per_kept=cost.per(len(chosen)),
        examples=tuple(f"{each.prompt} -> {each.answer}" for each in records if int(each.tags[PLACE]) in chosen)[:3],
        limits=LIMITS,
    )


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


def _shares(known: Mapping[str, Mapping[int, bool]]) -> Iterator[FilterCount]:
    """The share that is known, for each way of asking."""
    for way, (_, _, counts) in WAYS.items():
        outcomes = {str(place): value for place, value in known[way].items()}
        yield count_filter(way, outcomes, sum(not value for value in outcomes.values()), counts)
