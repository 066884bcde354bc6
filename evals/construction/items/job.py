"""Job that makes the items of a source and writes a line per item to a resumable run folder."""

import os
from collections.abc import Collection, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from emend.evals.config.limits import FailureLimit
from emend.evals.construction.items.line import (
    ITEM,
    JOB,
    KEPT,
    POSITION,
    ROW,
    SETTING,
    BuildItem,
    ItemLine,
)
from emend.evals.construction.items.maker import BuiltItem
from emend.evals.construction.items.manifest import SHARED_FIELDS, Construction, run_config
from emend.evals.construction.items.metrics import item_metrics
from emend.evals.construction.items.setup import ConstructionSetup, load_construction
from emend.evals.jobs.job import JobContext, Lane, UnitJob
from emend.evals.jobs.limits import refuse_other_options
from emend.evals.jobs.line import count_lines
from emend.evals.jobs.progress import Progress
from emend.evals.jobs.results import Summary, UnitResult, WorkUnit
from emend.evals.jobs.runner import prepare_manifest, refuse_other_files, run_job
from emend.evals.log.lines import CASES, event_of
from emend.evals.log.manifest import MANIFEST, CaseList, Manifest, git_state, machine, now, versions
from emend.evals.log.records import json_line, replace
from emend.memory.errors import RunRefused

# Files that a construction may leave behind if it is refused while starting.
DRAFTS = frozenset({CASES})


def make_items(setup: ConstructionSetup, folder: Path, progress: Progress | None = None) -> Summary:
    """Make the items of a source, or the remaining ones of an interrupted run.

    Args:
        setup: construction setup.
        folder: run folder, which gets a line per item.
        progress: callback for every item.

    Raises:
        RunRefused: the folder cannot be used, holds something else, or is in use.
        TooManyFailures: more items failed than allowed; finished items are kept.
        EmendError: a name, setting or file is invalid.
    """
    return run_job(lambda folder: ConstructionJob(setup), folder, progress, drafts=DRAFTS)


def load_job(folder: Path, options: Mapping[str, Any]) -> "ConstructionJob":
    """Load the job of a construction's run folder.

    Args:
        folder: run folder.
        options: new values for limits, concurrency or allowed failures.

    Raises:
        RunRefused: the folder was written by an earlier version.
        EmendError: the manifest cannot be read, an option cannot be changed, or a component named
            in the run cannot be loaded.
    """
    refuse_other_options(JOB, options, SHARED_FIELDS)
    refuse_earlier_version(folder)
    started = Construction.read(folder).resumed(options)
    return ConstructionJob(load_construction(started.kind, started.config, started.config.source))


class ConstructionJob(UnitJob):
    """Job that runs each item of a source through the graph of its kind.

    Args:
        setup: construction setup.
    """

    name: ClassVar[str] = JOB

    def __init__(self, setup: ConstructionSetup) -> None:
        self.setup = setup
        self.policy = setup.policy
        self.failure_limit = FailureLimit.parse(setup.config.fail_on_error)
        self.concurrency = setup.config.concurrency
        self._labels = {
            "editor": ROW,
            "model": setup.config.model,
            "setting": SETTING,
            "mode": "single",
            "repeat": 0,
        }

    def prepare(self, folder: Path, finished: Collection[str]) -> Manifest:
        """Write the manifest and the item list of a new construction, or check the existing ones.

        Raises:
            RunRefused: the folder holds another construction, or other files.
        """
        refuse_other_files(folder, DRAFTS)
        refuse_earlier_version(folder)
        if not os.path.lexists(folder / CASES):
            replace(folder / CASES, b"".join(map(_case_line, count(1), self.setup.items)))
        return prepare_manifest(self.manifest(), folder)

    def manifest(self) -> Manifest:
        """Return the manifest of the construction with its current settings."""
        setup, maker = self.setup, self.setup.maker
        items = len(setup.items)
        graph = maker.app.get_graph()
        drawing: Any = {"mermaid": graph.draw_mermaid(), "json": graph.to_json()}
        config = run_config(setup.kind, setup.config, setup.source_name)
        return Manifest(
            job=JOB,
            config=config,
            cases={SETTING: CaseList(cases=items, probes=items, digest=setup.source.digest)},
            model=setup.author_fingerprint,
            editors={SETTING: {ROW: maker.fingerprint}},
            benchmark=setup.source.provenance | {"options": config.benchmark_options},
            metrics=item_metrics(maker.pipeline, maker.settings.recipe),
            mode="single",
            graphs={str(maker.app.name): drawing},
            versions=versions(),
            git=git_state(),
            platform=machine(),
            started=now(),
        )

    def lanes(self) -> Iterator[Lane]:
        """Yield a lane per item, since items are independent of each other."""
        for item in self.setup.items:
            labels = {"case": item.id, "probe": item.id} | self._labels
            yield Lane([WorkUnit(self.setup.maker.unit_key(item), ROW, labels, item)])

    def evaluate_unit(self, unit: WorkUnit, session: Any, context: JobContext) -> UnitResult:
        """Make an item."""
        item: BuildItem = unit.content
        result = self.setup.maker.make(item)
        line = self._line(unit, item, result)
        head = {"unit": unit.key, "case": item.id, "probe": item.id, "editor": ROW}
        events = [head | event_of(step) for step in result.steps]
        return UnitResult([line], events, count_lines([line]))

    def resume_command(self, folder: Path) -> str:
        """Return the command that finishes the run and writes the benchmark."""
        return f"the same emend build {self.setup.kind}"

    def next_command(self, folder: Path) -> str:
        """Return the command that writes the benchmark from the items."""
        return f"the same emend build {self.setup.kind}, which writes the benchmark"

    def _line(self, unit: WorkUnit, item: BuildItem, result: BuiltItem) -> ItemLine:
        outcome = result.outcome
        unscored = dict.fromkeys([KEPT] if outcome.unscored else [], outcome.unscored)
        return ItemLine(
            **unit.labels,
            unit=unit.key,
            of=1,
            kind=ITEM,
            values=outcome.values,
            unscored=unscored,
            path=tuple(step.node for step in result.steps),
            usage=result.usage,
            seconds=result.seconds,
            tags={POSITION: item.position},
            text=item.text,
            item=item.fields,
            result=outcome.result,
            rejections=outcome.rejections,
            tries=dict(outcome.tries),
            attempts=outcome.attempts,
        )


EARLIER = (
    "was written by an earlier version, which made items in another way: report, trace, view and "
    "--review still read it; build again in another --out folder."
)


def refuse_earlier_version(folder: Path) -> None:
    """Refuse to continue a run of an earlier version, which recorded items as answers.

    Raises:
        RunRefused: the folder holds such a run; the message lists the commands that still read it.
    """
    if os.path.lexists(folder / MANIFEST) and Manifest.read(folder).job != JOB:
        raise RunRefused(f"'{folder}' {EARLIER}")


def _case_line(number: int, item: BuildItem) -> bytes:
    return json_line(
        {"number": number, "setting": SETTING, "case": item.id, "tags": {}, "edits": []}
    )
