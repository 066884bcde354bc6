"""What happened to one case of a run: every node, what was retrieved, the exact prompt, the reply, how it scored."""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from emend.evals.case import Record
from emend.evals.log.event_index import EventIndex
from emend.evals.log.events import told_steps
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import CASES, ERRORS, read_lines, read_records
from emend.evals.trace.filters import Wanted
from emend.evals.trace.graph_paths import GraphEdges, edges_of
from emend.evals.trace.judged_steps import JudgedItem, judged_steps
from emend.evals.trace.trajectory import trajectory
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

EVERYTHING = Wanted()
NAMED = 8
"""So many ids are named when none fits."""


class TracedProbe(FrozenModel):
    """One record, and the steps that led to it."""

    record: Record
    steps: tuple[dict[str, Any], ...]
    """As in `events.jsonl`: node, place, at, ms, update, calls, error; each call with what was asked and said."""
    shown: tuple[dict[str, Any], ...]
    """Those of them that are wanted."""
    judged: tuple[JudgedItem, ...] = ()


class Trace(FrozenModel):
    """One case: its edits, what was asked under each editor, and what failed."""

    case: str
    number: int
    setting: str
    edits: tuple[dict[str, Any], ...]
    probes: tuple[TracedProbe, ...]
    failures: tuple[dict[str, Any], ...]
    ways: dict[str, GraphEdges] = {}
    """By editor, where the nodes of its graph may lead; without those that have no graph."""


def trace(
    folder: Path,
    case: str,
    probe: str | None = None,
    editor: str | None = None,
    kind: str | None = None,
    wanted: Wanted = EVERYTHING,
    scoring: str | None = None,
) -> Trace:
    """Everything that the run folder has about one case, or what is wanted of it.

    Args:
        folder: the run folder.
        case: its id, the beginning of it, or its number, counted from 1.
        probe: only this probe, by the beginning of its id.
        editor: only this editor.
        kind: only probes of this kind.
        wanted: only steps that fit, and probes that have some.
        scoring: whose judgements: an id, or `none`; the newest by default.

    Raises:
        BadSettings: no such case, probe, editor, kind, node or scoring, or nothing fits; names what there is.
        BadData: the folder holds no run, or a damaged line.
    """
    manifest = Manifest.read(folder)
    found = find_case(folder, case)
    records = [record for record in read_records(folder) if record.case == found["case"]]
    chosen = [r for r in records if record_fits(r, probe, editor, kind)]
    failures = [line for line in read_lines(folder, ERRORS) if line.get("case") == found["case"]]
    open_failures = [line for line in failures if line.get("unit") not in {record.unit for record in records}]
    if not chosen and (records or not open_failures):
        raise BadSettings(_nothing(folder, found, records, manifest, probe, editor, kind))
    judged = judged_steps(folder, found["case"], scoring) if chosen else {}
    whole = Trace(
        case=found["case"],
        number=found["number"],
        setting=found["setting"],
        edits=tuple(found["edits"]),
        probes=_traced(folder, chosen, judged),
        failures=tuple(line | {"steps": list(told_steps(line.get("steps", ())))} for line in open_failures),
        ways=edges_of(manifest, found["setting"]),
    )
    return whole if wanted.everything else _narrowed(whole, wanted)


def _traced(
    folder: Path, records: list[Record], judged: dict[tuple[str, str], list[JudgedItem]]
) -> tuple[TracedProbe, ...]:
    with EventIndex(folder) as index:
        events = {unit: index.of(unit) for unit in dict.fromkeys(record.unit for record in records)}
    found = []
    for record in records:
        steps = tuple(told_steps(events[record.unit].get(record.probe, ())))
        own = tuple(judged.get((record.unit, record.probe), ()))
        found.append(TracedProbe(record=record, steps=steps, shown=steps, judged=own))
    return tuple(found)


def _narrowed(whole: Trace, wanted: Wanted) -> Trace:
    """The trace with the wanted steps alone; judgements stay where one of their steps is wanted.

    Raises:
        BadSettings: no such node, or nothing fits; that nothing went wrong is no error.
    """
    where = f"case {whole.number}"
    ran = {step["node"] for steps in _all_steps(whole) for step in steps}
    wanted.check_node(ran.union(*(ways.nodes for ways in whole.ways.values())), where)
    probes = []
    for probe in whole.probes:
        shown = wanted.steps_of(probe.steps, probe.record)
        judged = tuple(one for one in probe.judged if _judgement_fits(wanted, one))
        if shown is not None or judged:
            probes.append(probe.model_copy(update={"shown": tuple(shown or ()), "judged": judged}))
    failures = [line for line in whole.failures if failure_fits(wanted, line)]
    if not (probes or failures or wanted.errors):
        raise BadSettings(f"nothing in {where} fits {wanted.told}: it went through {', '.join(sorted(ran))}.")
    return whole.model_copy(update={"probes": tuple(probes), "failures": tuple(failures)})


def _all_steps(whole: Trace) -> Iterator[Sequence[dict[str, Any]]]:
    yield from (probe.steps for probe in whole.probes)
    yield from (one.steps for probe in whole.probes for one in probe.judged)
    yield from (line["steps"] for line in whole.failures)


def _judgement_fits(wanted: Wanted, one: JudgedItem) -> bool:
    problem = wanted.errors and not wanted.grep and wanted.node is None and bool(one.judgement.problem)
    return problem or any(wanted.fits(step) for step in one.steps)


def failure_fits(wanted: Wanted, line: dict[str, Any]) -> bool:
    """Whether a failed unit is wanted: for its message, or for one of the steps that led to it."""
    said = f"{line['error']}: {line['message']}".casefold()
    alone = wanted.node is None and (not wanted.grep or wanted.grep.casefold() in said)
    return alone or any(wanted.model_copy(update={"errors": False}).fits(step) for step in line["steps"])


def states_before(
    steps: Sequence[dict[str, Any]], shown: Sequence[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each shown step with the state that all steps before it, shown or not, had left in its walk."""
    left, state = list(shown), dict[str, Any]()
    for step in steps:
        if step["place"] <= 1:
            state = {}
        if left and step == left[0]:
            yield left.pop(0), state
        state = state | (step["update"] or {})
    yield from ((step, {}) for step in left)


def new_hits(hits: Sequence[Any], before: Sequence[Any]) -> list[Any]:
    """What a step of a walk found itself, where the state holds every hit so far; all that is not such a list."""
    kept = len(before)
    return list(hits[kept:] if list(hits[:kept]) == list(before) else hits)


def find_case(folder: Path, wanted: str) -> dict[str, Any]:
    """The line of `cases.jsonl` that an id, the beginning of one, or a number means.

    Raises:
        BadSettings: none or several fit; names the nearest.
    """
    ids: list[str] = []
    fits: dict[str, dict[str, Any]] = {}
    numbered: dict[str, Any] | None = None
    highest = 0
    for line in read_lines(folder, CASES):
        if line["case"] == wanted:
            return line
        ids.append(line["case"])
        highest = max(highest, int(line["number"]))
        if line["case"].startswith(wanted):
            fits.setdefault(line["case"], line)
        if numbered is None and str(line["number"]) == wanted:
            numbered = line
    if numbered is not None:  # a short number is a number, even where ids happen to begin with it
        return numbered
    if len(fits) == 1:
        return next(iter(fits.values()))
    if fits:
        raise BadSettings(f"'{wanted}' begins {len(fits)} cases: {_some(list(fits))}. Give more of the id.")
    near = difflib.get_close_matches(wanted, ids, n=3, cutoff=0.6) or ids
    raise BadSettings(
        f"no case '{wanted}' in '{folder}': give a number from 1 to {highest}, or an id such as {_some(near)}."
    )


def record_fits(record: Record, probe: str | None, editor: str | None, kind: str | None) -> bool:
    """Whether a record is of a probe whose id begins so, of that editor, and of that kind; None fits all."""
    return (
        (probe is None or record.probe.startswith(probe))
        and (editor is None or record.editor == editor)
        and (kind is None or record.kind == kind)
    )


def _nothing(
    folder: Path,
    found: dict[str, Any],
    records: list[Record],
    manifest: Manifest,
    *wanted: str | None,
) -> str:
    """Why nothing is shown, and what could be."""
    if not records:
        return f"case {found['case']} has not been asked yet: finish the run with: emend resume {folder}"
    asked = ", ".join(f"{n} '{v}'" for n, v in zip(("probe", "editor", "kind"), wanted, strict=True) if v is not None)
    editors = [name for name in manifest.config.editors if any(r.editor == name for r in records)]
    kinds = sorted({record.kind for record in records})
    probes = list(dict.fromkeys(record.probe for record in records))
    _, editor, kind = wanted
    for name, told, known in (("editor", editor, editors), ("kind", kind, kinds)):
        if told is not None and told not in known:
            return f"case {found['case']} has no {name} '{told}': {nearest(told, known)}"
    return (
        f"nothing in case {found['case']} fits {asked}: it has the editors {', '.join(editors)}; "
        f"the kinds {', '.join(kinds)}; the probes {_some(probes)}."
    )


def _some(ids: list[str]) -> str:
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return ", ".join(ids[:NAMED]) + more


def rows(trace: Trace) -> list[dict[str, Any]]:
    """One row per probe: its record, with the case's number and edits, the wanted steps, its trajectory, judgements."""
    head = {"number": trace.number, "edits": list(trace.edits)}
    asked = [
        head
        | probe.record.model_dump(mode="json")
        | {
            "steps": list(probe.shown),
            "trajectory": trajectory(probe.record, probe.steps),
            "judged": [one.model_dump(mode="json") for one in probe.judged],
        }
        for probe in trace.probes
    ]
    return asked + [head | failure for failure in trace.failures]
