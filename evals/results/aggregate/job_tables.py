"""Tables of the lines of other jobs, which have fields that records of evaluations lack."""

from collections.abc import Mapping
from typing import NamedTuple

from emend.evals.jobs.line import JobLine
from emend.evals.jobs.registry import JOBS
from emend.evals.log.manifest import Manifest
from emend.evals.log.table_sources import TableSource, job_source
from emend.memory.registry import Registry


class JobTable(NamedTuple):
    """A table of a job's lines, for `emend query`.

    Attributes:
        line: type of its lines; each field is a column.
        summary: what a row is.
        is_answer: whether its lines answer something; others have an empty `probe`.
    """

    line: type[JobLine]
    summary: str
    is_answer: bool = True

    def source(self, name: str) -> TableSource:
        """Return the SQL source of this table's lines under the given name."""
        return job_source(f"{name}_lines", self.line, self.is_answer)


# Job tables by table name.
JobTables = Mapping[str, JobTable]
# Job tables by job name.
JOB_TABLES: Registry[JobTables] = Registry(
    kind="job with tables", group="emend.job_tables", builtin={}
)


def tables_of_job(manifest: Manifest) -> JobTables:
    """Return the tables that a run's job adds to those of every run."""
    job = manifest.job
    if not (JOBS.installed(job) and JOB_TABLES.installed(job)):
        return {}
    return JOB_TABLES.load(job)
