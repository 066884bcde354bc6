"""Cases, records and metrics: what a benchmark asks, the line of each answer, and what is reported."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, Self

from pydantic import AliasChoices, Field, model_validator

from emend.editors.base import NO_COST, Demonstration, EditCost
from emend.memory.edit import Edit, FrozenModel, content_id
from emend.memory.probe import Probe, Usage

Per = Literal["record", "case", "any", "all", "kind", "harmonic"]


class Case(FrozenModel):
    """Edits that belong together and the probes to ask once they are applied; the id is derived from the content."""

    id: str = ""
    edits: tuple[Edit, ...]
    probes: tuple[Probe, ...]
    tags: dict[str, str | int | float | bool] = {}

    @model_validator(mode="before")
    @classmethod
    def _fill_id(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.get("id"):
            edits = [e.id if isinstance(e, Edit) else e for e in values.get("edits", ())]
            probes = [p.id if isinstance(p, Probe) else p for p in values.get("probes", ())]
            return values | {"id": content_id("case", edits, probes)}
        return values


def pass_id(
    editor: str, fingerprint: Mapping[str, Any], model: Mapping[str, Any], setting: str, mode: str, repeat: int
) -> str:
    """Identifier made from everything that decides the answers of a pass besides the case."""
    return content_id(editor, fingerprint, model, setting, mode, repeat)


def unit_key(case: str, pass_content: str, checkpoint: int = 0) -> str:
    """Key of the unit of a case under a pass: made from content, not from order, time or machine.

    Args:
        case: its id.
        pass_content: identifier that `pass_id` returns.
        checkpoint: number of edits after which the case is asked again.
    """
    return content_id("unit", case, pass_content, *((checkpoint,) if checkpoint else ()))


class Record(FrozenModel):
    """One probe of one unit: prompt, answer, scores and cost, with the editor and the edits it was asked under.

    `values` holds a number per scorer output; `unscored` a reason per output that has none: a missing value is never 0.
    """

    unit: str
    of: int
    """Number of records of the unit, so that an incomplete unit is recognised."""
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
    rival: str | None = None
    answer: str | None = None
    passage: str | None = None
    """The sentences of the reply that answer, where they differ from `answer`."""
    reply: str | None = None
    """The whole reply if the answer was parsed from a chain of thought, for judges of the chain."""
    log_probs: tuple[float, ...] = ()
    target_tokens: tuple[int, ...] = ()
    """Number of tokens that each of `log_probs` covers; empty if the model does not report it."""
    values: dict[str, float] = {}
    unscored: dict[str, str] = {}
    retrieved: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    """Nodes of the editor's graph that the probe went through, in order; twice if it was asked twice."""
    form: str = ""
    """`plain` if the model continued plain text, `chat` if it was asked in messages; empty in older runs."""
    is_cut_off: bool = False
    """The reply ended at the limit of new tokens, before the model had ended it."""
    no_answer: bool = False
    """The model gave no answer that can be read: the papers count it as a wrong one."""
    excluded: str = ""
    """Why the answer is left out of all figures."""
    cut_tokens: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0
    from_baseline: bool = Field(default=False, validation_alias=AliasChoices("from_baseline", "kept"))
    """The answer is that of `baseline.jsonl`, where its tokens are counted."""
    active_edits: int = Field(default=0, validation_alias=AliasChoices("active_edits", "standing"))
    """Number of edits that were applied; 0 also in older runs."""
    checkpoint: int = 0
    """Number of edits after which the case was asked again; 0 the first time, under its own edits."""
    edit_cost: EditCost = NO_COST
    """Cost of applying the case's edits, `edits` of them together: divide by it for a share. It is 0 in older runs."""
    tags: dict[str, str | int | float | bool] = {}

    @classmethod
    def parse(cls, line: str) -> Self:
        """Parse one JSON line."""
        return cls.model_validate_json(line)


class Metric(FrozenModel):
    """A named aggregate: the mean of one scorer output over the records of some kinds.

    `scale` is 100 for what the papers print in percent; `higher_is_better` decides which value is marked as best.
    """

    name: str
    value: str
    kinds: tuple[str, ...]
    scale: float = 1.0
    per: Per = "record"
    """`record` averages over records (micro), `case` over the means of cases; with `any` a case counts with its best
    record, with `all` with its worst; `kind` is the mean of the kinds' means, each over its records,
    `harmonic` the harmonic mean of the kinds' means over the means of cases."""
    summary: str = ""
    group: str = ""
    """Metrics of one group share a table; the first group is shown first."""
    higher_is_better: bool = True
    protocol: str = ""
    """Rule by which an answer counts as right, see `metrics/protocols.py`; empty where none does, and in older runs."""
    share: bool = True
    """True if values are shares from 0 to 1; marks and magnitudes that do not vary have no interval."""


class Benchmark(Protocol):
    """A data set with its settings, its cases, and the metrics of its paper."""

    name: ClassVar[str]
    settings: ClassVar[tuple[str, ...]]
    wording: ClassVar[str]
    mode: ClassVar[str]
    """Default for the number of edits that are applied together."""

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """The cases in a stable order; `limit` takes the first, or a seeded sample of sorted files."""
        ...

    def metrics(self) -> Sequence[Metric]:
        """The reported metrics, in the order of the paper's columns."""
        ...

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Demonstrations for in-context editors, never about a tested fact."""
        ...

    @property
    def provenance(self) -> dict[str, Any]:
        """Source, files with sha256, and what was dropped or repaired, with counts.

        `choices` is a list of sentences on scoring where the paper leaves it open or its code differs; a report ends
        with them.
        """
        ...
