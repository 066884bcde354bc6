"""The command `emend score`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli_limits import Cache, MaxCalls, MaxCost, PricesFile, Rpm, Tpm
from emend.evals.cli_options import overrides_of

if TYPE_CHECKING:
    from emend.agents.policy import CallPolicy
    from emend.evals.rescoring import ScoreSummary

Judges = Annotated[
    list[str], typer.Option("--judge", help="A chat model that judges, as provider:name; may be given several times.")
]
JudgeSet = Annotated[
    list[str] | None, typer.Option("--set", help="judge.key=value, how the judges are loaded and asked.")
]
Retries = Annotated[int, typer.Option(help="How often an unreadable reply is asked for again.")]


def score(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    judge: Judges,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="What is judged, see: emend list judges; default what the run's records await."),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Ask each judge so many times.")] = 1,
    both_orders: Annotated[bool, typer.Option(help="Ask in both orders where two texts are compared.")] = True,
    batch: Annotated[bool, typer.Option(help="Several items in one call where the published judge has it so.")] = True,
    combine: Annotated[str, typer.Option(help="How votes become one: majority or mean.")] = "majority",
    retries: Retries = 1,
    force: Annotated[bool, typer.Option("--force", help="A judge may be the model under test.")] = False,
    concurrency: Annotated[int, typer.Option(help="Calls at the same time.")] = 4,
    settings: JudgeSet = None,
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    prices: PricesFile = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    cache: Cache = None,
) -> None:
    """Let chat models judge what a run's records hold; the same command again goes on."""
    from emend.evals.judging import Panel
    from emend.evals.rescoring import score_run

    asked: dict[str, Any] = dict(repeats=repeats, both_orders=both_orders, batch=batch, combine=combine)
    panel = Panel(judges=tuple(dict.fromkeys(judge)), retries=retries, **asked)
    policy = policy_of(max_cost=max_cost, max_calls=max_calls, prices=prices, rpm=rpm, tpm=tpm, cache=cache)
    try:
        told = score_run(
            folder,
            panel,
            kind or (),
            policy=policy,
            settings=judge_settings(settings),
            force=force,
            concurrency=concurrency,
        )
    finally:
        policy.close()
    _say(folder, told)


def policy_of(
    *,
    rpm: float | None = None,
    tpm: float | None = None,
    cache: str | None = None,
    prices: str | None = None,
    max_cost: float | None = None,
    max_calls: int | None = None,
) -> "CallPolicy":
    """How the judges' providers are asked.

    Raises:
        BadSettings: an impossible number, or a file that cannot be used.
    """
    from emend.agents.policy import CallPolicy

    kept, priced = (None if told is None else Path(told).expanduser() for told in (cache, prices))
    return CallPolicy.of(rpm, tpm, kept, priced, max_cost, max_calls)


def judge_settings(texts: list[str] | None) -> dict[str, Any]:
    """What `--set judge.key=value` says.

    Raises:
        BadSettings: it names something else.
    """
    from emend.memory.errors import BadSettings

    told = overrides_of(texts or [])
    if others := sorted(set(told) - {"judge"}):
        raise BadSettings(f"--set {others[0]}: only the judges can be set here: write --set judge.key=value.")
    return told.get("judge", {})


def _say(folder: Path, told: "ScoreSummary") -> None:
    from emend.evals.report.rows import report
    from emend.evals.report.table import console_for, show

    show(report(folder, told.scoring.id), console_for())
    what = ", ".join(f"{count} for {name}" for name, count in told.items.items())
    typer.echo(f"\nScoring {told.scoring.id} in {folder / 'scorings'}: {what}.")
    typer.echo(
        f"{told.judged} judgements now, {told.unscored} of them without a number; {told.before} from before. "
        f"{told.calls} calls, {told.input_tokens} tokens in, {told.output_tokens} out."
    )
    if told.failed:
        typer.echo(f"{told.failed} calls failed, the first with {told.why}. The same command asks them again.")
