"""The commands `emend judge run`, `calibrate`, `stress`, `annotate` and `agreement`."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import typer
from pydantic import BaseModel, Field, model_validator

from emend.evals.cli.options import Json, Plot, RunFolder, grouped
from emend.evals.cli.output import emit, print_rich, print_text
from emend.evals.config.run_config import CallLimits
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, ModelError
from emend.memory.redaction import refuse_secrets

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from rich.console import Console

    from emend.evals.judging.calibration import Calibration
    from emend.evals.judging.panel import Panel
    from emend.evals.judging.score_run import ScoreSummary

judge = typer.Typer(
    name="judge", help="Let chat models or people judge a run's answers, and measure the judges.", no_args_is_help=True
)


class JudgeOptions(FrozenModel):
    """The judges by name, and how each is called."""

    judges: tuple[str, ...] = Field(description="Chat model that judges, as provider:name; repeatable.")
    repeats: int = Field(default=1, description="Number of verdicts of each judge on each item.")
    retries: int = Field(default=1, description="Maximum number of retries after an unparsable reply, 0 to 9.")
    concurrency: int = Field(default=4, ge=1, description="Number of API calls at the same time.")
    overrides: dict[str, dict[str, Any]] = Field(
        default={}, description="Setting of the judges, judge.KEY=VALUE; repeatable."
    )

    @model_validator(mode="after")
    def _judges_only(self) -> Self:
        if others := sorted(set(self.overrides) - {"judge"}):
            raise BadSettings(f"--set {others[0]}: only the judges have settings here: write --set judge.key=value.")
        refuse_secrets(self.settings, "judge")
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """Settings with which every judge is loaded."""
        return self.overrides.get("judge", {})

    @contextmanager
    def panel(self, limits: CallLimits, **settings: Any) -> "Iterator[tuple[Panel, dict[str, BaseChatModel]]]":
        """The judges as one panel, each judge once, and their models.

        Raises:
            BadSettings: an impossible number.
        """
        from emend.evals.judging.panel import Panel

        panel = Panel(judges=self.judges, repeats=self.repeats, retries=self.retries, **settings)
        with closing(limits.policy()) as policy:
            yield panel, panel.models(policy, self.settings)


Trust = Annotated[
    list[str] | None,
    typer.Option(metavar="MODULE:ATTRIBUTE", help="Own judge that the file names; repeatable; default: none."),
]


@judge.command()
@grouped
def run(
    folder: RunFolder,
    judges: JudgeOptions,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            metavar="NAME",
            help="Criterion to judge by; repeatable; see: emend list judges; default: those that the run's benchmark "
            "asks for.",
        ),
    ] = None,
    both_orders: Annotated[bool, typer.Option(help="Judge pairs of texts in both orders.")] = True,
    batch: Annotated[
        bool, typer.Option(help="Put several items into one call where the published judge does so.")
    ] = True,
    combine: Annotated[
        Literal["majority", "mean"], typer.Option(help="How several verdicts become one score.")
    ] = "majority",
    force: Annotated[bool, typer.Option("--force", help="Allow the model under test as a judge of itself.")] = False,
    *,
    limits: CallLimits,
) -> None:
    """Judge a run's answers and print the report with the scores; repeat the command to continue."""
    from emend.evals.judging.score_run import score_run

    with judges.panel(limits, both_orders=both_orders, batch=batch, combine=combine) as (panel, models):
        summary = score_run(folder, panel, kind or (), models=models, force=force, concurrency=judges.concurrency)
    _print_summary(folder, summary)


@judge.command()
@grouped
def calibrate(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="Labelled items, one JSON object per line.")],
    judges: JudgeOptions,
    *,
    limits: CallLimits,
    trust: Trust = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Measure how far judges agree with human labels, and store the result for reports."""
    from emend.evals.judging.calibration import calibrate as calibrate_on
    from emend.evals.judging.calibration import panel_verdicts, read_labels, store_calibration
    from emend.evals.judging.store import read_calibration
    from emend.memory.registry import trust_names

    trust_names(trust or (), checked=True)
    rows = read_labels(labels)
    with judges.panel(limits) as (panel, models):
        results = calibrate_on(rows, panel.judges, panel_verdicts(panel, models, judges.concurrency))
    if scored := [each for each in results if each.n]:
        previous = [read_calibration(panel.judges, each.kind) for each in scored]
        files = [store_calibration(each, panel.judges) for each in scored]
        _print_calibrations(scored, files, previous, plot, as_json)
    if silent := [each.kind for each in results if not each.n]:
        raise ModelError(
            f"{', '.join(panel.judges)} gave no verdict on any label of {', '.join(silent)}, so no calibration of it "
            "is stored: check that the judge answers (emend doctor --model ...), and that the labels are not null."
        )


@judge.command()
@grouped
def stress(
    judges: JudgeOptions,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            metavar="NAME",
            help="Criterion to judge by, or module:attribute; repeatable; see: emend list judges; default: all.",
        ),
    ] = None,
    cases: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="TOML file with texts of your own; see docs/how-to/judges.md; default: built in."
        ),
    ] = None,
    *,
    limits: CallLimits,
    trust: Trust = None,
    as_json: Json = False,
) -> None:
    """Show judges texts that try to influence them; exit code 1 if a verdict gives in."""
    from emend.evals.judging.calibration import own_cases
    from emend.evals.judging.calibration import stress as stress_judges
    from emend.evals.show.report.judges import show_stress
    from emend.memory.registry import trust_names

    trust_names(trust or (), checked=True)
    stress_cases = own_cases(cases) if cases else None
    with judges.panel(limits) as (panel, models):
        results = stress_judges(panel, models, kind or (), judges.concurrency, stress_cases)
    emit((*results.rows, *results.relations), as_json, lambda console: show_stress(results, console))
    if any(relation.outcome == "broken" for relation in results.relations):
        raise typer.Exit(1)


@judge.command()
def annotate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    study: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Study: elken, recoe-coherence, recoe-recall, akew, docter; a judge; or a .toml file.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="New folder for the sheets.")],
    size: Annotated[int | None, typer.Option(min=1, metavar="N", help="Items to label; default: the study's.")] = None,
    annotators: Annotated[int, typer.Option(min=1, max=9, metavar="N", help="Number of annotators.")] = 2,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD,...", help="Draw as many of each: model, editor, setting, kind, a tag; default: the study's."
        ),
    ] = None,
    editor: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Editor whose answers are taken; repeatable; default: all.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Random seed of the sample and the orders.")] = 0,
) -> None:
    """Export blind sheets of runs' answers for people to label: a web page and a table for each annotator."""
    from emend.evals.judging.annotation import AnnotationKey, write_sheets
    from emend.evals.judging.study import draw, load_study

    chosen = load_study(study)
    changes = {"size": size or chosen.size, "strata": tuple(by.split(",")) if by else chosen.strata}
    chosen = chosen.model_copy(update=changes)
    sample = draw(runs, chosen, editor or (), seed)
    key = AnnotationKey(study=chosen, runs=tuple(map(str, runs)), seed=seed, items=tuple(sample.items))
    pages = write_sheets(out, key, annotators)
    for stratum, (there, drawn) in sample.strata.items():
        print_text(f"{stratum}: {drawn} of {there}")
    print_text(f"\n{len(sample.items)} items for each annotator, who needs one file, to open in a browser or as .csv:")
    print_text("".join(f"  {page}\n" for page in pages) + f"Keep {out / 'key.json'} to yourself: it names the editors.")
    print_text(f"Put the filled .csv files into the folder, then: emend judge agreement {out}")


@judge.command(name="agreement")
def show_agreement(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder that emend judge annotate made.")],
    sheets: Annotated[
        list[Path] | None, typer.Argument(metavar="[SHEET]...", help="Filled .csv files; default: those in the folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read filled sheets: agreement, disagreements to settle, and labels for emend judge calibrate."""
    from emend.evals.judging.annotation import read_key, read_sheets, results_of, write_adjudication, write_labels
    from emend.evals.show.report.judges import render_annotation

    key = read_key(folder)
    filled = read_sheets(folder, key, sheets or ())
    results = results_of(key, filled)
    page = write_adjudication(folder, key, filled, results)
    labels = folder / "labels.jsonl"
    count = write_labels(labels, key, filled) if key.study.judge and key.study.label else None

    def show(console: "Console") -> None:
        console.print(render_annotation(key, results))
        if page is not None:
            print_text(f"\nTo settle the disagreements, fill in {page} (or the .csv), and give the command again.")
        if count:
            print_text(f"\n{count} labels are in {labels}: emend judge calibrate {labels} --judge MODEL")

    emit(results.pairs, as_json, show, shares=_plain(results.shares), disagreements=_plain(results.disagreements))


def _plain(rows: "Sequence[BaseModel]") -> list[dict[str, Any]]:
    return [row.model_dump(mode="json") for row in rows]


def _print_summary(folder: Path, summary: "ScoreSummary") -> None:
    """Print the report with the new scores, and what was called.

    Raises:
        ModelError: every call failed.
    """
    from emend.evals.results.aggregate.rows import report
    from emend.evals.results.aggregate.tables import TableChoice
    from emend.evals.show.report.metrics import render

    judged = report(folder, summary.scoring.id)
    columns = tuple(dict.fromkeys(row.metric for row in judged.rows if row.judge))
    print_rich(lambda console: console.print(render(judged, console, TableChoice(columns))))
    items = ", ".join(f"{count} for {name}" for name, count in summary.items.items())
    print_text(f"\nScoring {summary.scoring.id} in {folder / 'scorings'}: {items}.")
    print_text(
        f"{summary.judged} new judgements, {summary.unscored} of them without a score; {summary.before} from before. "
        f"{summary.calls} calls, {summary.input_tokens} input tokens, {summary.output_tokens} output tokens."
    )
    if summary.failed and not summary.judged:
        raise ModelError(f"all {summary.failed} calls to the judges failed, the first with {summary.why}")
    if summary.failed:
        print_text(f"{summary.failed} calls failed, the first with {summary.why}. Repeat the command to retry them.")


def _print_calibrations(
    calibrations: "Sequence[Calibration]",
    files: Sequence[Path],
    previous: Sequence[dict[str, Any] | None],
    plot: Path | None,
    as_json: bool,
) -> None:
    from emend.evals.show.report.judges import plot_calibrations, render_calibration

    if plot is not None:
        plot_calibrations(calibrations, plot)

    def show(console: "Console") -> None:
        for each, file, old in zip(calibrations, files, previous, strict=True):
            console.print(render_calibration(each))
            changed = old and old != each.model_dump(mode="json")
            replaced = f" It replaces one over {old['labelled']} labels." if old and changed else ""
            print_text(f"Stored in {file}; reports with this judge show it.{replaced}\n")

    emit(calibrations, as_json, show)
