"""Sample of a run for its estimate: the first cases, without call limits, in threads."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from emend.editors.registry import EDITORS
from emend.evals.case import Case
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.setup.run_setup import RunSetup

# Number of cases per setting that the stand-in is asked.
SAMPLE = 5
UNEDITED = "unedited"


def first_cases(setup: RunSetup, setting: str) -> Iterator[Case]:
    """Yield the sampled cases of a setting."""
    return islice(setup.source.cases(setting), SAMPLE)


def writes_weights(editor: str) -> bool:
    """Return True for an editor of weights, which is estimated as the unedited model."""
    return bool(getattr(EDITORS.load(editor), "needs_weights", False))


def changed_config(config: RunConfig, editors: Sequence[str], **changes: Any) -> RunConfig:
    """Return a run's configuration for these editors, without call limits and in threads."""
    free = dict.fromkeys(("max_cost", "max_calls", "prices", "rpm", "tpm", "cache"))
    overrides = {name: values for name, values in config.overrides.items() if name in editors}
    fields = (
        config.model_dump()
        | free
        | {"editors": tuple(editors), "overrides": overrides, "ability": ()}
    )
    return RunConfig.model_validate(
        fields | {"workers": "threads", "gpus_per_worker": 0.0} | changes
    )


def sample_config(config: RunConfig, setup: RunSetup) -> RunConfig:
    """Return the configuration of the sample."""
    names = [name if not writes_weights(name) else UNEDITED for name in config.editors]
    mode = setup.mode
    if mode.kind == "sequential":
        again = {"reevaluate_at": "none"}
    else:
        again = {}
    return changed_config(
        config,
        tuple(dict.fromkeys(names)),
        limit=min(config.limit or SAMPLE, max(SAMPLE, mode.size)),
        mode=str(mode),
        repeats=1,
        memory_server=None,
        share=None,
        perplexity_text="none",
        fail_on_error="false",
        **again,
    )


@contextmanager
def without_warnings() -> Iterator[None]:
    """Context in which warnings are not logged."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
