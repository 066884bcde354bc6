"""The tables of a run that grows, made by processes that are killed: the next one shows what the records have."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emend.evals.log.lines import RECORDS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records
from emend.evals.show.view.answers import RunAnswers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache")]

KILLS, COPIES, SEED = 6, 250, 11
MAKER = """
import sys
from pathlib import Path
import emend.evals.show.view.results as module
module.LARGE = 0
folder = Path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
while True:
    module.compute("tables", [folder], [])
"""
APPENDER = """
import sys, time
path, source, delay = sys.argv[1], sys.argv[2], float(sys.argv[3])
content = open(source, "rb").read()
with open(path, "ab", buffering=0) as file:
    for start in range(0, len(content), 700):
        file.write(content[start : start + 700])
        time.sleep(delay)
"""


def _grown(lines: list[bytes]) -> bytes:
    """The records many times, each time as those of other units."""
    first = [line.split(b'"', 4)[3] for line in lines]
    return b"".join(
        line.replace(unit, b"%04d%s" % (copy, unit[4:]), 1)
        for copy in range(COPIES)
        for line, unit in zip(lines, first, strict=True)
    )


def _start(code: str, *words: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_killed_tables_are_continued_while_the_run_is_written(
    rough: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emend.evals.show.view.answers.LARGE", 0)
    folder = Path(shutil.copytree(rough, tmp_path / "run"))
    (tmp_path / "source").write_bytes(_grown((folder / RECORDS).read_bytes().splitlines(keepends=True)))
    (folder / RECORDS).write_bytes(b"")
    draw, manifest, counts = random.Random(SEED), Manifest.read(folder), []
    appender = _start(APPENDER, folder / RECORDS, tmp_path / "source", 0.01)
    for _ in range(KILLS):
        maker = _start(MAKER, folder)
        assert maker.stdin is not None and maker.stdout is not None
        maker.stdout.readline()
        maker.stdin.write(b"\n")
        maker.stdin.flush()
        time.sleep(draw.uniform(0, 0.15))
        os.kill(maker.pid, signal.SIGKILL)
        assert maker.wait() == -signal.SIGKILL
        before = len(list(read_records(folder)))
        found = RunAnswers(folder, manifest)
        counts.append(found.totals.records)
        assert before <= found.totals.records <= len(list(read_records(folder)))
    assert appender.wait(120) == 0
    records = list(read_records(folder))
    found = RunAnswers(folder, manifest)
    assert (found.totals.records, found.totals.units) == (len(records), len({record.unit for record in records}))
    editors = [editor for (editor,) in found._rows("SELECT editor FROM answers ORDER BY line")]
    assert editors == [record.editor for record in records]
    assert counts == sorted(counts) and len(set(counts)) > 2
