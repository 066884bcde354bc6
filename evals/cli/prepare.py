"""The command group `emend prepare`, which makes what editors need before a run."""

import typer

from emend.evals.cli.commands.covariance import covariance
from emend.evals.cli.commands.measure import encoder, scope, tune

prepare = typer.Typer(
    name="prepare",
    help="Prepare resources of editors: covariances, settings, classifiers, encoders.",
    no_args_is_help=True,
)
for each_command in (covariance, tune, scope, encoder):
    prepare.command()(each_command)
