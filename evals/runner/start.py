"""The beginning of a run: counts its cases, writes its manifest, or finds the one that is there to be the same."""

import hashlib
import json
from pathlib import Path
from typing import Any

from emend.evals.case import Case
from emend.evals.log.checkpoints import NO_CHECKPOINTS, Checkpoints
from emend.evals.log.manifest import (
    MANIFEST,
    CaseList,
    Manifest,
    RunConfig,
    git_state,
    machine,
    now,
    versions,
)
from emend.evals.log.records import CASES
from emend.evals.runner.components import MEMORY, Parts
from emend.evals.runner.locking import LOCK
from emend.evals.runner.units import groups
from emend.graphs.registry import GRAPHS
from emend.memory.errors import BadData, BadSettings, RunRefused

DRAFTS = frozenset({MEMORY, CASES, f"{CASES}.new", f"{MANIFEST}.new"})
"""What a run that is refused while starting has written by then."""
OURS = DRAFTS | {LOCK, MANIFEST}
"""What a run that was killed while starting may have left behind."""
KEPT = {"id", "form", "text", "subject", "target_new", "target_true"}
"""What `cases.jsonl` has of an edit."""


def check_folder(config: RunConfig, folder: Path) -> None:
    """Before anything is loaded: the folder is fresh, or holds a run of this configuration.

    Raises:
        RunRefused: it holds other files, or a different run.
    """
    if (folder / MANIFEST).exists():
        Manifest.read(folder).refuse_change({"config": config.model_dump(mode="json")}, folder)
        return
    others = sorted(path.name for path in folder.iterdir() if path.name not in OURS)
    if others:
        raise RunRefused(
            f"'{folder}' holds {len(others)} other files ({', '.join(others[:3])}) and no run: "
            "give an --out folder that is new or empty."
        )


def begin(parts: Parts, folder: Path) -> Manifest:
    """The manifest of the run in the folder, written now if it is a new one.

    Raises:
        RunRefused: the run that is there was started with something else.
    """
    fresh = not (folder / MANIFEST).exists()
    if fresh:
        _refuse_without_subjects(parts)
        manifest = _manifest(parts, _list_cases(parts, folder))
        manifest.write(folder)
        return manifest
    then = Manifest.read(folder)
    manifest = _manifest(parts, _list_cases(parts, None if (folder / CASES).exists() else folder))
    then.refuse_change(manifest.model_dump(mode="json"), folder)
    return then


def _refuse_without_subjects(parts: Parts) -> None:
    """Editors that write at a subject have nothing to write in a setting whose edits name none."""
    for one in parts.passes:
        if not getattr(one.editor, "needs_subject", False):
            continue
        edits = next((case.edits for case in parts.cases(one.setting) if case.edits), ())
        if edits and not any(edit.subject for edit in edits):
            raise BadSettings(
                f"editor '{one.name}' writes at an edit's subject, and the edits of setting '{one.setting}' name none: "
                f"choose another of {', '.join(parts.benchmark.settings)} (--setting), or read triplets out of the "
                "texts (`emend extract`) and give them with --option triples=FILE --setting extract."
            )


def _manifest(parts: Parts, cases: dict[str, CaseList]) -> Manifest:
    editors: dict[str, dict[str, dict[str, Any]]] = {}
    for one in parts.passes:
        editors.setdefault(one.setting, {})[one.name] = one.editor.fingerprint
    return Manifest(
        config=parts.config,
        cases=cases,
        model=parts.passes[0].model_fingerprint,
        editors=editors,
        benchmark=_benchmark(parts),
        metrics=tuple(parts.benchmark.metrics()),
        graphs=_drawn(parts),
        versions=versions(),
        git=git_state(),
        platform=machine(),
        started=now(),
    )


def _benchmark(parts: Parts) -> dict[str, Any]:
    """What the benchmark tells of itself, and of how this run asks it."""
    told = dict(parts.benchmark.provenance)
    writing = sorted({one.name for one in parts.passes if one.editor.needs_weights})
    if writing and parts.passes[0].model_fingerprint["parameters"].get("chat"):
        asked = (
            f"{', '.join(writing)}: edits are written on plain text, and the model is asked through its chat template; "
            "--set model.chat=false asks in plain text, as the papers do"
        )
        told["choices"] = [*told.get("choices", ()), asked]
    return told


def _drawn(parts: Parts) -> dict[str, dict[str, Any]]:
    """The graphs of the editors, by name: an editor's own where it has one; one that nobody knows is left undrawn."""
    found: dict[str, dict[str, Any]] = {}
    for one in parts.passes:
        name, app = one.editor.fingerprint.get("graph"), getattr(one.editor, "app", None)
        if app is None and name in GRAPHS.names():
            app = GRAPHS.load(name)()
        if name is not None and app is not None:
            graph = app.get_graph()
            found[str(name)] = {"mermaid": graph.draw_mermaid(), "json": graph.to_json()}
    return dict(sorted(found.items()))


def _list_cases(parts: Parts, folder: Path | None) -> dict[str, CaseList]:
    """Count and digest the cases of every setting; with a folder, write `cases.jsonl` there."""
    counted: dict[str, CaseList] = {}
    draft = None if folder is None else (folder / f"{CASES}.new").open("w", encoding="utf-8")
    try:
        for setting in parts.settings:
            digest, probes, number = hashlib.sha256(), 0, 0
            for number, case in enumerate(parts.cases(setting), 1):
                digest.update(case.id.encode())
                probes += len(case.probes)
                if draft is not None:
                    draft.write(_case_line(case, setting, number))
            if not number:
                raise BadData(
                    f"{parts.config.benchmark}, setting '{setting}': no case in the data. "
                    "Check the data folder and the options."
                )
            again = _asked_again(parts, setting)
            counted[setting] = CaseList(cases=number, probes=probes, digest=digest.hexdigest()[:16], again=again)
    finally:
        if draft is not None:
            draft.close()
    if folder is not None:
        (folder / f"{CASES}.new").replace(folder / CASES)
    return counted


def _asked_again(parts: Parts, setting: str) -> int:
    """How many cases are asked once more, at all checkpoints together."""
    checkpoints = Checkpoints.parse(parts.config.checkpoints)
    if checkpoints == NO_CHECKPOINTS:
        return 0
    standing = again = 0
    for group in groups(lambda: parts.cases(setting), "sequential", checkpoints):
        standing, again = len(group.edits), again + group.again
    checkpoints.refuse_beyond(standing, setting)
    return again


def _case_line(case: Case, setting: str, number: int) -> str:
    edits = [edit.model_dump(include=KEPT) for edit in case.edits]
    told = {"number": number, "setting": setting, "case": case.id, "tags": case.tags, "edits": edits}
    return json.dumps(told, ensure_ascii=False) + "\n"
