"""Manifest and list of cases of a run, written before the first call or compared on resume."""

import hashlib
import logging
import os
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from emend.agents.roles.instructions import instructions_id, load_instructions
from emend.evals.case import Case
from emend.evals.config.mode import NO_CHECKPOINTS
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.setup.run_setup import RunSetup
from emend.evals.jobs.runner import prepare_manifest, refuse_other_files
from emend.evals.jobs.workers.choose import MEMORY
from emend.evals.log.lines import CASES
from emend.evals.log.manifest import (
    MANIFEST,
    CaseList,
    Manifest,
    SharePart,
    git_state,
    machine,
    now,
    versions,
)
from emend.evals.log.records import AppendLog, cut_file, json_line, write_errors
from emend.graphs.registry import GRAPHS
from emend.memory.errors import BadData

DRAFT = f"{CASES}.new"
# Files that a refused evaluation may have written before it stopped.
DRAFTS = frozenset({MEMORY, CASES, DRAFT})
# Fields of an edit in `cases.jsonl`.
EDIT_FIELDS = {"id", "form", "text", "subject", "target_new", "target_true"}


def check_folder(config: RunConfig, folder: Path) -> None:
    """Check that the folder is new or holds a run of this configuration; nothing is loaded.

    Raises:
        RunRefused: the folder holds other files, or a different run.
    """
    if os.path.lexists(folder / MANIFEST):
        started_with = {"config": config.model_dump(mode="json")}
        Manifest.read(folder).refuse_change(started_with, folder)
    else:
        refuse_other_files(folder, DRAFTS)


def prepare_run(setup: RunSetup, folder: Path, finished: Collection[str] = ()) -> Manifest:
    """Return the manifest of the run in the folder, and write it if the run is new.

    Args:
        setup: set-up of the run.
        folder: the run folder.
        finished: keys of finished units, from which unfinished cases are determined.

    Raises:
        RunRefused: the run in the folder was started with another configuration, data or editor.
    """
    if not os.path.lexists(folder / MANIFEST):
        return prepare_manifest(_manifest(setup, list_cases(setup, folder)), folder)
    lists = None if (folder / CASES).exists() else folder
    return prepare_manifest(_manifest(setup, list_cases(setup, lists, finished)), folder)


def _manifest(setup: RunSetup, cases: dict[str, CaseList]) -> Manifest:
    editors: dict[str, dict[str, dict[str, Any]]] = {}
    for editor_pass in setup.passes:
        editors.setdefault(editor_pass.setting, {})[editor_pass.name] = (
            editor_pass.editor.fingerprint
        )
    shortfalls = [*setup.refusals, *_shortfalls(setup, cases)]
    for text in shortfalls:
        logging.getLogger(__name__).warning(text)
    return Manifest(
        config=setup.config,
        cases=cases,
        model=setup.model_fingerprint,
        editors=editors,
        benchmark=_provenance(setup) | ({"shortfalls": shortfalls} if shortfalls else {}),
        metrics=setup.source.metrics,
        text_kinds=setup.source.text_kinds,
        mode=str(setup.mode),
        graphs=_graphs(setup),
        versions=versions(),
        git=git_state(),
        platform=machine(),
        started=now(),
        share=_share_part(setup, cases),
    )


def _share_part(setup: RunSetup, cases: dict[str, CaseList]) -> SharePart | None:
    """Return the part of the run that a share evaluates; None for a whole run."""
    partition, share = setup.partition, setup.share
    if partition is None or share is None:
        return None
    counts = {setting: listed.cases + listed.again for setting, listed in cases.items()}
    if setup.mode.kind != "sequential":
        counts = {
            setting: partition.count(setting, listed.cases) for setting, listed in cases.items()
        }
    units = sum(counts[each.setting] for each in setup.share_passes)
    return SharePart(number=share.number, of=share.of, together=partition.size, units=units)


def _provenance(setup: RunSetup) -> dict[str, Any]:
    """Return the benchmark's provenance, with notes on how this run asks it."""
    provenance = dict(setup.source.benchmark.provenance)
    if path := setup.config.prompts:
        instructions = load_instructions(path)
        choice = (
            f"prompts use the instructions of '{path}' (id {instructions_id(instructions)}) for "
            f"{', '.join(instructions)} instead of Emend's"
        )
        provenance["choices"] = [*provenance.get("choices", ()), choice]
    parametric = sorted(
        {editor_pass.name for editor_pass in setup.passes if editor_pass.editor.needs_weights}
    )
    if parametric and setup.source.form == "chat":
        choice = (
            f"{', '.join(parametric)}: edits are trained on plain text, but the model is asked "
            "through its chat template; --form plain asks in plain text, as the papers do"
        )
        provenance["choices"] = [*provenance.get("choices", ()), choice]
    return provenance


def _shortfalls(setup: RunSetup, cases: dict[str, CaseList]) -> list[str]:
    """Return a sentence per setting with fewer cases than requested, with a hint on more data."""
    limit, benchmark = setup.source.limit or 0, setup.source.benchmark
    short = {setting: listed.cases for setting, listed in cases.items() if listed.cases < limit}
    if not short:
        return []
    from emend.evals.data.shapes import other_datasets

    others = other_datasets(
        benchmark.name, getattr(benchmark, "folder", None), getattr(benchmark, "options", {})
    )
    hint = (
        "; its folder has files of "
        f"{', '.join(f'--benchmark-option dataset={name}' for name in others)}"
    )
    return [
        f"{limit} cases requested, but the data has "
        f"{count}{f' in setting {setting!r}' if len(cases) > 1 else ''}{hint if others else ''}"
        for setting, count in short.items()
    ]


def _graphs(setup: RunSetup) -> dict[str, Any]:
    """Return drawings of the editors' graphs by name; unknown graphs are left out."""
    graphs: dict[str, Any] = {}
    for editor_pass in setup.passes:
        name, app = (
            editor_pass.editor.fingerprint.get("graph"),
            getattr(editor_pass.editor, "app", None),
        )
        if app is None and name in GRAPHS.names():
            app = GRAPHS.load(name)()
        if name is not None and app is not None:
            graph = app.get_graph()
            graphs[str(name)] = {"mermaid": graph.draw_mermaid(), "json": graph.to_json()}
    return dict(sorted(graphs.items()))


def list_cases(
    setup: RunSetup, folder: Path | None, finished: Collection[str] = ()
) -> dict[str, CaseList]:
    """Count and digest the cases of every setting, and find the unfinished ones.

    With a folder, `cases.jsonl` is written.
    """
    listed: dict[str, CaseList] = {}
    with ExitStack() as stack:
        draft = None
        if folder is not None:
            cut_file(folder / DRAFT, 0)
            draft = stack.enter_context(
                AppendLog(folder, [DRAFT], "Make room, or give another --out.")
            )
        for setting in setup.source.settings:
            digest, probes, number = hashlib.sha256(), 0, 0
            unfinished = setup.find_unfinished(setting, finished) if finished else None
            for number, case in enumerate(setup.source.cases(setting), 1):
                if unfinished is not None:
                    unfinished.add(case)
                digest.update(case.id.encode())
                probes += len(case.probes)
                if draft is not None:
                    draft.append({DRAFT: _case_line(case, setting, number)})
            if not number:
                raise BadData(
                    f"{setup.source.name}, setting '{setting}': no case in the data. "
                    "Check the data folder and the options."
                )
            again = _count_reevaluated(setup, setting)
            listed[setting] = CaseList(
                cases=number, probes=probes, digest=digest.hexdigest()[:16], again=again
            )
    if folder is not None:
        with write_errors(f"'{folder / CASES}'"):
            (folder / DRAFT).replace(folder / CASES)
    return listed


def _count_reevaluated(setup: RunSetup, setting: str) -> int:
    """Return the number of cases that are asked again, summed over all checkpoints."""
    if setup.checkpoints == NO_CHECKPOINTS:
        return 0
    edits = again = 0
    for group in setup.groups(setting):
        edits, again = len(group.edits), again + group.again
    setup.checkpoints.refuse_beyond(edits, setting)
    return again


def _case_line(case: Case, setting: str, number: int) -> bytes:
    edits = [edit.model_dump(include=EDIT_FIELDS) for edit in case.edits]
    return json_line(
        {"number": number, "setting": setting, "case": case.id, "tags": case.tags, "edits": edits}
    )
