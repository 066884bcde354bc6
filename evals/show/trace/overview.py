"""All cases of a run in short: what each node took, and where something failed, was retried or is unscored."""

import statistics
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emend.evals.case import Record
from emend.evals.log.events import retries_of, steps_from_events
from emend.evals.log.lines import CASES, ERRORS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines, read_records
from emend.evals.log.run_index import RunIndex
from emend.evals.show.trace.case_trace import open_failures, trace
from emend.evals.show.trace.filters import ALL_RECORDS, ALL_STEPS, RecordFilter, StepFilter, text_of, texts_of
from emend.evals.show.trace.graph_paths import Path as GraphPath
from emend.evals.show.trace.graph_paths import edges_of, mermaid, paths_of
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

CONTEXT = 40
"""Characters shown on each side of a text that was searched for."""


class NodeRow(FrozenModel):
    """Times and sums of one node under one editor, over the steps of all probes.

    Times in milliseconds, the median and the 95th percentile; tokens and calls are those of models.
    """

    editor: str
    node: str
    steps: int
    median_ms: float
    p95_ms: float
    calls: int
    input_tokens: int
    output_tokens: int
    retries: int
    errors: int


class CaseRow(FrozenModel):
    """One case under one editor: how much was asked, and what went wrong; `finding` is the place of a searched text."""

    case: str
    number: int
    setting: str
    editor: str
    probes: int
    steps: int
    seconds: float
    retries: int
    errors: int
    unscored: int
    failed: int
    finding: str = ""


class Overview(FrozenModel):
    """The nodes in the order in which they were first reached, and the cases in the order of the run."""

    nodes: tuple[NodeRow, ...]
    cases: tuple[CaseRow, ...]


@dataclass
class _NodeSums:
    """Times and sums of one node under one editor."""

    ms: "array[float]" = field(default_factory=lambda: array("d"))
    sums: Counter[str] = field(default_factory=Counter)

    def add(self, step: dict[str, Any]) -> None:
        """Add one step."""
        self.ms.append(step["ms"])
        sums = self.sums
        sums["errors"] += bool(step["error"])
        for call in step["calls"]:
            sums["calls"] += 1
            sums["retries"] += len(call["retries"])
            sums["input_tokens"] += call["input_tokens"]
            sums["output_tokens"] += call["output_tokens"]

    def row(self, editor: str, node: str) -> NodeRow:
        """Make the row of the node."""
        ordered = sorted(self.ms)
        high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
        return NodeRow(
            editor=editor,
            node=node,
            steps=len(ordered),
            median_ms=round(statistics.median(ordered), 3),
            p95_ms=round(high, 3),
            **{name: self.sums[name] for name in ("calls", "input_tokens", "output_tokens", "retries", "errors")},
        )


@dataclass
class _CaseSums:
    """Sums of one case under one editor, and the gravest thing that went wrong."""

    sums: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    finding: str = ""
    rank: int = 0

    def add(self, record: Record, steps: Sequence[dict[str, Any]], text: str | None) -> None:
        """Add one probe with its fitting steps; `text` is what was searched for."""
        self.seconds += record.seconds
        sums = self.sums
        sums["probes"] += 1
        sums["steps"] += len(steps)
        sums["unscored"] += bool(record.unscored)
        for step in steps:
            sums["errors"] += bool(step["error"])
            sums["retries"] += sum(len(call["retries"]) for call in step["calls"])
        rank, finding = _worst(record, steps)
        if text:
            rank, finding = 1, _excerpt(text, [*(text_of(step) for step in steps), *texts_of(record)])
        if finding and rank > self.rank:
            self.rank, self.finding = rank, finding

    def row(self, setting: str, case: str, editor: str, number: int) -> CaseRow:
        """Make the row of the case."""
        names = ("probes", "steps", "retries", "errors", "unscored", "failed")
        return CaseRow(
            case=case,
            number=number,
            setting=setting,
            editor=editor,
            seconds=round(self.seconds, 6),
            finding=self.finding,
            **{name: self.sums[name] for name in names},
        )


CaseKey = tuple[str, str, str]
"""Setting, case, editor."""


def overview(folder: Path, records: RecordFilter = ALL_RECORDS, steps: StepFilter = ALL_STEPS) -> Overview:
    """Summarise nodes and cases of a run, or those with fitting steps; the steps of other probes are not counted.

    Args:
        folder: a run folder.
        records: only records of this editor and kind.
        steps: only steps that fit, and the cases that have some.

    Raises:
        BadSettings: no such editor, kind or node, or nothing fits; that nothing went wrong is no error.
        BadData: the folder holds no run, or a damaged line.
    """
    manifest = Manifest.read(folder)
    if records.editor is not None and records.editor not in manifest.config.editors:
        editors = list(manifest.config.editors)
        raise BadSettings(f"the run has no editor '{records.editor}': {nearest(records.editor, editors)}")
    nodes = defaultdict[tuple[str, str], _NodeSums](_NodeSums)
    cases = defaultdict[CaseKey, _CaseSums](_CaseSums)
    ran, kinds = set[str](), set[str]()
    for record, all_steps in _with_steps(folder, records.editor):
        ran.update(step["node"] for step in all_steps)
        kinds.add(record.kind)
        matching = steps.matching(all_steps, record) if records.fits(record) else None
        if matching is None:
            continue
        for step in matching:
            nodes[record.editor, step["node"]].add(step)
        cases[record.setting, record.case, record.editor].add(record, matching, steps.grep)
    for setting in manifest.cases:
        ran = ran.union(*(graph.nodes for graph in edges_of(manifest, setting).values()))
    steps.check_node(ran, "the run")
    if records.kind is not None and records.kind not in kinds:
        raise BadSettings(f"the run has no probes of kind '{records.kind}': {nearest(records.kind, sorted(kinds))}")
    _add_failures(folder, records, steps, cases)
    if not (cases or steps.errors or steps.is_empty):
        raise BadSettings(f"nothing in '{folder}' fits {steps}.")
    rows = tuple(sums.row(*name) for name, sums in nodes.items())
    return Overview(nodes=rows, cases=tuple(_case_rows(folder, cases)))


def _with_steps(folder: Path, editor: str | None) -> Iterator[tuple[Record, list[dict[str, Any]]]]:
    """Each record of an editor, or of all, with its steps."""
    unit, events = "", dict[str, list[dict[str, Any]]]()
    with RunIndex(folder) as index:
        for record in read_records(folder):
            if editor is not None and record.editor != editor:
                continue
            if record.unit != unit:
                unit, events = record.unit, index.events(record.unit)
            yield record, list(steps_from_events(events.get(record.probe, ())))


def _worst(record: Record, steps: Sequence[dict[str, Any]]) -> tuple[int, str]:
    """How grave the gravest thing is that went wrong with a probe, and what it is."""
    for step in steps:
        if step["error"]:
            return 3, str(step["error"])
    for step in steps:
        if retries := retries_of(step):
            return 2, f"{step['node']} was retried: {', '.join(retry.error for retry in retries)}"
    return 1, next(iter(record.unscored.values()), "")


def _excerpt(text: str, texts: Sequence[str]) -> str:
    """The first place where a text occurs, with a little of what is around it."""
    for whole in texts:
        at = whole.casefold().find(text.casefold())
        if at >= 0:
            start, end = max(0, at - CONTEXT), at + len(text) + CONTEXT
            return ("…" if start else "") + whole[start:end] + ("…" if end < len(whole) else "")
    return ""


def _add_failures(folder: Path, records: RecordFilter, steps: StepFilter, cases: dict[CaseKey, _CaseSums]) -> None:
    """Count units that failed and were not finished since, each once."""
    if next(read_lines(folder, ERRORS), None) is None:
        return
    finished = {record.unit for record in read_records(folder)}
    last = {line["unit"]: line for line in open_failures(folder, finished)}
    for line in last.values():
        if records.kind is None and records.editor in (None, line["editor"]) and steps.fits_failure(line):
            case = cases[line["setting"], line["case"], line["editor"]]
            case.sums.update(failed=1)
            case.finding = case.finding or f"{line['error']}: {line['message']}"


def _case_rows(folder: Path, cases: dict[CaseKey, _CaseSums]) -> Iterator[CaseRow]:
    numbers = {(line["setting"], line["case"]): line["number"] for line in read_lines(folder, CASES)}
    settings = {setting: place for place, setting in enumerate(dict.fromkeys(setting for setting, _ in numbers))}

    def order(key: CaseKey) -> tuple[int, int]:
        return settings.get(key[0], 0), numbers.get(key[:2], 0)

    for key in sorted(cases, key=order):
        yield cases[key].row(*key, numbers.get(key[:2], 0))


def draw_paths(folder: Path, case: str | None = None, records: RecordFilter = ALL_RECORDS) -> str:
    """Draw the graphs as Mermaid text, one per editor, with the paths that a case took, or all cases.

    Raises:
        BadSettings: no such case, probe, editor or kind, or the editors have no graph.
        BadData: the folder holds no run, or a damaged line.
    """
    manifest = Manifest.read(folder)
    graphs = {setting: edges_of(manifest, setting) for setting in manifest.cases}
    probes = Counter[tuple[str, str]]()
    paths = defaultdict[tuple[str, str], list[GraphPath]](list)
    for record, steps in _selected(folder, case, records):
        if graph := graphs.get(record.setting, {}).get(record.editor):
            probes[record.setting, record.editor] += 1
            paths[record.setting, record.editor] += paths_of(graph, steps)
    texts = []
    for (setting, name), count in probes.items():
        graph = graphs[setting][name]
        head = f"%% {name}, {setting}: {count} probes through the graph {graph.graph}"
        texts.append(f"{head}\n{mermaid(graph, paths[setting, name])}")
    if not texts:
        raise BadSettings(f"no graph was gone through: the editors are {', '.join(manifest.config.editors)}.")
    return "\n\n".join(texts)


def _selected(
    folder: Path, case: str | None, records: RecordFilter
) -> Iterator[tuple[Record, Sequence[dict[str, Any]]]]:
    if case is not None:
        for probe in trace(folder, case, records, scoring="none").probes:
            yield probe.record, probe.steps
    else:
        for record, steps in _with_steps(folder, records.editor):
            if records.fits(record):
                yield record, steps
