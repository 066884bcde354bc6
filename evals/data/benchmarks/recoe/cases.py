"""From ReCoE's rows to cases and demonstrations: the question, direct or with chain of thought, and the facts."""

from dataclasses import dataclass

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.chain_of_thought import chain_fields
from emend.evals.data.benchmarks.recoe.rows import ReCoERow, atoms_of, edits_of
from emend.evals.data.benchmarks.recoe.shots import shots
from emend.evals.data.benchmarks.rows import Tags
from emend.evals.metrics.papers.recoe import ALIASES_TAG
from emend.memory.edit import Edit
from emend.memory.errors import BadData
from emend.memory.probe import Probe

FACTS = "_facts"
"""Suffix of the kind of a probe that measures the perplexity of a record's facts."""


@dataclass(frozen=True)
class ReCoEPrompting:
    """Form of the probes: chain of thought or direct, and whether the facts' perplexity is measured."""

    chain: bool = False
    perplexity: bool = True


def row_case(
    row: ReCoERow,
    scheme: str,
    setting: str,
    index: int,
    contested: bool = False,
    prompting: ReCoEPrompting | None = None,
) -> Case:
    """One row as a case: its counterfactuals as edits, its question with the counterfactual answer, and its facts.

    Args:
        row: the row.
        scheme: one of `ROWS`; the probe's kind.
        setting: `atomic`, `sentence` or `triple`.
        index: its index in the file.
        contested: another record edits a fact of this one to another object; tagged.
        prompting: direct, with the facts, when None.

    Raises:
        BadData: the setting is `triple` and the row has none.
    """
    edits, how = edits_of(row, setting), prompting or ReCoEPrompting()
    if not edits:
        triples = [text for fact in row.facts for text in fact.atomic_triples]
        raise BadData(
            f"{scheme}, record {index}, field 'atomic_triples': no '(subject; relation; object)' there; "
            f"value {triples}. Use --setting atomic or correct the record."
        )
    tags: Tags = {"contested": True} if contested else {}
    probes = [_question_probe(row, scheme, edits, how.chain, tags)]
    if how.perplexity and row.known:
        probes.append(_facts_probe(row, scheme, edits, tags))
    return Case(edits=edits, probes=tuple(probes), tags={"scheme": scheme, "record": index})


def _question_probe(row: ReCoERow, scheme: str, edits: tuple[Edit, ...], chain: bool, tags: Tags) -> Probe:
    tags = tags | ({ALIASES_TAG: "\n".join(row.originals[1:])} if len(row.originals) > 1 else {})
    return Probe(
        kind=scheme,
        **chain_fields(row.asked, shots(scheme) if chain else ""),
        gold=row.golds,
        rival=row.answer,
        edit_ids=tuple(edit.id for edit in edits),
        scorers=("correct_flip",),
        tags=tags | ({"shared_form": min(row.shared)} if row.shared else {}),
    )


def _facts_probe(row: ReCoERow, scheme: str, edits: tuple[Edit, ...], tags: Tags) -> Probe:
    """The counterfactual facts, as gold, against the facts that they replace, as choices; no text is generated."""
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


def question_demonstrations(row: ReCoERow, setting: str) -> list[Demonstration]:
    """The row's question, and the first counterfactual with a cloze; the data has nothing to retain.

    The shown fact is all of the row's counterfactuals, as its answer follows from them together.
    """
    edits = edits_of(row, setting)
    text = " ".join(edit.text for edit in edits)
    question = Demonstration(kind="update", fact=text, prompt=row.asked, style="question", target=row.golds[0])
    copied = next((edit for edit in edits if edit.cloze and edit.target_new), None)
    if copied is None:
        return [question]
    return [Demonstration(kind="copy", fact=text, prompt=copied.cloze, target=copied.target_new), question]
