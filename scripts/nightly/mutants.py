"""Changes the code in small ways, one at a time, and counts the changes that no test notices.

    python -m scripts.nightly.mutants --count 80 --seed 0
    python -m scripts.nightly.mutants --count 80 --seed 0 --skip 40 --only memory/facts

A change turns a comparison, a condition or a constant round, returns nothing, or leaves a statement out, in a copy of
the checkout. Tests that import its module run there first, then those of the folder that mirrors its own, then slow
ones. What survives is printed with file, line and both forms: read it, and write a test if it matters.
"""

import argparse
import ast
import copy
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
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
COPIED_FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "Makefile")
SECONDS = 600
"""Time limit of a test run in seconds; exceeding it is reported separately from failing."""
LATE = "late"
MOST_FILES = 12
"""Maximum number of test files that import a changed module and are run, nearest first."""
OPPOSITE: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
}  # fmt: skip


class Mutant(NamedTuple):
    """A changed module: its line, the code before and after the change, and the whole new code."""

    module: str
    line: int
    before: str
    after: str
    code: str

    @property
    def folder(self) -> str:
        """The folder from which the module was drawn."""
        return next(folder for folder in FOLDERS if self.module.startswith(folder))


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
    """A possible change: module, index of the node in it, and index of the changed form."""

    module: str
    node: int
    form: int

    def mutant(self) -> Mutant:
        """Return the module with this change."""
        tree = ast.parse((ROOT / self.module).read_text("utf-8"))
        node = changeable_nodes(tree)[self.node]
        other = list(changes_of(node))[self.form]
        lines = getattr(node, "lineno", 0), first_line(node), first_line(other)
        changed = Replacement(node, ast.copy_location(other, node)).visit(tree)
        return Mutant(self.module, *lines, ast.unparse(ast.fix_missing_locations(changed)))


def sites_in(module: str) -> Iterator[Site]:
    """Yield all possible changes of a module's functions."""
    tree = ast.parse((ROOT / module).read_text("utf-8"))
    for number, node in enumerate(changeable_nodes(tree)):
        yield from (Site(module, number, form) for form, _ in enumerate(changes_of(node)))


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
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).splitlines()[0][:90]


def sample(count: int, seed: int) -> list[Mutant]:
    """Return `count` random changes in random order, spread evenly over the folders."""
    rng, drawn = random.Random(seed), list[Site]()
    for position, folder in enumerate(FOLDERS):
        share = count // len(FOLDERS) + (position < count % len(FOLDERS))
        modules = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py"))
        every = [site for module in modules for site in sites_in(module)]
        drawn += rng.sample(every, min(share, len(every)))
    rng.shuffle(drawn)
    return [site.mutant() for site in drawn]


def importing_tests(module: str, folder: str) -> list[str]:
    """Return test files that import a module, those with its name or folder first."""
    dotted = "emend." + module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    pattern = re.compile(rf"\b{re.escape(dotted)}\b")
    files = (path for path in (ROOT / "tests").rglob("test_*.py") if pattern.search(path.read_text("utf-8")))
    names = [path.relative_to(ROOT).as_posix() for path in files]
    stem = f"test_{Path(module).stem}.py"
    names.sort(key=lambda name: (not name.endswith(stem), not name.startswith(f"tests/{folder}"), name))
    return names[:MOST_FILES]


def mirrored_tests(module: str, others: list[str]) -> list[str]:
    """Return the other test files in the folder that mirrors the module's, or its parent."""
    folder = (ROOT / "tests" / module).parent
    while not (files := sorted(folder.glob("test_*.py"))):
        folder = folder.parent
    names = [path.relative_to(ROOT).as_posix() for path in files]
    return [name for name in names if name not in others]


def first_failure(checkout: Path, tests: list[str], marks: str) -> str:
    """Return the first failing test, "" if none fails or exists, or `LATE` after a timeout."""
    report = checkout / "report.txt"
    process = CONTEXT.Process(target=run_tests, args=(checkout, tests, marks, report))
    process.start()
    process.join(SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
        return LATE
    if process.exitcode in (0, 5):
        return ""
    names = re.search(r"^(?:FAILED|ERROR) (\S+)", report.read_text("utf-8", "replace"), re.MULTILINE)
    return names[1] if names else f"code {process.exitcode}"


def run_tests(checkout: Path, tests: list[str], marks: str, report: Path) -> None:
    """Run tests in a checkout, then exit with pytest's code.

    Run it in a process that has not imported Emend.
    """
    os.chdir(checkout)
    sys.path[:] = [str(checkout), *(folder for folder in sys.path if Path(folder or ".").resolve() != ROOT)]
    os.environ |= {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    output = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    import pytest

    code = pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", marks, *tests])
    sys.stdout.flush()
    os._exit(int(code))


def noticed_by(checkout: Path, mutant: Mutant, with_slow: bool) -> str:
    """Return the first test that fails in one of the rounds, `LATE` after a timeout, or ""."""
    near = importing_tests(mutant.module, mutant.folder)
    others = mirrored_tests(mutant.module, near)
    rounds = [(near, "not slow"), (others, "not slow")]
    if with_slow:
        rounds.append((near + others, "slow"))
    is_late = False
    for tests, marks in rounds:
        failure = first_failure(checkout, tests, marks) if tests else ""
        if failure and failure != LATE:
            return failure
        is_late |= failure == LATE
    return LATE if is_late else ""


def copy_checkout(checkout: Path) -> None:
    """Copy the parts of this checkout that tests need."""
    for name in COPIED:
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in COPIED_FILES:
        shutil.copy(ROOT / name, checkout / name)


def main() -> int:
    """Print each survivor and the counts; return 1 if more than a twentieth survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="changes of the sample to leave out, from its beginning")
    parser.add_argument("--stop", type=int, help="number of the last change of the sample")
    parser.add_argument("--only", choices=FOLDERS, action="append")
    parser.add_argument("--quick", action="store_true", help="leave out the round of slow tests")
    options = parser.parse_args()
    drawn = sample(options.count, options.seed)[options.skip : options.stop]
    drawn = [mutant for mutant in drawn if mutant.folder in (options.only or FOLDERS)]
    ends = Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        checkout = Path(name)
        copy_checkout(checkout)
        for number, mutant in enumerate(drawn, 1):
            file = checkout / mutant.module
            file.write_text(mutant.code, "utf-8")
            test = noticed_by(checkout, mutant, not options.quick)
            shutil.copy(ROOT / mutant.module, file)
            end = {"": "survives", LATE: LATE}.get(test, "noticed")
            ends[end] += 1
            line = f"{end} {mutant.module}:{mutant.line}: {mutant.before}  ->  {mutant.after}"
            sys.stderr.write(f"{number} of {len(drawn)} {line}  {test}\n")
            if end != "noticed":
                sys.stdout.write(f"    {line}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(drawn)} changes, {ends['survives']} not noticed, {ends['late']} not ended\n")
    return int(ends["survives"] > len(drawn) / 20)


if __name__ == "__main__":
    raise SystemExit(main())
