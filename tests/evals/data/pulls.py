"""A data set pulled into a folder, and what then lies there."""

from pathlib import Path

from emend.evals.data.pull import LOCK, Outcome, Puller
from emend.evals.data.sources import DataSource

BIG = bytes(range(256)) * 2000  # half a megabyte, no two places within 256 bytes alike


def pull(source: DataSource, folder: Path, retries: int = 0) -> dict[str, Outcome]:
    """Pull a source and return the outcome of each file by its name."""
    return {outcome.name: outcome for outcome in Puller(source, folder, retries=retries).pull()}


def names(folder: Path) -> set[str]:
    """The files that lie there, other than the lock."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return found - {LOCK}
