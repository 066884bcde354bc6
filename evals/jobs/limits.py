"""Checks of limits on calls to providers, and of the options of a resumed run."""

from collections.abc import Collection, Iterable

from emend.agents.providers.policy import CallPolicy
from emend.evals.config.limits import Limits
from emend.memory.errors import BadSettings


def refuse_unused_limits(limits: Limits, model: str, policy: CallPolicy) -> None:
    """Check, after loading all models, that limits, prices and cache apply to at least one of them.

    Args:
        limits: the given limits.
        model: name of the model under test, for the error.
        policy: the run's policy, which lists the API models.

    Raises:
        BadSettings: every model is local.
    """
    options = limits.options()
    if options and not policy.models:
        raise BadSettings(
            f"{' and '.join(options)} with model '{model}': a local model makes no API calls, so "
            "the limit has no effect."
        )


def refuse_other_options(job: str, options: Iterable[str], allowed: Collection[str]) -> None:
    """Check that a resumed run is given only options that its job supports.

    Args:
        job: the job's name.
        options: names of the given options.
        allowed: names of the allowed options.

    Raises:
        BadSettings: an option is not supported.
    """
    if others := [option for option in options if option not in allowed]:
        names = ", ".join(f"--{option.replace('_', '-')}" for option in others)
        raise BadSettings(
            f"{names} with a run of '{job}', which does not support it: leave it out."
        )
