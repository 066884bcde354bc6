"""From DocTER's rows to cases, probes and demonstrations."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.docter.rows import EditRow, QueriesRow, ReasoningRow, last_sentence
from emend.evals.data.benchmarks.rows import Tags
from emend.memory.edit import Edit
from emend.memory.probe import Probe

SCORERS = ("likelihood", "likelihood_code", "generation")
"""By probabilities, in log space and as in the released code; by the reply for models without probabilities."""
REASONING_PROMPT = "Query: {question} answer: The answer to the query above is"
"""The released code's prompt, without its demonstration, which editors add."""


@dataclass(frozen=True)
class EnglishTests:
    """The rows of one English edit; None for a block that is not asked or has no row of its id."""

    success: EditRow | None = None
    locality: QueriesRow | None = None
    reasoning: ReasoningRow | None = None


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
            edits applied together cannot satisfy both.
        strip_distractor: use only the last sentence of a paraphrase as the retrieval query, without the unrelated text.
    """
    probes: list[Probe] = []
    if (row := tests.success) is not None:
        tags: Tags = {"duplicate_query": True} if row.query in contested else {}
        probes.append(_recall_probe(edit, row, "efficacy", row.query, tags | _target_tag(row, row.query)))
        for n, text in enumerate(row.paraphrase_query):
            query = last_sentence(text) if strip_distractor else ""
            probes.append(_recall_probe(edit, row, "paraphrase", text, {"n": n} | _target_tag(row, text), query))
    if tests.locality is not None:
        probes += [_neighbour_probe(tests.locality, n) for n in range(len(tests.locality.query))]
    if tests.reasoning is not None:
        probes.append(_reasoning_probe(edit, tests.reasoning))
    return Case(edits=(edit,), probes=tuple(probes), tags={"docter_id": number, "direction": "en"})


def cross_case(edit: Edit, row: QueriesRow, direction: str) -> Case:
    """One edit and its queries in the other language, stripped of white space; `direction` is `en->zh` or `zh->en`."""
    probes = [_recall_probe(edit, row, "cross_lingual", text.strip(), {"n": n}) for n, text in enumerate(row.query)]
    return Case(edits=(edit,), probes=tuple(probes), tags={"docter_id": row.id, "direction": direction})


def _recall_probe(edit: Edit, row: EditRow | QueriesRow, kind: str, prompt: str, tags: Tags, query: str = "") -> Probe:
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


def _neighbour_probe(row: QueriesRow, n: int) -> Probe:
    # A record may hold the same query twice; `n` keeps the two probes apart, and both count as in the paper.
    return Probe(
        kind="neighborhood",
        prompt=row.query[n],
        gold=(row.original_target,),
        rival=row.altered_target,
        in_scope=False,
        scorers=SCORERS,
        tags={"n": n} | _target_tag(row, row.query[n]),
    )


def _reasoning_probe(edit: Edit, row: ReasoningRow) -> Probe:
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


def _target_tag(row: EditRow | QueriesRow, prompt: str) -> Tags:
    return {"names_target": True} if row.altered_target in prompt else {}


def row_demonstrations(row: EditRow, neighbours: QueriesRow | None, text: str) -> Iterator[Demonstration]:
    """The query of an edit's `text`, its paraphrases and its neighbours."""
    target = row.altered_target
    yield Demonstration(kind="copy", fact=text, prompt=row.query, target=target)
    for prompt in row.paraphrase_query:
        yield Demonstration(kind="update", fact=text, prompt=last_sentence(prompt), target=target)
    if neighbours and neighbours.original_target != target:
        for prompt in neighbours.query:
            yield Demonstration(kind="retain", fact=text, prompt=prompt, target=neighbours.original_target)
