"""Panels of a command's help: common options first, then the others by subject."""

import inspect
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Annotated, Any, get_args

from typer.models import OptionInfo

from emend.evals.cli.options import API_CALLS

COMMON = "Options"
MORE = "More"
SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "More: what is evaluated": (
        "mode",
        "reevaluate_at",
        "benchmark_options",
        "corrections",
        "data",
        "preset",
        "seed",
        "repeats",
        "retriever",
        "embedding",
        "prompt_template",
        "prompts",
        "form",
        "overrides",
        "skip",
    ),
    "More: scoring": ("protocols", "count_only", "perplexity_text", "ability"),
    "More: scale": (
        "concurrency",
        "fail_on_error",
        "workers",
        "gpus_per_worker",
        "share",
        "memory_server",
    ),
    "More: CI and files": ("junit", "save_config", "save_recipe", "trust", "format", "yes"),
    API_CALLS: ("max_cost", "max_calls", "prices", "rpm", "tpm", "cache"),
}


def in_panels(
    *common: str,
    subjects: Mapping[str, Collection[str]] = SUBJECTS,
    hidden: Collection[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command so that its options are ordered into panels.

    The common options come first, then those of each subject, then all others.

    Args:
        common: parameters of the first panel, in its order.
        subjects: parameters by panel title.
        hidden: parameters that work but are not shown in the help.

    Raises:
        ValueError: the command has no such common parameter.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = dict(inspect.signature(command).parameters)
        if missing := [name for name in (*common, *hidden) if name not in parameters]:
            raise ValueError(f"no parameter '{missing[0]}'")
        panels = dict.fromkeys(common, COMMON)
        for title, names in subjects.items():
            panels |= {name: title for name in names if name not in panels}
        order = [name for name in parameters if not _is_option(parameters[name])]
        order += [name for name in panels if name in parameters and name not in order]
        order += [name for name in parameters if name not in order]
        placed = [
            _in_panel(parameters[name], panels.get(name, MORE), name in hidden) for name in order
        ]
        command.__signature__ = inspect.Signature(placed)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in placed}
        return command

    return decorate


def _is_option(parameter: inspect.Parameter) -> bool:
    return any(isinstance(extra, OptionInfo) for extra in get_args(parameter.annotation)[1:])


def _in_panel(parameter: inspect.Parameter, panel: str, hidden: bool) -> inspect.Parameter:
    """Return the parameter with its option moved into that panel; arguments stay unchanged."""
    if not _is_option(parameter):
        return parameter
    base, *extras = get_args(parameter.annotation)
    changed: list[Any] = [copy(extra) for extra in extras]
    for extra in changed:
        if isinstance(extra, OptionInfo):
            extra.rich_help_panel = panel
            extra.hidden = extra.hidden or hidden
    return parameter.replace(annotation=Annotated[(base, *changed)])
