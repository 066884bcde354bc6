"""CounterFact's rows, original and flat, and the pure functions that turn them into edits and probes.

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

from typing import Annotated, NamedTuple

from pydantic import Field, StringConstraints

from emend.evals.benchmarks.files import NumberedRow, Row
from emend.evals.case import Case
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData
from emend.memory.probe import Probe

Text = Annotated[str, StringConstraints(min_length=1)]
SCORERS = ("per_token", "likelihood", "difference")


class Named(Row):
    """A Wikidata item: its label and its id."""

    label: Text = Field(validation_alias="str")
    id: str | None = None


class RewriteRow(Row):
    """The edit of an original row."""

    prompt: Text
    relation_id: Text
    subject: Text
    target_new: Named
    target_true: Named


class OriginalRow(NumberedRow):
    """A row of counterfact.json (ROME) or multi_counterfact.json (MEMIT)."""

    id: int = Field(validation_alias="case_id")
    requested_rewrite: RewriteRow
    paraphrase_prompts: tuple[Text, ...]
    neighborhood_prompts: tuple[Text, ...]
    generation_prompts: tuple[Text, ...] = ()


class FlatRow(NumberedRow):
    """A row of EasyEdit's form: one paraphrase, one neighbour; `fake_evidence` is a text that states the new fact."""

    id: int = Field(validation_alias="case_id")
    prompt: Text
    target_new: Text
    subject: Text
    ground_truth: Text
    rephrase_prompt: Text
    locality_prompt: Text
    locality_ground_truth: Text
    fake_evidence: str = ""


class Fact(NamedTuple):
    """What both forms say: the edit and what is asked about it.

    `neighbours` are (prompt, right answer); `evidence` is "" for the original form; `generation` prompts repeat.
    """

    number: int
    triplet: Triplet
    template: str
    target_true: str
    paraphrases: tuple[str, ...]
    neighbours: tuple[tuple[str, str], ...]
    evidence: str = ""
    generation: tuple[str, ...] = ()


def original_fact(row: OriginalRow, file: str = "") -> Fact:
    """What an original row says.

    Raises:
        BadData: the prompt has not exactly one `{}`.
    """
    edit = row.requested_rewrite
    if edit.prompt.count("{}") != 1:
        raise BadData(
            f"{file}, case_id {row.id}, field 'requested_rewrite.prompt': exactly one {{}} expected; "
            f"value '{edit.prompt}'. Correct the record."
        )
    triplet = Triplet(
        subject=edit.subject,
        relation=edit.relation_id,
        object=edit.target_new.label,
        relation_id=edit.relation_id,
        object_id=edit.target_new.id,
    )
    true = edit.target_true.label
    neighbours = tuple((prompt, true) for prompt in row.neighborhood_prompts)
    return Fact(
        row.id, triplet, edit.prompt, true, row.paraphrase_prompts, neighbours, generation=row.generation_prompts
    )


def flat_fact(row: FlatRow, file: str = "") -> Fact:
    """What a flat row says; the prompt with `{}` for the subject stands for the relation, which this form lacks.

    Raises:
        BadData: the subject is not in the prompt.
    """
    if row.subject not in row.prompt:
        raise BadData(
            f"{file}, case_id {row.id}, field 'prompt': subject '{row.subject}' expected in it; "
            f"value '{row.prompt}'. Correct the record."
        )
    template = row.prompt.replace(row.subject, "{}", 1)
    triplet = Triplet(subject=row.subject, relation=template, object=row.target_new)
    neighbours = ((row.locality_prompt, row.locality_ground_truth),)
    return Fact(
        row.id, triplet, template, row.ground_truth, (row.rephrase_prompt,), neighbours, row.fake_evidence.strip()
    )


def fact_case(fact: Fact, setting: str, new_tokens: int = 0) -> Case:
    """One edit, its query, its paraphrases, its neighbours, and the texts to be generated.

    Args:
        fact: what a row says.
        setting: `triplet`, the fact in one sentence, or `evidence`, the text alone, which gives no target away.
        new_tokens: length of a generated text; 0 for none.
    """
    edit = fact_edit(fact, setting)
    query = fact.template.replace("{}", fact.triplet.subject, 1)
    probes = [_edited(fact, edit, "efficacy", query, 0)]
    probes += [_edited(fact, edit, "paraphrase", prompt, n) for n, prompt in enumerate(fact.paraphrases)]
    probes += [_neighbour(fact, n) for n in range(len(fact.neighbours)) if not is_tied(fact, n)]
    if new_tokens:
        probes += [_generation(fact, edit, prompt, new_tokens) for prompt in dict.fromkeys(fact.generation)]
    return Case(edits=(edit,), probes=tuple(probes), tags={"case_id": fact.number})


def fact_edit(fact: Fact, setting: str) -> Edit:
    """The edit as the setting tells it: `triplet` in one sentence, `evidence` by its text alone."""
    if setting == "evidence":
        return Edit(form="document", text=fact.evidence)
    return Edit.from_triplet(fact.triplet, fact.template, target_true=fact.target_true)


def is_tied(fact: Fact, n: int) -> bool:
    """Whether neighbour `n` has the new target as its right answer, so that nothing can be compared."""
    return fact.neighbours[n][1] == fact.triplet.object


def _edited(fact: Fact, edit: Edit, kind: str, prompt: str, n: int) -> Probe:
    return Probe(
        kind=kind,
        prompt=prompt,
        gold=(fact.triplet.object,),
        rival=fact.target_true,
        edit_ids=(edit.id,),
        scorers=SCORERS,
        subject=fact.triplet.subject,
        tags={"n": n},
    )


def _neighbour(fact: Fact, n: int) -> Probe:
    # Rows repeat neighbours; `n` keeps them apart, and all count as in the released code.
    prompt, true = fact.neighbours[n]
    return Probe(
        kind="neighborhood",
        prompt=prompt,
        gold=(true,),
        rival=fact.triplet.object,
        in_scope=False,
        scorers=SCORERS,
        tags={"n": n},
    )


def _generation(fact: Fact, edit: Edit, prompt: str, new_tokens: int) -> Probe:
    # A row repeats these prompts because the released code samples; a text that is not sampled would only be repeated.
    triplet = fact.triplet
    return Probe(
        kind="generation",
        prompt=prompt,
        gold=(triplet.object,),
        edit_ids=(edit.id,),
        scorers=("fluency",),
        subject=triplet.subject,
        reading="whole",
        new_tokens=new_tokens,
        tags={"reference": f"{triplet.relation_id}/{triplet.object_id}"},
    )
