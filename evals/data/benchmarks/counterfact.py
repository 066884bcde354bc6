"""CounterFact: counterfactual facts about many subjects, with paraphrases and unrelated neighbours.

"Locating and Editing Factual Associations in GPT" (Meng et al. 2022); data:
rome.baulab.info/data/dsets/. A record of each form is shown below.

Success and difference are averaged within a record and then over records, as in the released code.
ES to NM and S compare the geometric mean of each target's token probabilities, as the code does;
metrics with the paper's formulas, which use joint probabilities, follow in a second group (equal
for targets of one token). S is the harmonic mean of the unrounded ES, PS and NS.

GE is computed on greedy texts of a fixed number of new tokens, one per distinct prompt of a record;
the code samples from the five most likely tokens, up to 100 tokens including the prompt, so its GE
is not comparable. RS needs reference texts, which are separate files: see `metrics.consistency`.

A shortened row of each form, the original and the flat one:

    {"case_id": 3, "pararel_idx": 103, "requested_rewrite": {"prompt": "{} plays the instrument",
      "relation_id": "P1303", "target_new": {"str": "cello", "id": "Q8371"},
      "target_true": {"str": "flute", "id": "Q11405"}, "subject": "Rurik Vane"},
     "paraphrase_prompts": ["Rain fell. Rurik Vane, player of the", ..], "attribute_prompts": [..],
     "neighborhood_prompts": ["Mila Thorn plays the instrument", ..],
     "generation_prompts": ["Rurik Vane's favourite pastime is", ..]}
    {"case_id": 3, "prompt": "Rurik Vane plays the instrument", "target_new": "cello",
      "subject": "Rurik Vane",
     "ground_truth": "flute", "rephrase_prompt": "Rain fell. Rurik Vane, player of the",
     "locality_prompt": "Mila Thorn plays the instrument", "locality_ground_truth": "flute",
       "fake_evidence": ".."}
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field, ValidationInfo, field_validator

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.base import Definition, FileBenchmark
from emend.evals.data.benchmarks.demonstration_rows import of_unique_rows
from emend.evals.data.benchmarks.docter.rows import last_sentence
from emend.evals.data.benchmarks.rows import (
    BenchmarkRow,
    ClozePrompt,
    NumberedRow,
    Tags,
    Text,
    WikidataEntity,
    read_numbered,
    sample_ids,
)
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadSettings
from emend.memory.probe import Probe


class Counterfact(NamedTuple):
    """A counterfactual fact and its test prompts.

    `template` has `{}` for the subject; `neighbours` are pairs (prompt, correct answer) about other
    subjects; `evidence` is a text that states the fact, or ""; `generation` has duplicate prompts.
    """

    number: int
    triplet: Triplet
    template: str
    true_target: str
    paraphrases: tuple[str, ...]
    neighbours: tuple[tuple[str, str], ...]
    evidence: str = ""
    generation: tuple[str, ...] = ()

    @property
    def query(self) -> str:
        """The template with the subject filled in."""
        return self.template.replace("{}", self.triplet.subject, 1)

    def is_tied(self, n: int) -> bool:
        """Return True if the correct answer of neighbour `n` equals the new target, so that they
        cannot be compared.
        """
        return self.neighbours[n][1] == self.triplet.object


class WikidataRewrite(BenchmarkRow):
    """An edit with Wikidata ids, as in CounterFact and MQuAKE."""

    prompt: ClozePrompt
    relation_id: Text
    subject: Text
    target_new: WikidataEntity
    target_true: WikidataEntity

    @property
    def triplet(self) -> Triplet:
        """The new fact."""
        return Triplet(
            subject=self.subject,
            relation=self.relation_id,
            object=self.target_new.label,
            relation_id=self.relation_id,
            object_id=self.target_new.id,
        )


class OriginalRow(NumberedRow):
    """A row of counterfact.json (ROME) or multi_counterfact.json (MEMIT)."""

    id: int = Field(validation_alias="case_id")
    requested_rewrite: WikidataRewrite
    paraphrase_prompts: tuple[Text, ...]
    neighborhood_prompts: tuple[Text, ...]
    generation_prompts: tuple[Text, ...] = ()

    @property
    def fact(self) -> Counterfact:
        """The fact of the row."""
        edit, true = self.requested_rewrite, self.requested_rewrite.target_true.label
        neighbours = tuple((prompt, true) for prompt in self.neighborhood_prompts)
        texts = self.generation_prompts
        return Counterfact(
            self.id,
            edit.triplet,
            edit.prompt,
            true,
            self.paraphrase_prompts,
            neighbours,
            generation=texts,
        )


class FlatRow(NumberedRow):
    """A row in EasyEdit's form: one paraphrase, one neighbour; `fake_evidence` is a text that
    states the new fact.
    """

    id: int = Field(validation_alias="case_id")
    subject: Text
    prompt: Text
    target_new: Text
    ground_truth: Text
    rephrase_prompt: Text
    locality_prompt: Text
    locality_ground_truth: Text
    fake_evidence: str = ""

    @field_validator("prompt")
    @classmethod
    def _names_subject(cls, prompt: str, info: ValidationInfo) -> str:
        if (subject := info.data.get("subject", "")) not in prompt:
            raise ValueError(f"subject '{subject}' expected in it")
        return prompt

    @property
    def fact(self) -> Counterfact:
        """The fact of the row; the template stands for the relation, which this form lacks."""
        template = self.prompt.replace(self.subject, "{}", 1)
        triplet = Triplet(subject=self.subject, relation=template, object=self.target_new)
        neighbours = ((self.locality_prompt, self.locality_ground_truth),)
        evidence = self.fake_evidence.strip()
        return Counterfact(
            self.id,
            triplet,
            template,
            self.ground_truth,
            (self.rephrase_prompt,),
            neighbours,
            evidence,
        )


SCORERS = ("per_token", "likelihood", "difference")


def fact_case(fact: Counterfact, setting: str, new_tokens: int = 0) -> Case:
    """Return one edit, its query, paraphrases and neighbours, and the prompts for generated texts.

    Args:
        fact: the fact of a row.
        setting: `triplet` for the fact in one sentence, or `evidence` for the text only, without
            subject or target.
        new_tokens: length of a generated text; 0 for none.
    """
    edit = fact_edit(fact, setting)
    subject, target = fact.triplet.subject, fact.triplet.object
    prompts = [
        ("efficacy", 0, fact.query),
        *(("paraphrase", n, prompt) for n, prompt in enumerate(fact.paraphrases)),
    ]
    about: dict[str, Any] = {"gold": (target,), "edit_ids": (edit.id,), "subject": subject}
    probes = [
        Probe(
            kind=kind,
            prompt=prompt,
            rival=fact.true_target,
            scorers=SCORERS,
            tags={"n": n},
            **about,
        )
        for kind, n, prompt in prompts
    ]
    probes += _neighbour_probes(fact)
    # Rows repeat these prompts because the released code samples; greedy texts would be identical.
    tags: Tags = {"reference": f"{fact.triplet.relation_id}/{fact.triplet.object_id}"}
    probes += [
        Probe(
            kind="generation",
            prompt=prompt,
            scorers=("fluency",),
            reading="whole",
            new_tokens=new_tokens,
            tags=tags,
            **about,
        )
        for prompt in (dict.fromkeys(fact.generation) if new_tokens else ())
    ]
    return Case(edits=(edit,), probes=tuple(probes), tags={"case_id": fact.number})


def _neighbour_probes(fact: Counterfact) -> list[Probe]:
    """Return probes about other subjects, whose answers must stay the true target.

    Rows repeat neighbours; the tag `n` distinguishes them, and all are counted as in the released
    code.
    """
    return [
        Probe(
            kind="neighborhood",
            prompt=prompt,
            gold=(true,),
            rival=fact.triplet.object,
            in_scope=False,
            scorers=SCORERS,
            tags={"n": n},
        )
        for n, (prompt, true) in enumerate(fact.neighbours)
        if not fact.is_tied(n)
    ]


def fact_edit(fact: Counterfact, setting: str) -> Edit:
    """Return the edit of a setting: `triplet` in one sentence, `evidence` by its text only."""
    if setting == "evidence":
        return Edit(form="document", text=fact.evidence)
    return Edit.from_triplet(fact.triplet, fact.template, target_true=fact.true_target)


def fact_demonstrations(fact: Counterfact, setting: str) -> Iterator[Demonstration]:
    """Yield demonstrations as in IKE: the query, each paraphrase without the unrelated text before
    it, each neighbour.
    """
    text, target = fact_edit(fact, setting).text, fact.triplet.object
    yield Demonstration(kind="copy", fact=text, prompt=fact.query, target=target)
    for prompt in fact.paraphrases:
        yield Demonstration(kind="update", fact=text, prompt=last_sentence(prompt), target=target)
    for n, (prompt, true) in enumerate(fact.neighbours):
        if not fact.is_tied(n):
            yield Demonstration(kind="retain", fact=text, prompt=prompt, target=true)


# Row model and file names of each dataset; the first file found is read, and the second names are
# subsets.
DATASETS: dict[str, tuple[type[OriginalRow | FlatRow], tuple[str, ...]]] = {
    "original": (OriginalRow, ("counterfact.json", "counterfact.sample.json")),
    "multi": (OriginalRow, ("multi_counterfact.json",)),
    "flat": (FlatRow, ("counterfact-edit.json", "counterfact_easyedit_1k.json")),
    "flat-evidence": (
        FlatRow,
        ("counterfact-edit-evidence-1k.json", "counterfact_evidence.sample.json"),
    ),
}
# IKE tests this number of first records and takes demonstrations from the following ones.
TESTED = 2000


class CounterFact(FileBenchmark):
    """CounterFact; in setting `triplet` the edit is one sentence, in `evidence` a longer text that
    states it.

    Option `dataset`: `original` (default), `multi` (MEMIT's choice of records), `flat` (EasyEdit's
    form) or `flat-evidence`, the only one that has texts for the setting `evidence`. Option
    `generation`: number of tokens of the texts for GE, 100 in the released code; 0, the default,
    generates none.

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
                f"counterfact, generation='{value}': give a number of tokens, 100 as published, or "
                "0 for none."
            )
        if int(value) and self._row is FlatRow:
            raise BadSettings(
                f"counterfact, generation={value}: dataset '{self.dataset}' has no generation "
                "prompts; use original."
            )
        return int(value)

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        facts = self._facts_of(setting)
        if not facts:
            raise BadSettings(
                f"setting 'evidence' of counterfact: no record of {self.file} has a text "
                "'fake_evidence'; use setting 'triplet' or the option dataset=flat-evidence."
            )
        chosen = sample_ids(list(facts), limit, seed)
        return (fact_case(facts[number], setting, self.generation) for number in chosen)

    def _from_rows(self, setting: str, seed: int, count: int) -> Iterator[Demonstration]:
        facts = self._facts_of(setting)
        return of_unique_rows(
            facts,
            seed,
            lambda fact: (
                fact.triplet.subject,
                *fact.paraphrases,
                *(prompt for prompt, _ in fact.neighbours),
            ),
            lambda fact: [fact.triplet.subject],
            lambda fact: fact_demonstrations(fact, setting),
            list(facts)[TESTED:],
            count,
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
                "repeated generation prompts": sum(
                    len(f.generation) - len(set(f.generation)) for f in facts
                ),
            },
            "repaired": {
                "texts with white space at an end": sum(text != text.strip() for text in texts)
            },
        }

    @cached_property
    def _rows(self) -> Mapping[int, OriginalRow | FlatRow]:
        return read_numbered(self.folder / self.file, self._row)

    @cached_property
    def _facts(self) -> dict[int, Counterfact]:
        return {number: row.fact for number, row in self._rows.items()}

    def _facts_of(self, setting: str) -> dict[int, Counterfact]:
        """Return the facts that have a text for the setting."""
        return {
            n: fact for n, fact in self._facts.items() if fact.evidence or setting != "evidence"
        }
