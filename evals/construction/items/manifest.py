"""Settings of a construction, stored in and read from its run folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from emend.agents.providers.usage import ProviderUsage
from emend.evals.config.build_config import BuildConfig
from emend.evals.config.limits import Limits
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.items.line import JOB, ROW
from emend.evals.log.manifest import Manifest
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData

# Benchmark name of a construction in the run configuration.
BENCHMARK = "items"
SOURCE_FIELDS = ("source", "recipe", "language")
SETTINGS_FIELDS = ("recipe", "judge", "prompts", "language", "queries")
SHARED_FIELDS = (
    *Limits.model_fields,
    "model",
    "limit",
    "seed",
    "concurrency",
    "workers",
    "fail_on_error",
)


def run_config(kind: str, config: BuildConfig, source: str) -> RunConfig:
    """Return the run configuration under which a construction is stored in its run folder.

    Args:
        kind: kind of benchmark.
        config: build configuration.
        source: file, folder or benchmark whose items are read.

    Raises:
        BadSettings: see `RunConfig`.
    """
    settings = {"kind": kind} | {name: getattr(config, name) for name in SETTINGS_FIELDS}
    return RunConfig(
        benchmark=BENCHMARK,
        benchmark_options={
            "kind": kind,
            "source": source,
            "recipe": config.recipe,
            "language": config.language,
        },
        editors=(ROW,),
        overrides=config.overrides | {ROW: settings | config.overrides.get(ROW, {})},
        form="chat",
        **{name: getattr(config, name) for name in SHARED_FIELDS},
    )


class Construction(FrozenModel):
    """Settings with which a construction was started, and its source.

    Attributes:
        kind: kind of benchmark.
        config: build configuration; its source is the one whose items are read.
        judge: name of the judge model.
        items: number of items.
        prompts: prompt ids by name.
        source: the source with its files and the counts of what was left out.
        prices: the user's price file, as read by the last process.
        spent: usage and cost of all finished processes, by model.
    """

    kind: str
    config: BuildConfig
    judge: str
    items: int
    prompts: dict[str, str]
    source: dict[str, Any]
    prices: dict[str, Any] | None
    spent: dict[str, ProviderUsage]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a construction from its run folder, which an earlier version may have written.

        Raises:
            BadData: the manifest is missing, unreadable, or not that of a construction.
        """
        manifest = Manifest.read(folder)
        config = manifest.config
        if manifest.job != JOB and config.benchmark != BENCHMARK:
            raise BadData(
                f"'{folder}' is a run of '{config.benchmark}', not a construction of emend build."
            )
        (rows,) = manifest.editors.values()
        settings = config.overrides[ROW]
        return cls(
            kind=config.benchmark_options["kind"],
            config=_build_config(config),
            judge=settings["judge"] or config.model,
            items=manifest.units,
            prompts=rows[ROW]["settings"]["prompts"],
            source={name: value for name, value in manifest.benchmark.items() if name != "options"},
            prices=manifest.prices,
            spent=manifest.spent,
        )

    def resumed(self, options: Mapping[str, Any]) -> Self:
        """Return a copy with new options; stored prices, cache and workers are not reused.

        Raises:
            BadSettings: an option is invalid.
        """
        stored = self.config.model_dump(exclude={"prices", "cache", "workers"})
        config = BuildConfig.model_validate({**stored, **options})
        return self.model_copy(update={"config": config})


def _build_config(config: RunConfig) -> BuildConfig:
    """Return the build configuration from the run configuration, the inverse of `run_config`."""
    fields = {name: getattr(config, name) for name in SHARED_FIELDS}
    fields |= {name: config.overrides[ROW][name] for name in SETTINGS_FIELDS}
    fields |= {name: config.benchmark_options[name] for name in SOURCE_FIELDS}
    settings = {
        name: value
        for name, value in config.overrides[ROW].items()
        if name not in (*fields, "kind")
    }
    overrides = {name: values for name, values in config.overrides.items() if name != ROW}
    return BuildConfig.model_validate(fields | {"overrides": overrides | {ROW: settings}})
