"""What a job wrote, by a key that says where each value belongs, and the differences of two outcomes."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

# Fields that two runs of one revision do not share: clocks, memory, and what made the run.
VOLATILE = (
    "seconds", "cpu_seconds", "peak_bytes", "record_bytes", "ms", "recall_ms", "at", "started", "built", "git", "emend",
)  # fmt: skip
# Ids that LangChain draws for messages.
MESSAGE_ID = re.compile(r"lc_run--[0-9a-f-]+")
# A moment in a card.
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
# What a manifest says of a run beside versions, paths and the configuration.
MANIFEST = ("cases", "model", "editors", "benchmark", "metrics", "mode", "graphs", "notes", "construction", "systems")
TIMED_METRICS = ("s/probe", "s/edit", "CPU s/edit", "peak MiB", "s/turn", "CPU s/turn", "recall_ms")
LABELS = ("given", "run_setting", "judge")
# Fields that name a line's subject; `unit` is compared, since a changed key would break resuming.
IDENTITY = ("act", "node", "place", "editor", "setting", "mode", "case", "probe", "repeat", "checkpoint", "number")
TEXTS = (".md", ".csv", ".txt", ".toml")
# Files of a run folder about its process.
SKIPPED = ("run.lock", "errors.jsonl")
ABSENT = "(absent)"

Outcome = dict[str, Any]


class Difference(NamedTuple):
    """A value that the two revisions do not share."""

    key: str
    before: Any
    after: Any


class Result(NamedTuple):
    """The comparison of a job's outcomes."""

    values: int
    """Single numbers, texts and truth values of the later outcome."""
    conversions: tuple[str, ...]
    """New empty fields without which all lines are equal."""
    differences: tuple[Difference, ...]

    @property
    def verdict(self) -> str:
        """Equal, equal after conversion, or differs."""
        if self.differences:
            return f"differs in {len(self.differences)} lines"
        if self.conversions:
            return f"equal after conversion (new and empty: {', '.join(self.conversions)})"
        return "equal"


def read_outcome(folder: Path, outputs: tuple[str, ...], replies: list[dict[str, Any]]) -> Outcome:
    """Everything that a job's commands printed as JSON, refused, or wrote into its outputs."""
    outcome: Outcome = {}
    for number, reply in enumerate(replies):
        if reply["code"]:
            outcome[f"command {number} refused"] = _problem(reply).replace(str(folder), ".")
        elif reply["out"].startswith("{"):
            rows = json.loads(reply["out"])["rows"]
            rows = [row for row in rows if row.get("metric") not in TIMED_METRICS]
            outcome |= {f"report {number}, row {place}": _without(row, LABELS) for place, row in enumerate(rows)}
    for name in outputs:
        path = folder / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            outcome |= dict(_read_file(file, folder))
    return outcome


def _problem(reply: dict[str, Any]) -> str:
    """The last line of words that a refused command printed; a frame around it has none."""
    lines = (reply["err"] or reply["out"]).splitlines()
    worded = [line.strip(" │") for line in lines if any(map(str.isalnum, line))]
    return worded[-1] if worded else ""


def _read_file(file: Path, folder: Path) -> Iterator[tuple[str, Any]]:
    """Key and value of each line of a JSON-lines file, or of the whole of another; binary files are left out."""
    name = str(file.relative_to(folder))
    if not file.is_file() or file.name in SKIPPED:
        return
    if file.suffix == ".jsonl":
        lines = [_stable(json.loads(text), folder) for text in file.read_text(encoding="utf-8").splitlines()]
        yield from _keyed(name, lines)
    elif file.suffix == ".json":
        content = _stable(json.loads(file.read_bytes()), folder)
        if file.name == "manifest.json":
            content = {section: content[section] for section in MANIFEST if section in content}
        yield name, content
    elif file.suffix in TEXTS:
        text = file.read_text(encoding="utf-8").replace(str(folder), ".")
        yield name, MOMENT.sub("MOMENT", text)


def _keyed(name: str, lines: list[Any]) -> Iterator[tuple[str, Any]]:
    """Lines by what they are about; those about the same are numbered in an order that no thread changes."""
    numbers = Counter[str]()
    for line in sorted(lines, key=lambda line: json.dumps(line, sort_keys=True)):
        key = f"{name}: " + " ".join(str(line[field]) for field in IDENTITY if field in line)
        numbers[key] += 1
        yield f"{key} #{numbers[key]}", line


def _stable(value: Any, folder: Path) -> Any:
    """A JSON value without what changes from run to run."""
    if isinstance(value, dict):
        return {name: _stable(inner, folder) for name, inner in value.items() if name not in VOLATILE}
    if isinstance(value, list):
        return [_stable(inner, folder) for inner in value]
    if not isinstance(value, str):
        return value
    return MESSAGE_ID.sub("ID", value.replace(str(folder), "."))


def _without(row: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def compare(before: Outcome, after: Outcome) -> Result:
    """Compare line by line; a line of an earlier form is converted first."""
    differences, conversions = [], Counter[str]()
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key, ABSENT), after.get(key, ABSENT)
        if old == new:
            continue
        additions = list(new_fields(old, new))
        if additions and old == without_fields(new, additions):
            conversions.update(additions)
        else:
            differences.append(Difference(key, old, new))
    return Result(sum(map(count_values, after.values())), tuple(sorted(conversions)), tuple(differences))


def new_fields(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Fields, as dotted paths, that only the later form has, and that are empty as their default is."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in new.items():
            if name in old:
                yield from new_fields(old[name], value, f"{path}{name}.")
            elif not value:
                yield path + name
    elif isinstance(old, list) and isinstance(new, list):
        for left, right in zip(old, new, strict=False):
            yield from new_fields(left, right, path)


def without_fields(value: Any, fields: list[str], path: str = "") -> Any:
    """A JSON value without the fields at these paths."""
    if isinstance(value, list):
        return [without_fields(inner, fields, path) for inner in value]
    if not isinstance(value, dict):
        return value
    rest = {name: inner for name, inner in value.items() if path + name not in fields}
    return {name: without_fields(inner, fields, f"{path}{name}.") for name, inner in rest.items()}


def count_values(value: Any) -> int:
    """Number of numbers, texts and truth values in a JSON value."""
    if isinstance(value, dict):
        return sum(map(count_values, value.values()))
    if isinstance(value, list):
        return sum(map(count_values, value))
    return 1


def first_difference(old: Any, new: Any, path: str = "") -> str:
    """Where two JSON values first differ, and how."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            if old.get(name, ABSENT) != new.get(name, ABSENT):
                return first_difference(old.get(name, ABSENT), new.get(name, ABSENT), f"{path}.{name}")
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (left, right) in enumerate(zip(old, new, strict=True)):
            if left != right:
                return first_difference(left, right, f"{path}[{place}]")
    if isinstance(old, str) and isinstance(new, str):
        old, new = _around_change(old, new)
    return f"{path or 'all'}: {str(old)[:200]} | {str(new)[:200]}"


def _around_change(old: str, new: str) -> tuple[str, str]:
    """Two texts from shortly before their first difference."""
    same = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, same - 40)
    return old[start:], new[start:]
