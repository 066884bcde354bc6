"""Base class of benchmarks that read rows from files: options, files, demonstrations and
provenance.
"""

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.demonstration_rows import DemonstrationPool
from emend.evals.data.benchmarks.rows import data_folder, require, sha256
from emend.evals.data.benchmarks.triples import EXTRACTED, OPTION
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest


def known_options(
    benchmark: str, options: Mapping[str, str] | None, known: Collection[str]
) -> dict[str, str]:
    """Return the options, if all names are known.

    Raises:
        BadSettings: a name is unknown.
    """
    for option in options or {}:
        one_of(benchmark, "option", option, known)
    return dict(options or {})


def one_of(benchmark: str, what: str, value: str, known: Collection[str]) -> str:
    """Return the value, if it is known.

    Raises:
        BadSettings: the value is unknown; the error names the nearest.
    """
    if value not in known:
        raise BadSettings(f"unknown {what} '{value}' of {benchmark}: {nearest(value, list(known))}")
    return value


def some_of(benchmark: str, option: str, value: str, known: Collection[str]) -> tuple[str, ...]:
    """Parse a comma-separated list into its distinct values in order; `option` is a plural
    ("blocks").

    Raises:
        BadSettings: a value is unknown, or the list is empty.
    """
    names = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    for name in names:
        one_of(benchmark, option.removesuffix("s"), name, known)
    if not names:
        raise BadSettings(
            f"{option}='{value}' of {benchmark}: name at least one of {', '.join(known)}."
        )
    return names


def flag(benchmark: str, option: str, value: str) -> bool:
    """Parse an option that is on (1, true) or off (0, false).

    Raises:
        BadSettings: the value is neither.
    """
    if value.lower() not in ("0", "1", "true", "false"):
        raise BadSettings(f"{option}='{value}' of {benchmark}: give 1 (yes) or 0 (no).")
    return value.lower() in ("1", "true")


def check_request(
    benchmark: str, setting: str, settings: Collection[str], limit: int | None, texts: bool = False
) -> None:
    """Check the setting and the limit of a request for cases; `texts` is True if triplets can be
    extracted from the edits.

    Raises:
        BadSettings: the setting is unknown or needs extracted triplets, or the limit is below 1.
    """
    if texts and setting in EXTRACTED and setting not in settings:
        method = " --method llm --model MODEL" if setting == "llm" else ""
        raise BadSettings(
            f"setting '{setting}' of {benchmark} needs triplets extracted from its texts: extract "
            f"them with emend extract --benchmark {benchmark}{method} --out FILE (and the same "
            f"--data and --benchmark-option), then give --benchmark-option {OPTION}=FILE "
            f"--setting {setting}; or use one that needs no triplets: {', '.join(settings)}."
        )
    one_of(benchmark, "setting", setting, settings)
    if limit is not None and limit < 1:
        raise BadSettings(f"limit={limit}: at least 1 case is needed.")


class Definition(FrozenModel):
    """Content of the TOML file beside a benchmark's module; metrics are in percent unless they have
    a `scale`.
    """

    source: str = ""
    """Repository that publishes the files."""
    remedy: str = ""
    """Instructions for getting the files; last sentence of the error about a missing file."""
    choices: tuple[str, ...] = ()
    """Scoring decisions that the paper leaves open, or its code makes differently."""
    facts: dict[str, str] = {}
    """Fact shown in the demonstrations, by setting; `usual` for other settings."""
    demonstrations: tuple[dict[str, str], ...] = ()
    names: dict[str, tuple[str, ...]] = {}
    """Parts of the names of the published files, by the option that chooses among them."""
    published: bool = True
    """False if no paper reports the metrics."""
    metrics: tuple[Metric, ...]
    """Metrics, in the order of the paper's columns."""

    @classmethod
    def beside(cls, module: str) -> "Definition":
        """Read the TOML file with the name of a module and in its folder, given the module's
        `__file__`.
        """
        content = tomllib.loads(Path(module).with_suffix(".toml").read_text("utf-8"))
        groups = content.pop("groups")
        common = {"scale": 100.0, "published": content.get("published", True)}
        metrics = [
            common | {"group": group["name"]} | row for group in groups for row in group["metrics"]
        ]
        return cls.model_validate({**content, "metrics": metrics})


class FileBenchmark(ABC):
    """A benchmark whose cases are made from the rows of its files.

    Subclasses define the class variables and the abstract methods for cases, demonstrations and
    provenance.

    Raises:
        MissingData: the folder, or a file that the options need, is absent.
        BadSettings: an option is unknown or its value is invalid.
    """

    name: ClassVar[str]
    settings: ClassVar[tuple[str, ...]]
    wording: ClassVar[str]
    mode: ClassVar[str]
    definition: ClassVar[Definition]
    defaults: ClassVar[Mapping[str, str]]
    """Options with their default values."""
    values: ClassVar[Mapping[str, Collection[str]]] = {}
    """Possible values of options that are a choice."""
    has_texts: bool = True
    """True if `emend extract` can extract triplets from the benchmark's edits."""

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        self.options = {**self.defaults, **known_options(self.name, options, self.defaults)}
        for option, known in self.values.items():
            one_of(self.name, option, self.options[option], known)
        self.folder = data_folder(self.name, data)

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """Yield the cases in the order of the files; with a limit, a seeded sample.

        Raises:
            BadSettings: the setting is unknown or does not fit the options, or the limit is below
                1.
            MissingData: a file of the setting is absent.
            BadData: a record is malformed.
        """
        check_request(self.name, setting, self.settings, limit, self.has_texts)
        return self._build(setting, limit, seed)

    @abstractmethod
    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        """Return the cases of a valid setting and limit."""

    def metrics(self) -> Sequence[Metric]:
        """Return the definition's metrics that the options require."""
        return [metric for metric in self.definition.metrics if self._measures(metric)]

    def _measures(self, metric: Metric) -> bool:
        """Return True if the options require the metric."""
        return True

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Return hand-written demonstrations about invented subjects; `DemonstrationPool.rows` adds
        those from the data's rows.

        Raises:
            BadSettings: the setting is unknown.
        """
        one_of(self.name, "setting", setting, self.settings)
        return DemonstrationPool.of(
            self._written(setting), lambda rows: self._from_rows(setting, seed, rows)
        )

    def _written(self, setting: str) -> Iterable[Demonstration]:
        """Return the hand-written demonstrations, which are those of the definition."""
        facts = self.definition.facts
        fact = facts.get(setting, facts.get("usual", ""))
        return [
            Demonstration.model_validate({"fact": fact, **row})
            for row in self.definition.demonstrations
        ]

    @abstractmethod
    def _from_rows(self, setting: str, seed: int, count: int) -> Iterable[Demonstration]:
        """Return demonstrations from `count` rows about subjects that no other row asks about; 0
        for all such rows.
        """

    @property
    def provenance(self) -> dict[str, Any]:
        """Source, files with sha256, options, and counts of dropped, repaired and tagged rows."""
        files = {
            name: {
                "sha256": sha256(self.folder / name),
                **({} if records is None else {"records": records}),
            }
            for name, records in self._records().items()
        }
        return {
            "source": self.definition.source,
            "files": files,
            **({"choices": choices} if (choices := self._choices()) else {}),
            "options": dict(self.options),
            **self._counts(),
        }

    @abstractmethod
    def _records(self) -> Mapping[str, int | None]:
        """Return the files that are read, with the number of their records if they contain any."""

    def _choices(self) -> list[str]:
        """Return the scoring decisions that the paper leaves open."""
        return list(self.definition.choices)

    @abstractmethod
    def _counts(self) -> dict[str, Any]:
        """Return the further entries of the provenance."""

    def first_file(self, names: Sequence[str]) -> str:
        """Return the first of the names that exists in the folder.

        Raises:
            MissingData: none exists; the error names the first.
        """
        name = next((name for name in names if (self.folder / name).is_file()), names[0])
        require(self.folder, [name], self.definition.remedy)
        return name
