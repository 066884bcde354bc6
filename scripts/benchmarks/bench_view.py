"""Time and memory of the viewer on a large run: making and continuing its tables, and each page, as a browser asks.

    python scripts/benchmarks/bench_view.py --records 1000000
    python scripts/benchmarks/bench_view.py --inspect VENV/bin/python     # beside inspect_ai, installed there

The run is that of `bench_million.py`. Figures of making are beside those of parsing the same lines as JSON, so that
they can be compared between machines; `inspect view` gets a log of samples with the same prompts and answers, of as
many as it takes, on the same machine in the same run. CPU is that of the server alone.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

sys.path.append(str(Path(__file__).resolve().parents[2]))

from emend.evals.log.lines import RECORDS
from scripts.benchmarks.bench_million import ROOT, config, make, measure

CODE = """
import atexit, json, os, resource, sys
from pathlib import Path
from emend.evals.show.view.results import compute
def tell():
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {"cpu": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss // 1024}
    open(os.environ["USED"], "w").write(json.dumps(figures))
atexit.register(tell)
"""
BUILD = CODE + 'compute("tables", [Path(sys.argv[1])], [])'
PARSE = CODE + "for line in open(sys.argv[1] + '/records.jsonl', 'rb'): json.loads(line)"
NOTHING = CODE
SERVE = """
import sys
from emend.evals.cli.main import main
sys.argv = ["emend", "view", sys.argv[1], "--no-browser", "--port", "0"]
main()
"""
INSPECT = """
import json, sys
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, write_eval_log
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
from inspect_ai.scorer import Score
samples = []
for number, line in zip(range(int(sys.argv[3])), open(sys.argv[1], "rb")):
    record = json.loads(line)
    messages = [ChatMessageUser(content=record["prompt"]), ChatMessageAssistant(content=record["answer"] or "")]
    score = Score(value="C" if record["values"].get("em") else "I", answer=record["answer"])
    output = ModelOutput.from_content("model", record["answer"] or "")
    samples.append(EvalSample(id=number, epoch=1, input=record["prompt"], target=record["gold"][0], messages=messages,
                              output=output, scores={"match": score}))
spec = EvalSpec(created="2026-01-01T00:00:00+00:00", task="toy", dataset=EvalDataset(samples=len(samples)), model="m",
                config=EvalConfig())
write_eval_log(EvalLog(eval=spec, status="success", samples=samples), sys.argv[2])
"""
TIMES = 20
INSPECT_PORT = "7571"
LIMIT = 900
"""Seconds that a step may take."""


def build(folder: Path, base: Path) -> None:
    """Print what it costs to make the tables and the index of all but the last records, and to continue them."""
    records = folder / RECORDS
    size = records.stat().st_size
    with records.open("rb") as file:
        count = sum(1 for _ in file)
        file.seek(int(size * 0.99))
        file.readline()
        cut = file.tell()
        rest = file.read()
    os.truncate(records, cut)
    cache = base / "cache of the tables"
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir()
    try:
        start = measure(cache, code=NOTHING)["cpu"]
        first = measure(cache, str(folder), code=BUILD)
    finally:
        with records.open("ab") as file:
            file.write(rest)
    continued, parsed = measure(cache, str(folder), code=BUILD), measure(cache, str(folder), code=PARSE)
    added = rest.count(b"\n")
    print(f"{'step':34}{'wall s':>8}{'CPU s':>8}{'peak MB':>9}{'records a CPU second':>23}")
    for name, row, records_of in (
        ("make the tables and the index", first, count - added),
        (f"continue them with {added:,}", continued, added),
        ("parse the records as JSON", parsed, count),
    ):
        cpu = row["cpu"] - start
        print(f"{name:34}{row['wall']:8.2f}{cpu:8.2f}{row['mb']:9.0f}{records_of / max(cpu, 1e-9):23,.0f}", flush=True)
    for what, ending in (("tables", "parquet"), ("index of cases and events", "sqlite")):
        kept = sum(path.stat().st_size for path in cache.rglob(f"*.{ending}"))
        print(f"the {what}: {kept / 2**20:,.0f} MB")


class Server:
    """A server under measurement.

    Args:
        process: it.
        address: where it answers.
    """

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self.process, self.address = process, address

    def get(self, path: str) -> tuple[float, float, str, bool]:
        """Wall and CPU milliseconds of a page, its text, and whether it is to be loaded again."""
        cpu, start = self.cpu(), time.perf_counter()
        request = urllib.request.Request(self.address + path)
        with urllib.request.urlopen(request, timeout=LIMIT) as response:
            content = response.read().decode(errors="replace")
            waits = "refresh" in response.headers
        return 1000 * (time.perf_counter() - start), 1000 * (self.cpu() - cpu), content, waits

    def cpu(self) -> float:
        """CPU seconds of the process, without those of children that it still waits for."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> tuple[int, int]:
        """Resident memory in MB, now and at most."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        now, most = (int(re.findall(rf"{name}:\s+(\d+)", text)[0]) // 1024 for name in ("VmRSS", "VmHWM"))
        return now, most


@contextmanager
def served(command: list[str], find: Callable[["subprocess.Popen[str]"], str], **more: str) -> Iterator[Server]:
    """A server as a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | more
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield Server(process, find(process))
    finally:
        process.terminate()
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()


def _address(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if match := re.search(r"http://\S+", line):
            return match[0].rstrip("/") + "/"
    raise SystemExit("the server did not start")


def show(name: str, rows: list[tuple[float, float, str, bool]]) -> None:
    """Print a line of milliseconds."""
    wall, cpu = sorted(row[0] for row in rows), statistics.mean(row[1] for row in rows)
    p95 = wall[min(len(wall) - 1, int(0.95 * len(wall)))]
    print(f"{name:34}{statistics.median(wall):9.1f}{p95:9.1f}{cpu:9.1f}{len(rows[-1][2]) / 1024:9.0f}", flush=True)


def pages(folder: Path, base: Path) -> None:
    """Print the time of each page, and the server's memory."""
    cache = base / "cache of pages"
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir()
    with served([sys.executable, "-c", SERVE, str(folder)], _address, EMEND_CACHE=str(cache)) as server:
        begin = time.perf_counter()
        run = re.findall(r"run/([a-z0-9-]+)/index\.html", server.get("")[2])[0]
        head, compared = f"run/{run}/", f"compare/{run}.1~{run}.2"
        listed: list[str] = []
        while not listed and time.perf_counter() - begin < LIMIT:
            listed = re.findall(r"case/(\d+-\d+)\.html", server.get(f"{head}cases.html")[2])
        paths = {
            "runs": "index.html",
            "run": f"{head}index.html",
            "cases": f"{head}cases.html",
            "cases, wrong ones of an editor": f"{head}cases.html?editor=rag&verdict=wrong",
            "cases where two editors differ": f"{head}cases.html?where=rag+right,in_context+wrong",
            "cases, the longest first": f"{head}cases.html?sort=slow",
            "cases with a rare text": f"{head}cases.html?text=Land777",
            "cases with a text of all": f"{head}cases.html?text=e",
            "case": f"{head}case/{listed[-1]}.html",
            "retrieval": f"{head}retrieval.html",
            "judges": f"{head}judges.html",
            "errors": f"{head}errors.html",
            "live, as JSON": f"{head}live.json",
            "compare": f"{compared}.html",
            "both traces": f"{compared}/{listed[-1]}.html",
        }
        slowest = dict.fromkeys(paths, 0.0)
        while time.perf_counter() - begin < LIMIT:
            rows = {name: server.get(path) for name, path in paths.items()}
            slowest = {name: max(slowest[name], row[0]) for name, row in rows.items()}
            if not any(row[3] for row in rows.values()):
                break
            time.sleep(1)
        waited = max(slowest, key=lambda name: slowest[name])
        print(f"\nall numbers are there after {time.perf_counter() - begin:.0f} s; until then no page took longer than")
        print(f"{slowest[waited]:.0f} ms ({waited})")
        print(f"{'page':34}{'p50 ms':>9}{'p95 ms':>9}{'CPU ms':>9}{'KB':>9}")
        for name, path in paths.items():
            show(name, [server.get(path) for _ in range(TIMES)])
        now, most = server.memory()
        print(f"the server's memory: {now} MB, at most {most} MB")


def inspect(python: str, folder: Path, base: Path) -> None:
    """Print the same of `inspect view`, on logs of more and more samples: it sends a browser the table of all."""
    heads = f"{'write s':>9}{'list ms':>9}{'table s':>9}{'table MB':>9}{'MB':>9}"
    print(f"\n{'inspect view, samples':34}{heads}")
    for count in (1_000, 10_000, 100_000, 1_000_000):
        logs = base / "logs"
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir()
        log = logs / "2026-01-01T00-00-00+00-00_toy_a.eval"
        start = time.perf_counter()
        try:
            words = [python, "-c", INSPECT, str(folder / RECORDS), str(log), str(count)]
            subprocess.run(words, check=True, capture_output=True, timeout=LIMIT)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"{count:<34,}not written: {str(getattr(error, 'stderr', '') or error)[-200:]}")
            return
        written = time.perf_counter() - start
        start_view = [str(Path(python).with_name("inspect")), "view", "start"]
        with served([*start_view, "--log-dir", str(logs), "--port", INSPECT_PORT], _inspect_address) as server:
            listed = _when_up(server, "api/log-files")
            seconds, size = _table(server, log)
            figures = f"{written:9.1f}{listed:9.1f}{seconds:9.2f}{size / 2**20:9.1f}{server.memory()[1]:9}"
            print(f"{count:<34,}{figures}", flush=True)


def _table(server: Server, log: Path) -> tuple[float, int]:
    """Seconds to fetch the table of all samples, as the page does before it shows any, and its size unpacked."""
    with zipfile.ZipFile(log) as archive:
        member = next(each for each in archive.infolist() if each.filename.endswith("summaries.json"))
        begin = time.perf_counter()
        end = member.header_offset + member.compress_size + 200
        server.get(f"api/log-bytes/{quote(log.as_uri(), safe='')}?start={member.header_offset}&end={end}")
    return time.perf_counter() - begin, member.file_size


def _inspect_address(process: object) -> str:
    return f"http://127.0.0.1:{INSPECT_PORT}/"


def _when_up(server: Server, path: str) -> float:
    """Milliseconds of a page as soon as the server answers."""
    for _ in range(120):
        try:
            server.get(path)
            return min(server.get(path)[0] for _ in range(3))
        except OSError:
            time.sleep(0.5)
    raise SystemExit("inspect view did not start")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the run is made and kept; default: a temporary folder")
    parser.add_argument("--inspect", metavar="PYTHON", help="python of an environment that has inspect_ai")
    parser.add_argument("--only", choices=("build", "pages", "inspect"), help="one part")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        base = chosen.folder or Path(temporary)
        base.mkdir(exist_ok=True)
        folder = base / "run"
        if not folder.exists():
            make(folder, config(chosen.records, 10))
        size = sum(file.stat().st_size for file in folder.glob("*.jsonl"))
        print(f"{chosen.records:,} records, {size / 1e9:.2f} GB, load {os.getloadavg()[0]:.1f} of {os.cpu_count()}")
        if chosen.only in (None, "build"):
            build(folder, base)
        if chosen.only in (None, "pages"):
            pages(folder, base)
        if chosen.inspect:
            inspect(chosen.inspect, folder, base)


if __name__ == "__main__":
    main()
