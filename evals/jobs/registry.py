"""Registry of jobs other than the evaluation of edits, by their name in a run folder's manifest."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.evals.log.manifest import Manifest
from emend.memory.errors import BadSettings
from emend.memory.registry import Registry

if TYPE_CHECKING:  # reading a run folder must not import LangChain
    from emend.evals.jobs.job import Job

# Loads the job of a folder to resume its run, with changed options by name (see
# `RESUMABLE_FIELDS`); raises an error for unsupported options.
JobLoader = Callable[[Path, Mapping[str, Any]], "Job"]
# The optional third entry of a row is the benchmark that folders of earlier versions name instead
# of the job.
JOBS: Registry[JobLoader] = Registry(
    kind="job",
    group="emend.jobs",
    builtin={
        "judge": (
            "emend.evals.judging.scorings.load:load_job",
            "Calls to judges about the answers of a run.",
        ),
    },
)


def job_name(manifest: Manifest) -> str:
    """Return the name of a run folder's job; "" for an evaluation of edits."""
    earlier = {row[2]: name for name, row in JOBS.builtin.items() if len(row) > 2}
    return manifest.job or earlier.get(manifest.config.benchmark, "")


def load_job(name: str) -> JobLoader:
    """Return the loader of the job of that name; a run folder cannot name other code.

    Raises:
        BadSettings: no installed package has this job.
    """
    if not JOBS.installed(name):
        raise BadSettings(
            f"the run is one of a job '{name[:40]}', which no installed package provides: install "
            "it."
        )
    return JOBS.load(name)
