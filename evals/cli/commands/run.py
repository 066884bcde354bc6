"""The commands `emend run`, `resume`, `merge` and `demo`."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from emend.evals.cli.interrupts import run_and_report
from emend.evals.cli.options import (
    DryRun,
    Junit,
    Mirror,
    OptionalFields,
    Out,
    Require,
    RunFolder,
    check_thresholds,
    enforce_thresholds,
    grouped,
    read_run,
    show_estimates,
)
from emend.evals.cli.output import print_rich, print_text
from emend.evals.cli.viewer import require_view, show_runs
from emend.evals.config.run_config import OF_THE_CALL, RESUMABLE_FIELDS, RunConfig
from emend.memory.errors import BadSettings
from emend.memory.registry import trust_names, trust_typed

DEMO_EDITORS = ("unedited", "in_context", "rag", "ike", "ft")
RunOptions = OptionalFields(RunConfig, tuple(RunConfig.model_fields), lists=("model",), defaults=True)


@grouped
def run(
    options: Annotated[dict[str, Any], RunOptions],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG", help="YAML file with options of the run; those given here come first."),
    ] = None,
    out: Out = None,
    mirror: Mirror = None,
    require: Require = None,
    junit: Junit = None,
    save_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the options, with those of CONFIG, into this YAML file.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Evaluate editors on a benchmark and print the table of metrics.

    An interrupted run is continued by the same command with the same --out, or by emend resume.
    """
    from emend.evals.api.run import new_folder
    from emend.evals.config.run_file import RunPlan, read_run_file

    check_thresholds(require, junit)
    fields = read_run_file(file) if file is not None else {}
    trust_typed(fields)
    plan = RunPlan.of(fields, options, out)
    if save_config is not None:
        plan.write(save_config)
    if dry_run:
        show_estimates(plan.configs)
        return
    if junit is not None and len(plan.configs) > 1:
        raise BadSettings("--junit is about one model: name one.")
    default = new_folder(plan.configs[0].benchmark)
    results = [run_and_report(config, folder, address) for config, folder, address in plan.runs(default, mirror)]
    if len(results) > 1:
        _show_together([result.folder for result in results])
    _print_next(*(result.folder for result in results))
    for result in results:
        enforce_thresholds(result.report, require, junit)


@grouped
def resume(
    folder: RunFolder,
    changes: Annotated[dict[str, Any], OptionalFields(RunConfig, RESUMABLE_FIELDS)],
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Code (module:attribute) or server (URL) that the run folder may use; repeatable; default: none.",
        ),
    ] = None,
    mirror: Mirror = None,
) -> None:
    """Continue an interrupted run and retry its failed units.

    Options that are left out keep the values that the run was started with, but for --workers, --cache, --prices and
    --memory, which a run folder does not decide: give them again.
    """
    from emend.evals.cli.trust import check_trust, is_url, source_file
    from emend.evals.log.manifest import Manifest

    stored = Manifest.read(folder).config.model_dump(exclude={*OF_THE_CALL})
    config = RunConfig.model_validate(stored | changes)
    trusted = tuple(trust or ())
    check_trust(config, trusted, f"emend resume {folder}")
    for name in trusted:
        print_text(f"asking {name}" if is_url(name) else f"importing {name} from {source_file(name)}", err=True)
    trust_names(trusted, checked=True)
    _print_next(run_and_report(config, folder, mirror).folder)


def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="SHARE...", parser=read_run, help="Folders of a run's shares.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Run folder to write; new or empty.")],
    partial: Annotated[bool, typer.Option("--partial", help="Accept missing and unfinished shares.")] = False,
    any_versions: Annotated[
        bool, typer.Option("--any-versions", help="Accept shares evaluated with other versions of packages.")
    ] = False,
) -> None:
    """Merge the shares of a run, made by emend run --share I/N, into one run folder.

    With --partial, emend resume on the merged folder evaluates what is missing.
    """
    from emend.evals.run.merge import merge as merge_shares

    merged = merge_shares(folders, out, partial, any_versions)
    print_text(f"{merged.shares} shares, {merged.finished} of {merged.units} units finished, {merged.failed} failed")
    for note in merged.notes:
        print_text(f"  {note}")
    print_text(f"\nThe run is in {out}. Next:\n  emend report {out}")


def demo(
    edits: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of edits; default: 40 of the invented world, or 8 of 20 real facts."),
    ] = None,
    out: Out = None,
    editor: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Editor to evaluate; repeatable; default: {', '.join(DEMO_EDITORS)}."),
    ] = None,
    model: Annotated[
        str, typer.Option(metavar="NAME", help="Model; any but tiny, such as smollm2, is edited with real facts.")
    ] = "tiny",
    concurrency: Annotated[int, typer.Option(metavar="N", help="Number of units evaluated at the same time.")] = 4,
    view: Annotated[bool, typer.Option("--view", help="Show the run in a browser at the end.")] = False,
) -> None:
    """Evaluate five editors, by default on the embedded model, and explain the table; no key, GPU or download."""
    from emend.evals.api.run import new_folder
    from emend.evals.data.benchmarks.fact_file import REAL_FACTS
    from emend.evals.log.manifest import Manifest
    from emend.evals.show.report.metrics import show_explanation

    if view:
        require_view()
    is_tiny = model == "tiny"
    config = RunConfig(
        benchmark="tinyworld" if is_tiny else str(REAL_FACTS),
        model=model,
        editors=tuple(dict.fromkeys(editor or DEMO_EDITORS)),
        limit=edits if edits is not None else 40 if is_tiny else 8,
        concurrency=concurrency,
    )
    folder = run_and_report(config, out or new_folder("demo")).folder
    print_rich(lambda console: show_explanation(Manifest.read(folder), folder, console))
    if view:
        show_runs([folder])


def _show_together(folders: list[Path]) -> None:
    """Print one table of several runs."""
    from emend.evals.results.aggregate.tables import load_reports
    from emend.evals.show.report.metrics import render_reports

    print_rich(lambda console: console.print(render_reports(load_reports(folders, None), console)))


def _print_next(*folders: Path) -> None:
    names = shlex.join(map(str, folders))
    print_text(f"\nThe run is in {names}. Next:" if len(folders) == 1 else f"\nThe runs are in {names}. Next:")
    print_text(f"  emend view {names}")
    print_text(f"  emend trace {shlex.quote(str(folders[0]))} 1")
    if len(folders) > 1:
        print_text(f"  emend compare {shlex.join(map(str, folders[:2]))}")
    print_text(f"  emend report {names} --json")
