"""Precision, recall, memory and speed of reading updates from a dump of Wikidata.

    python scripts/benchmarks/bench_wikidata_dump.py [--sizes 100000,1000000] [--workers 2]

A dump is made in Wikidata's true form, 2 to 10 KB an entity: labels in several languages, sitelinks, claims with
qualifiers, references and ranks. In every hundredth entity one of the cases of `tests/evals/construction/wikidata` is
planted, changes and what is none; the updates that are read are compared with them. Each reading is made in a process
of its own. Beside it stand `zcat | wc -l`, and a loop that parses every line with `json.loads`.
"""

import argparse
import gzip
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from emend.evals.construction.wikidata.dump import ScanProgress, read_updates
from emend.evals.construction.wikidata.fact_update import UpdateCounts
from emend.evals.data.facts.relation_tables import Relations
from tests.evals.construction.wikidata.entities import line, snak, statement, time_value
from tests.evals.construction.wikidata.test_changes import SINCE, TABLE, TODAY

PLANTED = 100
"""Every so many entities one is planted."""
PLACEHOLDERS = {"Q10": 900000010, "Q20": 900000020, "Q30": 900000030, "Q40": 900000040}
RELATIONS = ("P6", "P35", "P286", "P488", "P169")
LANGUAGES = "en de fr es it nl pl pt ru sv ja zh ar uk cs fi".split()
PARSED = 100_000
"""Lines that the plain loop parses."""
Truth = dict[str, tuple[str, str]]


def planted_cases() -> list[tuple[bytes, tuple[int, int] | None]]:
    """The statements of each case as JSON, and the placeholders of its update, if it is one."""
    cases = []
    for statements, _, verdict in TABLE.values():
        text = line({"P6": statements})[1:-1]
        for id_, number in PLACEHOLDERS.items():
            text = text.replace(b'"%s"' % id_.encode(), b'"Q%d"' % number)
            text = text.replace(b'"numeric-id":%s,' % id_[1:].encode(), b'"numeric-id":%d,' % number)
        pair = (PLACEHOLDERS[verdict[0]], PLACEHOLDERS[verdict[1]]) if isinstance(verdict, tuple) else None
        cases.append((text, pair))
    return cases


def filling(draw: random.Random) -> bytes:
    """Claims of other relations; a sixth of them has a start time, as among Wikidata's items."""
    groups: dict[str, list[dict[str, Any]]] = {"P31": [statement("P31", f"Q{draw.randrange(1, 10**7)}")]}
    for _ in range(draw.randrange(1, 10)):
        relation = f"P{draw.randrange(2000, 9000)}"
        value = f"Q{draw.randrange(1, 10**8)}"
        groups[relation] = [statement(relation, value) for _ in range(draw.randrange(1, 3))]
    if draw.random() < 1 / 6:
        groups["P793"] = [statement("P793", "Q5", f"{draw.randrange(1900, 2024)}", "2024-01-01")]
    groups["P569"] = [{"mainsnak": snak("P569", time_value("1960-05-01")), "type": "statement", "rank": "normal"}]
    return line(groups)[1:-1]


def texts(number: int, fill: bytes) -> bytes:
    """Labels, descriptions, aliases and sitelinks of an entity."""
    labels = {code: {"language": code, "value": f"Item {number}"} for code in LANGUAGES}
    sites = {f"{code}wiki": {"site": f"{code}wiki", "title": f"Item {number}", "badges": []} for code in LANGUAGES[:6]}
    aliases = {"en": [{"language": "en", "value": f"Thing {number}"}]}
    described = {code: {"language": code, "value": "item of a dump for measurements"} for code in LANGUAGES[:8]}
    parts = {"labels": labels, "descriptions": described, "aliases": aliases, "sitelinks": sites}
    return line(parts)[1:-1] + b',"claims":{' + fill


def entities(count: int, truth: Truth) -> Iterator[bytes]:
    """Lines of a dump; fills `truth` with the planted updates."""
    draw, cases = random.Random(0), planted_cases()
    templates = [texts(900000000, filling(draw)) for _ in range(500)]
    for number in range(1, count + 1):
        body = templates[draw.randrange(len(templates))].replace(b"900000000", b"%d" % number)
        if number % PLANTED == 0:
            text, pair = cases[draw.randrange(len(cases))]
            objects = dict(zip(PLACEHOLDERS.values(), draw.sample(range(1, count), 4), strict=True))
            for placeholder, target in objects.items():
                text = text.replace(b"%d" % placeholder, b"%d" % target)
            body += b"," + text.replace(b'"P6"', b'"%s"' % draw.choice(RELATIONS).encode())
            if pair:
                truth[f"Q{number}"] = (f"Q{objects[pair[0]]}", f"Q{objects[pair[1]]}")
        yield b'{"type":"item","id":"Q%d",%s},"lastrevid":%d}' % (number, body, number)


def make(path: Path, count: int) -> tuple[Truth, int]:
    """Write a dump; returns the planted updates and its decompressed size."""
    truth: Truth = {}
    size = 4
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"[\n")
        for number, text in enumerate(entities(count, truth)):
            size += file.write((b",\n" if number else b"") + text)
        file.write(b"\n]\n")
    return truth, size


def peak(process: str = "self") -> float:
    """The largest memory of a process so far, in MB; 0 for one that has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024 if "VmHWM:" in status else 0.0


def read(path: Path, workers: int) -> None:
    """Read a dump, and print what came of it as JSON: in a process of its own."""
    counts, start = UpdateCounts(), time.monotonic()
    ends, peaks = dict[str, float](), {"a tenth": [0.0, 0.0], "all": [0.0, 0.0]}
    children = Path(f"/proc/self/task/{os.getpid()}/children")

    def note(progress: ScanProgress) -> None:
        ends[progress.stage] = time.monotonic() - start
        memory = [peak(), max(map(peak, children.read_text().split()), default=0.0)]
        peaks["all"] = [max(pair) for pair in zip(peaks["all"], memory, strict=True)]
        if progress.stage == "changes" and progress.packed_bytes <= progress.packed_size / 10:
            peaks["a tenth"] = peaks["all"]

    relations = Relations.read()
    updates = {
        update.subject_id: (update.old_id, update.new_id)
        for update in read_updates(path, SINCE, relations, workers=workers, progress=note, counts=counts, today=TODAY)
    }
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(
        json.dumps(
            {
                "updates": updates, "seconds": [ends["changes"], ends["objects"] - ends["changes"]], "peaks": peaks,
                "cpu": [part.ru_utime + part.ru_stime for part in usage],
            }
        )
    )  # fmt: skip


def measure(path: Path, count: int, workers: int) -> None:
    """Make and read a dump of a size, and print the figures."""
    truth, size = make(path, count)
    packed = path.stat().st_size
    print(f"{count:,} entities, {size / 1e6:,.0f} MB, {packed / 1e6:,.0f} MB packed, {size / count:,.0f} bytes each")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    command = [sys.executable, __file__, "--read", str(path), "--workers", str(workers)]
    result = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    updates = {subject: tuple(pair) for subject, pair in result["updates"].items()}
    right = sum(truth.get(subject) == pair for subject, pair in updates.items())
    print(
        f"  planted {len(truth):,} updates and {count // PLANTED - len(truth):,} others: "
        f"precision {right / max(1, len(updates)):.4f}  recall {right / max(1, len(truth)):.4f}"
    )
    for name, seconds in zip(("changes", "objects"), result["seconds"], strict=True):
        print(f"  {name}: {seconds:.1f} s, {size / 1e6 / seconds:,.0f} MB/s ({packed / 1e6 / seconds:,.0f} packed)")
    for part, (main, worker) in result["peaks"].items():
        print(f"  peak memory after {part}: {main:,.0f} MB, and {worker:,.0f} MB in the largest of {workers} workers")
    print(f"  CPU: {result['cpu'][0]:.1f} s, and {result['cpu'][1]:.1f} s in the workers")
    start = time.monotonic()
    subprocess.run(f"zcat '{path}' | wc -l", shell=True, check=True, stdout=subprocess.DEVNULL)
    print(f"  zcat | wc -l: {size / 1e6 / (time.monotonic() - start):,.0f} MB/s")
    start, parsed = time.monotonic(), 0
    with gzip.open(path) as file:
        for text in islice(file, 1, min(count, PARSED)):
            json.loads(text.rstrip(b",\n"))
            parsed += len(text)
    print(f"  json.loads: {parsed / 1e6 / (time.monotonic() - start):,.0f} MB/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100000,1000000")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, help="where the dumps are made; they are deleted")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read(options.read, options.workers)
        return
    for count in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            measure(Path(folder) / "dump.json.gz", count, options.workers)


if __name__ == "__main__":
    main()
