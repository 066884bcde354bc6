"""Manifest of a scoring, with the settings at its start."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from pydantic import AwareDatetime, NonNegativeInt, model_validator

from emend.agents.providers.usage import ProviderUsage
from emend.evals.config.limits import FailureLimit, Limits
from emend.evals.judging.calibration.stored import read_calibration
from emend.evals.judging.panel import Panel
from emend.evals.judging.scorings.choice import ItemChoice
from emend.evals.log.records import read_model, replace
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadData, BadSettings

JOB = "judge"
# Folder of a run's scorings, and name of a scoring's manifest.
FOLDER, SCORING = "scorings", "scoring.json"
# Files that may already exist if the start of a scoring is refused.
DRAFTS = frozenset({SCORING})
# Share of failed calls at which a scoring ends.
FAIL_ON_ERROR = "0.5"


class JudgeCalling(FrozenModel):
    """Settings of the calls to judges, which do not affect the verdicts.

    Attributes:
        choice: selection of the items to judge.
        settings: settings of every judge's model, which are also in the fingerprints.
        concurrency: maximum number of calls at the same time.
        fail_on_error: failed calls after which the scoring ends, see `FailureLimit`.
        limits: limits of the calls, without the user's files.
    """

    choice: ItemChoice = ItemChoice()
    settings: dict[str, Any] = {}
    concurrency: int = 4
    fail_on_error: str = FAIL_ON_ERROR
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.concurrency < 1:
            raise BadSettings(f"concurrency is {self.concurrency}: it must be 1 or more.")
        FailureLimit.parse(self.fail_on_error)
        return self


CALLING = JudgeCalling()


class OwnJudge(FrozenModel):
    """Names and scale of the outputs of a user's judge."""

    outputs: tuple[str, ...]
    scale: str


class Scoring(FrozenModel):
    """Manifest with the full configuration of a scoring, stored in the run's folder as
    `scorings/ID/scoring.json`.
    """

    job: str = JOB
    id: str
    panel: Panel
    kinds: tuple[str, ...]
    """Names of the judges, as in `emend list judges`."""
    prompts: dict[str, str]
    """Ids of the prompts, by kind."""
    fingerprints: dict[str, Any]
    """Fingerprints of the models, by name."""
    forced: bool = False
    """True if a judge is the model under test."""
    calibration: dict[str, Any] = {}
    """Known agreement of the judges with people at the start of the scoring, by kind."""
    versions: dict[str, str] = {}
    started: AwareDatetime
    own_judges: dict[str, "OwnJudge"] = {}
    """Judges that are neither built in nor installed, by kind; their code is not imported to read a
    run."""

    calling: JudgeCalling = JudgeCalling()
    units: NonNegativeInt = 0
    """Number of calls known so far; 0 in older scorings."""
    prices: dict[str, Any] | None = None
    """Content of the user's price file, as read by the last process."""
    spent: dict[str, ProviderUsage] = {}
    """Usage of all finished processes, by model behind an API."""

    @property
    def judge(self) -> str:
        """Names of the judges' models in one line."""
        return ", ".join(self.panel.judges)

    @classmethod
    def read(cls, folder: Path) -> "Scoring":
        """Read the manifest from the scoring's folder.

        Raises:
            BadData: the manifest cannot be read, or belongs to another folder.
            FileNotFoundError: the folder has no manifest.
        """
        return read_scoring(folder / SCORING, folder.name)

    def folder(self, run: Path) -> Path:
        """Return the scoring's folder within the folder of the run."""
        return run / FOLDER / self.id

    def write(self, folder: Path) -> None:
        """Write the manifest to the scoring's folder."""
        replace(folder / SCORING, self)

    def written(self, folder: Path) -> Self:
        """Write the manifest to the scoring's folder unless it is unchanged, and return it."""
        with suppress(FileNotFoundError):
            if self.read(folder) == self:
                return self
        self.write(folder)
        return self

    def calibrated(self, kind: str) -> dict[str, Any] | None:
        """Return the agreement with people as stored now, or else at the start; None if it has not
        been measured.

        A calibration of another prompt does not count.
        """
        for known in (read_calibration(self.panel.judges, kind), self.calibration.get(kind)):
            if known and known.get("prompt_id") == self.prompts[kind]:
                return dict(known)
        return None


def scoring_id(
    panel: Panel, kinds: Sequence[str], prompts: Mapping[str, str], fingerprints: Mapping[str, Any]
) -> str:
    """Return the id, derived from everything that affects the judgements, so that the same command
    continues the same scoring.
    """
    # The ids of the prompts are included below; second judges do not start a new scoring.
    settings = panel.model_dump(exclude={"second", "prompts"})
    digest = content_id(settings, sorted(kinds), dict(prompts), dict(fingerprints))
    first = re.sub(r"[^\w.]+", "-", panel.judges[0].partition("@")[0]).strip("-.")[:40]
    return f"{first}-{digest[:8]}"


def read_scoring(path: Path, name: str) -> Scoring:
    """Read a manifest, and check that it belongs to the scoring with this name.

    Raises:
        BadData: the file cannot be read, or belongs to another scoring.
        FileNotFoundError: the file does not exist.
    """
    scoring = read_model(path, Scoring, "Restore the file, or remove it.")
    if scoring.id != name:  # the id is part of the other paths
        raise BadData(f"'{path}' names the scoring '{scoring.id}': restore the file, or remove it.")
    return scoring
