"""CounterFact: counterfactual facts about many subjects, with paraphrases and unrelated neighbours.

"Locating and Editing Factual Associations in GPT" (Meng et al. 2022); data: rome.baulab.info/data/dsets/. A record of
each form stands in `counterfact_rows`.

Success and difference are taken inside a record and then over records, as in the released code. ES to NM and S compare
the geometric mean of each target's token probabilities, as the code does; beside them stand those that the paper's
formulas give, from joint probabilities (the same for targets of one token). S is the harmonic mean of the unrounded ES,
PS and NS.

GE is taken over greedy texts of so many new tokens, one for each different prompt of a record; the code samples from
the five likeliest tokens, up to 100 with the prompt's, so its GE is another measure. RS needs the reference texts,
which are files of their own: `metrics.consistency`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.benchmarks.counterfact.demonstrations import fact_examples
from emend.evals.benchmarks.counterfact.rows import (
    Fact,
    FlatRow,
    OriginalRow,
    fact_case,
    flat_fact,
    is_tied,
    original_fact,
)
from emend.evals.benchmarks.demonstrations import Shown
from emend.evals.benchmarks.files import data_folder, read_numbered, require, sha256
from emend.evals.benchmarks.options import check_request
from emend.evals.case import Case, Metric
from emend.memory.edit import content_id
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

DATASETS = {
    "original": ("counterfact.json", "counterfact.sample.json"),
    "multi": ("multi_counterfact.json",),
    "flat": ("counterfact-edit.json", "counterfact_easyedit_1k.json"),
    "flat-evidence": ("counterfact-edit-evidence-1k.json", "counterfact_evidence.sample.json"),
}
"""The files of each data set, the first that is there being read; the second ones are parts of it."""
REMEDY = (
    "Get it with: emend data pull counterfact; or with: curl -fO https://rome.baulab.info/data/dsets/counterfact.json "
    "(original; multi_counterfact.json is at memit.baulab.info), or take counterfact-edit.json from EasyEdit's data "
    "(flat), then give --data FOLDER, or put it in $EMEND_DATA/counterfact."
)
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
OPTIONS = ("dataset", "generation")


class CounterFact:
    """The benchmark; in setting `triplet` the edit is one sentence, in `evidence` a longer text that states it.

    Option `dataset`: `original` (default), `multi` (MEMIT's choice of records), `flat` (EasyEdit's form) or
    `flat-evidence`, the only one that has texts for the setting `evidence`. Option `generation`: how many tokens the
    texts for GE have, 100 in the released code; 0, the default, generates none.

    One case per record: the query, the paraphrases, the neighbours, and the generated texts.

    Raises:
        MissingData: the folder or the data set's file is absent.
        BadSettings: an option is unknown or its value impossible.
    """

    name: ClassVar[str] = "counterfact"
    settings: ClassVar[tuple[str, ...]] = ("triplet", "evidence")
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "single"  # one edit at a time, as in the paper

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        told = dict(options or {})
        for option in told:
            if option not in OPTIONS:
                raise BadSettings(f"unknown option '{option}' of counterfact: {nearest(option, list(OPTIONS))}")
        self.dataset = told.get("dataset", "original")
        if self.dataset not in DATASETS:
            raise BadSettings(f"counterfact, dataset='{self.dataset}': {nearest(self.dataset, list(DATASETS))}")
        self.generation = _length(told.get("generation", "0"), self.dataset)
        self.folder = data_folder(self.name, data)
        names = DATASETS[self.dataset]
        self.file = next((name for name in names if (self.folder / name).is_file()), names[0])
        require(self.folder, [self.file], REMEDY)

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """The cases in the order of the file; with a limit a seeded sample.

        Raises:
            BadSettings: the setting is unknown or has no texts in this data set, or the limit is below 1.
            BadData: a record is malformed.
        """
        check_request(self.name, setting, self.settings, limit, texts=self.dataset == "flat-evidence")
        facts = self._told_in(setting)
        if not facts:
            raise BadSettings(
                f"setting 'evidence' of counterfact: no record of {self.file} has a text 'fake_evidence'; "
                "use setting 'triplet' or the option dataset=flat-evidence."
            )
        order = sorted(facts, key=lambda fact: content_id("sample", seed, fact.number))
        chosen = {fact.number for fact in order[:limit]}
        return (fact_case(fact, setting, self.generation) for fact in facts if fact.number in chosen)

    def metrics(self) -> Sequence[Metric]:
        """S and its parts in the paper's order, as the code has them and as the paper's formulas do, in percent."""
        by_code = _columns(CODE, "", "_token")
        fluent = Metric(
            name="GE",
            value="fluency",
            kinds=("generation",),
            per="case",
            scale=100.0,
            summary="entropy of n-grams, x100",
            share=False,
        )
        return [*by_code, fluent.model_copy(update={"group": CODE}), *_columns(PAPER, " joint", "")]

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Three hand-written ones, as IKE's kinds: the fact itself, a paraphrase of it, and another subject.

        Behind them (`Shown.rows`) those of records that a limit leaves out, as far as there are any.
        """
        fact = "Corvell Manor is located in Portugal."
        if setting == "evidence":
            fact = "Visitors to Portugal seldom miss Corvell Manor, whose terraced gardens were laid out in 1832."
        asked = (
            ("copy", "Corvell Manor is located in", "Portugal"),
            ("update", "Corvell Manor can be found in", "Portugal"),
            ("retain", "Hexley Manor is located in", "England"),
        )
        written = [Demonstration(kind=kind, fact=fact, prompt=prompt, target=target) for kind, prompt, target in asked]
        return Shown.of(written, lambda: fact_examples(self._told_in(setting), setting, seed))

    @property
    def provenance(self) -> dict[str, Any]:
        """Source, sha256 and counts of the file, and what was dropped or repaired."""
        facts = self._facts
        tied = sum(is_tied(fact, n) for fact in facts for n in range(len(fact.neighbours)))
        return {
            "source": "rome.baulab.info/data/dsets/" if self.dataset in ("original", "multi") else "EasyEdit's form",
            "files": {self.file: {"sha256": sha256(self.folder / self.file), "records": len(facts)}},
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
            "repaired": {"texts with white space at an end": self._padded()},
        }

    @cached_property
    def _rows(self) -> dict[int, OriginalRow] | dict[int, FlatRow]:
        path = self.folder / self.file
        if self.dataset in ("original", "multi"):
            return read_numbered(path, OriginalRow)
        return read_numbered(path, FlatRow)

    @cached_property
    def _facts(self) -> list[Fact]:
        return [
            original_fact(row, self.file) if isinstance(row, OriginalRow) else flat_fact(row, self.file)
            for row in self._rows.values()
        ]

    def _told_in(self, setting: str) -> list[Fact]:
        """The facts that the setting has a text for."""
        return [fact for fact in self._facts if fact.evidence or setting != "evidence"]

    def _padded(self) -> int:
        texts = [row.fake_evidence for row in self._rows.values() if isinstance(row, FlatRow)]
        return sum(text != text.strip() for text in texts)


def _columns(group: str, mark: str, suffix: str) -> list[Metric]:
    whole = Metric(
        name=f"S{mark}",
        value=f"success{suffix}",
        kinds=("efficacy", "paraphrase", "neighborhood"),
        per="harmonic",
        scale=100.0,
        summary="harmonic mean of ES, PS and NS",
        group=group,
    )
    parts = [
        Metric(
            name=name + mark,
            value=value + suffix,
            kinds=(kind,),
            per="case",
            scale=100.0,
            summary=summary,
            group=group,
            share=value == "success",
        )
        for name, value, kind, summary in COLUMNS
    ]
    return [whole, *parts]


def _length(told: str, dataset: str) -> int:
    if not told.isdecimal():
        raise BadSettings(
            f"counterfact, generation='{told}': give a number of tokens, 100 as published, or 0 for none."
        )
    if int(told) and dataset not in ("original", "multi"):
        raise BadSettings(
            f"counterfact, generation={told}: dataset '{dataset}' has no generation prompts; use original."
        )
    return int(told)
