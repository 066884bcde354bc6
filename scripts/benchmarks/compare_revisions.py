"""Compares what this checkout computes and writes with an earlier revision, line by line and to the last digit.

    python -m scripts.benchmarks.compare_revisions REVISION --data ../shared/data

Both revisions run the same jobs: each editor, benchmark, construction, generated stream and memory system that needs
no extra package, on the embedded model, a scripted author and a scripted reader. Records, calls, costs, reports, cards
and built files must be equal; clocks, versions and paths are left out. A line counts as equal after conversion if it
only has new fields that are empty. Prints a verdict for each job and the first differences; exits 1 when anything
differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from scripts.benchmarks.revisions.jobs import ROOT, Job, all_jobs, missing_constructions
from scripts.benchmarks.revisions.outcomes import Result, compare, first_difference, read_outcome

WORKER = ROOT / "scripts" / "benchmarks" / "revisions" / "worker.py"
SHOWN_DIFFERENCES = 5


class Revision:
    """A checkout whose `emend` runs in a process of its own."""

    def __init__(self, root: Path, folder: Path) -> None:
        """`folder` receives the link under which the checkout is imported, and a folder for each job."""
        self.folder = folder
        (folder / "path").mkdir(parents=True)
        (folder / "path" / "emend").symlink_to(root)
        scripts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
        path = os.pathsep.join([str(folder / "path"), str(root)])
        environment = os.environ | {"PYTHONPATH": path, "EMEND_CACHE": str(folder / "cache"), "COLUMNS": "120"}
        with (folder / "log.txt").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER), scripts["emend"]],
                env=environment, cwd=folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip

    def prepare(self, job: Job, number: int) -> Path:
        """The job's folder, with its files."""
        folder = self.folder / f"job-{number}"
        folder.mkdir()
        for name, content in job.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder

    def start(self, folder: Path, words: tuple[str, ...]) -> None:
        """Begin a command."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"folder": str(folder), "words": words}) + "\n")
        self.process.stdin.flush()

    def reply(self) -> dict[str, Any]:
        """What the command that was begun ended with."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the process ended: {(self.folder / 'log.txt').read_text(encoding='utf-8')[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


class Total(NamedTuple):
    """Sums over jobs."""

    jobs: Counter[str]
    values: int


def outcomes(revisions: tuple[Revision, Revision], job: Job, number: int) -> Result:
    """Run a job in both revisions at the same time, command by command, and compare."""
    folders = [revision.prepare(job, number) for revision in revisions]
    replies: list[list[dict[str, Any]]] = [[], []]
    for words in job.commands:
        for revision, folder in zip(revisions, folders, strict=True):
            revision.start(folder, words)
        for revision, given in zip(revisions, replies, strict=True):
            given.append(revision.reply())
    before, after = (read_outcome(folder, job.outputs, given) for folder, given in zip(folders, replies, strict=True))
    return compare(before, after)


def compare_all(revisions: tuple[Revision, Revision], jobs: list[Job]) -> Total:
    """Print a line for each job, with its first differences."""
    total, values = Counter[str](), 0
    for number, job in enumerate(jobs):
        begun = time.monotonic()
        result = outcomes(revisions, job, number)
        print(f"{job.name}: {result.values} values, {result.verdict} ({time.monotonic() - begun:.0f} s)", flush=True)
        for difference in result.differences[:SHOWN_DIFFERENCES]:
            print(f"  {difference.key}\n    {first_difference(difference.before, difference.after)}", flush=True)
        total[result.verdict.partition(" in ")[0].partition(" (")[0]] += 1
        values += result.values
    return Total(total, values)


def main() -> int:
    """Reads the arguments, and makes a checkout of the earlier revision for as long as it is needed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="the earlier revision, as git names it")
    parser.add_argument("--data", type=Path, help="a folder with the benchmarks' files, one folder each")
    parser.add_argument("--limit", type=int, default=40, help="number of tinyworld's cases (default: 40)")
    parser.add_argument("--only", default="", help="jobs whose name contains this text")
    parser.add_argument("--keep", type=Path, help="an empty folder for the checkout's and the jobs' files")
    chosen = parser.parse_args()
    jobs = list(all_jobs(chosen.data and chosen.data.resolve(), chosen.limit))
    if missing := missing_constructions(jobs):
        print(f"no page shows a construction of: {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = (chosen.keep or Path(temporary)).resolve()
        tree = folder / "before"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, chosen.revision], cwd=ROOT, check=True)
        try:
            revisions = Revision(tree, folder / "old"), Revision(ROOT, folder / "new")
            total = compare_all(revisions, [job for job in jobs if chosen.only in job.name])
            for revision in revisions:
                revision.close()
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
    print(f"{total.values} values in {total.jobs.total()} jobs: {dict(total.jobs)}")
    return int(total.jobs["differs"] > 0)


if __name__ == "__main__":
    sys.exit(main())
