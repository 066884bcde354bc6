"""The benchmark folder made of a finished construction: items that are kept, in order, and their card."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emend.agents.roles.author import SHIPPED
from emend.editors.built_item import BuiltItem
from emend.evals.build.card import (
    EXAMPLES,
    BuildCost,
    Card,
    PromptNote,
    Status,
    card_text,
    count_filter,
    measure_diversity,
)
from emend.evals.build.items import PLACE, Items
from emend.evals.build.kinds import BuildKind, build_kind
from emend.evals.build.sources.stored_items import KeptItem
from emend.evals.case import Record
from emend.evals.data.benchmarks.registry import CARD
from emend.evals.judging.annotation import final_label, read_key, read_sheets, results_of
from emend.evals.log.manifest import Manifest, now
from emend.evals.log.records import read_records, replace
from emend.evals.metrics.estimate import estimate
from emend.graphs.registry import CONSTRUCTIONS
from emend.memory.distribution import installed_version
from emend.memory.errors import BadData
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


CARD_TEXT = "card.md"
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
    card = _card(manifest, built, selected, dropped, kind)
    card = card.model_copy(
        update={
            "content": content,
            "status": status,
            "filters": (*card.filters, *counts),
            "agreement": review.agreement if review else {},
        }
    )
    replace(out / CARD, card)
    replace(out / CARD_TEXT, card_text(card).encode())
    return card


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


def _card(
    manifest: Manifest,
    built: Sequence[BuiltRecord],
    selected: Sequence[tuple[BuiltRecord, KeptItem]],
    dropped: Mapping[str, int],
    kind: BuildKind,
) -> Card:
    config = manifest.config
    settings = config.overrides["build"]
    options = config.benchmark_options
    chosen = {each.record.case for each, _ in selected}
    cases = [each.record.case for each in built]
    texts = [kind.text(item) for _, item in selected]
    cost = build_cost(manifest, (each.record for each in built))
    judge = settings["judge"] or config.model
    limit = "The author also judged what it wrote: take another model as the judge."
    return Card(
        kind=options["kind"],
        recipe=options["recipe"],
        status="draft",
        content={"benchmark": options["kind"], "files": ()},  # type: ignore[arg-type]  # filled in by the caller
        built=now(),
        emend=installed_version(),
        source={name: value for name, value in manifest.benchmark.items() if name != "options"},
        language=options["language"],
        seed=config.seed,
        models={"author": config.model, "judge": judge},
        one_model=judge == config.model,
        prompts=tuple(_prompts(manifest)),
        items=manifest.units,
        kept_share=estimate([float(case in chosen) for case in cases], cases),
        failed=manifest.units - sum(each.built is not None for each in built),
        dropped=dict(sorted(dropped.items(), key=lambda pair: -pair[1])),
        filters=tuple(_filters(options, built)),
        attempts=sum(each.built.attempts for each in built if each.built),
        cost=cost,
        cost_per_kept=cost.per(len(selected)),
        diversity=measure_diversity(texts),
        examples=tuple(f"{each.record.prompt}\n\n{kind.text(item)}" for each, item in selected[:EXAMPLES]),
        limits=(*([limit] if judge == config.model else []), *kind.limits),
    )


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
