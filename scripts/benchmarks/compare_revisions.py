"""Compares the numbers of this checkout with those of an earlier revision, record by record and to the last digit.

    python scripts/benchmarks/compare_revisions.py b77628c --data ../shared/data

Both revisions run the same commands (README's tables, the demo, every benchmark that `--data` holds with a published
table beside it, retrieval) on the embedded model; answers, scores, log-probabilities, aggregates and published
comparisons must be equal. Exits 1 when anything differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MEMORY_BASED: tuple[str, ...] = ("unedited", "in_context", "rag", "cot", "ike", "input_aug", "serac", "crag", "mello")
PARAMETRIC: tuple[str, ...] = ("ft", "lora", "rome", "r_rome", "memit", "alphaedit")
TINYWORLD = ["--benchmark", "tinyworld", "--embedding", "lexical", "--model", "tiny"]
BENCHMARKS = {  # setting, published tables that a run of it stands beside
    "docter": ("gold", ["docter:2"]),
    "akew": ("struct", ["akew:2"]),
    "elken": ("", ["elken:2"]),
    "recoe": ("", ["recoe:4"]),
    "mquake": ("", []),
    "counterfact": ("", []),
}
TIMED = ("s/probe", "s/edit", "CPU s/edit", "peak MiB")
LABELS = ("given", "run_setting", "judge")
COMPARED = ("answer", "reply", "gold", "prompt", "values", "unscored", "log_probs", "target_tokens", "retrieved")


def runs(data: Path | None, limit: int) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Each run: its name, its arguments, and what `emend report` is asked for beside `--json`."""
    sizes = ["--limit", str(limit)]
    for mode, names in (("all", MEMORY_BASED), ("single", PARAMETRIC)):
        chosen = [word for name in names for word in ("--editor", name)]
        yield f"readme-{mode}", [*TINYWORLD, *sizes, "--mode", mode, *chosen], []
    for setting in ("document", "event"):
        editors = ["--editor", "rag", "--editor", "crag"]
        yield f"tinyworld-{setting}", [*TINYWORLD, *sizes, "--setting", setting, *editors], []
    if data is None:
        return
    for name, (setting, tables) in BENCHMARKS.items():
        words = ["--benchmark", name, "--data", str(data / name), "--embedding", "lexical", "--model", "tiny"]
        words += ["--setting", setting] if setting else []
        editors = ["--editor", "unedited", "--editor", "rag", "--editor", "in_context"]
        yield name, [*words, "--limit", "4", *editors], [["--against", table] for table in tables]


class Revision:
    """A checkout whose `emend` command can be run."""

    def __init__(self, root: Path, folder: Path) -> None:
        """`folder` receives the link under which the checkout is imported, and the run folders."""
        self.folder = folder
        (folder / "path").mkdir(parents=True)
        (folder / "path" / "emend").symlink_to(root)
        scripts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
        module, function = scripts["emend"].split(":")
        self.command = [sys.executable, "-c", f"from {module} import {function}; {function}()"]
        self.environment = os.environ | {"PYTHONPATH": str(folder / "path"), "EMEND_CACHE": str(folder / "cache")}

    def emend(self, *words: str) -> str:
        """Standard output of an `emend` command; a command that fails ends the comparison."""
        done = subprocess.run(
            [*self.command, *words], env=self.environment, cwd=self.folder, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"emend {' '.join(words)} failed in {self.folder}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def outcome(self, name: str, words: list[str], reports: list[list[str]]) -> dict[str, Any]:
        """All that a run scored, by a key that says where it belongs."""
        out = str(self.folder / name)
        self.emend("run", *words, "--out", out, "--seed", "0")
        numbers: dict[str, Any] = {}
        for line in (Path(out) / "records.jsonl").read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            key = " ".join(str(record[part]) for part in ("editor", "setting", "mode", "case", "probe", "repeat"))
            numbers[key] = {field: record[field] for field in COMPARED}
        for extra in ([], *reports):
            rows = json.loads(self.emend("report", out, *extra, "--json"))["rows"]
            rows = [_numbers(row) for row in rows if row["metric"] not in TIMED]
            numbers |= {" ".join(["report", *extra, str(place)]): row for place, row in enumerate(rows)}
        return numbers


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """A row without the names that only label it."""
    return {name: value for name, value in row.items() if name not in LABELS}


def compare(before: Revision, after: Revision, data: Path | None, limit: int) -> int:
    """Prints one line a run, and the first differences; the number of values that differ."""
    different = 0
    for name, words, reports in runs(data, limit):
        old, new = before.outcome(name, words, reports), after.outcome(name, words, reports)
        unequal = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
        print(f"{name}: {len(old)} values, {len(unequal)} differ", flush=True)
        for key in unequal[:5]:
            print(f"  {key}\n    before {old.get(key)}\n    after  {new.get(key)}")
        different += len(unequal)
    return different


def main() -> int:
    """Reads the arguments, and makes a checkout of the earlier revision for as long as it is needed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="the earlier revision, as git names it")
    parser.add_argument("--data", type=Path, help="a folder with the benchmarks' files, one folder each")
    parser.add_argument("--limit", type=int, default=40, help="number of tinyworld's cases (default: 40)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, chosen.revision], cwd=ROOT, check=True)
        try:
            old, new = Revision(tree, Path(folder) / "old"), Revision(ROOT, Path(folder) / "new")
            return int(compare(old, new, chosen.data and chosen.data.resolve(), chosen.limit) > 0)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
