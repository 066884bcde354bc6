"""The command `emend score`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.judging_options import Judges, asking
from emend.evals.cli.limits import Limits
from emend.evals.cli.options import grouped
from emend.memory.errors import ModelError

if TYPE_CHECKING:
    from emend.evals.judges.score_run import ScoreSummary


@grouped
def score(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    judges: Judges,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="What is judged, see: emend list judges; default what the run's records await."),
    ] = None,
    both_orders: Annotated[bool, typer.Option(help="Ask in both orders where two texts are compared.")] = True,
    batch: Annotated[bool, typer.Option(help="Several items in one call where the published judge has it so.")] = True,
    combine: Annotated[str, typer.Option(help="How votes become one: majority or mean.")] = "majority",
    force: Annotated[bool, typer.Option("--force", help="A judge may be the model under test.")] = False,
    *,
    limits: Limits,
) -> None:
    """Let chat models judge what a run's records hold; the same command again goes on."""
    from emend.evals.judges.score_run import score_run

    panel, settings = judges.panel(both_orders=both_orders, batch=batch, combine=combine), judges.settings
    with asking(limits) as policy:
        told = score_run(
            folder,
            panel,
            kind or (),
            policy=policy,
            settings=settings,
            force=force,
            concurrency=judges.concurrency,
        )
    _say(folder, told)


def _say(folder: Path, told: "ScoreSummary") -> None:
    from emend.evals.aggregate.rows import report
    from emend.evals.report.table import console_for, show

    show(report(folder, told.scoring.id), console_for())
    what = ", ".join(f"{count} for {name}" for name, count in told.items.items())
    typer.echo(f"\nScoring {told.scoring.id} in {folder / 'scorings'}: {what}.")
    typer.echo(
        f"{told.judged} judgements now, {told.unscored} of them without a number; {told.before} from before. "
        f"{told.calls} calls, {told.input_tokens} tokens in, {told.output_tokens} out."
    )
    if told.failed and not told.judged:
        raise ModelError(f"none of {told.failed} calls to the judges came back, the first with {told.why}")
    if told.failed:
        typer.echo(f"{told.failed} calls failed, the first with {told.why}. The same command asks them again.")
