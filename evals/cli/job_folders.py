"""Folders of jobs: those of runs, and those of scorings within them."""

from pathlib import Path
from typing import NamedTuple

from emend.evals.cli.trust import StoredNames, names_of_run, names_of_scoring
from emend.evals.log.manifest import MANIFEST, Manifest


class JobFolder(NamedTuple):
    """A folder in which a job was started.

    Attributes:
        job: name of the job; empty for an evaluation of edits.
        names: code and servers that the folder names.
    """

    job: str
    names: StoredNames


def is_job_folder(folder: Path) -> bool:
    """Return True if something was started in the folder."""
    from emend.evals.judging.scorings.manifest import SCORING

    return any((folder / name).is_file() for name in (MANIFEST, SCORING))


def read_job_folder(folder: Path) -> JobFolder:
    """Return the job that was started in a folder.

    Raises:
        BadData: no job was started in the folder, or it cannot be read.
    """
    from emend.evals.jobs.registry import job_name
    from emend.evals.judging.scorings.manifest import SCORING, Scoring

    if (folder / SCORING).is_file():
        scoring = Scoring.read(folder)
        return JobFolder(scoring.job, names_of_scoring(scoring))
    manifest = Manifest.read(folder)
    return JobFolder(job_name(manifest), names_of_run(manifest.config))
