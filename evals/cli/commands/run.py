"""The commands `emend run`, `resume`, `merge` and `demo`."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli.covariances import settle_covariances
from emend.evals.cli.interrupts import resume_job, run_and_report
from emend.evals.cli.options import (
    DryRun,
    Junit,
    OptionalFields,
    Out,
    Require,
    RunFolder,
    check_thresholds,
    enforce_thresholds,
    flag_of,
    grouped,
    show_estimates,
)
from emend.evals.cli.output import print_rich, print_text
from emend.evals.cli.panels import in_panels
from emend.evals.cli.viewer import require_view, show_runs
from emend.evals.config.run_config import RESUMABLE_FIELDS, RunConfig
from emend.memory.errors import BadSettings
from emend.memory.registry import trust_names, trust_typed

if TYPE_CHECKING:
    from emend.evals.config.run_file import RunPlan

DEMO_EDITORS = ("unedited", "in_context", "rag", "ike", "ft")
RunOptions = OptionalFields(
    RunConfig, tuple(RunConfig.model_fields), lists=("model",), defaults=True
)


ConfigFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="CONFIG|RUN",
        help="YAML file with options of the run, which options on the command line override; or "
        "the folder of a run to continue.",
    ),
]
SavedConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write the options, including those of CONFIG, to this YAML file."
    ),
]
Skip = Annotated[
    bool,
    typer.Option("--skip", help="Skip editors whose covariance statistics are missing."),
]


@in_panels(
    "benchmark",
    "editors",
    "model",
    "settings",
    "limit",
    "retriever",
    "protocols",
    "overrides",
    "concurrency",
    "require",
    "out",
    "dry_run",
)
@grouped
def run(
    options: Annotated[dict[str, Any], RunOptions],
    file: ConfigFile = None,
    out: Out = None,
    require: Require = None,
    junit: Junit = None,
    save_config: SavedConfig = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Code (module:attribute) that a benchmark's file may use; repeatable.",
        ),
    ] = None,
    skip: Skip = False,
    dry_run: DryRun = False,
) -> None:
    """Evaluate editors on a benchmark and print the table of metrics.

    An interrupted run is continued by the same command with the same --out, or by emend run RUN.
    """
    from emend.evals.config.run_file import RunPlan, read_run_file
    from emend.evals.evaluate.setup import names

    if file is not None and file.is_dir():
        ours = {"--out": out, "--require": require, "--save-config": save_config}
        _refuse_with_folder(file, ours | {"--junit": junit, "--dry-run": dry_run})
        _continue_run(file, options, tuple(trust or ()))
        return
    fields = read_run_file(file) if file is not None else {}
    trust_typed(fields)
    trust_names(trust or ())
    names.check_names({**fields, **options, "require": require or fields.get("require")})
    _add_default_editors(options, fields)
    plan = RunPlan.of(fields, options, out, require or ())
    check_thresholds(plan.require, junit)
    if junit is not None and len(plan.configs) > 1:
        raise BadSettings("--junit accepts one model: name only one.")
    for config in plan.configs:
        names.check_config(config, plan.require)
    if save_config is not None:
        plan.write(save_config)
    if dry_run:
        show_estimates(plan.configs)
        return
    for config in plan.configs:
        names.check_present(config.model)
    _evaluate(settle_covariances(plan, skip=skip), junit)


def _evaluate(plan: "RunPlan", junit: Path | None) -> None:
    """Run the plan, print its tables and the next commands, and enforce thresholds."""
    from emend.evals.api.run import new_folder

    default = new_folder(plan.configs[0].benchmark)
    results = [
        run_and_report(config, folder, plan.require) for config, folder in plan.runs(default)
    ]
    if len(results) > 1:
        _show_together([result.folder for result in results])
    _print_next(*(result.folder for result in results))
    for result in results:
        enforce_thresholds(result.report, plan.require, junit)


def _refuse_with_folder(folder: Path, options: Mapping[str, Any]) -> None:
    """Refuse options that do not apply to continuing a run.

    Raises:
        BadSettings: such an option is given, or the folder is not a run folder.
    """
    from emend.evals.log.manifest import MANIFEST

    if not (folder / MANIFEST).is_file():
        raise BadSettings(
            f"'{folder}' is a folder, but not a run: give a YAML file, the folder of a run to "
            "continue, or --out for a new one."
        )
    for option, value in options.items():
        if value not in (None, False):
            raise BadSettings(
                f"{option} cannot be used with a run to continue: leave it out; emend report "
                f"{folder} accepts --require and --junit."
            )


@in_panels("concurrency", "fail_on_error", "workers", "data", "trust")
@grouped
def resume(
    folder: RunFolder,
    changes: Annotated[dict[str, Any], OptionalFields(RunConfig, RESUMABLE_FIELDS)],
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Code (module:attribute) or server (URL) that the run folder may use; repeatable; "
            "default: none.",
        ),
    ] = None,
) -> None:
    """Continue an interrupted run and retry its failed units.

    Omitted options keep the values of the run's start, except --workers, --cache, --prices and
    --memory, which are not stored in the run folder and must be repeated.
    """
    _continue_run(folder, changes, tuple(trust or ()))


def _continue_run(folder: Path, changes: Mapping[str, Any], trusted: tuple[str, ...]) -> None:
    """Finish a run folder, with new values of the options that may change.

    Raises:
        BadSettings: an option is fixed by the run, or a name is not trusted.
    """
    from emend.evals.cli.job_folders import read_job_folder
    from emend.evals.cli.trust import check_trust, is_url, source_file
    from emend.evals.log.manifest import Manifest

    started = read_job_folder(folder)
    if fixed := [flag_of(name) for name in changes if name not in RESUMABLE_FIELDS]:
        raise BadSettings(
            f"{', '.join(fixed)} cannot be used with a run folder: '{folder}' keeps the values it "
            "was started with. Leave them out, or start another run with --out."
        )
    check_trust(started.names, trusted, f"emend resume {folder}")
    for name in trusted:
        print_text(
            f"asking {name}" if is_url(name) else f"importing {name} from {source_file(name)}",
            err=True,
        )
    trust_names(trusted, checked=True)
    if started.job:
        resume_job(started.job, folder, changes)
        return
    config = Manifest.read(folder).config.resumed(changes)
    _print_next(run_and_report(config, folder).folder)


def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="SHARE", help="Folders of a run's shares.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Run folder to write; new or empty.")],
    partial: Annotated[
        bool, typer.Option("--partial", help="Accept missing and unfinished shares.")
    ] = False,
    any_versions: Annotated[
        bool,
        typer.Option(
            "--any-versions", help="Accept shares evaluated with other versions of packages."
        ),
    ] = False,
) -> None:
    """Merge the shares of a run, made by emend run --share I/N, into one run folder.

    With --partial, emend resume on the merged folder evaluates what is missing.
    """
    from emend.evals.evaluate.merge import merge as merge_shares

    merged = merge_shares(folders, out, partial, any_versions)
    print_text(
        f"{merged.shares} shares, {merged.finished} of {merged.units} units finished, "
        f"{merged.failed} failed"
    )
    for note in merged.notes:
        print_text(f"  {note}")
    print_text(f"\nThe run is in {out}. Next:\n  emend report {out}")


EditCount = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of edits; default: 40 about the invented world, or 8 of 20 real facts.",
    ),
]
DemoEditors = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help=f"Editor to evaluate; repeatable; default: {', '.join(DEMO_EDITORS)}.",
    ),
]


def demo(
    edits: EditCount = None,
    out: Out = None,
    editor: DemoEditors = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Model; all models except tiny, such as smollm2, are edited with real facts.",
        ),
    ] = "tiny",
    concurrency: Annotated[
        int, typer.Option(metavar="N", help="Number of units evaluated at the same time.")
    ] = 4,
    view: Annotated[
        bool, typer.Option("--view", help="Show the run in a browser at the end.")
    ] = False,
) -> None:
    """Evaluate five editors, by default on the embedded model, and explain the table; no key, GPU
    or download.
    """
    from emend.evals.api.run import new_folder
    from emend.evals.data.facts.fact_file import REAL_FACTS
    from emend.evals.log.manifest import Manifest
    from emend.evals.show.report.metric_notes import show_explanation

    if view:
        require_view()
    benchmark, limit = ("tinyworld", 40) if model == "tiny" else (str(REAL_FACTS), 8)
    config = RunConfig(
        benchmark=benchmark,
        model=model,
        editors=tuple(dict.fromkeys(editor or DEMO_EDITORS)),
        limit=limit if edits is None else edits,
        concurrency=concurrency,
    )
    folder = run_and_report(config, out or new_folder("demo")).folder
    print_rich(lambda console: show_explanation(Manifest.read(folder), folder, console))
    if view:
        show_runs([folder])


def _add_default_editors(options: dict[str, Any], fields: dict[str, Any]) -> None:
    """Choose editors that fit the models for a run of the user's own facts, if none are named."""
    from emend.editors.registry import default_editors
    from emend.evals.data.facts.fact_formats import is_fact_file

    benchmark = options.get("benchmark") or fields.get("benchmark") or ""
    if options.get("editors") or fields.get("editors"):
        return
    if not is_fact_file(benchmark):
        return
    default_model = RunConfig.model_fields["model"].default
    models = options.get("model") or fields.get("models") or [fields.get("model", default_model)]
    options["editors"] = default_editors(models)
    named = ", ".join(options["editors"])
    print_text(
        f"editors: {named}; choose others with --editor (repeatable): emend list editors", err=True
    )


def _show_together(folders: list[Path]) -> None:
    """Print one table for several runs."""
    from emend.evals.results.aggregate.tables import load_reports
    from emend.evals.show.report.metrics import render_reports

    print_rich(lambda console: console.print(render_reports(load_reports(folders, None), console)))


def _print_next(*folders: Path) -> None:
    names = shlex.join(map(str, folders))
    print_text(
        f"\nThe run is in {names}. Next:"
        if len(folders) == 1
        else f"\nThe runs are in {names}. Next:"
    )
    print_text(f"  emend view {names}")
    print_text(f"  emend trace {shlex.quote(str(folders[0]))} 1")
    if len(folders) > 1:
        print_text(f"  emend compare {shlex.join(map(str, folders[:2]))}")
    print_text(f"  emend report {names} --json")
