"""Runs of editors of weights that are ended at random moments and resumed: their records are those of undisturbed runs.

    python scripts/benchmarks/kill_weight_runs.py --kills 100 --seed 0

Each round starts `emend run` on the embedded model in a process of its own, ends it by SIGKILL, SIGTERM or SIGINT (as
Ctrl-C does) up to five times, lets `emend resume` finish it, and compares records, steps and baseline with the run that
was not disturbed. Modes and methods take turns; moments are drawn from the seed, and none waits longer than `LONGEST`.
"""

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from emend.editors.base import NO_COST
from emend.evals.log.lines import BASELINE, EVENTS
from emend.evals.log.records import read_lines, read_records

os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}  # before torch is loaded in the server
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["emend.evals.cli.main", "emend.evals.evaluate.run", "emend.editors.parametric.lora"])
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
KILLS_A_RUN = 5
LONGEST = 300.0
"""Seconds after which a run counts as hung."""
FT, ROME, MEMIT = (
    ["--editor", name, "--set", f"{name}.{steps}"]
    for name, steps in (("ft", "num_steps=4"), ("rome", "v_num_grad_steps=5"), ("memit", "v_num_grad_steps=5"))
)
RUNS: dict[str, list[str]] = {
    "single": ["--mode", "single", *ROME, *FT, "--limit", "4"],
    "batch": ["--mode", "batch:4", *MEMIT, *FT, "--limit", "8"],
    "sequential": ["--mode", "sequential", "--reevaluate-at", "every:2,end", *MEMIT, *FT, "--limit", "4"],
}
"""The options of a run in each mode; few steps of training and search keep it short."""


def work(words: list[str]) -> None:
    """The child: an `emend` command, with the signals as a terminal's process has them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.argv = ["emend", *words]
    log = os.open(words[-1] + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    from emend.evals.cli.main import main as emend

    code: Any = 0
    try:
        emend()
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:  # before the command handles signals, or after
        code = 130
    os._exit(code or 0)


def words_of(name: str, folder: Path) -> list[str]:
    """The command that starts or continues a run; its last word is the folder."""
    if (folder / "manifest.json").exists():
        return ["resume", str(folder)]
    common = ["--benchmark", "tinyworld", "--model", "tiny", "--embedding", "lexical", "--perplexity-text", "none"]
    return ["run", *common, *RUNS[name], "--out", str(folder)]


def run_for(name: str, folder: Path, moment: float, number: signal.Signals) -> bool:
    """Start or continue the run, and end it after so many seconds; False where it had ended by then."""
    child: Any = CONTEXT.Process(target=work, args=(words_of(name, folder),))
    child.start()
    child.join(moment)
    alive: bool = child.is_alive()
    if alive:
        os.kill(child.pid, number)
    child.join(LONGEST)
    if child.is_alive():
        child.kill()
        raise AssertionError(f"{name}: {folder} did not end within {LONGEST:.0f} s of {number.name}")
    expected = {0, 1, 130, -number} if alive else {0}
    log = Path(f"{folder}.log").read_text() if Path(f"{folder}.log").exists() else ""
    assert child.exitcode in expected, f"{name}: exit code {child.exitcode} after {number.name}:\n{log[-2000:]}"
    assert "Traceback" not in log, f"{name}: after {number.name}:\n{log[-4000:]}"
    return alive


def outcome(folder: Path) -> tuple[list[str], list[tuple[Any, ...]], list[str]]:
    """Records without times, steps, and keys of the baseline's answers."""
    lines = (line for line in read_lines(folder, EVENTS) if "unit" in line)
    steps = sorted((line["unit"], line["probe"], line["node"], str(line["update"])) for line in lines)
    return (
        sorted(
            record.model_copy(update={"seconds": 0.0, "edit_cost": NO_COST}).model_dump_json()
            for record in read_records(folder)
        ),
        steps,
        sorted(line["key"] for line in read_lines(folder, BASELINE)),
    )


def storm(kills: int, seed: int, root: Path, names: tuple[str, ...] = tuple(RUNS)) -> Counter[tuple[str, str]]:
    """End runs so many times; returns how often each mode met each signal.

    Raises:
        AssertionError: a resumed run's records, steps or baseline are not those of the undisturbed one.
    """
    rng, met = random.Random(seed), Counter[tuple[str, str]]()
    whole: dict[str, tuple[Any, float]] = {}
    for name in names:
        start = time.monotonic()
        run_for(name, root / f"{name}-whole", LONGEST, signal.SIGKILL)
        whole[name] = outcome(root / f"{name}-whole"), time.monotonic() - start
    turn = 0
    while sum(met.values()) < kills:
        name, folder = names[turn % len(names)], root / f"run-{turn}"
        turn += 1
        for _ in range(min(KILLS_A_RUN, kills - sum(met.values()))):
            number = SIGNALS[sum(met.values()) % len(SIGNALS)]
            if not run_for(name, folder, rng.uniform(0.1, 0.6 * whole[name][1]), number):
                break
            met[name, number.name] += 1
        assert not run_for(name, folder, LONGEST, signal.SIGKILL)
        assert outcome(folder) == whole[name][0], f"{name}: {folder} differs from {name}-whole"
        print(f"{name}: {sum(met.values())} of {kills}, {len(whole[name][0][0])} records as undisturbed", flush=True)
    return met


def main() -> None:
    """Run the storm, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="number of signals (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        met = storm(options.kills, options.seed, Path(folder))
    for (name, number), count in sorted(met.items()):
        print(f"{name} {number} {count}")
    print(f"{sum(met.values())} signals, every resumed run equal to the undisturbed one")


if __name__ == "__main__":
    main()
