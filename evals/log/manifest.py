"""What a run is: its configuration, what it was started with, and the refusal to go on with anything else."""

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ValidationError, model_validator

from emend.agents.providers.usage import Spent
from emend.evals.case import Metric
from emend.evals.log.checkpoints import END, NONE, Checkpoints
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings, RunRefused
from emend.memory.redaction import refuse_secrets
from emend.memory.registry import nearest

MANIFEST = "manifest.json"
PACKAGES = (
    "emend",
    "langchain-core",
    "langgraph",
    "chromadb",
    "numpy",
    "torch",
    "transformers",
    "tokenizers",
    "sentence-transformers",
    "bm25s",
    "pydantic",
)
MODEL = "model"
FREE = ("concurrency", "fail_on_error", "data", "max_cost", "max_calls", "prices", "rpm", "tpm", "cache")
"""May change between a run and its resumption; that the data is the same is told by its content, not by its path."""


class RunConfig(FrozenModel):
    """Everything that decides a run's records.

    `settings` empty means the benchmark's first setting, `mode` and `wording` None the benchmark's own; `overrides` are
    editor settings by editor name, and under `model` those of loading the model; `fail_on_error` is `true` (stop at
    the first failed unit), `false`, a proportion such as `0.1` of the units tried, or a count; `checkpoints` are counts
    of standing edits at which mode `sequential` asks all earlier cases again: unless told otherwise after the last one,
    and never with `none`. `max_cost` and `max_calls` bound what one
    process spends, `prices` is a file, `rpm` and `tpm` are calls and tokens per minute, `cache` a folder of replies.
    `held_out` is a file of texts whose perplexity is taken under edits of weights; None takes the benchmark's own, or
    plain ones; `none` takes none.

    Raises:
        BadSettings: unknown mode, or an impossible number; checkpoints without mode `sequential`.
    """

    benchmark: str
    data: str | None = None
    options: dict[str, str] = {}
    settings: tuple[str, ...] = ()
    editors: tuple[str, ...]
    model: str = "tiny"
    retriever: str = "default"
    embedding: str = "auto"
    mode: str | None = None
    checkpoints: str | None = None
    limit: int | None = None
    seed: int = 0
    concurrency: int = 4
    repeat: int = 1
    overrides: dict[str, dict[str, Any]] = {}
    wording: str | None = None
    fail_on_error: str = "0.1"
    max_cost: float | None = None
    max_calls: int | None = None
    prices: str | None = None
    rpm: float | None = None
    tpm: float | None = None
    cache: str | None = None
    held_out: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _asked_again(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("mode") == "sequential" and values.get("checkpoints") is None:
            return values | {"checkpoints": END}
        return values

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.mode is not None:
            parse_mode(self.mode)
        Checkpoints.parse(self.checkpoints)
        if self.checkpoints not in (None, NONE) and self.mode != "sequential":
            raise BadSettings(
                f"--checkpoints {self.checkpoints} with mode {self.mode or 'as usual'}: only mode sequential has "
                "checkpoints. Give --mode sequential, or leave them out."
            )
        parse_threshold(self.fail_on_error)
        if not self.editors:
            raise BadSettings("no editor is named: give at least one, for example --editor rag.")
        for name in ("limit", "concurrency", "repeat"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise BadSettings(f"{name} is {number}: it must be 1 or more.")
        refuse_secrets(self.overrides.get(MODEL, {}), MODEL)
        for name in self.overrides:
            if name not in (*self.editors, MODEL):
                raise BadSettings(
                    f"--set names the editor '{name}', which is not in the run: {nearest(name, [*self.editors, MODEL])}"
                )
        return self


def parse_mode(mode: str) -> tuple[Literal["single", "all", "batch", "sequential"], int]:
    """The kind of mode and, for `batch:N`, how many cases stand at once (otherwise 0).

    Raises:
        BadSettings: no such mode.
    """
    kind, _, size = mode.partition(":")
    if kind == "batch" and size.isdigit() and int(size) > 0:
        return "batch", int(size)
    if mode in ("single", "all", "sequential"):
        return mode, 0  # type: ignore[return-value]
    raise BadSettings(f"unknown mode '{mode}': {nearest(mode, ['single', 'all', 'sequential', 'batch:N'])}")


def parse_threshold(text: str) -> tuple[Literal["count", "share"], float]:
    """How many failed units are too many: more than this count, or more than this share of those tried.

    Raises:
        BadSettings: not true, false, a proportion or a count.
    """
    if text.lower() in ("true", "false"):
        return "count", 0.0 if text.lower() == "true" else float("inf")
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if 0 < number < 1:
        return "share", number
    if number >= 0 and number == int(number):
        return "count", number
    raise BadSettings(f"--fail-on-error is '{text}': give true, false, a proportion such as 0.1, or a count such as 5.")


class CaseList(FrozenModel):
    """How many cases a setting has in this run, and a digest of their content-derived ids.

    `again` is how many are asked once more at checkpoints, all of these together.
    """

    cases: int
    probes: int
    digest: str
    again: int = 0


class Manifest(FrozenModel):
    """What a run was started with; `manifest.json` in its folder."""

    config: RunConfig
    cases: dict[str, CaseList]
    """By setting."""
    model: dict[str, Any]
    editors: dict[str, dict[str, dict[str, Any]]]
    """Fingerprints by setting and editor name."""
    benchmark: dict[str, Any]
    """Where the data came from, as the benchmark tells it."""
    metrics: tuple[Metric, ...]
    graphs: dict[str, dict[str, Any]] = {}
    versions: dict[str, str]
    git: dict[str, Any] | None = None
    platform: dict[str, Any]
    started: str
    prices: dict[str, Any] | None = None
    """Of the user's file, as the last process read it."""
    spent: dict[str, Spent] = {}
    """On models behind an API, by model, by all processes that came to an end."""

    def write(self, folder: Path) -> None:
        """Put it into the folder, whole or not at all."""
        replace(folder / MANIFEST, self.model_dump_json(indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The manifest of a run folder.

        Raises:
            BadData: there is none, or it cannot be read.
        """
        path = folder / MANIFEST
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise BadData(f"'{folder}' is no run folder: it has no {MANIFEST}. `emend run` makes one.") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadData(f"{path}: field '{where}': {first['msg']}. Start a new run in another folder.") from error

    @property
    def units(self) -> int:
        """Cases of all settings, those of checkpoints again, times editors, times repeats."""
        cases = sum(listed.cases + listed.again for listed in self.cases.values())
        return cases * len(self.config.editors) * self.config.repeat

    def refuse_change(self, now: dict[str, Any], folder: Path) -> None:
        """Compare with what a run would be now, or with those parts of it that are given.

        Raises:
            RunRefused: something that decides the records differs; names each field with both values.
        """
        then = _decisive(self.model_dump(mode="json", include=set(now)))
        new = _decisive(now)
        changed = [name for name in then | new if then.get(name) != new.get(name)]
        if changed:
            told = "; ".join(f"{name}: was {_short(then.get(name))}, now {_short(new.get(name))}" for name in changed)
            raise RunRefused(
                f"the run in '{folder}' was started differently ({told}). Give the same, or another --out folder."
            )


def replace(path: Path, text: str) -> None:
    """Write a file so that no reader, and no crash, ever sees half of it."""
    draft = path.with_name(path.name + ".new")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _decisive(manifest: dict[str, Any]) -> dict[str, Any]:
    """The parts that decide the records, flat, under dotted names."""
    told = {name: manifest[name] for name in ("cases", "model", "editors") if name in manifest}
    config = {name: value for name, value in manifest["config"].items() if name not in FREE}
    return dict(_flat(config | told))


def _flat(tree: dict[str, Any], above: str = "") -> list[tuple[str, Any]]:
    out = []
    for name, value in tree.items():
        if isinstance(value, dict):
            out += _flat(value, f"{above}{name}.")
        else:
            out.append((above + name, value))
    return out


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def versions() -> dict[str, str]:
    """The installed versions of the packages that can change a score."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Operating system and processor, without names of hosts or users."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "python": sys.implementation.name,
        "processors": os.cpu_count(),
    }


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def git_state() -> dict[str, Any] | None:
    """Commit of the checkout that Emend is imported from, and whether it has changes; None outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    commit = _git(root, "rev-parse", "HEAD")
    return {"commit": commit, "changed": bool(_git(root, "status", "--porcelain"))} if commit else None


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
