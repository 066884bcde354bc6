"""Cases, records and metrics: the questions of a benchmark, the stored answers, and the reported
scores.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

from pydantic import AliasChoices, Field, model_validator

from emend.editors.base import NO_COST, Demonstration, EditCost
from emend.memory.edit import Edit, FrozenModel, content_id
from emend.memory.probe import Probe, Usage

# Maximum number of records of a unit; a larger number in a file means that it is damaged.
MOST_RECORDS = 2**31 - 1
Per = Literal["record", "case", "case_kinds", "any", "all", "kind", "harmonic"]


class Case(FrozenModel):
    """Edits that are applied together and the probes that are asked afterwards; the id is derived
    from the content.
    """

    id: str = ""
    edits: tuple[Edit, ...]
    probes: tuple[Probe, ...]
    hop_golds: tuple[tuple[str, ...], ...] = ()
    """For each hop of the chain that all multi-hop questions of the case follow the accepted
    answers; a question's own `hop_golds` come before them."""
    tags: dict[str, str | int | float | bool] = {}
    """Labels by which results are grouped and filtered."""

    @model_validator(mode="before")
    @classmethod
    def _fill_id(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.get("id"):
            edits = [e.id if isinstance(e, Edit) else e for e in values.get("edits", ())]
            probes = [p.id if isinstance(p, Probe) else p for p in values.get("probes", ())]
            return values | {"id": content_id("case", edits, probes)}
        return values


def pass_id(
    editor: str,
    fingerprint: Mapping[str, Any],
    model: Mapping[str, Any],
    setting: str,
    mode: str,
    repeat: int,
) -> str:
    """Return an identifier of everything besides the case that determines the answers of a pass."""
    return content_id(editor, fingerprint, model, setting, mode, repeat)


def unit_key(case: str, pass_content: str, checkpoint: int = 0) -> str:
    """Return the key of a case's unit in a pass, made from content, not from order, time or
    machine.

    Args:
        case: id of the case.
        pass_content: identifier that `pass_id` returns.
        checkpoint: number of edits after which the case is asked again.
    """
    return content_id("unit", case, pass_content, *((checkpoint,) if checkpoint else ()))


class Record(FrozenModel):
    """One probe of one unit: prompt, answer, scores and cost, with the editor and the edits it was
    asked under.

    `values` holds a number for each scorer output, and `unscored` the reason for each output
    without a number: a missing value is never 0.
    """

    unit: str
    of: Annotated[int, Field(ge=1, le=MOST_RECORDS)]
    """Number of records of the unit, by which an incomplete unit is recognised."""
    case: str
    probe: str
    kind: str
    editor: str
    model: str
    setting: str
    mode: str
    repeat: int = 0
    prompt: str
    gold: tuple[str, ...]
    hop_golds: tuple[tuple[str, ...], ...] = ()
    """Accepted answers of each hop of a multi-hop question; empty if the data has none."""
    rival: str | None = None
    rubric: tuple[str, ...] = ()
    """Statements that a right answer contains, for a judge."""
    criterion: str = ""
    """Name of the criterion by which a judge compares the answer with gold."""
    answer: str | None = None
    passage: str | None = None
    """Sentences of the reply that contain the answer, if they differ from `answer`."""
    reply: str | None = None
    """Whole reply, for judges of the chain, if the answer was parsed from a chain of thought."""
    log_probs: tuple[float, ...] = ()
    target_tokens: tuple[int, ...] = ()
    """Number of tokens covered by each of `log_probs`; empty if the model does not report it."""
    values: dict[str, float] = {}
    unscored: dict[str, str] = {}
    rules: dict[str, str] = {}
    """Rule that decided the score, for each scorer output that reads text; empty in older runs."""
    compared: dict[str, str] = {}
    """Words of the answer that were compared, for each scorer output that compares words."""
    retrieved: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    """Nodes of the editor's graph that ran for the probe, in order; listed twice if the probe was
    asked twice."""
    form: str = ""
    """`plain` if the model continued plain text, `chat` if it was asked in chat messages; empty in
    older runs."""
    is_cut_off: bool = False
    """True if the reply was cut off at the limit of new tokens."""
    no_answer: bool = False
    """True if no answer could be parsed from the reply; the papers count it as wrong."""
    excluded: str = ""
    """Reason for excluding the answer from all figures; empty if it is counted."""
    cut_tokens: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0
    from_baseline: bool = Field(
        default=False, validation_alias=AliasChoices("from_baseline", "kept")
    )
    """True if the answer was copied from `baseline.jsonl`, where its tokens are counted."""
    active_edits: int = Field(default=0, validation_alias=AliasChoices("active_edits", "standing"))
    """Number of edits that were applied; 0 also in older runs."""
    checkpoint: int = 0
    """Number of edits after which the case was asked again; 0 the first time, right after its own
    edits."""
    edit_cost: EditCost = NO_COST
    """Cost of applying the batch with the case's edits; divide by its `edits` for the cost of one
    edit. It is 0 in older runs."""
    tags: dict[str, str | int | float | bool] = {}

    @property
    def job(self) -> str:
        """Empty string; lines of other jobs have a field with the job's name, see `JobLine`."""
        return ""

    @classmethod
    def parse(cls, line: str) -> Self:
        """Parse one JSON line."""
        return cls.model_validate_json(line)


class Metric(FrozenModel):
    """A named aggregate: the mean of one scorer output over the records of some kinds.

    `scale` is 100 for metrics that the papers print in percent; `higher_is_better` decides which
    value is marked as best.
    """

    name: str
    value: str
    kinds: tuple[str, ...]
    scale: float = 1.0
    per: Per = "record"
    """`record` averages over records (micro), `case` over the means of cases; with `any` a case
    counts with its best record, with `all` with its worst; `kind` is the mean of the kinds' means,
    each over its records, and `harmonic` the harmonic mean of the kinds' means over the means of
    cases; `case_kinds` averages over cases, where a case counts with the mean of its means per
    kind, over the kinds that occur in it."""
    summary: str = ""
    group: str = ""
    """Metrics of one group share a table; the first group is shown first."""
    higher_is_better: bool = True
    protocol: str = ""
    """Rule that decides if an answer is right, see `metrics/protocols.py`; empty for metrics
    without such a rule and in older runs."""
    share: bool = True
    """True if values are proportions from 0 to 1; grades and magnitudes that do not vary have no
    confidence interval."""
    is_right: bool = False
    """True if the value 1 means a right answer; only needed for outputs that are not built in."""
    agrees_with_unedited: bool = False
    """True if the unedited model has the best value by definition; only needed for outputs that are
    not built in."""
    published: bool = True
    """True if a paper reports the metric under its own protocol; also in older runs."""


class Benchmark(Protocol):
    """A dataset with its settings, cases, and the metrics of its paper."""

    name: ClassVar[str]
    settings: ClassVar[tuple[str, ...]]
    wording: ClassVar[str]
    mode: ClassVar[str]
    """Default mode: how many edits are applied together."""

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """Yield the cases in a stable order; `limit` takes a seeded sample, or the first
        conversations.
        """
        ...

    def metrics(self) -> Sequence[Metric]:
        """Return the reported metrics, in the order of the paper's columns."""
        ...

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Return demonstrations for in-context editors, never about a tested fact."""
        ...

    @property
    def provenance(self) -> dict[str, Any]:
        """Source, files with sha256, and counts of dropped or repaired rows.

        `choices` lists sentences about scoring decisions that the paper leaves open or its code
        makes differently; they are printed at the end of a report.
        """
        ...
