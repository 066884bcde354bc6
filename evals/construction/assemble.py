"""Benchmark folder and card written from the item lines of a construction run."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.construction.card import (
    CARD_TEXT,
    EXAMPLES,
    Card,
    FilterCount,
    PromptNote,
    Status,
    build_cost,
    count_filter,
    measure_diversity,
    write_card,
)
from emend.evals.construction.items.line import ItemLine, read_item_lines
from emend.evals.construction.items.manifest import Construction
from emend.evals.construction.kinds import BuildKind, build_kind
from emend.evals.construction.paper_steps import compared_steps
from emend.evals.construction.registry import CONSTRUCTIONS, load_pipeline
from emend.evals.construction.review import Review
from emend.evals.construction.sources.stored_items import KeptItem
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.metrics.estimate import estimate
from emend.memory.errors import BadData
from emend.memory.typography import fold_text

REPEATED, REVIEWERS = "repeated text", "reviewers"
# Count of items whose question the reviewers rejected but whose text they kept.
REVIEWED_QUESTIONS = "question alone, by reviewers"
ONE_MODEL = "The author also judged its own texts; use another model as the judge."
# Only recipe `best` drops repeated texts; no paper filters them.
BEST, PAPER = "best", "paper"


class Selection(NamedTuple):
    """Kept lines, the items to write for them, and counts of dropped items by reason."""

    lines: list[ItemLine]
    items: list[KeptItem]
    dropped: Counter[str]


def assemble(run: Path, out: Path, status: Status, review: Review | None = None) -> Card:
    """Write the files and the card of a benchmark, replacing those of an earlier call.

    Args:
        run: run folder of the construction.
        out: benchmark folder.
        status: review status shown on the card.
        review: human review of the items; rejected items are dropped.

    Raises:
        BadData: no item was kept, or the run cannot be read.
    """
    construction = Construction.read(run)
    kind = build_kind(construction.kind)
    lines = read_item_lines(run)
    selection = select_items(lines, kind, construction.config.recipe, review)
    fields = _card_fields(construction, lines, selection, kind)
    fields["status"] = status
    fields["agreement"] = review.agreement if review else {}
    if not selection.items:
        write_card(out, content=BenchmarkFiles(benchmark="", files=()), **fields)
        raise _nothing_kept(selection, out, run)
    items, repeats = kind.deduplicate(
        selection.items, construction.config.recipe, construction.config.language
    )
    sources = [line.item for line in lines if not line.unscored]
    with CONSTRUCTIONS.plugin_errors(construction.kind):
        content = kind.write(items, sources, out)
    fields["filters"] += repeats
    return write_card(out, content=content, **fields)


def select_items(
    lines: Sequence[ItemLine], kind: BuildKind, recipe: str, review: Review | None = None
) -> Selection:
    """Select the items that passed all filters and that no reviewer rejected.

    Recipe `best` also drops items that repeat the text of an earlier item.
    """
    selection = Selection([], [], Counter())
    texts: set[str] = set()
    for line in lines:
        if line.unscored:
            continue
        if line.result is None:
            selection.dropped[line.rejected_by] += 1
            continue
        item = KeptItem(line.item, line.result)
        text = fold_text(kind.text(item))
        if text in texts and recipe == BEST:
            selection.dropped[REPEATED] += 1
        elif review is not None and line.case in review.rejected:
            selection.dropped[REVIEWERS] += 1
        else:
            if review is not None and line.case in review.questions and kind.drop_question:
                selection.dropped[REVIEWED_QUESTIONS] += 1
                item = item._replace(result=kind.drop_question(item.result))
            texts.add(text)
            selection.lines.append(line)
            selection.items.append(item)
    return selection


def _nothing_kept(selection: Selection, out: Path, run: Path) -> BadData:
    """Return the error of a construction without kept items: the reasons, and where to look."""
    counts = ", ".join(f"{name} {count}" for name, count in selection.dropped.most_common())
    reasons = f"rejected by {counts}" if counts else "none was finished"
    return BadData(
        f"no item was kept ({reasons}): {out / CARD_TEXT} says what each filter rejects, and "
        f"emend trace {run} shows the items. A larger author keeps more."
    )


def _card_fields(
    construction: Construction, lines: Sequence[ItemLine], selection: Selection, kind: BuildKind
) -> dict[str, Any]:
    """Return the card fields that are computed from the run."""
    config = construction.config
    finished = [line for line in lines if not line.unscored]
    chosen = {line.case for line in selection.lines}
    cost = build_cost((line.usage for line in lines), construction.spent, construction.prices)
    is_one_model = construction.judge == config.model
    texts = [kind.text(item) for item in selection.items]
    examples = zip(selection.lines[:EXAMPLES], texts, strict=False)
    relations = Counter(map(kind.relation, selection.items)) if kind.relation else Counter[str]()
    return {
        "kind": construction.kind,
        "recipe": config.recipe,
        "source": construction.source,
        "language": config.language,
        "seed": config.seed,
        "models": {"author": config.model, "judge": construction.judge},
        "one_model": is_one_model,
        "prompts": tuple(_prompt_notes(construction)),
        "items": construction.items,
        "kept_share": estimate(
            [float(line.case in chosen) for line in lines], [line.case for line in lines]
        ),
        "failed": construction.items - len(finished),
        "dropped": dict(selection.dropped.most_common()),
        "filters": tuple(count_filters(construction, finished)),
        "attempts": sum(line.attempts for line in finished),
        "cost": cost,
        "cost_per_kept": cost.per(len(selection.items)),
        "steps": compared_steps(construction.kind) if config.recipe == PAPER else (),
        "relations": dict(relations.most_common()),
        "diversity": measure_diversity(texts),
        "examples": tuple(f"{line.text}\n\n{text}" for line, text in examples),
        "limits": ((ONE_MODEL,) if is_one_model else ()) + kind.limits,
    }


def count_filters(
    construction: Construction, finished: Sequence[ItemLine]
) -> Iterator[FilterCount]:
    """Count, for each filter, the items that reached it, the items that passed it in the end, and
    the attempts that it rejected.

    If items have several texts, texts are counted instead of items.
    """
    filters = load_pipeline(construction.kind).filters(construction.config.recipe)
    rejected = Counter(rejection.filter for line in finished for rejection in line.rejections)
    for name, info in filters.items():
        if any(line.tries.get(name) for line in finished):
            passed = _passed_texts(finished, name)
        else:
            passed = {line.case: [line.passed[name]] for line in finished if name in line.passed}
        attempts = None if info.sums_up and not rejected[name] else rejected[name]
        yield count_filter(name, passed, attempts, info.rejects, info.published)


def _passed_texts(finished: Sequence[ItemLine], name: str) -> dict[str, list[bool]]:
    """Return, by case, the outcome of each text that reached the filter (True if it passed)."""
    passed = dict[str, list[bool]]()
    for line in finished:
        faulty = sum(rejection.filter == name for rejection in line.rejections)
        right = line.tries.get(name, 0) - faulty
        passed[line.case] = [True] * right + [False] * faulty
    return passed


def _prompt_notes(construction: Construction) -> Iterator[PromptNote]:
    """Yield the prompts of the run with their sources; a user's own prompt has no paper source."""
    prompts = load_pipeline(construction.kind).available_prompts
    for name, used in construction.prompts.items():
        shipped = prompts.get(name)
        is_ours = shipped is not None and shipped.id == used
        yield PromptNote(
            name=name, id=used, source=shipped.source if shipped and is_ours else "the user's own"
        )
