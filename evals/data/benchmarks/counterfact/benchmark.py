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

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.base import Definition, FileBenchmark
from emend.evals.data.benchmarks.counterfact.cases import fact_case, fact_demonstrations
from emend.evals.data.benchmarks.counterfact.rows import Counterfact, FlatRow, OriginalRow
from emend.evals.data.benchmarks.demonstrations import UniqueNames, of_unique_rows
from emend.evals.data.benchmarks.files import read_numbered
from emend.evals.data.benchmarks.sampling import last_drawn, sample_ids
from emend.memory.errors import BadSettings

DATASETS: dict[str, tuple[type[OriginalRow | FlatRow], tuple[str, ...]]] = {
    "original": (OriginalRow, ("counterfact.json", "counterfact.sample.json")),
    "multi": (OriginalRow, ("multi_counterfact.json",)),
    "flat": (FlatRow, ("counterfact-edit.json", "counterfact_easyedit_1k.json")),
    "flat-evidence": (FlatRow, ("counterfact-edit-evidence-1k.json", "counterfact_evidence.sample.json")),
}
"""Row model and file names of each data set, of which the first one found is read; the second are parts."""
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
    definition = Definition.beside(__file__)
    defaults = {"dataset": "original", "generation": "0"}
    values = {"dataset": tuple(DATASETS)}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        self.dataset = self.options["dataset"]
        self.has_texts = self.dataset == "flat-evidence"
        self._row, names = DATASETS[self.dataset]
        self.generation = self._text_length(self.options["generation"])
        self.file = self.first_file(names)

    def _text_length(self, value: str) -> int:
        if not value.isdecimal():
            raise BadSettings(
                f"counterfact, generation='{value}': give a number of tokens, 100 as published, or 0 for none."
            )
        if int(value) and self._row is FlatRow:
            raise BadSettings(
                f"counterfact, generation={value}: dataset '{self.dataset}' has no generation prompts; use original."
            )
        return int(value)

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        facts = self._facts_of(setting)
        if not facts:
            raise BadSettings(
                f"setting 'evidence' of counterfact: no record of {self.file} has a text 'fake_evidence'; "
                "use setting 'triplet' or the option dataset=flat-evidence."
            )
        chosen = list(facts) if limit is None else sample_ids(list(facts), {}, limit, seed)
        return (fact_case(facts[number], setting, self.generation) for number in chosen)

    def _from_rows(self, setting: str, seed: int) -> Iterator[Demonstration]:
        facts = self._facts_of(setting)
        names = UniqueNames(
            (fact.triplet.subject, *fact.paraphrases, *(prompt for prompt, _ in fact.neighbours))
            for fact in facts.values()
        )
        rows = (facts[number] for number in last_drawn(list(facts)[TESTED:] or facts, seed))
        return of_unique_rows(
            rows, names, lambda fact: [fact.triplet.subject], lambda fact: fact_demonstrations(fact, setting)
        )

    def _records(self) -> Mapping[str, int]:
        return {self.file: len(self._rows)}

    def _counts(self) -> dict[str, Any]:
        facts = list(self._facts.values())
        tied = sum(fact.is_tied(n) for fact in facts for n in range(len(fact.neighbours)))
        texts = [row.fake_evidence for row in self._rows.values() if isinstance(row, FlatRow)]
        return {
            **({} if self._row is OriginalRow else {"source": "EasyEdit's form"}),
            "options": {"dataset": self.dataset, "generation": self.generation},
            "part of the data set": self.file != DATASETS[self.dataset][1][0],
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
        return read_numbered(self.folder / self.file, self._row)

    @cached_property
    def _facts(self) -> dict[int, Counterfact]:
        return {number: row.fact for number, row in self._rows.items()}

    def _facts_of(self, setting: str) -> dict[int, Counterfact]:
        """The facts that have a text for the setting."""
        return {n: fact for n, fact in self._facts.items() if fact.evidence or setting != "evidence"}
