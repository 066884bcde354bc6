"""Configuration of building a benchmark, from which the options of `emend build` are made."""

import re
from datetime import date
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from emend.evals.config.division import WorkersSpec
from emend.evals.config.limits import FailureLimit, Limits
from emend.evals.config.overrides import MODEL
from emend.evals.config.run_config import LARGEST_SEED
from emend.memory.errors import BadSettings
from emend.memory.redaction import refuse_secrets

# Language code of BCP 47, such as en, zh-Hant or pt-BR.
LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")


def read_day(since: str) -> date:
    """Parse the date given as `--since`.

    Raises:
        BadSettings: the text is not a date.
    """
    try:
        return date.fromisoformat(since)
    except ValueError:
        raise BadSettings(
            f"--since is '{since}': give the day from which changes count, as 2026-01-31."
        ) from None


class BuildConfig(Limits):
    """Everything that determines the built benchmark, and how it is built.

    Fields that only some kinds of benchmarks use are options of these kinds only, see `emend build
    KIND --help`.

    Raises:
        BadSettings: a field has an invalid value.
    """

    source: str = Field(
        default="",
        description="File, folder or benchmark to build from; see docs/how-to/build.md.",
    )
    model: str = Field(
        default="", description="Author model, which writes the texts; as in emend run --model."
    )
    judge: str = Field(
        default="", description="Judge model, which checks the author's texts; default: the author."
    )
    recipe: Literal["paper", "best"] = Field(
        default="best",
        description="Recipe: paper, as published, with human review; or best, with filters and "
        "new attempts.",
    )
    language: str = Field(default="en", description="Language code of the texts, such as en or zh.")
    queries: str = Field(
        default="",
        description="Language of the queries; default: that of the documents, or English for zh.",
    )
    prompts: str = Field(default="", description="TOML file with prompts; default: Emend's.")
    limit: int | None = Field(default=None, description="Maximum number of items; default: all.")
    since: str = Field(
        default="",
        description="First day of changes, such as 2026-01-01.",
    )
    contact: str = Field(
        default="",
        description="E-mail address or URL of a contact, which Wikimedia's servers require.",
    )
    relations: str = Field(
        default="",
        description="TOML file of relations, templates or event types.",
    )
    leads: str = Field(
        default="",
        description="JSON lines of title and lead; default: fetched from Wikipedia.",
    )
    fact: Literal["new", "old"] = Field(
        default="new",
        description="Objects to ask for: the new ones, after the edits, or the old ones.",
    )
    keep: Literal["unknown", "known"] = Field(
        default="unknown",
        description="Facts to keep: those unknown to the model, or those known to it.",
    )
    hops: str = Field(default="2,3,4", description="Numbers of hops per chain.")
    edits: str = Field(default="1,2,3,4", description="Numbers of edits per chain.")
    cases: int = Field(default=100, ge=1, description="Maximum number of items.")
    allow_conflicts: bool = Field(
        default=False,
        description="Allow edits of one item to change facts of another.",
    )
    schemes: str = Field(default="", description="Schemes of questions; default: all six.")
    documents: str = Field(
        default="", description="Folder of documents that the facts must be consistent with."
    )
    retriever: str = Field(
        default="bm25",
        description="Retriever for the paragraphs of --documents.",
    )
    benchmark_options: dict[str, str] = Field(
        default={}, description="Option of the benchmark that --from names; repeatable."
    )
    data: str | None = Field(
        default=None, description="Folder with the files of the benchmark that --from names."
    )
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="Random seed.")
    concurrency: int = Field(default=4, description="Number of items built at the same time.")
    workers: str = Field(
        default="auto", description="Where items are built: threads of this process."
    )
    fail_on_error: str = Field(
        default="0.1",
        description="Failed items at which the construction stops, as in emend run "
        "--fail-on-error.",
    )
    overrides: dict[str, dict[str, Any]] = Field(
        default={},
        description="Setting of the author (model.KEY=VALUE) or of the construction "
        "(build.attempts=2).",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("limit", "concurrency"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise BadSettings(f"{name} is {number}: it must be 1 or more.")
        self._check_languages()
        if self.since:
            read_day(self.since)
        FailureLimit.parse(self.fail_on_error)
        if WorkersSpec.parse(self.workers).kind not in ("auto", "threads"):
            raise BadSettings(
                f"--workers {self.workers}: a construction makes its items in "
                "threads; leave it out."
            )
        refuse_secrets(self.overrides.get(MODEL, {}), MODEL)
        if unknown := sorted(set(self.overrides) - {MODEL, "build"}):
            raise BadSettings(f"--set {unknown[0]}: only model.KEY and build.KEY can be set here.")
        return self

    def _check_languages(self) -> None:
        for option, code in (("--language", self.language), ("--queries", self.queries or "en")):
            if not LANGUAGE_CODE.fullmatch(code):
                raise BadSettings(f"{option} is '{code}': give a code such as en, zh or pt-BR.")
        if (
            self.queries
            and "en" not in (self.language, self.queries)
            and self.language != self.queries
        ):
            raise BadSettings(
                f"--queries {self.queries} with --language {self.language}: facts are translated "
                f"once, from English; give --queries en or {self.language}, or --language en."
            )

    def require_source(self, *, needs_author: bool = True) -> None:
        """Check that the source is named, and the author if one is needed.

        Raises:
            BadSettings: one of them is missing.
        """
        required = [
            ("--from", self.source, "source"),
            *([("--model", self.model, "author")] if needs_author else []),
        ]
        for option, value, meaning in required:
            if not value:
                raise BadSettings(f"no {meaning} is given: add {option}; see docs/how-to/build.md.")
