"""A file that a command writes for its user is replaced whole: on a full disk the old one stays, without a draft."""

import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.text import Text

from emend.agents.scope.base import write_settings
from emend.evals.api.result import ViewFrame
from emend.evals.cli.commands.trace import _write as write_trace
from emend.evals.config.run_file import RunPlan
from emend.evals.papers.reproduce.recipe import Recipe
from emend.evals.results.aggregate.junit import write_junit
from emend.evals.show.report.export import write_svg
from emend.evals.show.report.plots import drawing
from emend.memory.errors import BadSettings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")
OLD = b"what an earlier command wrote\n"
LONG = "a long text " * 500


@contextmanager
def little_room() -> Iterator[None]:
    """Context in which no file grows beyond 64 bytes, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def draw(file: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")
    with drawing(file, 2, 2):
        pass


WRITERS: dict[str, Callable[[Path], object]] = {
    "run.yaml": lambda file: RunPlan.of({"benchmark": "tinyworld", "editors": ("rag",), "model": LONG}, {}).write(file),
    "recipe.yaml": lambda file: Recipe(table=LONG).write(file),
    "case.md": lambda file: write_trace(LONG, file),
    "table.svg": lambda file: write_svg(lambda console: Text(LONG), file),
    "plot.png": draw,
    "junit.xml": lambda file: write_junit([], LONG, file),
    "scope.json": lambda file: write_settings(file.parent, {"text": LONG}),
}


@pytest.mark.parametrize("name", WRITERS)
def test_on_a_full_disk_the_old_file_stays(name, tmp_path):
    file = tmp_path / name
    file.write_bytes(OLD)
    with little_room(), pytest.raises(BadSettings, match="cannot write"):
        WRITERS[name](file)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: OLD}
    WRITERS[name](file)
    assert [path.name for path in tmp_path.iterdir()] == [name] and file.stat().st_size > 500


def test_on_a_full_disk_the_old_pages_for_a_notebook_stay(smooth, own_cache, tmp_path):
    frame = ViewFrame(smooth, "1", 300)
    (tmp_path / "frame.html").write_bytes(OLD)
    with little_room(), pytest.raises(BadSettings, match="cannot write"):
        frame.save(tmp_path / "frame.html")
    assert (tmp_path / "frame.html").read_bytes() == OLD and not list(tmp_path.glob("frame.html.*"))
