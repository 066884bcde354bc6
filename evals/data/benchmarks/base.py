"""Base of the benchmarks that read rows from files: options, files, demonstrations and provenance."""

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.rows import DemonstrationPool, data_folder, require, sha256
from emend.evals.data.benchmarks.triples import EXTRACTED, OPTION
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest


def known_options(benchmark: str, options: Mapping[str, str] | None, known: Collection[str]) -> dict[str, str]:
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
        BadSettings: it is not; names the nearest.
    """
    if value not in known:
        raise BadSettings(f"unknown {what} '{value}' of {benchmark}: {nearest(value, list(known))}")
    return value


def some_of(benchmark: str, option: str, value: str, known: Collection[str]) -> tuple[str, ...]:
    """Parse a comma list into its values, each once, in their order; `option` is in the plural ("blocks").

    Raises:
        BadSettings: a value is unknown, or the list is empty.
    """
    names = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    for name in names:
        one_of(benchmark, option.removesuffix("s"), name, known)
    if not names:
        raise BadSettings(f"{option}='{value}' of {benchmark}: name at least one of {', '.join(known)}.")
    return names


def flag(benchmark: str, option: str, value: str) -> bool:
    """Parse an option that is on (1, true) or off (0, false).

    Raises:
        BadSettings: it is neither.
    """
    if value.lower() not in ("0", "1", "true", "false"):
        raise BadSettings(f"{option}='{value}' of {benchmark}: give 1 (yes) or 0 (no).")
    return value.lower() in ("1", "true")


def check_request(
    benchmark: str, setting: str, settings: Collection[str], limit: int | None, texts: bool = False
) -> None:
    """Check the setting and the limit of a request for cases; `texts` if triplets can be extracted from the edits.

    Raises:
        BadSettings: the setting is unknown, or needs extracted triplets, or the limit is below 1.
    """
    if texts and setting in EXTRACTED and setting not in settings:
        method = " --method llm --model MODEL" if setting == "llm" else ""
        raise BadSettings(
            f"setting '{setting}' of {benchmark} needs triplets extracted from its texts: extract them with emend "
            f"extract --benchmark {benchmark}{method} --out FILE (and the same --data and --benchmark-option), then "
            f"give --benchmark-option {OPTION}=FILE --setting {setting}; or use one that needs none: "
            f"{', '.join(settings)}."
        )
    one_of(benchmark, "setting", setting, settings)
    if limit is not None and limit < 1:
        raise BadSettings(f"limit={limit}: at least 1 case is needed.")


class Definition(FrozenModel):
    """Content of the TOML file beside a benchmark's module; metrics are in percent unless they have a `scale`."""

    source: str = ""
    """The repository that publishes the files."""
    remedy: str = ""
    """How to get the files; ends the error about a missing one."""
    choices: tuple[str, ...] = ()
    """What the paper leaves open on scoring, or its code does otherwise."""
    facts: dict[str, str] = {}
    """Fact of the demonstrations by setting; `usual` for the others."""
    demonstrations: tuple[dict[str, str], ...] = ()
    metrics: tuple[Metric, ...]
    """In the order of the paper's columns."""

    @classmethod
    def beside(cls, module: str) -> "Definition":
        """Read the TOML file of the same name beside a module, by the module's `__file__`."""
        content = tomllib.loads(Path(module).with_suffix(".toml").read_text("utf-8"))
        groups = content.pop("groups")
        metrics = [{"scale": 100.0, "group": group["name"]} | row for group in groups for row in group["metrics"]]
        return cls.model_validate({**content, "metrics": metrics})


class FileBenchmark(ABC):
    """A benchmark whose cases are made from the rows of its files.

    A subclass gives the class variables and the abstract methods for cases, demonstrations and provenance.

    Raises:
        MissingData: the folder, or a file that the options need, is absent.
        BadSettings: an option is unknown or its value impossible.
    """

    name: ClassVar[str]
    settings: ClassVar[tuple[str, ...]]
    wording: ClassVar[str]
    mode: ClassVar[str]
    definition: ClassVar[Definition]
    defaults: ClassVar[Mapping[str, str]]
    """The options with their default values."""
    values: ClassVar[Mapping[str, Collection[str]]] = {}
    """The possible values of those options that are a choice."""
    has_texts: bool = True
    """True if `emend extract` can take triplets out of the benchmark's edits."""

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        self.options = {**self.defaults, **known_options(self.name, options, self.defaults)}
        for option, known in self.values.items():
            one_of(self.name, option, self.options[option], known)
        self.folder = data_folder(self.name, data)

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """The cases in the order of the files; with a limit a seeded sample.

        Raises:
            BadSettings: the setting is unknown or does not fit the options, or the limit is below 1.
            MissingData: a file of the setting is absent.
            BadData: a record is malformed.
        """
        check_request(self.name, setting, self.settings, limit, self.has_texts)
        return self._build(setting, limit, seed)

    @abstractmethod
    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        """The cases of a valid setting and limit."""

    def metrics(self) -> Sequence[Metric]:
        """The definition's metrics that the options ask for."""
        return [metric for metric in self.definition.metrics if self._measures(metric)]

    def _measures(self, metric: Metric) -> bool:
        """Return True if the options ask for the metric."""
        return True

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Hand-written demonstrations about invented subjects; `DemonstrationPool.rows` adds those of the data's rows.

        Raises:
            BadSettings: the setting is unknown.
        """
        one_of(self.name, "setting", setting, self.settings)
        return DemonstrationPool.of(self._written(setting), lambda: self._from_rows(setting, seed))

    def _written(self, setting: str) -> Iterable[Demonstration]:
        """The hand-written demonstrations, those of the definition."""
        facts = self.definition.facts
        fact = facts.get(setting, facts.get("usual", ""))
        return [Demonstration.model_validate({"fact": fact, **row}) for row in self.definition.demonstrations]

    @abstractmethod
    def _from_rows(self, setting: str, seed: int) -> Iterable[Demonstration]:
        """Demonstrations from rows about whose subjects no other row asks."""

    @property
    def provenance(self) -> dict[str, Any]:
        """Source, files with sha256, options, and what was dropped, repaired or tagged, with counts."""
        files = {
            name: {"sha256": sha256(self.folder / name), **({} if records is None else {"records": records})}
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
        """The files that are read, with the number of their records where they hold any."""

    def _choices(self) -> list[str]:
        """How scoring was decided where the paper leaves it open."""
        return list(self.definition.choices)

    @abstractmethod
    def _counts(self) -> dict[str, Any]:
        """The further entries of the provenance."""

    def first_file(self, names: Sequence[str]) -> str:
        """Return the first of the names that is in the folder.

        Raises:
            MissingData: none is; names the first.
        """
        name = next((name for name in names if (self.folder / name).is_file()), names[0])
        require(self.folder, [name], self.definition.remedy)
        return name
