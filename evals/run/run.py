"""Runs editors over a benchmark into a folder, after its manifest, and finishes what an interrupted run left undone."""

import hashlib
import logging
import os
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages.utils import count_tokens_approximately

from emend.agents.providers.journal import CallJournal, run_journal
from emend.editors.cost import highest_memory
from emend.editors.edit_check import EditCheck
from emend.editors.restore_check import RestoreCheck
from emend.evals.case import Case
from emend.evals.config.run_config import NO_CHECKPOINTS, RunConfig
from emend.evals.log.folder import LOCK, finished_units, owned_folder, repair_torn_tail
from emend.evals.log.lines import CASES, EVENTS, RECORDS
from emend.evals.log.manifest import MANIFEST, CaseList, Manifest, SharePart, git_state, machine, now, versions
from emend.evals.log.mirror import Mirror, restore_run
from emend.evals.log.records import AppendLog, RunLog, cut_file, json_line, write_errors
from emend.evals.log.run_index import keep_index
from emend.evals.log.table_parts import is_large
from emend.evals.run.baseline import Baseline, BaselineFile
from emend.evals.run.evaluate import EvaluationContext
from emend.evals.run.resources import MEMORY, refuse_unused_limits
from emend.evals.run.results import Failures, Progress, ResultWriter, Summary, save_usage
from emend.evals.run.run_setup import RunSetup, load_setup
from emend.evals.run.side_effects import SideEffects, check_texts
from emend.evals.run.units import EditorPass
from emend.evals.run.workers.base import RunState, Workers
from emend.evals.run.workers.choose import make_workers
from emend.graphs.registry import GRAPHS
from emend.memory.errors import BadData, RunRefused

TRAINING = 3
"""A forward and a backward pass, in forward passes."""
SEARCHED = 0.2
"""The part of its steps and contexts that a value search reads: it stops at a loss, and begins at the edited layer.

ROME on SmolLM2-135M-Instruct read 1,675 and 2,059 tokens an edit, of 9,700 that all steps would."""
TRAINED = 0.6
"""The part of its steps that training takes: it stops at a loss.

On SmolLM2-135M-Instruct `lora` took 35 to 50 of 70 steps, and `ft` 22 of 25."""
LAST_LAYERS = 1 / 3
"""The part of a model that steps pass through where chosen layers are trained: those before them are read once."""
SAMPLE = 3
"""Cases whose work is counted."""
WRITTEN = 10.0
"""Time of a written token, in tokens that are read."""
REPLY = 5
"""Tokens of a reply."""


def plan_progress(progress: Progress, setup: RunSetup, manifest: Manifest, finished: int) -> None:
    """Tell the progress what is left; passes come one after the other, so the first units are the finished ones."""
    units: dict[str, float] = defaultdict(float)
    tokens: dict[str, float] = {}
    counts = [manifest.cases[each.setting].cases + manifest.cases[each.setting].again for each in setup.share_passes]
    share = manifest.units / max(1, sum(counts))
    before = float(finished)
    samples = {setting: tuple(islice(setup.source.cases(setting), SAMPLE)) for setting in setup.source.settings}
    for editor_pass, count in zip(setup.share_passes, counts, strict=True):
        behind = min(before, count * share)
        before -= behind
        units[editor_pass.name] += count * share - behind
        if editor_pass.name not in tokens:
            tokens[editor_pass.name] = _unit_tokens(setup, editor_pass, samples[editor_pass.setting])
    progress.plan(units, tokens)


def _unit_tokens(setup: RunSetup, editor_pass: EditorPass, cases: Sequence[Case]) -> float:
    """Tokens that a unit passes through a local model, in tokens that are read; 1 for a model elsewhere."""
    if setup.calls_providers:
        return 1.0
    prompts = count_tokens_approximately([probe.prompt for case in cases for probe in case.probes])
    tokens = prompts + WRITTEN * REPLY * sum(len(case.probes) for case in cases)
    settings = getattr(editor_pass.editor, "settings", None)
    if editor_pass.editor.needs_weights and settings is not None:
        edits = [edit.text for case in cases for edit in case.edits]
        tokens += TRAINING * len(edits) * edit_tokens(asdict(settings), count_tokens_approximately(edits) / len(edits))
    return max(1.0, tokens / max(1, len(cases)))


def edit_tokens(settings: Mapping[str, Any], tokens: float) -> float:
    """Tokens that solving for one edit reads: in each step its prompts, behind contexts where the editor has such."""
    contexts = settings.get("context_template_length_params", ())
    if "v_num_grad_steps" in settings:
        prompts = 2 * tokens + sum(count * (length + tokens) for length, count in contexts)
        return float(SEARCHED * settings["v_num_grad_steps"] * prompts)
    part = LAST_LAYERS if settings.get("layers") else 1.0
    # Weights are read once a step, which takes as long for a prompt's few tokens as for the one that is written.
    return float(TRAINED * settings.get("num_steps", 1) * part * (tokens + WRITTEN))


DRAFT = f"{CASES}.new"
DRAFTS = frozenset({MEMORY, CASES, DRAFT, f"{MANIFEST}.new"})
"""Files that a run which is refused while starting has written by then."""
START_FILES = DRAFTS | {LOCK, MANIFEST}
"""Files that a run which was killed while starting may have left behind."""
EDIT_FIELDS = {"id", "form", "text", "subject", "target_new", "target_true"}
"""Fields of an edit in `cases.jsonl`."""


def check_folder(config: RunConfig, folder: Path, mirror: str | None = None) -> None:
    """Check, before anything is loaded, that the folder is new or holds a run of this configuration.

    A folder without one gets what the mirror has of it.

    Raises:
        RunRefused: it holds other files, or a different run.
    """
    if mirror is not None:
        restore_run(mirror, folder, config)
    if os.path.lexists(folder / MANIFEST):
        Manifest.read(folder).refuse_change({"config": config.model_dump(mode="json")}, folder)
        return
    others = sorted(path.name for path in folder.iterdir() if path.name not in START_FILES)
    if others:
        raise RunRefused(
            f"'{folder}' holds {len(others)} other files ({', '.join(others[:3])}) and no run: "
            "give an --out folder that is new or empty."
        )


def prepare_run(setup: RunSetup, folder: Path, finished: Collection[str] = ()) -> Manifest:
    """Return the manifest of the run in the folder, written now if the run is new.

    Args:
        setup: of the run.
        folder: the run folder.
        finished: keys of finished units, by which unfinished cases are told meanwhile.

    Raises:
        RunRefused: the run that is there was started with something else.
    """
    if not os.path.lexists(folder / MANIFEST):
        manifest = _manifest(setup, list_cases(setup, folder))
        manifest.write(folder)
        return manifest
    started = Manifest.read(folder)
    manifest = _manifest(setup, list_cases(setup, None if (folder / CASES).exists() else folder, finished))
    started.refuse_change(manifest.model_dump(mode="json"), folder)
    return started


def _manifest(setup: RunSetup, cases: dict[str, CaseList]) -> Manifest:
    editors: dict[str, dict[str, dict[str, Any]]] = {}
    for editor_pass in setup.passes:
        editors.setdefault(editor_pass.setting, {})[editor_pass.name] = editor_pass.editor.fingerprint
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
        mode=str(setup.mode),
        graphs=_graphs(setup),
        versions=versions(),
        git=git_state(),
        platform=machine(),
        started=now(),
        share=_share_part(setup, cases),
    )


def _share_part(setup: RunSetup, cases: dict[str, CaseList]) -> SharePart | None:
    """Return what a share evaluates; None for a whole run."""
    partition, share = setup.partition, setup.share
    if partition is None or share is None:
        return None
    counts = {setting: listed.cases + listed.again for setting, listed in cases.items()}
    if setup.mode.kind != "sequential":
        counts = {setting: partition.count(setting, listed.cases) for setting, listed in cases.items()}
    units = sum(counts[each.setting] for each in setup.share_passes)
    return SharePart(number=share.number, of=share.of, together=partition.size, units=units)


def _provenance(setup: RunSetup) -> dict[str, Any]:
    """Return the benchmark's provenance, with what readers should know about how this run asks it."""
    provenance = dict(setup.source.benchmark.provenance)
    parametric = sorted({editor_pass.name for editor_pass in setup.passes if editor_pass.editor.needs_weights})
    if parametric and setup.source.form == "chat":
        choice = (
            f"{', '.join(parametric)}: edits are written on plain text, and the model is asked through its chat "
            "template; --form plain asks in plain text, as the papers do"
        )
        provenance["choices"] = [*provenance.get("choices", ()), choice]
    return provenance


def _shortfalls(setup: RunSetup, cases: dict[str, CaseList]) -> list[str]:
    """Say for each setting that has fewer cases than were asked for how many there are, and where more may be."""
    limit, benchmark = setup.source.limit or 0, setup.source.benchmark
    short = {setting: listed.cases for setting, listed in cases.items() if listed.cases < limit}
    if not short:
        return []
    from emend.evals.data.check import other_datasets

    others = other_datasets(benchmark.name, getattr(benchmark, "folder", None), getattr(benchmark, "options", {}))
    hint = f"; its folder has files of {', '.join(f'--benchmark-option dataset={name}' for name in others)}"
    return [
        f"{limit} cases asked for, the data has {count}{f' in setting {setting!r}' if len(cases) > 1 else ''}"
        f"{hint if others else ''}"
        for setting, count in short.items()
    ]


def _graphs(setup: RunSetup) -> dict[str, Any]:
    """Draw the editors' graphs, by name: an editor's own if it has one; an unknown one is left out."""
    graphs: dict[str, Any] = {}
    for editor_pass in setup.passes:
        name, app = editor_pass.editor.fingerprint.get("graph"), getattr(editor_pass.editor, "app", None)
        if app is None and name in GRAPHS.names():
            app = GRAPHS.load(name)()
        if name is not None and app is not None:
            graph = app.get_graph()
            graphs[str(name)] = {"mermaid": graph.draw_mermaid(), "json": graph.to_json()}
    return dict(sorted(graphs.items()))


def list_cases(setup: RunSetup, folder: Path | None, finished: Collection[str] = ()) -> dict[str, CaseList]:
    """Count and digest the cases of every setting, and find the unfinished ones; with a folder, write `cases.jsonl`."""
    listed: dict[str, CaseList] = {}
    with ExitStack() as stack:
        draft = None
        if folder is not None:
            cut_file(folder / DRAFT, 0)
            draft = stack.enter_context(AppendLog(folder, [DRAFT], "Make room, or give another --out."))
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
            listed[setting] = CaseList(cases=number, probes=probes, digest=digest.hexdigest()[:16], again=again)
    if folder is not None:
        with write_errors(f"'{folder / CASES}'"):
            (folder / DRAFT).replace(folder / CASES)
    return listed


def _count_reevaluated(setup: RunSetup, setting: str) -> int:
    """Count the cases that are asked again, at all checkpoints together."""
    if setup.checkpoints == NO_CHECKPOINTS:
        return 0
    edits = again = 0
    for group in setup.groups(setting):
        edits, again = len(group.edits), again + group.again
    setup.checkpoints.refuse_beyond(edits, setting)
    return again


def _case_line(case: Case, setting: str, number: int) -> bytes:
    edits = [edit.model_dump(include=EDIT_FIELDS) for edit in case.edits]
    return json_line({"number": number, "setting": setting, "case": case.id, "tags": case.tags, "edits": edits})


def run(
    config: RunConfig,
    out: Path,
    progress: Progress | None = None,
    model: BaseChatModel | None = None,
    mirror: str | None = None,
    baselines: Sequence[Path] = (),
) -> Summary:
    """Run, or finish, what the configuration says; the folder then holds every record.

    Args:
        config: what to run.
        out: the run folder; one that holds the same run already is resumed.
        progress: called for every unit.
        model: takes the place of the model that the configuration names; only for workers that are threads.
        mirror: address of object storage to which the files are uploaded meanwhile; a new folder goes on from there.
        baselines: folders of other runs, whose answers of the unedited model are not asked for again.

    Raises:
        RunRefused: the folder cannot be used, holds a different run, or is in use.
        TooManyFailures: more units failed than allowed; what is finished is kept.
        EmendError: a name, setting or file is wrong.
    """
    with owned_folder(out, drafts=DRAFTS), ExitStack() as stack:
        check_folder(config, out, mirror)
        setup = load_setup(config, out, model)
        stack.callback(setup.memory.close)
        calls_providers = setup.calls_providers
        if model is None:
            stack.callback(setup.policy.close)
            refuse_unused_limits(config, setup.policy)
        whole = finished_units(out)
        manifest = prepare_run(setup, out, whole[0])
        finished, repairs = repair_torn_tail(out, whole)
        log = _open_log(out, repairs, mirror, stack)
        answers = BaselineFile(log, baselines)
        journal = stack.enter_context(run_journal(out, finished.union(answers.keys))) if calls_providers else None
        writer = ResultWriter(log, progress or Progress(), Failures(setup.failure_limit))
        setup.policy.on_wait = writer.waiting
        try:
            state = _state(setup, writer, answers, finished, journal)
            workers = make_workers(setup, out, manifest.units - len(finished))
            plan_progress(writer.progress, setup, manifest, len(finished))
            summary = _evaluate(state, workers, manifest.units)
            writer.failures.check_at_end(out)
            _keep_index(out)
            return summary
        finally:
            save_usage(out, setup.policy.ledger)


def _keep_index(folder: Path) -> None:
    """Keep of a large run where its lines are, and the table of its steps; a report makes that of its records."""
    keep_index(folder)
    if is_large(folder / EVENTS):
        from emend.evals.log.run_table import keep_steps  # lazily: few runs are so large that DuckDB is needed

        keep_steps(folder)


def _open_log(out: Path, repairs: list[dict[str, Any]], mirror: str | None, stack: ExitStack) -> RunLog:
    log = stack.enter_context(RunLog(out))
    for repair in repairs:
        log.line(EVENTS, repair | {"at": now()})
    if mirror is not None:
        stack.enter_context(Mirror(mirror, out, log.sizes))
    return log


def _state(
    setup: RunSetup,
    writer: ResultWriter,
    answers: BaselineFile,
    finished: set[str],
    journal: CallJournal | None,
) -> RunState:
    texts = setup.perplexity_texts
    is_measured = check_texts(writer.log.folder, texts)
    context = EvaluationContext(
        setup=setup,
        baseline=Baseline(setup.editors.unedited(), answers, setup.model_fingerprint, journal),
        side_effects=SideEffects(setup.model, texts, setup.abilities, writer.cost, is_measured),
        edit_check=EditCheck(setup.model),
        restore_check=RestoreCheck(setup.model),
        results=writer,
        finished=finished,
        journal=journal,
    )
    return RunState(context, writer, answers, journal, is_measured)


def _evaluate(state: RunState, workers: Workers, units: int) -> Summary:
    """Evaluate all units, and summarise, also when an error ends the run."""
    wall, cpu = time.perf_counter(), time.process_time()
    writer = state.writer
    writer.progress.start(units, skipped=min(len(state.context.finished), units))
    try:
        workers.evaluate(state)
    finally:
        writer.progress.close()
        cpu_seconds = time.process_time() - cpu + workers.cpu_seconds
        summary = _summary(state, units, time.perf_counter() - wall, cpu_seconds)
        if summary.finished or summary.failed:
            with suppress(RunRefused):  # the error that a full disk gave is under way already
                line = {"act": "run"} | summary.model_dump(exclude={"folder"}) | {"at": now()}
                writer.cost(line | {"workers": workers.name, "record_bytes": writer.log.sizes()[RECORDS]})
    return summary


def _summary(state: RunState, units: int, seconds: float, cpu_seconds: float) -> Summary:
    totals, baseline, context = state.writer.totals, state.answers.usage, state.context
    return Summary(
        folder=str(state.writer.log.folder),
        units=units,
        skipped=len(context.finished),
        finished=totals["finished"],
        failed=state.writer.failures.count,
        records=totals["records"],
        unscored=totals["unscored"],
        input_tokens=totals["input_tokens"] + baseline.input_tokens,
        output_tokens=totals["output_tokens"] + baseline.output_tokens,
        calls=totals["calls"] + baseline.calls,
        baseline_calls=baseline.calls,
        seconds=round(seconds, 3),
        cpu_seconds=round(cpu_seconds, 3),
        peak_bytes=highest_memory(),
        spent=context.setup.policy.ledger.by_model(),
    )
