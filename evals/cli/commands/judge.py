"""The commands `emend judge run`, `calibrate`, `stress`, `leniency`, `annotate`, `agreement`,
`settle` and `correct`.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import typer
from pydantic import Field, model_validator

from emend.evals.cli.annotate import TrustJudge, annotate, settle, show_agreement
from emend.evals.cli.correct import correct
from emend.evals.cli.interrupts import interruptible
from emend.evals.cli.options import Json, Plot, RunFolder, grouped
from emend.evals.cli.output import emit, plain_rows, print_rich, print_text
from emend.evals.config.limits import Limits
from emend.evals.judging.scorings.choice import ItemChoice
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, ModelError
from emend.memory.redaction import refuse_secrets

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from rich.console import Console

    from emend.agents.providers.policy import CallPolicy
    from emend.evals.judging.calibration.agreement import Calibration
    from emend.evals.judging.panel import Panel
    from emend.evals.judging.score_run import ScoreSummary

judge = typer.Typer(
    name="judge",
    help="Judge a run's answers with chat models or human labels, and measure the judges.",
    no_args_is_help=True,
)


class JudgeOptions(FrozenModel):
    """Options on the judges and how they are called."""

    judges: tuple[str, ...] = Field(
        description="Chat model that judges, as provider:name; repeatable."
    )
    repeats: int = Field(default=1, description="Number of verdicts of each judge on each item.")
    retries: int = Field(
        default=1, description="Maximum number of retries after an unparsable reply, 0 to 9."
    )
    concurrency: int = Field(default=4, ge=1, description="Number of API calls at the same time.")
    prompts: Path | None = Field(
        default=None,
        description="TOML file with prompts by judge; default: Emend's.",
    )
    overrides: dict[str, dict[str, Any]] = Field(
        default={}, description="Setting of the judges, judge.KEY=VALUE; repeatable."
    )

    @model_validator(mode="after")
    def _judges_only(self) -> Self:
        if others := sorted(set(self.overrides) - {"judge"}):
            raise BadSettings(
                f"--set {others[0]}: only the judges have settings here: write --set "
                "judge.key=value."
            )
        refuse_secrets(self.settings, "judge")
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """Settings with which every judge is loaded."""
        return self.overrides.get("judge", {})

    @contextmanager
    def panel(
        self, limits: Limits, writer: str = "", **settings: Any
    ) -> "Iterator[tuple[Panel, dict[str, BaseChatModel], CallPolicy]]":
        """Context with the distinct judges as one panel, their models, and the call policy.

        The models include that of a writer if one is named.

        Raises:
            BadSettings: a number is impossible.
            BadData: the file of prompts is invalid.
        """
        from emend.agents.judging.prompt_file import read_prompts
        from emend.agents.llm import load_model
        from emend.evals.judging.panel import Panel

        prompts = read_prompts(self.prompts) if self.prompts else {}
        panel = Panel(
            judges=self.judges,
            repeats=self.repeats,
            retries=self.retries,
            prompts=prompts,
            **settings,
        )
        for kind in prompts:
            panel.load(kind)
        with closing(limits.policy()) as policy:
            models = panel.models(policy, self.settings)
            if writer:
                models = {writer: load_model(writer, policy), **models}
            yield panel, models, policy


Criteria = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="NAME",
        help="Judging criterion; repeatable; see: emend list judges; default: those of the run's "
        "benchmark.",
    ),
]
SecondJudges = Annotated[
    list[str] | None,
    typer.Option(
        "--second",
        metavar="MODEL",
        help="Chat model that judges disputed items; repeatable; default: none.",
    ),
]
BothOrders = Annotated[bool, typer.Option(help="Judge pairs of texts in both orders.")]
Batch = Annotated[
    bool,
    typer.Option(help="Judge several items per call if the published judge does so."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Allow the model under test to judge its own answers.")
]
CallFailures = Annotated[
    str,
    typer.Option(
        metavar="LIMIT",
        help="Failed calls at which the scoring stops: true (the first), false (never), a "
        "proportion (0.5) or a count (5).",
    ),
]


@judge.command()
@grouped
def run(
    folder: RunFolder,
    judges: JudgeOptions,
    choice: ItemChoice,
    kind: Criteria = None,
    both_orders: BothOrders = True,
    batch: Batch = True,
    combine: Annotated[
        Literal["majority", "mean"],
        typer.Option(help="Aggregation of several verdicts into one score."),
    ] = "majority",
    second: SecondJudges = None,
    fail_on_error: CallFailures = "0.5",
    force: Force = False,
    *,
    limits: Limits,
) -> None:
    """Judge a run's answers and print the report; repeat the command to continue."""
    from emend.evals.judging.score_run import score_run
    from emend.evals.judging.scorings.manifest import JudgeCalling
    from emend.evals.judging.scorings.start import check_choice
    from emend.evals.metrics.equivalence.scorer import load_equivalence
    from emend.evals.show.report.progress import progress_on

    check_choice(folder, kind or (), choice.editors)
    calling = JudgeCalling(
        choice=choice,
        settings=judges.settings,
        concurrency=judges.concurrency,
        fail_on_error=fail_on_error,
        limits=limits.model_copy(update={"prices": None, "cache": None}),
    )
    options: dict[str, Any] = {"both_orders": both_orders, "batch": batch, "combine": combine}
    with (
        interruptible(folder, "the same command"),
        judges.panel(limits, second=tuple(second or ()), **options) as (panel, models, policy),
    ):
        summary = score_run(
            folder,
            panel,
            kind or (),
            models=models,
            force=force,
            calling=calling,
            policy=policy,
            scorer=load_equivalence().probability,
            progress=progress_on(),
        )
    _print_summary(folder, summary)


@judge.command()
@grouped
def calibrate(
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="Labelled items, one JSON object per line.")
    ],
    judges: JudgeOptions,
    *,
    limits: Limits,
    trust: TrustJudge = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Measure how far judges agree with human labels, and store the result for reports."""
    from emend.evals.judging.calibration.agreement import calibrate as calibrate_on
    from emend.evals.judging.calibration.agreement import panel_verdicts, store_calibration
    from emend.evals.judging.calibration.labels import read_labels
    from emend.evals.judging.calibration.stored import read_calibration
    from emend.evals.metrics.equivalence.scorer import load_equivalence
    from emend.memory.registry import trust_names

    trust_names(trust or (), checked=True)
    rows = read_labels(labels)
    with judges.panel(limits) as (panel, models, _):
        scorer = load_equivalence().probability
        verdicts = panel_verdicts(panel, models, judges.concurrency, scorer)
        results = calibrate_on(rows, panel.judges, verdicts, load=panel.load)
    if scored := [each for each in results if each.n]:
        previous = [read_calibration(panel.judges, each.kind) for each in scored]
        files = [store_calibration(each, panel.judges) for each in scored]
        _print_calibrations(scored, files, previous, plot, as_json)
    if silent := [each.kind for each in results if not each.n]:
        raise ModelError(
            f"{', '.join(panel.judges)} gave no readable verdict on any label of "
            f"{', '.join(silent)}, so no calibration is stored for it: name a more capable judge, "
            "or check that this one answers (emend doctor --model ...) and that the labels are "
            "not null."
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
            help="Judging criterion, or module:attribute; repeatable; see: emend list judges; "
            "default: all.",
        ),
    ] = None,
    cases: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with your own texts; see docs/how-to/judges.md; default: the built-in "
            "texts.",
        ),
    ] = None,
    *,
    limits: Limits,
    trust: TrustJudge = None,
    as_json: Json = False,
) -> None:
    """Test judges with texts that try to influence them; exit code 1 if one succeeds."""
    from emend.evals.judging.calibration.stress import own_cases
    from emend.evals.judging.calibration.stress import stress as stress_judges
    from emend.evals.show.report.judges import show_stress
    from emend.memory.registry import trust_names

    trust_names(trust or (), checked=True)
    stress_cases = own_cases(cases) if cases else None
    with judges.panel(limits) as (panel, models, _):
        results = stress_judges(panel, models, kind or (), judges.concurrency, stress_cases)
    emit(
        (*results.rows, *results.relations), as_json, lambda console: show_stress(results, console)
    )
    if any(relation.outcome == "broken" for relation in results.relations):
        raise typer.Exit(1)


ComparingJudge = Annotated[
    Literal["equivalence", "nuggets", "order", "remembered"],
    typer.Option(help="Kind of judge to measure."),
]


@judge.command()
@grouped
def leniency(
    folder: RunFolder,
    judges: JudgeOptions,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Chat model that writes the wrong answers; default: rules.",
        ),
    ] = None,
    size: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of questions to sample from the run.")
    ] = 100,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Random seed of the sample.")] = 0,
    kind: ComparingJudge = "equivalence",
    *,
    limits: Limits,
    as_json: Json = False,
) -> None:
    """Measure how many wrong answers judges accept: specific and vague ones, derived from a run's
    gold answers.
    """
    from emend.evals.judging.leniency import leniency_questions, measure_leniency
    from emend.evals.judging.wrong_answers import model_writer, rule_writer
    from emend.evals.metrics.equivalence.scorer import load_equivalence
    from emend.evals.show.report.judges import render_leniency

    with judges.panel(limits, writer=model or "") as (panel, models, _):
        questions, views = leniency_questions(folder, panel.load(kind), size, seed)
        write = model_writer(models[model]) if model else rule_writer(questions, seed)
        result = measure_leniency(
            panel,
            models,
            questions,
            write,
            model or "rules",
            judges.concurrency,
            load_equivalence().probability,
            kind,
            views,
        )
    emit(
        result.rows,
        as_json,
        lambda console: console.print(render_leniency(result)),
        examples=plain_rows(result.examples),
        calibration=[result.calibration] if result.calibration else [],
    )


judge.command()(annotate)
judge.command(name="agreement")(show_agreement)
judge.command()(settle)
judge.command()(correct)


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
        f"{summary.judged} new judgements, {summary.unscored} of them unscored; {summary.before} "
        f"existed before. {summary.calls} calls, {summary.input_tokens} input tokens, "
        f"{summary.output_tokens} output tokens."
    )
    if summary.failed and not summary.judged:
        raise ModelError(
            f"all {summary.failed} calls to the judges failed, the first with {summary.why}"
        )
    if summary.failed:
        print_text(
            f"{summary.failed} calls failed, the first with {summary.why}. Repeat the "
            "command to retry them."
        )


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
            replaced = ""
            if old and changed:
                replaced = f" It replaces one measured on {old['labelled']} labels."
            print_text(f"Stored in {file}; reports with this judge show it.{replaced}\n")

    emit(calibrations, as_json, show)
