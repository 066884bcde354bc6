"""The manifest of a run: its configuration, and the check that a resumed run has the same one."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Required, Self

from annotated_types import Le
from pydantic import ConfigDict, NonNegativeInt, PositiveInt, model_validator
from typing_extensions import TypedDict

from emend.agents.providers.usage import ProviderUsage
from emend.evals.case import Metric
from emend.evals.config.division import MAX_SHARES
from emend.evals.config.run_config import OLD_NAMES, RESUMABLE_FIELDS, RunConfig
from emend.evals.log.lines import TURNS
from emend.evals.log.records import read_model, replace
from emend.memory.distribution import installed_version
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, RunRefused, path_remedy
from emend.memory.redaction import hide_keys

MANIFEST = "manifest.json"
PACKAGES = (
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


def changed_fields(config: RunConfig, folder: Path) -> str:
    """List the limits, files and workers that differ from those of the run in a folder; "" if
    none.
    """
    with suppress(BadData):
        stored = Manifest.read(folder).config
        pairs = ((name, getattr(config, name), getattr(stored, name)) for name in RESUMABLE_FIELDS)
        return ", ".join(
            f"{name} {_or_none(now)} (stored: {_or_none(was)})"
            for name, now, was in pairs
            if now != was
        )
    return ""  # no run yet, or a damaged manifest, which is reported elsewhere


def _or_none(value: object) -> str:
    return "none" if value is None else hide_keys(str(value))


class _Edge(TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    source: Required[str]
    target: Required[str]
    conditional: bool


class _Node(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    id: str


class _Edges(TypedDict):
    nodes: list[_Node]
    edges: list[_Edge]


class GraphDrawing(TypedDict):
    """A graph as Mermaid text, and its nodes and edges."""

    mermaid: str
    json: _Edges


class CaseList(FrozenModel):
    """Number of cases and probes of a setting in this run, and a digest of the cases' ids.

    `again` is the total number of cases re-evaluated at all checkpoints.
    """

    cases: int
    probes: int
    digest: str
    again: int = 0


class SharePart(FrozenModel):
    """The share of a run in a folder: share `number` of `of`, with its number of units.

    `together` is the number of consecutive cases, or passes in mode `sequential`, that stay in one
    share.
    """

    number: PositiveInt
    of: Annotated[PositiveInt, Le(MAX_SHARES)]
    together: Annotated[PositiveInt, Le(10**9)]
    units: NonNegativeInt


class MergedShare(FrozenModel):
    """A share merged into a run: its units, and the machine and versions of their evaluation."""

    number: PositiveInt
    units: NonNegativeInt
    finished: NonNegativeInt
    failed: NonNegativeInt
    versions: dict[str, str]
    git: dict[str, Any] | None
    platform: dict[str, Any]
    started: str
    spent: dict[str, ProviderUsage]


class Manifest(FrozenModel):
    """The full configuration of a run; `manifest.json` in its folder."""

    job: str = ""
    """Name of the job; empty for an evaluation of edits, and in older runs."""
    config: RunConfig
    cases: dict[str, CaseList]
    """By setting."""
    model: dict[str, Any]
    editors: dict[str, dict[str, dict[str, Any]]]
    """Fingerprints by setting and editor name."""
    benchmark: dict[str, Any]
    """Provenance of the data."""
    metrics: tuple[Metric, ...]
    text_kinds: tuple[str, ...] = ()
    """Kinds of probe whose right answers are texts; empty in older runs too."""
    mode: str = ""
    """The configuration's, or the benchmark's if that names none; empty in older runs."""
    graphs: dict[str, GraphDrawing] = {}
    versions: dict[str, str]
    git: dict[str, Any] | None = None
    platform: dict[str, Any]
    started: str
    prices: dict[str, Any] | None = None
    """The user's price file, as the last process read it."""
    spent: dict[str, ProviderUsage] = {}
    """ProviderUsage on models behind an API, by model, by all processes that came to an end."""
    notes: tuple[str, ...] = ()
    """What processes said of the run that bears on its numbers; empty in older runs."""
    share: SharePart | None = None
    """In the folder of a share only."""
    shares: Annotated[NonNegativeInt, Le(MAX_SHARES)] = 0
    """Number of shares that the run was divided into, if it was merged from some."""
    merged: tuple[MergedShare, ...] = ()
    """The shares that it was merged from."""

    @model_validator(mode="before")
    @classmethod
    def _current_names(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(values.get("config"), dict):
            return values
        return values | {
            "config": {OLD_NAMES.get(name, name): value for name, value in values["config"].items()}
        }

    def write(self, folder: Path) -> None:
        """Write the manifest to the folder atomically."""
        replace(folder / MANIFEST, self)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of a run folder.

        Raises:
            BadData: there is no manifest, or it cannot be read.
        """
        path = folder / MANIFEST
        try:
            return read_model(path, cls, "Start a new run in another folder.")
        except (FileNotFoundError, NotADirectoryError) as error:
            if not folder.exists():
                raise BadData(
                    f"the run folder '{folder}' does not exist: {path_remedy(folder)} `emend run` "
                    "makes one."
                ) from error
            runs = [str(each.parent) for each in sorted(folder.glob(f"*/{MANIFEST}"))[:4]]
            remedy = (
                f"it contains runs: name one, such as {' or '.join(runs)}."
                if runs
                else ("`emend run` makes one.")
            )
            raise BadData(
                f"'{folder}' is not a run folder: {MANIFEST} is missing; {remedy}"
            ) from error

    @property
    def units(self) -> int:
        """Number of units: cases of all settings plus re-evaluated ones, times editors and repeats;
        or those of a share.
        """
        if self.share is not None:
            return self.share.units
        cases = sum(listed.cases + listed.again for listed in self.cases.values())
        return cases * len(self.config.editors) * self.config.repeats

    @property
    def sample_seed(self) -> int | None:
        """Seed of the random sample of an evaluation of edits, see `find_sample_seed`."""
        return None if self.job else find_sample_seed(self.config, self.cases)

    def refuse_change(self, now: dict[str, Any], folder: Path) -> None:
        """Compare with the manifest, or some of its fields, that a run would have now.

        Raises:
            RunRefused: a field that affects the records differs; names each field with both values.
        """
        then = decisive_fields(self.model_dump(mode="json", include=set(now)))
        if changed := "; ".join(changes(then, decisive_fields(now))):
            raise RunRefused(
                f"the run in '{folder}' was started with other settings ({changed}). Give the "
                "same settings, or another --out folder."
            )


def find_sample_seed(config: RunConfig, cases: Mapping[str, CaseList]) -> int | None:
    """Return the seed of the random sample that the limit of a run took; None if the run evaluates
    all cases, or the first conversations.
    """
    largest = max((listed.cases for listed in cases.values()), default=0)
    if config.limit is None or largest < config.limit or TURNS in cases:
        return None
    return config.seed


def decisive_fields(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that affect the records, flattened with dotted names."""
    parts = {
        name: manifest[name] for name in ("job", "cases", "model", "editors") if name in manifest
    }
    config = {
        name: value for name, value in manifest["config"].items() if name not in RESUMABLE_FIELDS
    }
    return dict(_flat(config | parts))


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """List the fields that differ, each with both values, shortened."""
    names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    return [f"{name}: was {_short(then.get(name))}, now {_short(now.get(name))}" for name in names]


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
    """Return the installed versions of the packages that can change a score."""
    return {"python": platform.python_version(), "emend": installed_version()} | _installed()


@cache
def _installed() -> dict[str, str]:
    installed = {}
    for name in PACKAGES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


def machine() -> dict[str, Any]:
    """Describe operating system and processor, without host or user names."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "python": sys.implementation.name,
        "processors": os.cpu_count(),
    }


def now() -> str:
    """Return the current time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def git_state() -> dict[str, Any] | None:
    """Return commit and changes of the git checkout that Emend is imported from; None outside a
    checkout.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    commit = _git(root, "rev-parse", "HEAD")
    return (
        {"commit": commit, "changed": bool(_git(root, "status", "--porcelain"))} if commit else None
    )


def _git(root: Path, *words: str) -> str | None:
    # Without the option, `status` writes the index, and a run killed at that moment would leave it
    # locked.
    command = ["git", "--no-optional-locks", *words]
    try:
        process = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip()
