"""Examine the installation: versions, extras, keys, devices, data folders, and whether a model answers."""

import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from emend.evals.log.manifest import versions
from emend.evals.runner.failures import error_text
from emend.memory.edit import FrozenModel
from emend.memory.errors import EmendError
from emend.memory.redaction import hide_keys

EXTRAS = {
    "openai": "langchain_openai",
    "anthropic": "langchain_anthropic",
    "minilm": "sentence_transformers",
    "lora": "peft",
    "qlora": "bitsandbytes",
    "extract": "spacy",
    "plot": "matplotlib",
    "otel": "opentelemetry",
    "datasets": "datasets",
}
"""Optional dependencies by extra, and the module whose presence shows that the extra is installed."""
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
EMBEDDED = "tiny"


class CheckResult(FrozenModel):
    """Result of one check: `absent` is worth knowing, `broken` must be fixed."""

    section: str
    check: str
    status: Literal["ok", "absent", "broken"]
    detail: str
    mean: float | None = None
    n: int | None = None
    low: float | None = None
    high: float | None = None


def examine(model: str | None = None) -> list[CheckResult]:
    """Findings of all checks; the model is asked a question, and the embedded one's card is added if it is named."""
    findings = [*_versions(), *_extras(), *_keys(), *_devices(), *_data(), _answers(model or EMBEDDED)]
    return [*findings, *_card()] if model == EMBEDDED else findings


def _versions() -> Iterator[CheckResult]:
    for name, number in versions().items():
        yield CheckResult(section="versions", check=name, status="ok", detail=number)


def _extras() -> Iterator[CheckResult]:
    for extra, module in EXTRAS.items():
        installed = importlib.util.find_spec(module) is not None
        detail = "installed" if installed else f"pip install 'emend[{extra}]'"
        yield CheckResult(section="extras", check=extra, status="ok" if installed else "absent", detail=detail)


def _keys() -> Iterator[CheckResult]:
    for name in KEYS:
        is_set = bool(os.environ.get(name))
        detail = "set" if is_set else "not set; needed only for that provider's models"
        yield CheckResult(section="keys", check=name, status="ok" if is_set else "absent", detail=detail)


def _devices() -> Iterator[CheckResult]:
    from emend.agents.local.model_folder import devices

    for name, detail in devices().items():
        yield CheckResult(section="devices", check=name, status="ok", detail=detail)


def _data() -> Iterator[CheckResult]:
    named = os.environ.get("EMEND_DATA")
    if not named:
        detail = "not set; it names a folder with one folder per benchmark, as --data does for one benchmark"
        yield CheckResult(section="data", check="EMEND_DATA", status="absent", detail=detail)
        yield _default_folder()
        return
    folder = Path(named)
    if not folder.is_dir():
        detail = f"'{named}' is not a folder: correct it, or unset it"
        yield CheckResult(section="data", check="EMEND_DATA", status="broken", detail=detail)
        return
    inside = sorted(path.name for path in folder.iterdir() if path.is_dir())
    detail = f"{named}: {', '.join(inside) or 'no folders in it'}"
    yield CheckResult(section="data", check="EMEND_DATA", status="ok", detail=detail)


def _default_folder() -> CheckResult:
    """CheckResult about ./data, where a run without --data looks while EMEND_DATA is not set."""
    from emend.evals.benchmarks.files import data_folder
    from emend.evals.data.shapes import SHAPES, shapes_of

    present = [name for name in SHAPES if any(shape.find(data_folder(name, None)) for shape in shapes_of(name))]
    if present:
        detail = f"{', '.join(present)}: used where neither --data nor EMEND_DATA is given"
        return CheckResult(section="data", check="data/", status="ok", detail=detail)
    detail = "no benchmark's files in ./data; download some with: emend data pull BENCHMARK"
    return CheckResult(section="data", check="data/", status="absent", detail=detail)


def _answers(spec: str) -> CheckResult:
    """Ask one question; the embedded model must answer it correctly, another must only answer."""
    from emend.agents.llm import load_model
    from emend.agents.roles.answer import clean_answer

    question, gold = known_question() if spec == EMBEDDED else ("What is the capital of France?", "")
    try:
        reply = clean_answer(str(load_model(spec).invoke(f"Q: {question}\nA:").text))
    except EmendError as error:
        return CheckResult(section="model", check=spec, status="broken", detail=hide_keys(str(error)))
    except Exception as error:  # a provider's client may raise anything; that is a finding too
        return CheckResult(section="model", check=spec, status="broken", detail=error_text(error))
    status: Literal["ok", "broken"] = "ok" if reply and gold in ("", reply) else "broken"
    detail = hide_keys(f"{question} {reply}") + ("" if status == "ok" else f" (correct: {gold})")
    return CheckResult(section="model", check=spec, status=status, detail=detail)


def known_question() -> tuple[str, str]:
    """A question about the embedded model's invented world, and its answer."""
    from emend.agents.tiny.world import World, relations

    fact = World().facts[0]
    return relations()[fact.relation].questions[0].format(fact.subject), fact.object


def _card() -> Iterator[CheckResult]:
    """Measurements of the embedded model, made when it was trained."""
    from emend.agents.tiny import model_folder

    path = model_folder() / "card.json"
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    except (OSError, ValueError, KeyError) as error:
        yield CheckResult(section="card", check="card.json", status="broken", detail=f"cannot be read: {error}")
        return
    for row in rows:
        numbers = {name: row.get(name) for name in ("mean", "n", "low", "high")}
        yield CheckResult(section="card", check=row["measure"], status="ok", detail="", **numbers)
