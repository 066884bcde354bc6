r"""DocTER's rows and the pure functions that turn them into edits and probes.

Two rows, shortened, of edit_success_eval.json and en_doc.json, joined by id:

    {"id": 0, "query": "The mother tongue of Danielle Darrieux is", "original_target": "French",
     "altered_target": "English", "paraphrase_query": ["Shayna does this ... Danielle Darrieux, a native", ...]}
    {"id": 0, "src": "As a renowned actress of both French and international cinema, ..."}
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from emend.evals.benchmarks.files import NumberedRow
from emend.evals.case import Case
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData
from emend.memory.probe import Probe

Text = Annotated[str, Field(min_length=1)]
Tags = dict[str, str | int | float | bool]

SCORERS = ("likelihood", "likelihood_code", "generation")
"""Probabilities decide, in log space and as the released code computes them, and where a model has none its reply."""
REASONING_PROMPT = "Query: {question} answer: The answer to the query above is"
"""The released code's prompt, less its demonstration, which is the editor's matter."""


class DocumentRow(NumberedRow):
    """A row of en_doc.json, crosslingual_en_doc.json (there `id` is a string) or crosslingual_zh_doc.json."""

    src: Text


class FactRow(NumberedRow):
    """A row of gold_facts.json: the CounterFact record behind a document."""

    subject: Text
    prompt_template: Text
    original_target: Text
    altered_target: Text


class QueriesRow(NumberedRow):
    """A row of locality_eval.json or cross_*_eval.json."""

    query: tuple[Text, ...]
    original_target: Text
    altered_target: Text


class EditRow(NumberedRow):
    """A row of edit_success_eval.json."""

    query: Text
    paraphrase_query: tuple[Text, ...]
    original_target: Text
    altered_target: Text


class ReasoningRow(NumberedRow):
    """A row of reasoning_eval.json: a yes/no question that needs the new fact and one more."""

    src: Text
    label: Literal["True", "False"]


@dataclass(frozen=True)
class EnglishTests:
    """What is asked about one English edit; None for a block that is not asked or has no row for it."""

    success: EditRow | None = None
    locality: QueriesRow | None = None
    reasoning: ReasoningRow | None = None


def document_edit(row: DocumentRow, language: str = "en") -> Edit:
    """The edit of setting `doc`: the document alone; no subject, prompt or target is given away."""
    return Edit(form="document", text=row.src, language=language)


def triplet_edit(row: FactRow) -> Edit:
    """The edit of setting `gold`; DocTER names no relations, so the cloze with `{}` stands for the relation.

    Raises:
        BadData: the template has not exactly one `{}`.
    """
    if row.prompt_template.count("{}") != 1:
        raise BadData(
            f"gold_facts.json, id {row.id}, field 'prompt_template': exactly one {{}} expected; "
            f"value '{row.prompt_template}'. Correct the record."
        )
    triplet = Triplet(subject=row.subject, relation=row.prompt_template, object=row.altered_target)
    return Edit.from_triplet(triplet, row.prompt_template, target_true=row.original_target)


def english_case(
    edit: Edit,
    number: int,
    tests: EnglishTests,
    contested: Collection[str] = (),
    strip_distractor: bool = False,
) -> Case:
    """One edit with its query, paraphrases, neighbours and reasoning question.

    Args:
        edit: the document or the gold triplet.
        number: DocTER's id.
        tests: the rows with that id.
        contested: queries that several records ask with different altered targets; tagged `duplicate_query`, because
            edits that stand together cannot satisfy both.
        strip_distractor: let a retriever be asked the last sentence of a paraphrase, without the unrelated text before.
    """
    probes: list[Probe] = []
    if (row := tests.success) is not None:
        tags: Tags = {"duplicate_query": True} if row.query in contested else {}
        probes.append(_edited(edit, row, "efficacy", row.query, tags | _named(row, row.query)))
        for n, text in enumerate(row.paraphrase_query):
            query = last_sentence(text) if strip_distractor else ""
            more = {"n": n} | _named(row, text)
            probes.append(_edited(edit, row, "paraphrase", text, more, query))
    if tests.locality is not None:
        probes += [_neighbour(tests.locality, n) for n in range(len(tests.locality.query))]
    if tests.reasoning is not None:
        probes.append(_question(edit, tests.reasoning))
    return Case(edits=(edit,), probes=tuple(probes), tags={"docter_id": number, "direction": "en"})


def cross_case(edit: Edit, row: QueriesRow, direction: str) -> Case:
    """One edit and its queries in the other language, stripped of white space; `direction` is `en->zh` or `zh->en`."""
    probes = [_edited(edit, row, "cross_lingual", text.strip(), {"n": n}) for n, text in enumerate(row.query)]
    return Case(edits=(edit,), probes=tuple(probes), tags={"docter_id": row.id, "direction": direction})


def last_sentence(text: str) -> str:
    """The last sentence of a paraphrase, where DocTER puts the statement after an unrelated text.

    A question stays with the words that answer it ("What is the twin city of Oslo? It is"), and a full stop after an
    initial or a short title ends no sentence.
    """
    parts = [part for part in _SENTENCE_END.split(text) if part.strip()]
    return parts[-1].strip() if parts else text.strip()


_SENTENCE_END = re.compile(r"(?<=[.!])(?<!\b[A-Z]\.)(?<!\b(?:St|Dr|Mr|Ms|Sr|Jr|Mt|Ft|vs|No)\.)(?<!\bMrs\.)\s+|\n+")


def _edited(edit: Edit, row: EditRow | QueriesRow, kind: str, prompt: str, tags: Tags, query: str = "") -> Probe:
    return Probe(
        kind=kind,
        prompt=prompt,
        gold=(row.altered_target,),
        rival=row.original_target,
        edit_ids=(edit.id,),
        scorers=SCORERS,
        query=query,
        tags=tags,
    )


def _neighbour(row: QueriesRow, n: int) -> Probe:
    # A record may hold the same query twice; `n` keeps the two probes apart, and both count as in the paper.
    return Probe(
        kind="neighborhood",
        prompt=row.query[n],
        gold=(row.original_target,),
        rival=row.altered_target,
        in_scope=False,
        scorers=SCORERS,
        tags={"n": n} | _named(row, row.query[n]),
    )


def _question(edit: Edit, row: ReasoningRow) -> Probe:
    gold, rival = ("true", "false") if row.label == "True" else ("false", "true")
    return Probe(
        kind="reasoning",
        prompt=REASONING_PROMPT.format(question=row.src),
        gold=(gold,),
        rival=rival,
        choices=("true", "false"),
        edit_ids=(edit.id,),
        scorers=("reasoning",),
        query=row.src,
        tags={"label": row.label},
    )


def _named(row: EditRow | QueriesRow, prompt: str) -> Tags:
    return {"names_target": True} if row.altered_target in prompt else {}
