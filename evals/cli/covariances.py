"""Check for covariances that a run's editors need, before its first unit."""

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import typer

from emend.evals.cli.output import print_text
from emend.evals.config.run_config import RunConfig
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.evals.config.run_file import RunPlan
    from emend.evals.results.dry_run.needs import CovarianceNeed


def settle_covariances(plan: "RunPlan", *, skip: bool) -> "RunPlan":
    """Return the plan with all covariances available to its editors.

    On a terminal the command offers to collect missing covariances.

    Args:
        plan: the runs.
        skip: leave out editors that lack a covariance.

    Raises:
        BadSettings: a covariance is missing; the message names the ways out.
        typer.Exit: the collection failed.
    """
    return plan._replace(configs=tuple(_settled(config, skip) for config in plan.configs))


def _settled(config: RunConfig, skip: bool) -> RunConfig:
    from emend.agents.llm import is_local_spec

    need = _need(config) if is_local_spec(config.model) else None
    if need is None:
        return config
    if skip:
        return _without(config, need)
    if sys.stdin.isatty() and sys.stderr.isatty():
        _offer(need, config.model)
        return config
    raise BadSettings(
        f"{_lack(need, config.model)}. {_ways_out(need)}, or leave out the editors without them: "
        "--skip."
    )


def _need(config: RunConfig) -> "CovarianceNeed | None":
    # apart from its caller, since it imports PyTorch, which a run over an API does not need
    from emend.evals.results.dry_run.needs import covariance_need

    return covariance_need(config)


def _lack(need: "CovarianceNeed", model: str) -> str:
    layers = sorted({layer for editor in need.layers.values() for layer in editor})
    return (
        f"{', '.join(need.layers)}: missing covariances of layers {layers} of {model}, which are "
        "collected once per model"
    )


def _ways_out(need: "CovarianceNeed") -> str:
    first = next(iter(need.layers))
    return (
        f"Collect them{_duration(need)}: emend {shlex.join(need.command)}, or edit without them, "
        f"with lower quality: --set {first}.covariance=identity"
    )


def _duration(need: "CovarianceNeed") -> str:
    from emend.evals.show.report.progress import duration

    return "" if need.seconds is None else f" (about {duration(need.seconds)})"


def _offer(need: "CovarianceNeed", model: str) -> None:
    """Ask whether to collect the covariances now, and do so in a separate process.

    Raises:
        BadSettings: the user declines.
        typer.Exit: the collection failed.
    """
    print_text(f"{_lack(need, model)}.", err=True)
    if not typer.confirm(f"Collect them now{_duration(need)}?", default=True, err=True):
        raise BadSettings(f"{_ways_out(need)}, or leave out the editors without them: --skip.")
    code = subprocess.run([sys.executable, "-m", "emend", *need.command], check=False).returncode
    if code:
        raise typer.Exit(code)


def _without(config: RunConfig, need: "CovarianceNeed") -> RunConfig:
    """Return the configuration without the editors that lack a covariance.

    Raises:
        BadSettings: no editor would be left.
    """
    left = tuple(name for name in config.editors if name not in need.layers)
    if not left:
        raise BadSettings(f"--skip leaves no editor to run. {_ways_out(need)}.")
    print_text(f"left out: {_lack(need, config.model)}", err=True)
    overrides = {name: of for name, of in config.overrides.items() if name not in need.layers}
    return RunConfig.model_validate(config.model_dump() | {"editors": left, "overrides": overrides})
