"""All cases of a run in short: what each node took, and where something failed, was retried or is unscored."""

import statistics
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emend.evals.case import Record
from emend.evals.log.event_index import EventIndex
from emend.evals.log.events import retries_of, told_steps
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import CASES, ERRORS, read_lines, read_records
from emend.evals.trace import case_trace as tracing
from emend.evals.trace.filters import Wanted, text_of
from emend.evals.trace.graph_paths import Path as GraphPath
from emend.evals.trace.graph_paths import edges_of, mermaid, paths_of
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

AROUND = 40
"""So many characters are shown on each side of a text that was looked for."""


class NodeRow(FrozenModel):
    """What one node took under one editor, over the steps of all probes.

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
    """One case under one editor: how much was asked, and what went wrong; `found` is where a text stands."""

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
    found: str = ""


class Overview(FrozenModel):
    """The nodes in the order in which they were first reached, and the cases in the order of the run."""

    nodes: tuple[NodeRow, ...]
    cases: tuple[CaseRow, ...]


@dataclass
class _Node:
    """What is gathered of a node."""

    ms: "array[float]" = field(default_factory=lambda: array("d"))
    sums: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("calls", "input_tokens", "output_tokens", "retries", "errors"), 0)
    )

    def add(self, step: dict[str, Any]) -> None:
        """One more step."""
        self.ms.append(step["ms"])
        self.sums["calls"] += len(step["calls"])
        for call in step["calls"]:
            self.sums["input_tokens"] += call["input_tokens"]
            self.sums["output_tokens"] += call["output_tokens"]
        self.sums["retries"] += len(retries_of(step))
        self.sums["errors"] += bool(step["error"])

    def row(self, editor: str, node: str) -> NodeRow:
        """What came together."""
        ordered = sorted(self.ms)
        high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
        median = round(statistics.median(ordered), 3)
        told = {"editor": editor, "node": node, "steps": len(ordered), "median_ms": median, "p95_ms": round(high, 3)}
        return NodeRow.model_validate(told | self.sums)


def overview(
    folder: Path, editor: str | None = None, kind: str | None = None, wanted: Wanted = tracing.EVERYTHING
) -> Overview:
    """Nodes and cases of a run, or those of them with wanted steps; the steps of other probes are not counted.

    Args:
        folder: a run folder.
        editor: only this editor.
        kind: only probes of this kind.
        wanted: only steps that fit, and the cases that have some.

    Raises:
        BadSettings: no such editor, kind or node, or nothing fits; that nothing went wrong is no error.
        BadData: the folder holds no run, or a damaged line.
    """
    manifest = Manifest.read(folder)
    if editor is not None and editor not in manifest.config.editors:
        raise BadSettings(f"the run has no editor '{editor}': {nearest(editor, list(manifest.config.editors))}")
    nodes: dict[tuple[str, str], _Node] = {}
    cases: dict[tuple[str, str, str], dict[str, Any]] = {}
    ran, kinds = set[str](), set[str]()
    for record, steps in _every(folder, editor):
        ran.update(step["node"] for step in steps)
        kinds.add(record.kind)
        shown = wanted.steps_of(steps, record) if kind in (None, record.kind) else None
        if shown is None:
            continue
        for step in shown:
            nodes.setdefault((record.editor, step["node"]), _Node()).add(step)
        _count(cases.setdefault((record.setting, record.case, record.editor), {}), record, shown, wanted)
    _check(manifest, wanted, ran, kind, kinds)
    _count_failures(folder, editor, kind, wanted, cases)
    if not (cases or wanted.errors or wanted.everything):
        raise BadSettings(f"nothing in '{folder}' fits {wanted.told}.")
    return Overview(
        nodes=tuple(told.row(*name) for name, told in nodes.items()), cases=tuple(_case_rows(folder, cases))
    )


def _every(folder: Path, editor: str | None) -> Iterator[tuple[Record, list[dict[str, Any]]]]:
    """Each record of an editor, or of all, with its steps."""
    unit, events = "", dict[str, list[dict[str, Any]]]()
    with EventIndex(folder) as index:
        for record in read_records(folder):
            if editor is not None and record.editor != editor:
                continue
            if record.unit != unit:
                unit, events = record.unit, index.of(record.unit)
            yield record, list(told_steps(events.get(record.probe, ())))


def _check(manifest: Manifest, wanted: Wanted, ran: set[str], kind: str | None, kinds: set[str]) -> None:
    for setting in manifest.cases:
        ran = ran.union(*(ways.nodes for ways in edges_of(manifest, setting).values()))
    wanted.check_node(ran, "the run")
    if kind is not None and kind not in kinds:
        raise BadSettings(f"the run has no probes of kind '{kind}': {nearest(kind, sorted(kinds))}")


def _count(case: dict[str, Any], record: Record, steps: list[dict[str, Any]], wanted: Wanted) -> None:
    told = {
        "probes": 1,
        "steps": len(steps),
        "seconds": record.seconds,
        "retries": sum(len(retries_of(step)) for step in steps),
        "errors": sum(bool(step["error"]) for step in steps),
        "unscored": int(bool(record.unscored)),
    }
    for name, more in told.items():
        case[name] = case.get(name, 0) + more
    rank, what = _worst(record, steps)
    if wanted.grep:
        texts = [*(text_of(step) for step in steps), *wanted.said_in(record)]
        rank, what = 1, _around(wanted.grep, texts)
    if what and rank > case.get("rank", 0):
        case |= {"rank": rank, "found": what}


def _worst(record: Record, steps: list[dict[str, Any]]) -> tuple[int, str]:
    """What went wrong with a probe, the gravest of it, and how grave it is."""
    for step in steps:
        if step["error"]:
            return 3, str(step["error"])
    for step in steps:
        if again := retries_of(step):
            return 2, f"{step['node']} was retried: {', '.join(one.error for one in again)}"
    return 1, next(iter(record.unscored.values()), "")


def _around(text: str, texts: list[str]) -> str:
    """The first place where a text stands, with a little of what is around it."""
    for told in texts:
        place = told.casefold().find(text.casefold())
        if place >= 0:
            start, end = max(0, place - AROUND), place + len(text) + AROUND
            return ("…" if start else "") + told[start:end] + ("…" if end < len(told) else "")
    return ""


def _count_failures(
    folder: Path, editor: str | None, kind: str | None, wanted: Wanted, cases: dict[tuple[str, str, str], Any]
) -> None:
    """Units that failed and were not finished since."""
    finished = {record.unit for record in read_records(folder)}
    last = {line["unit"]: line for line in read_lines(folder, ERRORS) if line["unit"] not in finished}
    for line in last.values():
        own = line | {"steps": list(told_steps(line.get("steps", ())))}
        if kind is not None or editor not in (None, line["editor"]) or not tracing.failure_fits(wanted, own):
            continue
        case = cases.setdefault((line["setting"], line["case"], line["editor"]), {})
        case["failed"] = case.get("failed", 0) + 1
        case["found"] = case.get("found") or f"{line['error']}: {line['message']}"


def _case_rows(folder: Path, cases: dict[tuple[str, str, str], dict[str, Any]]) -> Iterator[CaseRow]:
    numbers = {(line["setting"], line["case"]): line["number"] for line in read_lines(folder, CASES)}
    places = {setting: place for place, setting in enumerate(dict.fromkeys(setting for setting, _ in numbers))}
    counts = dict.fromkeys(("probes", "steps", "seconds", "retries", "errors", "unscored", "failed"), 0)
    ordered = sorted(cases.items(), key=lambda one: (places.get(one[0][0], 0), numbers.get(one[0][:2], 0)))
    for (setting, case, editor), told in ordered:
        row = counts | {name: value for name, value in told.items() if name != "rank"}
        row["seconds"] = round(row["seconds"], 6)
        yield CaseRow(case=case, number=numbers.get((setting, case), 0), setting=setting, editor=editor, **row)


def paths_drawn(
    folder: Path, case: str | None = None, probe: str | None = None, editor: str | None = None, kind: str | None = None
) -> str:
    """The graphs as Mermaid text, one per editor, with the ways that a case took, or all cases.

    Raises:
        BadSettings: no such case, probe, editor or kind, or the editors have no graph.
        BadData: the folder holds no run, or a damaged line.
    """
    manifest = Manifest.read(folder)
    graphs = {setting: edges_of(manifest, setting) for setting in manifest.cases}
    probes = Counter[tuple[str, str]]()
    paths = defaultdict[tuple[str, str], list[GraphPath]](list)
    for record, steps in _asked(folder, case, probe, editor, kind):
        if graph := graphs[record.setting].get(record.editor):
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


def _asked(
    folder: Path, case: str | None, probe: str | None, editor: str | None, kind: str | None
) -> Iterator[tuple[Record, Sequence[dict[str, Any]]]]:
    if case is not None:
        for one in tracing.trace(folder, case, probe, editor, kind, scoring="none").probes:
            yield one.record, one.steps
    else:
        for record, steps in _every(folder, editor):
            if tracing.record_fits(record, probe, editor, kind):
                yield record, steps
