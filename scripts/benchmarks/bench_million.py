"""Time and memory of the commands that read a large run: trace, report, compare, analyse and resume; of 1,000, list.

    python scripts/benchmarks/bench_million.py --records 1000000

A run of the toy benchmark is made as a run would write it, without asking a model: manifest and cases by the run's own
code, records and events of every unit after those of a small real run, and the line that an interrupted run writes at
its end. Each command runs in a process of its own, with
a cache folder of its own. The last 100 units are left out, and `resume` asks them.
"""

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from emend.evals.case import Case
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.baseline import Baseline, needs_baseline
from emend.evals.evaluate.prepare import prepare_run
from emend.evals.evaluate.run import run
from emend.evals.evaluate.setup.run_setup import load_setup
from emend.evals.evaluate.units import EditorPass
from emend.evals.jobs.shared_answers import AnswerFile
from emend.evals.log.lines import BASELINE, COSTS, ERRORS, EVENTS, RECORDS
from emend.evals.log.records import RunLog, json_line
from tests.evals.toys import BENCHMARK, EDITOR, ScriptedModel

ROOT = Path(__file__).resolve().parents[2]
LEFT = 100
"""Units that are not finished."""
SMALL = 5000
"""Records of each of many runs."""
EDITORS = ("unedited", "in_context", "rag", EDITOR)
COMMAND = """
import atexit, json, os, resource, sys
from emend.agents.llm import MODELS
from emend.evals.cli.main import main
MODELS.builtin["scripted"] = ("tests.evals.toys:load_scripted", "for benchmarks")
def tell():
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
    open(os.environ["USED"], "w").write(json.dumps({"cpu": used.ru_utime + used.ru_stime, "mb": peak // 1024}))
atexit.register(tell)
sys.argv = ["emend", *sys.argv[1:]]
main()
"""


def config(records: int, probes: int) -> RunConfig:
    """A run of that many records."""
    cases = max(1, records // (probes * len(EDITORS)))
    options = {"cases": str(cases), "probes": str(probes - 1)}
    return RunConfig(
        benchmark=BENCHMARK, editors=EDITORS, model="scripted", benchmark_options=options, embedding="lexical"
    )


def make(folder: Path, chosen: RunConfig) -> None:
    """Write the run without its last units; fast, because each unit is the first one of a real run, renamed."""
    sample = folder.with_name("sample")
    run(chosen.model_copy(update={"limit": 1}), sample, model=ScriptedModel())
    folder.mkdir()
    setup = load_setup(chosen, folder, ScriptedModel())
    prepare_run(setup, folder)
    shutil.copyfile(sample / ERRORS, folder / ERRORS)
    _make_baseline(setup, folder, (sample / BASELINE).read_bytes().splitlines(keepends=True)[0])
    left = int(chosen.benchmark_options["cases"]) * len(EDITORS) - LEFT
    with (folder / RECORDS).open("wb") as records, (folder / EVENTS).open("wb") as events:
        for editor_pass in setup.passes:
            cases = setup.source.cases("plain")
            template = Template(sample, editor_pass, next(setup.source.cases("plain")))
            for case in itertools.islice(cases, max(0, left)):
                records.write(template.renamed(template.records, editor_pass, case))
                events.write(template.renamed(template.events, editor_pass, case))
                left -= 1
    setup.memory.close()
    units = int(chosen.benchmark_options["cases"]) * len(EDITORS)
    *costs, end = (sample / COSTS).read_bytes().splitlines(keepends=True)
    counts = {"units": units, "finished": units - LEFT, "record_bytes": (folder / RECORDS).stat().st_size}
    (folder / COSTS).write_bytes(b"".join(costs) + json_line(json.loads(end) | counts))


def _make_baseline(setup: Any, folder: Path, line: bytes) -> None:
    """Write an answer of the unedited model for every probe that is compared with it, but those of the last cases."""
    fields = json.loads(line)
    with RunLog(folder) as log, (folder / BASELINE).open("wb") as file:
        baseline = Baseline(setup.editors.unedited(), AnswerFile(log), setup.model_fingerprint)
        for case in itertools.islice(
            setup.source.cases("plain"), max(0, int(setup.config.benchmark_options["cases"]) - LEFT)
        ):
            for probe in filter(needs_baseline, case.probes):
                key = baseline._key(probe, 0)
                file.write(
                    line.replace(fields["key"].encode(), key.encode()).replace(
                        fields["probe"].encode(), probe.id.encode()
                    )
                )


class Template:
    """Lines of the first case under an editor, for all other cases."""

    def __init__(self, folder: Path, editor_pass: EditorPass, case: Case) -> None:
        self.names = self._names(editor_pass, case)
        unit = self.names[0]
        self.records, self.events = (
            b"".join(line for line in (folder / name).read_bytes().splitlines(keepends=True) if unit in line[:60])
            for name in (RECORDS, EVENTS)
        )
        assert self.records and self.events

    def renamed(self, lines: bytes, editor_pass: EditorPass, case: Case) -> bytes:
        """The lines as those of another case."""
        for old, new in zip(self.names, self._names(editor_pass, case), strict=True):
            lines = lines.replace(old, new)
        return lines

    @staticmethod
    def _names(editor_pass: EditorPass, case: Case) -> list[bytes]:
        ids = [editor_pass.unit_key(case), case.id, *(edit.id for edit in case.edits), *(p.id for p in case.probes)]
        subject = case.edits[0].subject
        number = subject.removeprefix("Land")
        return [name.encode() for name in (*ids, subject, f"New-{number}", f"Old-{number}")]


def measure(cache: Path, *words: str, code: str = COMMAND) -> dict[str, float]:
    """Processor time, wall time and peak memory of a command."""
    used = cache / "used.json"
    environment = os.environ | {"EMEND_CACHE": str(cache), "USED": str(used), "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True)
    wall = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{words}: {done.stderr[-2000:]}")
    return {"wall": wall, **json.loads(used.read_text())}


@contextmanager
def unchanged(folder: Path, cache: Path) -> Iterator[None]:
    """What the code inside the `with` appends to the run is taken away, so that `resume` can be measured again."""
    before = {file: file.stat() for file in folder.glob("*.jsonl")}
    copy = shutil.copytree(cache, cache.with_name("cache before"), dirs_exist_ok=True)
    yield
    grown = [file for file, status in before.items() if file.stat().st_size > status.st_size]
    for file in grown:
        os.truncate(file, before[file].st_size)
        os.utime(file, ns=(before[file].st_atime_ns, before[file].st_mtime_ns))
    if grown:
        shutil.rmtree(cache)
        copy.rename(cache)
    else:
        shutil.rmtree(copy)


def make_many(folder: Path, small: Path) -> None:
    """Write a small run, and make a folder of 1,000 runs that have its files."""
    make(small, config(SMALL, 10))
    for number in range(1000):
        shutil.copytree(small, folder / f"run-{number}", copy_function=os.link)


def commands(folder: Path) -> dict[str, tuple[str, ...]]:
    """The measured commands by name, in their order."""
    place = str(folder)
    return {
        "trace RUN 1, first time": ("trace", place, "1"),
        "trace RUN 1": ("trace", place, "1"),
        "report RUN, first time": ("report", place),
        "report RUN": ("report", place),
        "trace RUN": ("trace", place),
        "compare RUN": ("compare", place, "--editor-a", EDITORS[1], "--editor-b", EDITORS[2]),
        "analyse RUN": ("analyse", place),
        "analyse RUN retrieval": ("analyse", place, "retrieval"),
        "list runs, 1,000": ("list", "runs", str(folder.with_name("many"))),
        "resume RUN": ("resume", place, "--trust", BENCHMARK, "--trust", EDITOR),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--probes", type=int, default=10, help="of a case")
    parser.add_argument("--only", nargs="*", help="beginnings of commands")
    parser.add_argument("--folder", type=Path, help="where the run is made and kept; default: a temporary folder")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        base = chosen.folder or Path(temporary)
        base.mkdir(exist_ok=True)
        folder, cache = base / "run", base / "cache"
        cache.mkdir(exist_ok=True)
        if not folder.exists():
            start = time.perf_counter()
            make(folder, config(chosen.records, chosen.probes))
            make_many(base / "many", base / "small" / "run")
            print(f"made in {time.perf_counter() - start:.0f} s")
        size = sum(file.stat().st_size for file in folder.glob("*.jsonl"))
        print(f"{chosen.records:,} records, {size / 1e9:.2f} GB")
        print(f"{'command':28}{'wall s':>8}{'CPU s':>8}{'peak MB':>9}")
        for name, words in commands(folder).items():
            if chosen.only is None or any(name.startswith(part) for part in chosen.only):
                with unchanged(folder, cache):
                    row = measure(cache, *words)
                print(f"{name:28}{row['wall']:8.2f}{row['cpu']:8.2f}{row['mb']:9.0f}", flush=True)


if __name__ == "__main__":
    main()
