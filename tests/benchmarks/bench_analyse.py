"""Time and memory of analysing a run of 10,000 judged records, each analysis that such a run can have.

Run it: `python tests/benchmarks/bench_analyse.py`. Each analysis is to take less than 10 s, and all less than 1 GB.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from emend.evals.analyses.base import Lacking
from emend.evals.analyses.compare import compare
from emend.evals.analyses.compute import analyse_runs, possible
from emend.evals.analyses.elken import SCALES
from emend.evals.analyses.load_run import open_run
from emend.evals.judges.panel import Judgement, Panel
from emend.evals.judges.store import FOLDER, Scoring, ScoringLog, plan
from emend.evals.log.manifest import now
from emend.evals.report.tables.analysis import render_analysis
from emend.graphs.registry import JUDGES
from tests.evals.made import case_line, record, write_run

RECORDS, EDITORS, REPLY = 10_000, ("unedited", "rag"), "word " * 300
"""The replies are as long as those that judges read."""


def judged_run(folder: Path) -> Path:
    """Four free answers and a factual question a case and editor; the answers have a judge's marks."""
    records = []
    for number in range(RECORDS):
        case, editor, place = str(number // 10), EDITORS[number % 2], number % 10 // 2
        kind = "tendency_open" if place else "fact_direct"
        values = {} if place else {"right": float(number % 3 == 0)}
        unscored = {"judged": "awaits a judge"} if place else {}
        answer = f"{number} {REPLY}"
        records.append(record(case, editor, kind, f"p{place}", values=values, unscored=unscored, answer=answer))
    edits = [{"id": "e", "form": "event", "text": "It happened. " * 30, "subject": ""}]
    cases = [case_line(str(n), tags={"event_type": f"type {n % 15}"}, edits=edits) for n in range(RECORDS // 10)]
    write_run(folder, records, "elken", cases=cases)
    judge(folder)
    return folder


def judge(folder: Path) -> None:
    """A scoring as `emend judge run` writes it."""
    panel = Panel(judges=("made:up",))
    scoring = Scoring(id="made", panel=panel, kinds=("tendency",), prompts={}, fingerprints={}, started=now())
    (folder / FOLDER).mkdir()
    scoring.write(folder)
    tendency = JUDGES.load("tendency")
    with ScoringLog(folder, scoring) as file:
        for number, (_, items) in enumerate(plan(folder, {"tendency": tendency})):
            for item in items.values():
                marks = {f"{scale}_mark": float(1 + number * 7 % 5) for scale in SCALES}
                told = dict(kind="tendency", judge="made:up", values=marks, reason=REPLY, reply=REPLY)
                assert not isinstance(item, str)
                file.add([Judgement.model_validate(told | {"item": item.id})])


def main() -> None:
    """Print seconds of each analysis, and the process's peak memory."""
    with tempfile.TemporaryDirectory() as place:
        folder = judged_run(Path(place) / "run")
        began = time.perf_counter()
        run = open_run(folder)
        names = [name for name, _, why in possible(run) if not why]
        print(f"listing {', '.join(names)}: {time.perf_counter() - began:.2f} s")
        for name in names:
            started, spent = time.perf_counter(), time.process_time()
            try:
                render_analysis(analyse_runs(name, [run]))
            except Lacking as error:
                print(f"{name}: {error}")
                continue
            print(f"{name}: {time.perf_counter() - started:.2f} s, of processor {time.process_time() - spent:.2f} s")
        started, spent = time.perf_counter(), time.process_time()
        compare(folder)
        took, processor = time.perf_counter() - started, time.process_time() - spent
        print(f"compare two editors: {took:.2f} s, of processor {processor:.2f} s")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"all of it: {time.perf_counter() - began:.2f} s, at most {peak:.0f} MiB")


if __name__ == "__main__":
    main()
