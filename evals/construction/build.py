"""Benchmark construction: run the job that makes the items, then write the kept ones."""

from pathlib import Path

from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.assemble import assemble
from emend.evals.construction.card import EXAMPLES, Card, Status, measure_diversity, write_card
from emend.evals.construction.fresh import FRESH, build_fresh
from emend.evals.construction.items.job import make_items
from emend.evals.construction.items.line import read_item_lines
from emend.evals.construction.items.manifest import Construction
from emend.evals.construction.items.setup import load_construction
from emend.evals.construction.kinds import BuildKind, build_kind, checked_kind
from emend.evals.construction.review import read_review
from emend.evals.construction.sources.stored_items import KeptItem
from emend.evals.construction.sources.wikiupdate import prepare_updates
from emend.evals.jobs.progress import Progress
from emend.evals.log.folder import owned_folder
from emend.evals.metrics.estimate import estimate

# Kind whose source is first converted into a file of updates.
WIKIUPDATE = "wikiupdate"
# Name of the run folder inside the benchmark folder.
RUN = "run"


def build(
    kind: str,
    config: BuildConfig,
    out: Path,
    *,
    needs_review: bool = True,
    progress: Progress | None = None,
) -> Card:
    """Build a benchmark, or continue an interrupted build, and return its card.

    Args:
        kind: kind of benchmark.
        config: source, models and options of the construction.
        out: benchmark folder; the construction runs in its subfolder `run`, and the same call
            continues it. A new folder is removed again if nothing was written to it.
        needs_review: if False, recipe `paper` ends without its human review.
        progress: callback for every item.

    Raises:
        RunRefused: the folder holds another construction, or is in use.
        BadSettings: the kind is unknown, or the source or the author is missing.
        BadData: the source cannot be read, or no item was kept.
        EmendError: see `make_items`.
    """
    with owned_folder(out):
        return _build(kind, config, out, needs_review, progress)


def _build(
    kind: str, config: BuildConfig, out: Path, needs_review: bool, progress: Progress | None
) -> Card:
    if kind == FRESH:
        config.require_source()
        return build_fresh(config, out, out / RUN, progress)
    maker = checked_kind(kind, config)
    source = config.source
    if kind == WIKIUPDATE:
        source = str(prepare_updates(config, out))
    if maker.prepare:
        items = maker.prepare(config, out)
        if not config.model:
            return write_composed(kind, maker, items, config, out)
        source = str(items)
    make_items(load_construction(kind, config, source), out / RUN, progress)
    is_draft = config.recipe == "paper" and needs_review
    status: Status = "draft" if is_draft else "not reviewed"
    return assemble(out / RUN, out, status)


def write_composed(
    name: str, kind: BuildKind, items_file: Path, config: BuildConfig, out: Path
) -> Card:
    """Write a benchmark of rule-composed items without calling a model, and return its card."""
    source, notes = kind.read(str(items_file))
    items = [KeptItem(item.fields, kind.result(item.fields)) for item in source]
    texts = [kind.text(item) for item in items]
    content = kind.write(items, [item.fields for item in items], out)
    files = {file: {"sha256": digest} for file, digest in notes.files.items()}
    return write_card(
        out,
        kind=name,
        recipe=config.recipe,
        status="not reviewed",
        content=content,
        source={
            "source": notes.name,
            "licence": notes.licence,
            "files": files,
            "dropped": notes.left_out,
            "unread": notes.unread,
        },
        language=config.language,
        seed=config.seed,
        items=len(items),
        kept_share=estimate([1.0] * len(items), texts),
        filters=tuple(kind.check(out)),
        attempts=len(items),
        diversity=measure_diversity(texts),
        examples=tuple(texts[:EXAMPLES]),
        limits=kind.limits,
    )


def apply_review(out: Path, sheets: Path, unanimous: bool = False) -> Card:
    """Drop the items that reviewers rejected, and return the new card; no model is called.

    Args:
        out: benchmark folder.
        sheets: folder of filled review sheets, see `read_review`.
        unanimous: drop an item if at least one reviewer rejects it.

    Raises:
        RunRefused: the folder is in use.
        BadData: the folder has no construction, or a sheet cannot be read.
    """
    with owned_folder(out):
        return _apply_review(out, sheets, unanimous)


def _apply_review(out: Path, sheets: Path, unanimous: bool) -> Card:
    results = {line.case: line.result or {} for line in read_item_lines(out / RUN) if line.result}
    kind = build_kind(Construction.read(out / RUN).kind)
    with_question = [case for case, result in results.items() if kind.has_question(result)]
    review = read_review(sheets, results.keys(), unanimous, with_question)
    return assemble(out / RUN, out, "reviewed", review)
