"""Seconds and memory that loading a benchmark's file takes, each in a process of its own; run it as a script.

Loading is reading the file and building every case from it. Seconds are those of the processor, so that a busy machine
does not count. The memory is the growth of the process's peak over what the imports took, so that it holds what
pydantic's core allocates too; it has a floor of some MiB for small files. The folder with the data is `EMEND_DATA`.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

SECONDS, TIMES = 2.0, 10.0
"""What the largest file may take: seconds, and memory as a multiple of its size."""
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
LOADS: tuple[tuple[str, dict[str, str], str, tuple[str, ...]], ...] = (
    # benchmark, options, setting, files
    ("akew", {"dataset": "mquake_cf"}, "unstruct", ("mquake_cf.json", "MQuAKE-CF.json")),
    ("akew", {"dataset": "counterfact"}, "unstruct", ("counterfact.sample.json", "CounterFact.json")),
    ("akew", {"dataset": "wiki_update"}, "unstruct", ("wiki_update.sample.json", "WikiUpdate.json")),
    ("counterfact", {"dataset": "flat"}, "triplet", ("counterfact_easyedit_1k.json",)),
    ("docter", {}, "doc", ("en_doc.json", "edit_success_eval.json", "locality_eval.json", "reasoning_eval.json")),
    ("docter", {"blocks": "cross_en_zh"}, "doc", ("crosslingual_en_doc.json", "cross_zh_eval.json")),
    ("docter", {"blocks": "cross_zh_en"}, "doc", ("crosslingual_zh_doc.json", "cross_en_eval.json")),
    ("elken", {"split": "test", "blocks": "fact,tendency_m,tendency_g"}, "event", ("test.json",)),
    ("elken", {"split": "train", "blocks": "fact,tendency_m,tendency_g"}, "event", ("train.json",)),
    ("mquake", {}, "triplet", ("mquake_cf_3k.sample.json", "datasets/MQuAKE-CF-3k.json")),
    *(
        ("recoe", {"schemes": scheme}, "atomic", (f"{scheme}.json",))
        for scheme in ("comparative", "counting", "sorting", "aggregation", "subtraction")
    ),
)


def measure(told: str) -> None:
    """In the child: load what is told and print seconds, the growth of the peak in MiB, and cases."""
    name, options, setting, folder = json.loads(told)
    from emend.evals.benchmarks.registry import BENCHMARKS

    factory = BENCHMARKS.load(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    count = sum(1 for _ in factory(Path(folder), options).cases(setting))
    seconds = time.process_time() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps([seconds, grown, count]))


def main() -> None:
    data = Path(os.environ.get("EMEND_DATA") or SHARED)
    heading = f"{'benchmark':12} {'files':58} {'MiB':>6} {'cases':>6} {'s':>6} {'peak MiB':>9} {'ratio':>6}"
    print(heading, "-" * len(heading), sep="\n")
    measured: list[tuple[float, float, float]] = []
    for name, options, setting, files in LOADS:
        there = [data / name / file for file in files if (data / name / file).is_file()]
        if not there:
            continue
        size = sum(path.stat().st_size for path in there) / 2**20
        told = json.dumps([name, options, setting, str(data / name)])
        done = subprocess.run([sys.executable, __file__, told], capture_output=True, text=True, check=True)
        seconds, grown, count = json.loads(done.stdout)
        shown = ", ".join(path.name for path in there)
        print(f"{name:12} {shown:58} {size:6.2f} {count:6} {seconds:6.2f} {grown:9.1f} {grown / size:6.1f}")
        measured.append((size, seconds, grown / size))
    if not measured:
        sys.exit(f"no benchmark's files under {data}: name their folder with EMEND_DATA")
    size, seconds, times = max(measured)
    right = seconds < SECONDS and times < TIMES
    print(f"largest: {size:.2f} MiB, {seconds:.2f} s (below {SECONDS}), {times:.1f} times (below {TIMES}): {right}")
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
