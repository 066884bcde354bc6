"""CounterFact's rows, original and flat, and the counterfactual fact that both describe.

One row of each, shortened:

    {"case_id": 3, "pararel_idx": 103, "requested_rewrite": {"prompt": "{} plays the instrument",
      "relation_id": "P1303", "target_new": {"str": "cello", "id": "Q8371"},
      "target_true": {"str": "flute", "id": "Q11405"}, "subject": "Rurik Vane"},
     "paraphrase_prompts": ["Rain fell. Rurik Vane, player of the", ..], "attribute_prompts": [..],
     "neighborhood_prompts": ["Mila Thorn plays the instrument", ..],
     "generation_prompts": ["Rurik Vane's favourite pastime is", ..]}
    {"case_id": 3, "prompt": "Rurik Vane plays the instrument", "target_new": "cello", "subject": "Rurik Vane",
     "ground_truth": "flute", "rephrase_prompt": "Rain fell. Rurik Vane, player of the",
     "locality_prompt": "Mila Thorn plays the instrument", "locality_ground_truth": "flute", "fake_evidence": ".."}
"""

from typing import NamedTuple

from pydantic import Field, ValidationInfo, field_validator

from emend.evals.data.benchmarks.rows import BenchmarkRow, ClozePrompt, NumberedRow, Text, WikidataEntity
from emend.memory.edit import Triplet


class Counterfact(NamedTuple):
    """A counterfactual fact and its test prompts.

    `template` has `{}` for the subject; `neighbours` are (prompt, correct answer) about other subjects; `evidence` is a
    text that states the fact, "" where there is none; prompts in `generation` repeat.
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
        """Return True if the correct answer of neighbour `n` is the new target, so that nothing can be compared."""
        return self.neighbours[n][1] == self.triplet.object


class WikidataRewrite(BenchmarkRow):
    """An edit with Wikidata ids, as CounterFact and MQuAKE have it."""

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
            self.id, edit.triplet, edit.prompt, true, self.paraphrase_prompts, neighbours, generation=texts
        )


class FlatRow(NumberedRow):
    """A row of EasyEdit's form: one paraphrase, one neighbour; `fake_evidence` is a text that states the new fact."""

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
        """The fact of the row; this form has no relations, so the template stands for the relation."""
        template = self.prompt.replace(self.subject, "{}", 1)
        triplet = Triplet(subject=self.subject, relation=template, object=self.target_new)
        neighbours = ((self.locality_prompt, self.locality_ground_truth),)
        evidence = self.fake_evidence.strip()
        return Counterfact(self.id, triplet, template, self.ground_truth, (self.rephrase_prompt,), neighbours, evidence)
