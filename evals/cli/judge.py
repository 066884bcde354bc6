"""The commands `emend judge ...`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.calibrate import calibrate
from emend.evals.cli.judging_options import Judges, asking
from emend.evals.cli.limits import Limits
from emend.evals.cli.options import Json, grouped, print_rows

judge = typer.Typer(name="judge", help="Measure chat models as judges.", no_args_is_help=True)
judge.command("calibrate")(calibrate)


@judge.command("stress")
@grouped
def stress_command(
    judges: Judges,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="What is judged: emend list judges, or module:attribute; default everything."),
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Texts of your own in TOML, see docs/judges.md, Your own.")
    ] = None,
    *,
    limits: Limits,
    as_json: Json = False,
) -> None:
    """Show a judge texts that want to speak for it; exit code 1 where its verdicts break the order that must hold."""
    from emend.agents.llm import load_model
    from emend.evals.judges.stress import stress
    from emend.evals.judges.stress_cases import own_cases

    own = own_cases(cases) if cases else None
    panel, settings = judges.panel(), judges.settings
    with asking(limits) as policy:
        models = {spec: load_model(spec, policy, **settings) for spec in panel.judges}
        found = stress(panel, models, kind or (), judges.concurrency, own)
    if as_json:
        print_rows([row.model_dump() for row in (*found.rows, *found.relations)])
    else:
        from emend.evals.report.stress import show_stress
        from emend.evals.report.table import console_for

        show_stress(found, console_for())
    if any(relation.outcome == "broken" for relation in found.relations):
        raise typer.Exit(1)
