"""CounterFact: counterfactual facts about many subjects, with paraphrases and unrelated neighbours.

"Locating and Editing Factual Associations in GPT" (Meng et al. 2022); data: rome.baulab.info/data/dsets/. A record of
each form is shown in `counterfact.rows`.

Success and difference are averaged inside a record and then over records, as in the released code. ES to NM and S
compare the geometric mean of each target's token probabilities, as the code does; the paper's formulas, from joint
probabilities, follow in a second group (equal for targets of one token). S is the harmonic mean of the unrounded ES, PS
and NS.

GE is taken over greedy texts of a fixed number of new tokens, one per distinct prompt of a record; the code samples
from the five most likely tokens, up to 100 with the prompt's, so its GE is another measure. RS needs the reference
texts, which are separate files: `metrics.consistency`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.benchmarks.base import FileBenchmark, percent
from emend.evals.benchmarks.counterfact.cases import fact_case, fact_demonstrations
from emend.evals.benchmarks.counterfact.rows import Counterfact, FlatRow, OriginalRow
from emend.evals.benchmarks.demonstrations import UniqueNames, eligible, of_first_rows
from emend.evals.benchmarks.files import read_numbered
from emend.evals.benchmarks.sampling import last_drawn, sample_ids
from emend.evals.case import Case, Metric
from emend.memory.errors import BadSettings

DATASETS = {
    "original": ("counterfact.json", "counterfact.sample.json"),
    "multi": ("multi_counterfact.json",),
    "flat": ("counterfact-edit.json", "counterfact_easyedit_1k.json"),
    "flat-evidence": ("counterfact-edit-evidence-1k.json", "counterfact_evidence.sample.json"),
}
"""File names of each data set; the first one found is read. The second names are parts of the published files."""
ORIGINAL = ("original", "multi")
COLUMNS = (
    ("ES", "success", "efficacy", "new target more probable than the true one, query"),
    ("EM", "difference", "efficacy", "by how much, as a difference of probabilities"),
    ("PS", "success", "paraphrase", "new target more probable, paraphrases"),
    ("PM", "difference", "paraphrase", "by how much"),
    ("NS", "success", "neighborhood", "true target more probable, other subjects"),
    ("NM", "difference", "neighborhood", "by how much"),
)
CODE = "as in the released code, geometric means of token probabilities"
PAPER = "as in the paper's formulas, joint probabilities"
TESTED = 2000
"""IKE tests this many records, the first, and shows those after them."""


class CounterFact(FileBenchmark):
    """The benchmark; in setting `triplet` the edit is one sentence, in `evidence` a longer text that states it.

    Option `dataset`: `original` (default), `multi` (MEMIT's choice of records), `flat` (EasyEdit's form) or
    `flat-evidence`, the only one that has texts for the setting `evidence`. Option `generation`: number of tokens of
    the texts for GE, 100 in the released code; 0, the default, generates none.

    One case per record: the query, the paraphrases, the neighbours, and the generated texts.
    """

    name: ClassVar[str] = "counterfact"
    settings: ClassVar[tuple[str, ...]] = ("triplet", "evidence")
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "single"  # one edit at a time, as in the paper
    source = "rome.baulab.info/data/dsets/"
    remedy = (
        "Get it with: emend data pull counterfact; or with: curl -fO "
        "https://rome.baulab.info/data/dsets/counterfact.json (original; multi_counterfact.json is at "
        "memit.baulab.info), or take counterfact-edit.json from EasyEdit's data (flat), then give --data FOLDER, or "
        "put it in $EMEND_DATA/counterfact."
    )
    defaults = {"dataset": "original", "generation": "0"}
    values = {"dataset": tuple(DATASETS)}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        self.dataset = self.options["dataset"]
        self.has_texts = self.dataset == "flat-evidence"
        self.generation = _text_length(self.options["generation"], self.dataset)
        self.file = self.first_file(DATASETS[self.dataset])

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        facts = self._facts_of(setting)
        if not facts:
            raise BadSettings(
                f"setting 'evidence' of counterfact: no record of {self.file} has a text 'fake_evidence'; "
                "use setting 'triplet' or the option dataset=flat-evidence."
            )
        chosen = list(facts) if limit is None else sample_ids(list(facts), {}, limit, seed)
        return (fact_case(facts[number], setting, self.generation) for number in chosen)

    def metrics(self) -> Sequence[Metric]:
        """S and its parts in the paper's order, as in the code and as in the paper's formulas, in percent."""
        fluency = percent(
            "GE", "fluency", ("generation",), "entropy of n-grams, x100", per="case", group=CODE, share=False
        )
        return [*_columns(CODE, "", "_token"), fluency, *_columns(PAPER, " joint", "")]

    def _written(self, setting: str) -> Iterator[Demonstration]:
        fact = "Corvell Manor is located in Portugal."
        if setting == "evidence":
            fact = "Visitors to Portugal seldom miss Corvell Manor, whose terraced gardens were laid out in 1832."
        yield Demonstration(kind="copy", fact=fact, prompt="Corvell Manor is located in", target="Portugal")
        yield Demonstration(kind="update", fact=fact, prompt="Corvell Manor can be found in", target="Portugal")
        yield Demonstration(kind="retain", fact=fact, prompt="Hexley Manor is located in", target="England")

    def _from_rows(self, setting: str, seed: int) -> Iterator[Demonstration]:
        facts = self._facts_of(setting)
        names = UniqueNames(
            (fact.triplet.subject, *fact.paraphrases, *(prompt for prompt, _ in fact.neighbours))
            for fact in facts.values()
        )
        rows = (facts[number] for number in last_drawn(list(facts)[TESTED:] or facts, seed))
        return of_first_rows(
            eligible(fact_demonstrations(fact, setting), names) for fact in rows if names.has(fact.triplet.subject)
        )

    def _records(self) -> Mapping[str, int]:
        return {self.file: len(self._rows)}

    def _counts(self) -> dict[str, Any]:
        facts = list(self._facts.values())
        tied = sum(fact.is_tied(n) for fact in facts for n in range(len(fact.neighbours)))
        texts = [row.fake_evidence for row in self._rows.values() if isinstance(row, FlatRow)]
        return {
            **({} if self.dataset in ORIGINAL else {"source": "EasyEdit's form"}),
            "options": {"dataset": self.dataset, "generation": self.generation},
            "part of the data set": self.file != DATASETS[self.dataset][0],
            "cases": len(facts),
            "paraphrases": sum(len(fact.paraphrases) for fact in facts),
            "neighbours": sum(len(fact.neighbours) for fact in facts),
            "texts for 'evidence'": sum(bool(fact.evidence) for fact in facts),
            "dropped": {
                "neighbours whose right answer is the new target": tied,
                "repeated generation prompts": sum(len(f.generation) - len(set(f.generation)) for f in facts),
            },
            "repaired": {"texts with white space at an end": sum(text != text.strip() for text in texts)},
        }

    @cached_property
    def _rows(self) -> Mapping[int, OriginalRow | FlatRow]:
        return read_numbered(self.folder / self.file, OriginalRow if self.dataset in ORIGINAL else FlatRow)

    @cached_property
    def _facts(self) -> dict[int, Counterfact]:
        return {number: row.fact for number, row in self._rows.items()}

    def _facts_of(self, setting: str) -> dict[int, Counterfact]:
        """The facts that have a text for the setting."""
        return {n: fact for n, fact in self._facts.items() if fact.evidence or setting != "evidence"}


def _columns(group: str, mark: str, suffix: str) -> list[Metric]:
    kinds, summary = ("efficacy", "paraphrase", "neighborhood"), "harmonic mean of ES, PS and NS"
    return [
        percent(f"S{mark}", f"success{suffix}", kinds, summary, per="harmonic", group=group),
        *(
            percent(name + mark, value + suffix, (kind,), summary, per="case", group=group, share=value == "success")
            for name, value, kind, summary in COLUMNS
        ),
    ]


def _text_length(value: str, dataset: str) -> int:
    if not value.isdecimal():
        raise BadSettings(
            f"counterfact, generation='{value}': give a number of tokens, 100 as published, or 0 for none."
        )
    if int(value) and dataset not in ORIGINAL:
        raise BadSettings(
            f"counterfact, generation={value}: dataset '{dataset}' has no generation prompts; use original."
        )
    return int(value)
