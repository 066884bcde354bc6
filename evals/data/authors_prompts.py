"""Prompts of published programs, extracted as files for `--prompts`.

Texts are taken from string literals in the syntax tree of the programs, which are never run.
"""

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from emend.memory.errors import BadData
from emend.memory.files import read_input

Json = Any
# Expressions in the programs' f-strings, with the corresponding field names of `--prompts`.
_FILLED = {
    "item['event']": "{facts}",
    "qa['question']": "{question}",
    "qa['candidate']": "{options}",
}
# Prompt lines of ELKEN's judges about an item, as its programs write them.
_TENDENCY_ITEM = "{numeral}. Event: {event} Question: {question} Answer: {answer} Label: {label}"
_AGREEMENT_ITEM = "Answer1: {one} Answer2: {other}"
_MARKS = "Accuracy: {accuracy}; Coherence: {coherence}; Comprehensive: {comprehensive}; Overall: "


def elken_run(folder: Path) -> Json:
    """Return ELKEN's instructions with and without an event, from `data_processor/processor.py`,
    for `emend run --prompts`.

    Raises:
        BadData: the program differs from the expected commit.
    """
    path = folder / "prompts" / "processor.py"
    with _form_errors(path):
        classes = _classes(path)
        fact = classes["FactDataProcessor"]
        with_event, alone = classes["TendencyDataProcessor"], classes["TendencyLocalDataProcessor"]
    source = "ELKEN, data_processor/processor.py"
    facts = {"alone": _asked(fact, 0), **_asked(fact, 1)}
    choices = {**_asked(with_event, 0), "alone": _asked(alone, 0)}
    free = {**_asked(with_event, 1), "alone": _asked(alone, 1)}
    tables = {"fact": facts, "tendency_m": choices, "tendency_open": free}
    return {name: {"source": source, **table} for name, table in tables.items()}


def elken_judges(folder: Path) -> Json:
    """Return ELKEN's judge prompts with their demonstrations, from `examiner/`, for `emend judge
    run --prompts`.

    Raises:
        BadData: a program differs from the expected commit.
    """
    path = folder / "prompts" / "prompt.py"
    with _form_errors(path):
        examples = _lists(path)
        tendency = [_tendency_example(row) for row in examples["examples"]]
        agreement = [
            {"one": row["answer1"], "other": row["answer2"], "reply": f"Score: {row['label']}"}
            for row in examples["local_examples"]
        ]
    files = {"tendency": "query_data.py", "agreement": "query_data_locality.py"}
    tasks = {name: _task(folder / "prompts" / file) for name, file in files.items()}
    return {
        "tendency": {
            "source": "ELKEN, examiner/query_data.py",
            "task": tasks["tendency"],
            "ask": _TENDENCY_ITEM,
            "examples": tendency,
        },
        "agreement": {
            "source": "ELKEN, examiner/query_data_locality.py",
            "task": tasks["agreement"],
            "ask": _AGREEMENT_ITEM,
            "examples": agreement,
        },
    }


def _tendency_example(row: Mapping[str, Any]) -> dict[str, str]:
    marks = row["score"]
    texts = {name: str(row[name]) for name in ("event", "question", "answer", "label")}
    return {**texts, "reply": f"{_MARKS.format(**marks)}{marks['overall']}"}


@contextmanager
def _form_errors(path: Path) -> Iterator[None]:
    """Raise lookup errors in a program as `BadData`."""
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        raise BadData(
            f"{path}: {error} is missing in the form of the listed commit. Fetch the files again."
        ) from error


def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(read_input(path).decode("utf-8"))
    # hostile nesting raises RecursionError or MemoryError
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadData(f"{path}: it cannot be parsed: {error}.") from error


def _classes(path: Path) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in _tree(path).body if isinstance(node, ast.ClassDef)}


def _lists(path: Path) -> dict[str, Any]:
    """Return the literals that a program assigns to names at module level."""
    assigned = (node for node in _tree(path).body if isinstance(node, ast.Assign))
    return {
        target.id: ast.literal_eval(node.value)
        for node in assigned
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _task(path: Path) -> str:
    """Return the instruction of a program that has only one."""
    texts = _texts(_tree(path), "instruction")
    return "".join(texts).strip()


def _asked(node: ast.ClassDef, branch: int) -> dict[str, str]:
    """Return the instruction and the input line of a class that defines them in both branches of a
    condition.

    Args:
        node: the class definition.
        branch: 0 for the branch in which the condition holds.
    """
    task = _of_branch(node, "instruction", branch)
    return {"task": task.strip(), "ask": _of_branch(node, "input", branch).strip()}


def _of_branch(node: ast.ClassDef, name: str, branch: int) -> str:
    for condition in ast.walk(node):
        if isinstance(condition, ast.If):
            body = (condition.body, condition.orelse)[branch]
            text = "".join(text for line in body for text in _texts(line, name))
            if text:
                return text
    raise BadData(
        f"{node.name}: there is no '{name}' in both branches of a condition. Fetch the files of "
        "the listed commit again."
    )


def _texts(tree: ast.AST, name: str) -> Iterator[str]:
    """Yield the literals that are assigned or added to a name, in order."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            is_named = any(isinstance(each, ast.Name) and each.id == name for each in targets)
            if is_named and isinstance(node.value, ast.Constant | ast.JoinedStr):
                yield _literal(node.value)


def _literal(node: ast.Constant | ast.JoinedStr) -> str:
    """Return the text of a literal, with f-string expressions replaced by names in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value) if isinstance(node.value, str) else ""
    parts: list[str] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            parts.append(_FILLED.get(ast.unparse(part.value), ""))
        elif isinstance(part, ast.Constant):
            parts.append(str(part.value))
    return "".join(parts)
