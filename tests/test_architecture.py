"""The rules of CONTRIBUTING.md that no linter knows: sizes, names, docstrings and cycles of imports."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("memory", "agents", "graphs", "editors", "evals")
MODULES_PER_FOLDER = 16
LINES_PER_FUNCTION = 50
LINES_OF_NINE_IN_TEN = 25
VAGUE = frozenset(
    "told said found made kept seen wanted shown one own more asked given begun done put taken stood owed".split()
)
"""Participles and pronouns that say nothing when they are the whole name."""

GERUNDS_THAT_ARE_NOUNS = frozenset(
    "batching binding decoding embedding likelihood locking logging padding parsing plotting pricing reasoning routing "
    "sampling scoring string superseding tagging tracing training".split()
)
PRINTERS = {
    "evals/cli/output.py": {"typer.echo"},
    "evals/cli/commands/memory.py": {"sys.stdout.writelines"},  # an export to standard output, as to a file
    "evals/cli/commands/measure.py": {"sys.stderr.write"},  # numbers
    "evals/show/report/progress.py": {"sys.stderr.write"},
}
"""By file, the calls that write to the terminal; all texts of others come through these."""

WRITERS = {"print", "typer.echo", "typer.secho", "click.echo"}
WRITERS |= {f"sys.{stream}.{name}" for stream in ("stdout", "stderr") for name in ("write", "writelines")}
OPENING = re.compile(r"^(Of|As|What|Whether|The same)\b")


class Module(NamedTuple):
    """A source file: its dotted name, path, syntax tree and all nodes of the tree."""

    name: str
    path: Path
    tree: ast.Module
    nodes: list[ast.AST]


Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> list[Module]:
    return list(_modules())


def _modules() -> Iterator[Module]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(("emend", *(parts[:-1] if parts[-1] == "__init__" else parts)))
            tree = ast.parse(path.read_text(encoding="utf-8"))
            yield Module(name, path.relative_to(ROOT), tree, list(ast.walk(tree)))


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[Module, ast.AST]]:
    return ((module, node) for module in modules() for node in module.nodes if isinstance(node, kinds))


def function_sizes() -> dict[str, int]:
    return {
        f"{module.path}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for module, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, Function)
    }


def imports_of(module: Module, known: frozenset[str]) -> set[str]:
    """Emend's modules that a module imports, inside functions too; imports for type checkers alone do not count."""
    skipped = {
        id(inner)
        for node in module.tree.body
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    imported: set[str] = set()
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and id(node) not in skipped and node.module:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            imported |= {name if name in known else node.module for name in names}
        elif isinstance(node, ast.Import) and id(node) not in skipped:
            imported |= {alias.name for alias in node.names}
    return (imported & known) - {module.name}


def room_of(name: str) -> str:
    """The folder directly under `evals` that a module is in; empty for others."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["emend", "evals"] and parts[2:] and (ROOT / "evals" / parts[2]).is_dir() else ""


def first_cycle(imports: dict[str, set[str]]) -> list[str]:
    """The modules of a cycle of imports; empty when there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_a_folder_has_at_most_sixteen_modules():
    folders = Counter(str(module.path.parent) for module in modules() if module.path.name != "__init__.py")
    assert {folder: size for folder, size in folders.items() if size > MODULES_PER_FOLDER} == {}


def test_functions_are_short():
    sizes = function_sizes()
    assert [name for name, size in sizes.items() if size > LINES_PER_FUNCTION] == []
    assert sorted(sizes.values())[int(len(sizes) * 0.9)] <= LINES_OF_NINE_IN_TEN


def test_imports_have_no_cycle():
    known = frozenset(module.name for module in modules())
    assert first_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert first_cycle({module.name: imports_of(module, known) for module in modules()}) == []


def test_rooms_of_evals_have_no_cycle():
    """A room is a folder directly under `evals`; a module there is none."""
    known = frozenset(module.name for module in modules())
    rooms: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        if room := room_of(module.name):
            rooms[room] |= {other for name in imports_of(module, known) if (other := room_of(name)) and other != room}
    assert len(rooms) > 5 and rooms["evaluate"]
    assert first_cycle(rooms) == []


def test_a_public_class_name_is_used_once():
    places = defaultdict(list)
    for module, node in nodes(ast.ClassDef):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            places[node.name].append(str(module.path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_modules_are_named_by_nouns():
    gerunds = [
        str(module.path)
        for module in modules()
        if module.path.stem.endswith("ing") and module.path.stem.split("_")[-1] not in GERUNDS_THAT_ARE_NOUNS
    ]
    assert gerunds == []


def test_no_variable_is_named_by_a_bare_participle_or_pronoun():
    vague = [
        f"{module.path}:{node.lineno} {name}"
        for module, node in nodes(ast.Name, ast.arg)
        if isinstance(node, ast.Name | ast.arg)
        and (name := node.arg if isinstance(node, ast.arg) else node.id) in VAGUE
        and (isinstance(node, ast.arg) or isinstance(node.ctx, ast.Store))
    ]
    assert vague == []


def test_docstrings_begin_with_a_noun_or_a_verb():
    openings = [
        f"{module.path}: {text.splitlines()[0]}"
        for module, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
        if isinstance(node, Function | ast.ClassDef | ast.Module)
        and (text := ast.get_docstring(node))
        and OPENING.match(text)
    ]
    assert openings == []


def test_only_the_printer_writes_to_the_terminal():
    names = {call.rpartition(".")[2] for call in WRITERS}
    written = defaultdict(set)
    for module, node in nodes(ast.Call):
        called = node.func if isinstance(node, ast.Call) else None
        name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
        if called and name in names and (call := ast.unparse(called)) in WRITERS:
            written[str(module.path)].add(call)
    assert written == PRINTERS
