"""YAML file of a declared benchmark: its fields, validated, with the line of each error."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from emend.evals.case import Per
from emend.evals.data.benchmarks.rows import read_text
from emend.evals.data.facts.fact_formats import compose_yaml
from emend.memory.edit import Form, FrozenModel
from emend.memory.errors import BadData, problem_of
from emend.memory.probe import Reading, Style
from emend.memory.registry import nearest

ENDINGS = (".yaml", ".yml")
# Maximum file size in bytes; a description has a few thousand.
MAX_BYTES = 1 << 20
# Top-level keys of a description, which a list of facts does not have.
_SECTIONS = re.compile(rb"^(rows|probes|edit|edits)\s*:", re.MULTILINE)


class RepeatedTemplate(FrozenModel):
    """Template for one thing per row, or for one per item of a list in the row."""

    for_each: str = Field(
        default="", description="Field with a list; the template's `{item}` is each of its items."
    )
    only_with: str = Field(
        default="", description="Field without which a row has no such edit or probe."
    )


class EditTemplate(RepeatedTemplate):
    """Template of a row's edit; every text is a template."""

    text: str
    form: Form = "triplet"
    subject: str = ""
    prompt: str = ""
    question: str = ""
    relation: str = ""
    target_new: str = ""
    target_true: str = ""
    time: str = ""


class ProbeTemplate(RepeatedTemplate):
    """Template of the probe of one kind; every text is a template."""

    prompt: str
    gold: str | tuple[str, ...]
    rival: str = ""
    choices: str | tuple[str, ...] = ()
    style: Style = "question"
    reading: Reading = "line"
    scorers: tuple[str, ...] = ("exact_match",)
    in_scope: bool = True
    all_golds: bool = False
    query: str = ""
    subject: str = ""
    new_tokens: int = 0


class MetricEntry(FrozenModel):
    """A reported metric: the mean of a scorer's output over kinds of probes."""

    name: str
    value: str
    kinds: tuple[str, ...]
    per: Per = "record"
    summary: str = ""


class Description(FrozenModel):
    """Content of the YAML file of a benchmark."""

    rows: str
    name: str = ""
    source: str = "a file of one's own"
    wording: str = "new_fact"
    mode: str = "single"
    edit: EditTemplate | None = None
    edits: tuple[EditTemplate, ...] = ()
    probes: dict[str, ProbeTemplate] = Field(min_length=1)
    metrics: tuple[MetricEntry, ...] = ()

    @property
    def edit_templates(self) -> tuple[EditTemplate, ...]:
        """The templates of a row's edits."""
        if self.edit is None:
            return self.edits
        return (self.edit, *self.edits)


class DescriptionFile(NamedTuple):
    """A description, its path, and the parsed YAML, in which lines are looked up."""

    description: Description
    path: Path
    root: Any

    def position(self, *location: str | int) -> str:
        """Return file and line of a field, or of the nearest enclosing one."""
        return f"{self.path.name}, line {_line(self.root, location)}"


def is_declared(name: str) -> bool:
    """Return True if a name is a YAML file that declares a benchmark and not a list of facts."""
    path = Path(name).expanduser()
    if path.suffix.lower() not in ENDINGS or not path.is_file():
        return False
    with path.open("rb") as file:
        return _SECTIONS.search(file.read(MAX_BYTES)) is not None


def read_description(name: str) -> DescriptionFile:
    """Read and validate a description, without running any code from it.

    Raises:
        BadData: the file is not YAML, is too large, has aliases, or has an invalid field; the error
            names the first with its line.
    """
    path = Path(name).expanduser()
    if path.stat().st_size > MAX_BYTES:
        raise BadData(
            f"'{name}' is larger than {MAX_BYTES >> 20} MB: move its rows into a separate file."
        )
    root, construct = compose_yaml(read_text(path), path.name)
    if root is None or root.id != "mapping":
        raise BadData(f"{path.name}, line 1: expected a mapping: give rows:, edit: and probes:.")
    try:
        description = Description.model_validate(construct(root))
    except ValidationError as error:
        raise BadData("; ".join(list(_faults(error, root, path.name))[:5]) + ".") from error
    if not description.edit_templates:
        raise BadData(
            f"{path.name}, line 1: field 'edit' is missing: say what is edited for each row."
        )
    return DescriptionFile(description, path, root)


def _faults(error: ValidationError, root: Any, name: str) -> Iterator[str]:
    for item in error.errors(include_url=False):
        location = item["loc"]
        field = ".".join(map(str, location))
        line = _line(root, location)
        if item["type"] == "extra_forbidden":
            hint = nearest(str(location[-1]), _known_fields(location[:-1])).rstrip(".")
            yield f"{name}, line {line}: field '{field}' is unknown: {hint}"
        else:
            problem = f"{problem_of(item)}, got {item['input']!r:.60}"
            yield f"{name}, line {line}: field '{field}': {problem}"


def _known_fields(location: Sequence[str | int]) -> list[str]:
    """Return the names of the fields of the model at a location."""
    models: dict[str | int, type[FrozenModel]] = {
        "edit": EditTemplate,
        "edits": EditTemplate,
        "probes": ProbeTemplate,
        "metrics": MetricEntry,
    }
    if location:
        model = models.get(location[0], Description)
    else:
        model = Description
    return list(model.model_fields)


def _line(node: Any, location: Sequence[str | int]) -> int:
    """Return the line of the node at a location, or of its nearest existing parent."""
    line = int(node.start_mark.line) + 1
    for name in location:
        node, line = _child(node, name, line)
        if node is None:
            break
    return line


def _child(node: Any, name: str | int, line: int) -> tuple[Any, int]:
    if node.id == "sequence" and isinstance(name, int) and name < len(node.value):
        return node.value[name], int(node.value[name].start_mark.line) + 1
    if node.id == "mapping":
        for key, value in node.value:
            if key.value == str(name):
                return value, int(key.start_mark.line) + 1
    return None, line
