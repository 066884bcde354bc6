"""The commands `emend judge ...`."""

from typing import Annotated

import typer

from emend.evals.cli_calibrate import calibrate
from emend.evals.cli_limits import Cache, MaxCalls, MaxCost, PricesFile, Rpm, Tpm
from emend.evals.cli_options import Json, print_rows
from emend.evals.cli_score import Judges, JudgeSet, Retries, judge_settings, policy_of

judge = typer.Typer(name="judge", help="Measure chat models as judges.", no_args_is_help=True)
judge.command("calibrate")(calibrate)


@judge.command("stress")
def stress_command(
    judge: Judges,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="What is judged, see: emend list judges; default everything.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Ask each judge so many times.")] = 1,
    retries: Retries = 1,
    concurrency: Annotated[int, typer.Option(help="Calls at the same time.")] = 4,
    settings: JudgeSet = None,
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    prices: PricesFile = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    cache: Cache = None,
    as_json: Json = False,
) -> None:
    """Show a judge texts that want to speak for it; exit code 1 where its verdicts break the order that must hold."""
    from emend.agents.llm import load_model
    from emend.evals.judging import Panel
    from emend.evals.stress import stress

    panel = Panel(judges=tuple(dict.fromkeys(judge)), repeats=repeats, retries=retries)
    policy = policy_of(max_cost=max_cost, max_calls=max_calls, prices=prices, rpm=rpm, tpm=tpm, cache=cache)
    try:
        models = {spec: load_model(spec, policy, **judge_settings(settings)) for spec in panel.judges}
        found = stress(panel, models, kind or (), concurrency)
    finally:
        policy.close()
    if as_json:
        print_rows([row.model_dump() for row in (*found.rows, *found.relations)])
    else:
        from emend.evals.report.stress import show_stress
        from emend.evals.report.table import console_for

        show_stress(found, console_for())
    if any(relation.outcome == "broken" for relation in found.relations):
        raise typer.Exit(1)
