"""What happened to one case of a run: every node, what was retrieved, the exact prompt, the reply, how it scored."""

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emend.evals.case import Record
from emend.evals.manifest import Manifest
from emend.evals.records import CASES, ERRORS, EVENTS, read_lines, read_records
from emend.memory.edit import Word
from emend.memory.errors import BadSettings

NAMED = 8
"""So many ids are named when none fits."""


class TracedProbe(Word):
    """One record, and the steps that led to it."""

    record: Record
    steps: tuple[dict[str, Any], ...]
    """As in `events.jsonl`: node, ms, update, error."""


class Trace(Word):
    """One case: its edits, what was asked under each editor, and what failed."""

    case: str
    number: int
    setting: str
    edits: tuple[dict[str, Any], ...]
    probes: tuple[TracedProbe, ...]
    failures: tuple[dict[str, Any], ...]


def trace(
    folder: Path, case: str, probe: str | None = None, editor: str | None = None, kind: str | None = None
) -> Trace:
    """Everything that the run folder has about one case.

    Args:
        folder: the run folder.
        case: its id, the beginning of it, or its number, counted from 1.
        probe: only this probe, by the beginning of its id.
        editor: only this editor.
        kind: only probes of this kind.

    Raises:
        BadSettings: no such case, probe, editor or kind; names what there is.
        BadData: the folder holds no run, or a damaged line.
    """
    manifest = Manifest.read(folder)
    found = find_case(folder, case)
    records = [record for record in read_records(folder) if record.case == found["case"]]
    chosen = [r for r in records if _fits(r, probe, editor, kind)]
    failures = [line for line in read_lines(folder, ERRORS) if line.get("case") == found["case"]]
    open_failures = [line for line in failures if line.get("unit") not in {record.unit for record in records}]
    if not chosen and (records or not open_failures):
        raise BadSettings(_nothing(folder, found, records, manifest, probe, editor, kind))
    steps = _steps(folder, {(record.unit, record.probe) for record in chosen})
    return Trace(
        case=found["case"],
        number=found["number"],
        setting=found["setting"],
        edits=tuple(found["edits"]),
        probes=tuple(TracedProbe(record=r, steps=tuple(steps.get((r.unit, r.probe), ()))) for r in chosen),
        failures=tuple(open_failures),
    )


def find_case(folder: Path, wanted: str) -> dict[str, Any]:
    """The line of `cases.jsonl` that an id, the beginning of one, or a number means.

    Raises:
        BadSettings: none or several fit; names the nearest.
    """
    ids: list[str] = []
    fits: dict[str, dict[str, Any]] = {}
    numbered: dict[str, Any] | None = None
    for line in read_lines(folder, CASES):
        if line["case"] == wanted:
            return line
        ids.append(line["case"])
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
        f"no case '{wanted}' in '{folder}': give a number from 1 to {len(set(ids))}, or an id such as {_some(near)}."
    )


def _fits(record: Record, probe: str | None, editor: str | None, kind: str | None) -> bool:
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
    return (
        f"nothing in case {found['case']} fits {asked}: it has the editors {', '.join(editors)}; "
        f"the kinds {', '.join(kinds)}; the probes {_some(probes)}."
    )


def _steps(folder: Path, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    steps: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for event in _of_probes(folder):
        key = (event["unit"], event["probe"])
        if key in wanted:
            steps.setdefault(key, []).append(
                {name: event.get(name) for name in ("node", "ms", "update", "error", "at")}
            )
    return steps


def _of_probes(folder: Path) -> Iterator[dict[str, Any]]:
    return (event for event in read_lines(folder, EVENTS) if "unit" in event and "probe" in event)


def _some(ids: list[str]) -> str:
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return ", ".join(ids[:NAMED]) + more


def rows(trace: Trace) -> list[dict[str, Any]]:
    """One row per probe: its record, with the case's number and edits, and the steps."""
    head = {"number": trace.number, "edits": list(trace.edits)}
    asked = [head | probe.record.model_dump(mode="json") | {"steps": list(probe.steps)} for probe in trace.probes]
    return asked + [head | failure for failure in trace.failures]
