"""From MQuAKE's rows to cases and demonstrations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from emend.editors.base import Demonstration
from emend.evals.benchmarks.mquake.rows import ChainHop, ChainRewrite, ChainRow
from emend.evals.benchmarks.rows import Tags, golds
from emend.evals.case import Case
from emend.memory.edit import Edit
from emend.memory.probe import Probe, Style

SCORERS = ("exact_match", "strict_match")


@dataclass(frozen=True)
class ChainPrompting:
    """How the questions are asked, and which answers are gold.

    `old` takes the answers from before the edit; `multihop` and `relations` are the demonstrations before a multi-hop
    question and before a single hop of a relation, "" and {} for none.
    """

    old: bool = False
    multihop: str = ""
    relations: Mapping[str, str] = field(default_factory=dict)


def chain_case(row: ChainRow, prompting: ChainPrompting | None = None, contaminated: bool = False) -> Case:
    """The edits of one row, each edited fact, each unedited hop, and each distinct multi-hop question.

    Args:
        row: the record.
        prompting: demonstrations and golds; zero-shot with the new answers when None.
        contaminated: an edit of another record changes a hop of this one, so that the answer cannot be reached with
            both edits applied; its multi-hop questions get a kind of their own, so that they can be left out.
    """
    how, edits = prompting or ChainPrompting(), tuple(rewrite.edit for rewrite in row.requested_rewrite)
    hops = row.single_hops if how.old else row.new_single_hops
    probes = [_edit_probe(e, rewrite, hops, how) for e, rewrite in zip(edits, row.requested_rewrite, strict=True)]
    probes += _hop_probes(row, hops, how)
    probes += _multihop_probes(row, tuple(edit.id for edit in edits), how, contaminated)
    tags: Tags = {"case_id": row.id, "hops": row.hops, "edits": len(edits), "contaminated": contaminated}
    return Case(edits=edits, probes=tuple(probes), tags=tags)


def chain_demonstrations(row: ChainRow) -> Iterator[Demonstration]:
    """Each edit as a cloze and as a question, and each unedited hop.

    Multi-hop questions are not shown, as their later hops are those of other records too.
    """
    for edit in (rewrite.edit for rewrite in row.requested_rewrite):
        text, target = edit.text, edit.target_new
        yield Demonstration(kind="copy", fact=text, prompt=edit.cloze, target=target)
        if edit.question:
            yield Demonstration(kind="update", fact=text, prompt=edit.question, style="question", target=target)
        for hop in row.new_single_hops:
            if not row.is_edited(hop):
                yield Demonstration(kind="retain", fact=text, prompt=hop.question, style="question", target=hop.answer)


def chain_texts(row: ChainRow) -> Iterator[str]:
    """The texts of a row that name whom it edits and what it asks."""
    for rewrite in row.requested_rewrite:
        yield from (rewrite.subject, rewrite.question)
    yield from row.questions
    yield from (hop.question for hop in (*row.single_hops, *row.new_single_hops))


def _edit_probe(edit: Edit, rewrite: ChainRewrite, hops: Sequence[ChainHop], how: ChainPrompting) -> Probe:
    """The edited fact in the edit's own words; the hop with the same question or cloze has the aliases."""
    target, rival = rewrite.target_new.label, rewrite.target_true.label
    own_aliases = rewrite.answer_true_alias if how.old else rewrite.answer_new_alias
    if how.old:
        target, rival = rival, target
    same = [hop for hop in hops if edit.question and hop.question == edit.question or hop.cloze == edit.cloze]
    aliases = [alias for hop in same if hop.answer == target for alias in hop.answer_alias]
    return Probe(
        kind="efficacy",
        prompt=edit.cloze,
        gold=golds(target, [*own_aliases, *aliases]),
        rival=rival,
        edit_ids=(edit.id,),
        scorers=SCORERS,
        subject=edit.subject,
    )


def _hop_probes(row: ChainRow, hops: Sequence[ChainHop], how: ChainPrompting) -> list[Probe]:
    """The hops of the chain that no edit of the row asks for."""
    relations = [relation for _, relation, _ in row.orig.new_triples]
    probes = []
    for n, hop in enumerate(hops):
        if row.is_edited(hop):
            continue
        prompt, style = _with_shots(hop.question, how.relations.get(relations[n], "") if n < len(relations) else "")
        probes.append(
            Probe(
                kind="hop",
                prompt=prompt,
                style=style,
                query=hop.question,
                gold=golds(hop.answer, hop.answer_alias),
                in_scope=False,
                scorers=SCORERS,
                tags={"n": n},
            )
        )
    return probes


def _multihop_probes(
    row: ChainRow, edit_ids: tuple[str, ...], how: ChainPrompting, contaminated: bool
) -> Iterator[Probe]:
    old = golds(row.answer, [*row.answer_alias, *row.answer_extended])
    new = golds(row.new_answer, row.new_answer_alias)
    tags: Tags = {"hops": row.hops, **({"contaminated": True} if contaminated else {})}
    for n, question in enumerate(dict.fromkeys(row.questions)):
        prompt, style = _with_shots(question, how.multihop)
        yield Probe(
            kind="multihop_contaminated" if contaminated else "multihop",
            prompt=prompt,
            style=style,
            query=question,
            gold=old if how.old else new,
            rival=new[0] if how.old else old[0],
            edit_ids=edit_ids,
            scorers=SCORERS,
            tags=tags | {"n": n},
        )


def _with_shots(question: str, shots: str) -> tuple[str, Style]:
    return (f"{shots.rstrip()}\nQ: {question} A:", "raw") if shots else (question, "question")
