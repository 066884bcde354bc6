"""Annotation studies: what annotators see, what they are asked, and how much is sampled; the papers' are data."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from emend.agents.judging.base import Scale
from emend.evals.judging.panel import load_judge
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings
from emend.memory.registry import nearest

OPTIONS: dict[Scale, tuple[str, ...]] = {"yes or no": ("yes", "no"), "1 to 5": ("1", "2", "3", "4", "5")}


class SheetQuestion(FrozenModel):
    """A question about an item: its column in the sheet, its wording, and by label what the label means."""

    name: str = Field(pattern=r"^[a-z][a-z_]{0,39}$")
    question: str
    options: dict[str, str] = Field(min_length=2)

    @property
    def ordered(self) -> bool:
        """True if the labels are marks."""
        return all(label.isdecimal() for label in self.options)

    def number(self, label: str) -> float:
        """The mark, or the place of a label that is none."""
        return float(label) if self.ordered else float(list(self.options).index(label))


class Study(FrozenModel):
    """A study: the items it takes from a run, and what annotators are told and asked.

    Items are a judge's (`judge`), failed edits (`failed edits`), extracted triplets (`triplets`), or those that a
    construction keeps (`built items`). `split` names the part of an item of which each sentence is an item of its own.
    `strata` are fields of records that the sample shall have in equal numbers. `label` names the question whose labels
    a judge is calibrated with; with `counted`, it is the share of the item's sentences that have that label. `correct`
    is the label of items without an error: the shares of the other labels are those among errors.
    """

    name: str
    title: str
    source: Literal["judge", "failed edits", "triplets", "built items"]
    judge: str = ""
    split: str = ""
    size: int = Field(ge=1, description="number of items; with `split`, of texts; of triplets, of documents")
    strata: tuple[str, ...] = ("model", "editor")
    instructions: str
    questions: tuple[SheetQuestion, ...] = Field(min_length=1)
    label: str = ""
    counted: str = ""
    correct: str = ""
    published: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> "Study":
        names = [question.name for question in self.questions]
        if self.label not in ("", *names):
            raise ValueError(f"label '{self.label}' is none of the questions: {', '.join(names)}")
        if len({*names}) < len(names) or {*names} & {"item", "comment"}:
            raise ValueError("each question needs a name of its own, and neither 'item' nor 'comment'")
        if (self.source == "judge") != bool(self.judge):
            raise ValueError("'judge' names the judge whose items are taken, with source = \"judge\" alone")
        return self


@cache
def shipped_studies() -> dict[str, Study]:
    """The papers' studies, by name."""
    return _read(Path(__file__).with_name("studies.toml"))


def load_study(name: str) -> Study:
    """Load a study: one of the papers', one of a TOML file, or that of a judge.

    Raises:
        BadSettings: there is none of that name, or the judge's labels are no choice.
        BadData: the file cannot be read, or is not as it must be.
    """
    if name.endswith(".toml"):
        studies = _read(Path(name))
        if len(studies) != 1:
            raise BadData(f"'{name}' has {len(studies)} studies: leave one [[study]] in it.")
        return next(iter(studies.values()))
    return shipped_studies().get(name) or _of_judge(name)


def _read(path: Path) -> dict[str, Study]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("study", [])
        studies = [Study.model_validate(table) for table in tables]
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "study"
        raise BadData(f"'{path}', field '{field}': {first['msg']}. See docs/how-to/judges.md, Annotate.") from error
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise BadData(f"cannot read the study '{path}': {error}. See docs/how-to/judges.md, Annotate.") from error
    return {study.name: study for study in studies}


def _of_judge(name: str) -> Study:
    """The question that the judge is asked, put to people."""
    try:
        role = load_judge(name).role
    except BadSettings as error:
        known = list(shipped_studies())
        raise BadSettings(
            f"no study '{name}': {nearest(name, known)} A judge's name, or a .toml file, is one too."
        ) from error
    if role.scale not in OPTIONS:
        raise BadSettings(f"judge '{name}' gives a {role.scale}, which is no choice: use the study recoe-recall.")
    values: dict[str, Any] = {"name": role.output, "question": role.output.replace("_", " ").capitalize() + "?"}
    question = SheetQuestion(**values, options=dict.fromkeys(OPTIONS[role.scale], ""))
    return Study(
        name=name,
        title=role.name.capitalize(),
        source="judge",
        judge=name,
        size=100,
        instructions=role.task,
        questions=(question,),
        label=question.name,
    )
