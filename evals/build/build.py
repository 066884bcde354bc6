"""Construction of a benchmark: a run makes its items, and what is kept becomes the folder."""

from contextlib import suppress
from pathlib import Path

from emend.evals.build.assemble import assemble, read_built
from emend.evals.build.card import Card, Status
from emend.evals.build.composed.composers import COMPOSERS, write_composed
from emend.evals.build.fresh import FRESH, build_fresh
from emend.evals.build.kinds import build_kind
from emend.evals.build.review import read_review
from emend.evals.build.wikiupdate import prepare_updates
from emend.evals.config.build_config import BuildConfig
from emend.evals.run.results import Progress
from emend.evals.run.run import run
from emend.memory.files import private_folder

WIKIUPDATE = "wikiupdate"
"""The kind whose source is read into a file of its own first."""
RUN = "run"
"""The folder of the run within that of the benchmark."""


def build(
    kind: str,
    config: BuildConfig,
    out: Path,
    *,
    needs_review: bool = True,
    progress: Progress | None = None,
) -> Card:
    """Make a benchmark, or finish one, and return its card.

    Args:
        kind: of benchmark.
        config: what to build from, with which models.
        out: the benchmark's folder, with the run of its construction in `run`; the same call continues it. A new one
            in which nothing was written is removed again.
        needs_review: False ends the recipe `paper` without its human step.
        progress: called for every item.

    Raises:
        RunRefused: the folder holds another construction, or is in use.
        BadSettings: there is no such kind, or no source or author is named.
        BadData: the source cannot be read, or no item was kept.
        EmendError: see `run`.
    """
    is_new = not out.exists()
    try:
        return _build(kind, config, out, needs_review, progress)
    finally:
        if is_new:
            with suppress(OSError):  # there is something in it
                out.rmdir()


def _build(kind: str, config: BuildConfig, out: Path, needs_review: bool, progress: Progress | None) -> Card:
    composed = kind in COMPOSERS
    config.require_source(needs_author=not composed)
    if kind == FRESH:
        return build_fresh(config, out, out / RUN, progress)
    build_kind(kind)
    private_folder(out, links=True)
    if kind == WIKIUPDATE:
        config = config.model_copy(update={"source": str(prepare_updates(config, out))})
    if composed and not config.model:
        return write_composed(kind, config, out)
    if composed:
        config = config.model_copy(update={"source": str(COMPOSERS[kind].prepare(config, out))})
    run(config.run_config(kind), out / RUN, progress)
    status: Status = "draft" if config.recipe == "paper" and needs_review else "not reviewed"
    return assemble(out / RUN, out, status)


def apply_review(out: Path, sheets: Path) -> Card:
    """Drop the items of a benchmark that people rejected, and return its card; nothing is asked.

    Args:
        out: the benchmark's folder.
        sheets: folder of filled sheets, see `read_review`.

    Raises:
        BadData: the folder has no construction, or a sheet cannot be read.
    """
    cases = {each.record.case for each in read_built(out / RUN) if each.built and each.built.result}
    return assemble(out / RUN, out, "reviewed", read_review(sheets, cases))
