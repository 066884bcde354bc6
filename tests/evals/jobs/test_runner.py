"""The end of a run: notes in the manifest, and no thread that works on after an error."""

import threading
from pathlib import Path

import pytest

from emend.evals.evaluate import job
from emend.evals.results.aggregate.rows import report
from emend.memory.errors import BudgetReached
from tests.evals.toy_runs import go
from tests.evals.toys import ScriptedModel


def test_notes_that_are_known_at_the_end_are_in_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "embedding_notes", lambda encoder: ("2 texts were cut",))
    go(tmp_path / "run", limit=1)
    go(tmp_path / "run", limit=1)
    assert report(tmp_path / "run").notes == ("2 texts were cut",)


class Spent(ScriptedModel):
    """A model whose budget is reached at the first case while another call is under way."""

    def reply(self, prompt: str) -> str:
        if "Land0" in prompt:
            raise BudgetReached("nothing is left.")
        return super().reply(prompt)


def test_units_under_way_have_ended_when_an_error_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(BudgetReached, match="nothing is left"):
        go(tmp_path / "run", Spent(delay=0.05), concurrency=3, benchmark_options={"cases": "9"})
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("emend-unit")]
