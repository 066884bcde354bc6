"""From ReCoE's rows to cases: the question, asked directly or through a chain of thought, and the facts themselves."""

from dataclasses import dataclass

from emend.evals.benchmarks.recoe.rows import ReCoERow, atoms_of, edits_of
from emend.evals.benchmarks.recoe.shots import COT_PROMPT, shots
from emend.evals.case import Case
from emend.evals.metrics.recoe import ALIASES_TAG
from emend.memory.edit import Edit
from emend.memory.errors import BadData
from emend.memory.probe import Probe, Reading, Style

Tags = dict[str, str | int | float | bool]
FACTS = "_facts"
"""Ends the kind of the probe that measures how probable a record's facts are."""


@dataclass(frozen=True)
class Asking:
    """How records are asked: through a chain of thought or directly, and whether their facts are measured too."""

    chain: bool = False
    perplexity: bool = True


def row_case(
    row: ReCoERow, scheme: str, setting: str, place: int, contested: bool = False, asking: Asking | None = None
) -> Case:
    """One row as a case: its counterfactuals, its question, to be answered with the counterfactual answer, its facts.

    Args:
        row: the row.
        scheme: one of `ROWS`; the probe's kind.
        setting: `atomic`, `sentence` or `triple`.
        place: its place in the file.
        contested: another record edits a fact of this one to another object; tagged.
        asking: directly, with the facts, when None.

    Raises:
        BadData: the setting is `triple` and the row has none.
    """
    edits, how = edits_of(row, setting), asking or Asking()
    if not edits:
        told = [text for fact in row.facts for text in fact.atomic_triples]
        raise BadData(
            f"{scheme}, record {place}, field 'atomic_triples': no '(subject; relation; object)' there; value {told}. "
            "Use --setting atomic or correct the record."
        )
    tags: Tags = {"contested": True} if contested else {}
    probes = [_question(row, scheme, edits, how.chain, tags)]
    if how.perplexity and row.known:
        probes.append(_measured(row, scheme, edits, tags))
    return Case(edits=edits, probes=tuple(probes), tags={"scheme": scheme, "record": place})


def _question(row: ReCoERow, scheme: str, edits: tuple[Edit, ...], chain: bool, tags: Tags) -> Probe:
    tags = tags | ({ALIASES_TAG: "\n".join(row.originals[1:])} if len(row.originals) > 1 else {})
    style: Style = "raw" if chain else "question"
    reading: Reading = "thoughts" if chain else "line"
    return Probe(
        kind=scheme,
        prompt=COT_PROMPT.format(question=row.asked) if chain else row.asked,
        style=style,
        gold=row.golds,
        rival=row.answer,
        edit_ids=tuple(edit.id for edit in edits),
        scorers=("correct_flip",),
        query=row.asked if chain else "",
        examples=shots(scheme) if chain else "",
        reading=reading,
        tags=tags | ({"shared_form": min(row.shared)} if row.shared else {}),
    )


def _measured(row: ReCoERow, scheme: str, edits: tuple[Edit, ...], tags: Tags) -> Probe:
    """The counterfactual facts, as gold, against the facts that they replace, as choices; nothing is to be said."""
    return Probe(
        kind=f"{scheme}{FACTS}",
        prompt="",
        gold=atoms_of(row.facts),
        choices=atoms_of(row.known),
        edit_ids=tuple(edit.id for edit in edits),
        scorers=("effectiveness",),
        query=row.asked,
        tags=tags,
    )
