"""Changes the code in small ways, one at a time, and counts the changes that no test notices.

    python -m scripts.nightly.mutants --count 80 --seed 53 --quick
    python -m scripts.nightly.mutants --count 80 --seed 53 --folder memory/facts --folder evals/jobs

A change turns a comparison, a condition or a constant round, returns nothing, or leaves a statement out, in a copy of
the checkout. Tests that import its module run there first, then those of the folder that mirrors its own, then slow
ones. A test that fails kills the change, if it passes without the change. A change that none kills is either judged:
mutants.toml says why it matters to nobody; or alive: read it, and write a test if it matters.

Results are added to a file, so that a run that was stopped goes on, and slow tests follow a run with --quick.
"""

import argparse
import ast
import copy
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    "agents/providers", "evals/jobs", "memory/facts", "evals/construction", "evals/log", "evals/metrics",
    "evals/judging", "memory/retrieval", "evals/streams",
)  # fmt: skip
CONTEXT = multiprocessing.get_context("forkserver")
# Modules that tests import besides Emend, loaded only once.
CONTEXT.set_forkserver_preload(
    ["pytest", "_pytest.python", "pydantic", "numpy", "httpx", "openai", "langchain_core.language_models"]
    + ["langchain_core.tools", "langchain_openai", "langgraph.graph", "duckdb", "chromadb", "rich.console", "typer"]
)
COPIED = ("agents", "editors", "emend", "evals", "graphs", "memory", "tests", "scripts", "docs", "typings")
COPIED_FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "Makefile", "langgraph.json", "mkdocs.yml")
JUDGED = Path(__file__).with_suffix(".toml")
"""Changes that matter to nobody, each with the reason."""
LEAST = 0.95
"""Smallest share of the changes that matter to be killed."""
SECONDS = 600
"""Time limit of a round of tests in seconds; exceeding it is reported separately from failing."""
LATE = "late"
HANG = 100
"""Seconds after which a test hangs, which is a failure."""
MOST_FILES = 12
"""Maximum number of test files that import a changed module and are run, nearest first."""
OPPOSITE: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
}  # fmt: skip


class Change(NamedTuple):
    """What a change does: module, text of the line, its code before and after, and which of equal changes it is.

    It has no line number, so that it stays the same where other lines come or go.
    """

    module: str
    line: str
    before: str
    after: str
    number: int = 1

    @property
    def folder(self) -> str:
        """The folder from which the module was drawn."""
        return next(folder for folder in FOLDERS if self.module.startswith(f"{folder}/"))


def changes_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the changed forms of an expression or a statement."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in OPPOSITE:
            yield ast.Compare(node.left, [OPPOSITE[type(operator)]()], node.comparators)  # type: ignore[list-item]
        case ast.BoolOp(op=operator):
            yield ast.BoolOp(OPPOSITE[type(operator)](), node.values)  # type: ignore[arg-type]
        case ast.BinOp(op=operator) if type(operator) in OPPOSITE:
            yield ast.BinOp(node.left, OPPOSITE[type(operator)](), node.right)  # type: ignore[arg-type]
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float() as number):
            yield ast.Constant(number + 1)
        case ast.If() | ast.While():
            changed: Any = copy.copy(node)
            changed.test = ast.UnaryOp(ast.Not(), node.test)
            yield changed
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Break() | ast.Continue():
            yield ast.Pass()


class Replacement(ast.NodeTransformer):
    """Transformer that replaces one node by another."""

    def __init__(self, node: ast.AST, other: ast.AST) -> None:
        self.node, self.other = node, other

    def visit(self, node: ast.AST) -> ast.AST:
        """Return the node, or its replacement."""
        return self.other if node is self.node else self.generic_visit(node)


class Site(NamedTuple):
    """Where a change is made: number of the line, index of the node in its module, and index of the changed form."""

    change: Change
    line: int
    node: int
    form: int

    def __str__(self) -> str:
        return f"{self.change.module}:{self.line}: {self.change.before}  ->  {self.change.after}"

    def code(self) -> str:
        """Return the code of the module with this change."""
        tree = ast.parse((ROOT / self.change.module).read_text("utf-8"))
        node = changeable_nodes(tree)[self.node]
        other = list(changes_of(node))[self.form]
        changed = Replacement(node, ast.copy_location(other, node)).visit(tree)
        return ast.unparse(ast.fix_missing_locations(changed))


def sites_in(module: str) -> Iterator[Site]:
    """Yield all possible changes of a module's functions."""
    code = (ROOT / module).read_text("utf-8")
    lines, equal = code.splitlines(), Counter[Change]()
    for number, node in enumerate(changeable_nodes(ast.parse(code))):
        line = getattr(node, "lineno", 1)
        for form, other in enumerate(changes_of(node)):
            change = Change(module, lines[line - 1].strip(), first_line(node), first_line(other))
            equal[change] += 1
            yield Site(change._replace(number=equal[change]), line, number, form)


def changeable_nodes(tree: ast.Module) -> list[ast.AST]:
    """Return the nodes in function bodies that have a changed form, in order."""
    nodes: dict[int, ast.AST] = {}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                nodes |= {id(node): node for node in ast.walk(statement) if any(True for _ in changes_of(node))}
    return list(nodes.values())


def first_line(node: ast.AST) -> str:
    """Return the first line of a node's code."""
    return ast.unparse(node).splitlines()[0][:90]


def sample(count: int, seed: int, folders: Sequence[str]) -> list[Site]:
    """Return `count` random changes in random order, spread evenly over the folders.

    Each change has a rank by its content and the seed; those of the lowest rank are drawn. So a module that is edited
    alters only its own part of a sample.
    """

    def rank(site: Site) -> str:
        return sha256(f"{seed} {tuple(site.change)}".encode()).hexdigest()

    drawn: list[Site] = []
    for position, folder in enumerate(folders):
        share = count // len(folders) + (position < count % len(folders))
        modules = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py"))
        drawn += sorted((site for module in modules for site in sites_in(module)), key=rank)[:share]
    return sorted(drawn, key=rank)


def importing_tests(checkout: Path, module: str, folder: str) -> list[str]:
    """Return test files that import a module, those with its name or folder first."""
    dotted = "emend." + module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    pattern = re.compile(rf"\b{re.escape(dotted)}\b")
    files = (path for path in (checkout / "tests").rglob("test_*.py") if pattern.search(path.read_text("utf-8")))
    names = [path.relative_to(checkout).as_posix() for path in files]
    stem = f"test_{Path(module).stem}.py"
    names.sort(key=lambda name: (not name.endswith(stem), not name.startswith(f"tests/{folder}"), name))
    return names[:MOST_FILES]


def mirrored_tests(checkout: Path, module: str, others: list[str]) -> list[str]:
    """Return the other test files of the folders that mirror the module's and those above it, nearest first."""
    names: list[str] = []
    for folder in Path(module).parents[:-2]:
        files = sorted((checkout / "tests" / folder).glob("test_*.py"))
        names += [path.relative_to(checkout).as_posix() for path in files]
    return [name for name in names if name not in others]


def first_failure(checkout: Path, tests: Sequence[str], marks: str) -> str:
    """Return the first test that fails or hangs, "" if none does or exists, or `LATE` after a timeout of all."""
    failure = checkout / "failure.txt"
    failure.write_text("", "utf-8")
    process = CONTEXT.Process(target=run_tests, args=(checkout, tests, marks, failure))
    process.start()
    process.join(SECONDS)
    is_late = process.is_alive()
    with suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)  # what the tests started, too
    process.join()
    if is_late:
        return LATE
    if process.exitcode in (0, 5):
        return ""
    return failure.read_text("utf-8") or f"code {process.exitcode}"


class FailureFile:
    """A plug-in of pytest that keeps the name of the test that runs or has failed, the last one with -x.

    A test that hangs ends the process, so that the name is written before it runs.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write the name of the test."""
        self.file.write_text(nodeid, "utf-8")

    def pytest_collectreport(self, report: Any) -> None:
        """Write the name of a file that cannot be imported."""
        if report.failed:
            self.file.write_text(report.nodeid, "utf-8")


def run_tests(checkout: Path, tests: Sequence[str], marks: str, failure: Path) -> None:
    """Run tests in a checkout up to the first failure, then exit with pytest's code.

    Run it in a process that has not imported Emend.
    """
    os.setsid()
    os.chdir(checkout)
    sys.path[:] = [str(checkout), *(folder for folder in sys.path if Path(folder or ".").resolve() != ROOT)]
    os.environ |= {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    os.environ.setdefault("EMEND_SHARED", str(ROOT.parent / "shared"))
    sys.dont_write_bytecode = True
    output = os.open(checkout / "report.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    import pytest

    words = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-o", f"faulthandler_timeout={HANG}", "-m", marks]
    code = pytest.main([*words, *tests], [FailureFile(failure)])
    sys.stdout.flush()
    os._exit(int(code))


class Result(NamedTuple):
    """How the tests ended with a change: the first that failed, `LATE` or "", and whether slow ones were run."""

    test: str
    with_slow: bool

    @property
    def is_noticed(self) -> bool:
        """Whether a test failed."""
        return self.test not in ("", LATE)


class Judgement(NamedTuple):
    """Why a change that no test notices matters to nobody, and how that was found: by a run or by reading."""

    reason: str
    found_by: str


def judgements() -> dict[Change, Judgement]:
    """Return the judged changes."""
    judged = {}
    for row in tomllib.loads(JUDGED.read_text("utf-8"))["judged"]:
        judgement = Judgement(row.pop("reason"), row.pop("found_by"))
        judged[Change(**row)] = judgement
    return judged


def recorded_results(record: Path) -> dict[Change, Result]:
    """Return the last result of each change in a file of JSON lines, none if there is no such file."""
    results = {}
    lines = record.read_text("utf-8").splitlines() if record.is_file() else []
    for line in lines:
        change, result = json.loads(line)
        results[Change(*change)] = Result(*result)
    return results


def result_of(site: Site, checkout: Path, rounds: Sequence[str]) -> str:
    """Return the first test that fails with a change in one of the rounds, `LATE` after a timeout, or ""."""
    module = site.change.module
    near = importing_tests(checkout, module, site.change.folder)
    others = mirrored_tests(checkout, module, near)
    is_late = False
    (checkout / module).write_text(site.code(), "utf-8")
    try:
        for marks, tests in product(rounds, (near, others)):  # those that most likely fail first
            failure = first_failure(checkout, tests, marks) if tests else ""
            if failure not in ("", LATE):
                return failure
            is_late |= failure == LATE
    finally:
        shutil.copy(ROOT / module, checkout / module)
    return LATE if is_late else ""


def run_sample(drawn: Sequence[Site], with_slow: bool, again: bool, record: Path) -> dict[Change, Result]:
    """Run the tests with each change, but for what the record holds, add to it, and return all results."""
    known = recorded_results(record)
    confirmed = set[str]()
    with tempfile.TemporaryDirectory() as name, record.open("a", encoding="utf-8") as file:
        checkout = Path(name)
        copy_checkout(checkout)
        for number, site in enumerate(drawn, 1):
            earlier = known.get(site.change)
            rounds = missing_rounds(earlier, with_slow, again)
            if not rounds:
                continue
            result = Result(result_of(site, checkout, rounds), with_slow)
            if result.is_noticed and result.test not in confirmed:
                assert_passes(checkout, result.test)
                confirmed.add(result.test)
            known[site.change] = result
            file.write(json.dumps([site.change, result]) + "\n")
            file.flush()
            sys.stderr.write(f"{number} of {len(drawn)}: {site}  {result.test or 'survives'}\n")
    return {site.change: known[site.change] for site in drawn}


def missing_rounds(earlier: Result | None, with_slow: bool, again: bool) -> tuple[str, ...]:
    """Return the marks of the rounds that an earlier result lacks."""
    if earlier and earlier.is_noticed:
        return ()
    rounds = ("not slow", "slow") if with_slow else ("not slow",)
    if earlier is None or again:
        return rounds
    return rounds[1:] if with_slow and not earlier.with_slow else ()


def assert_passes(checkout: Path, test: str) -> None:
    """Raise `SystemExit` if a test fails without any change as well: then it notices nothing."""
    failure = first_failure(checkout, [test], "slow or not slow")
    if failure:
        raise SystemExit(f"{failure} fails without a change too: repair it, or say what it needs")


def copy_checkout(checkout: Path) -> None:
    """Copy the parts of this checkout that tests need."""
    for name in COPIED:
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in COPIED_FILES:
        shutil.copy(ROOT / name, checkout / name)


def summary(
    drawn: Sequence[Site], results: Mapping[Change, Result], judged: Mapping[Change, Judgement]
) -> tuple[str, float]:
    """Return each change that no test notices, with its reason where it is judged, a table, and the share killed."""
    counts = {folder: Counter[str]() for folder in FOLDERS}
    lines = []
    for site in drawn:
        result, judgement = results[site.change], judged.get(site.change)
        if result.is_noticed:
            end = "killed"
        elif judgement:
            end = "judged"
            lines.append(f"judged by {judgement.found_by}: {site}\n    {judgement.reason}")
        else:
            end = "alive"
            lines.append(f"alive: {site}" + " (its tests did not end)" * (result.test == LATE))
        counts[site.change.folder][end] += 1
    rows = [(folder, count) for folder, count in counts.items() if count]
    rows.append(("all", sum((count for _, count in rows), Counter())))
    table = [f"{'folder':22}{'drawn':>8}{'killed':>8}{'judged':>8}{'alive':>8}"]
    for folder, count in rows:
        table.append(f"{folder:22}{count.total():8}{count['killed']:8}{count['judged']:8}{count['alive']:8}")
    share = share_killed(rows[-1][1])
    return "\n".join([*lines, *table, f"{share:.1%} of those that matter are killed", ""]), share


def share_killed(counts: Counter[str]) -> float:
    """Return the share of killed changes among those that matter: all but the judged ones."""
    matter = counts["killed"] + counts["alive"]
    return counts["killed"] / matter if matter else 1.0


def main() -> int:
    """Print the summary; return 1 if more than a twentieth of the changes that matter survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", choices=FOLDERS, action="append", help="draw from this folder (repeatable)")
    parser.add_argument("--quick", action="store_true", help="leave out the round of slow tests")
    parser.add_argument("--record", type=Path, default=Path("mutants.jsonl"), help="file of results, which is added to")
    parser.add_argument("--again", action="store_true", help="run once more what the record has as not noticed")
    options = parser.parse_args()
    drawn = sample(options.count, options.seed, options.folder or FOLDERS)
    results = run_sample(drawn, not options.quick, options.again, options.record)
    text, share = summary(drawn, results, judgements())
    sys.stdout.write(text)
    return int(share < LEAST)


if __name__ == "__main__":
    raise SystemExit(main())
