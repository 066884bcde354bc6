"""Cases and demonstrations of DocTER's documents: recall, locality, reasoning and cross-lingual
queries.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.docter.rows import EditRow, QueriesRow, ReasoningRow, last_sentence
from emend.evals.data.benchmarks.rows import Tags
from emend.memory.edit import Edit
from emend.memory.probe import Probe

# Scored by probabilities, in log space and as in the released code, or by the reply for models
# without probabilities.
SCORERS = ("likelihood", "likelihood_code", "generation")
# The released code's prompt without its demonstration, which editors add.
REASONING_PROMPT = "Query: {question} answer: The answer to the query above is"


@dataclass(frozen=True)
class EnglishTests:
    """Rows of one English edit; None for a block that is not asked or has no row with this id."""

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
    """Return one edit with its query, paraphrases, neighbours and reasoning question.

    Args:
        edit: the document or the gold triplet.
        number: DocTER's id.
        tests: rows with this id.
        contested: queries of several records with different altered targets; they are tagged
            `duplicate_query`, because edits applied together cannot satisfy both.
        strip_distractor: use only the last sentence of a paraphrase as the retrieval query, without
            the unrelated text.
    """
    probes: list[Probe] = []
    if (row := tests.success) is not None:
        tags: Tags = {"duplicate_query": True} if row.query in contested else {}
        probes.append(
            _recall_probe(edit, row, "efficacy", row.query, tags | _target_tag(row, row.query))
        )
        for n, text in enumerate(row.paraphrase_query):
            query = last_sentence(text) if strip_distractor else ""
            probes.append(
                _recall_probe(
                    edit, row, "paraphrase", text, {"n": n} | _target_tag(row, text), query
                )
            )
    if tests.locality is not None:
        probes += [_neighbour_probe(tests.locality, n) for n in range(len(tests.locality.query))]
    if tests.reasoning is not None:
        probes.append(_reasoning_probe(edit, tests.reasoning))
    return Case(edits=(edit,), probes=tuple(probes), tags={"docter_id": number, "direction": "en"})


def cross_case(edit: Edit, row: QueriesRow, direction: str) -> Case:
    """Return one edit and its stripped queries in the other language; `direction` is `en->zh` or
    `zh->en`.
    """
    probes = [
        _recall_probe(edit, row, "cross_lingual", text.strip(), {"n": n})
        for n, text in enumerate(row.query)
    ]
    return Case(
        edits=(edit,), probes=tuple(probes), tags={"docter_id": row.id, "direction": direction}
    )


def common_text(texts: Sequence[str]) -> str:
    """Return the first of the longest substrings that all texts share; empty for a single text."""
    first, *others = texts
    if not others:
        return ""
    for size in range(len(first), 0, -1):
        for start in range(len(first) - size + 1):
            shared = first[start : start + size]
            if all(shared in text for text in others):
                return shared.strip()
    return ""


def _recall_probe(
    edit: Edit, row: EditRow | QueriesRow, kind: str, prompt: str, tags: Tags, query: str = ""
) -> Probe:
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
    # A record may have the same query twice; `n` distinguishes the two probes, and both are counted
    # as in the paper.
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
    if row.altered_target in prompt:
        return {"names_target": True}
    return {}


def row_demonstrations(
    row: EditRow, neighbours: QueriesRow | None, text: str
) -> Iterator[Demonstration]:
    """Yield the query of an edit's `text`, its paraphrases and its neighbours."""
    target = row.altered_target
    yield Demonstration(kind="copy", fact=text, prompt=row.query, target=target)
    for prompt in row.paraphrase_query:
        yield Demonstration(kind="update", fact=text, prompt=last_sentence(prompt), target=target)
    if neighbours and neighbours.original_target != target:
        for prompt in neighbours.query:
            yield Demonstration(
                kind="retain", fact=text, prompt=prompt, target=neighbours.original_target
            )
