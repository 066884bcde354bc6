"""Options of `emend build` for each kind of benchmark."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.limits import Limits
from emend.evals.construction.registry import CONSTRUCTIONS
from emend.memory.edit import FrozenModel

# Options of every kind with an author, apart from the options of API calls.
AUTHORED = (
    "source",
    "model",
    "judge",
    "recipe",
    "language",
    "prompts",
    "limit",
    "seed",
    "concurrency",
    "workers",
    "fail_on_error",
    "overrides",
)


class KindOptions(FrozenModel):
    """Options of a kind of benchmark.

    Attributes:
        summary: one-line description of the benchmark.
        source: help of `--from`.
        particular: fields of `BuildConfig` that only this kind and a few others read.
        relations: help of `--relations`; empty if the kind has no such option.
        shared: fields of `BuildConfig` that most kinds read.
        is_composed: True if the items are composed by rules, so that the author is optional and
            `--cases` sets their number.
    """

    summary: str
    source: str
    particular: tuple[str, ...] = ()
    relations: str = ""
    shared: tuple[str, ...] = AUTHORED
    is_composed: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields of `BuildConfig` that are options of the kind."""
        return (*self.shared, *self.particular, *Limits.model_fields)

    @property
    def help_texts(self) -> Mapping[str, str]:
        """Help texts that replace the descriptions of fields, by field."""
        texts = {"source": self.source}
        if self.relations:
            texts["relations"] = self.relations
        if self.is_composed:
            texts["model"] = (
                "Author model, which paraphrases the items; default: the wording composed by rules."
            )
        if not self.is_reviewed:
            texts["model"] = "Model whose knowledge is tested; as in emend run --model."
        return texts

    @property
    def common(self) -> tuple[str, ...]:
        """Parameters of the first help panel, in order."""
        return (
            "source",
            "model",
            *(("judge",) if self.is_reviewed else ()),
            "out",
            *self.particular,
        )

    @property
    def is_reviewed(self) -> bool:
        """True if a judge and people can review the items."""
        return "judge" in self.shared


def _read_options() -> Iterator[tuple[str, KindOptions]]:
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    for kind, fields in tables.items():
        if kind in CONSTRUCTIONS.builtin:
            fields["summary"] = CONSTRUCTIONS.builtin[kind][1]
        yield kind, KindOptions.model_validate(fields)


KIND_OPTIONS = dict(_read_options())
# A kind from another package may read any field.
FOREIGN_KIND = KindOptions(
    summary="Your own kind, or a kind of another package.",
    source="Source of the kind: a file, folder or benchmark.",
    particular=tuple(
        name
        for name in BuildConfig.model_fields
        if name not in AUTHORED and name not in Limits.model_fields
    ),
)


def kinds_with(option: str) -> list[str]:
    """Return the kinds that have a field as an option."""
    return [name for name, options in KIND_OPTIONS.items() if option in options.fields]
