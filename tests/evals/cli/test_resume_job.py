"""`emend resume` on the run of a job that is no evaluation of edits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from emend.evals.jobs import registry
from emend.evals.jobs.limits import refuse_other_options
from emend.evals.jobs.runner import prepare_manifest
from emend.evals.log.lines import RECORDS
from emend.evals.log.manifest import MANIFEST, Manifest
from emend.memory.registry import Registry
from tests.evals.jobs.test_unit_job import Sums, lines_of
from tests.evals.toy_runs import TRUST, go


class StoredSums(Sums):
    """Sums whose manifest is a run folder's."""

    def prepare(self, folder: Path, finished: Any) -> Any:
        return prepare_manifest(Manifest.read(folder), folder)


def load(folder: Path, options: Mapping[str, Any]) -> StoredSums:
    refuse_other_options("sums", options, ("concurrency",))
    return StoredSums([[1, 2]])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder of the job, of which nothing is done."""
    go(tmp_path / "run")
    manifest = Manifest.read(tmp_path / "run").model_copy(update={"job": "sums"})
    folder = tmp_path / "sums"
    folder.mkdir()
    manifest.write(folder)
    rows: dict[str, tuple[str, ...]] = {"sums": (f"{__name__}:load", "Adds numbers.")}
    monkeypatch.setattr(registry, "JOBS", Registry(kind="job", group="emend.jobs", builtin=rows))
    return folder


def test_a_job_goes_on_by_the_name_in_its_manifest(emend: Any, folder: Path) -> None:
    output = emend("resume", str(folder), *TRUST)
    assert output.code == 0, output.err
    assert (
        "2 of" in output.out
        and f"Next: emend report {folder}" in output.out
        and set(lines_of(folder)) == {"0-0", "0-1"}
    )


def test_limits_that_the_job_does_not_take_are_refused(emend: Any, folder: Path) -> None:
    output = emend("resume", str(folder), *TRUST, "--max-calls", "5")
    assert output.code != 0 and "--max-calls" in output.err
    assert not (folder / RECORDS).exists()


def test_a_job_that_is_not_installed_is_refused(emend: Any, folder: Path) -> None:
    Manifest.read(folder).model_copy(update={"job": "os:system"}).write(folder)
    output = emend("resume", str(folder), *TRUST)
    assert output.code != 0 and "os:system" in output.err
    assert {path.name for path in folder.iterdir()} == {MANIFEST}
