"""From MQuAKE's rows to cases and demonstrations."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.mquake.rows import ChainHop, ChainRewrite, ChainRow
from emend.evals.data.benchmarks.rows import ASKED_BY_OTHER, Tags, golds
from emend.evals.metrics.text import normalise
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


def chain_case(
    row: ChainRow,
    prompting: ChainPrompting | None = None,
    contaminated: bool = False,
    edits_of: Mapping[str, Collection[int]] | None = None,
) -> Case:
    """The edits of one row, each edited fact, each unedited hop, and each distinct multi-hop question.

    Args:
        row: the record.
        prompting: demonstrations and golds; zero-shot with the new answers when None.
        contaminated: an edit of another record changes a hop of this one, so that the answer cannot be reached with
            both edits applied; its multi-hop questions get a kind of their own, so that they can be left out.
        edits_of: the questions and clozes of all edits (`edit_questions`); an unedited hop that another row's edit asks
            is tagged `asked_by_other_edit`, as it is not out of scope where all edits are applied.
    """
    how, edits = prompting or ChainPrompting(), tuple(rewrite.edit for rewrite in row.requested_rewrite)
    hops = row.single_hops if how.old else row.new_single_hops
    probes = [_edit_probe(e, rewrite, hops, how) for e, rewrite in zip(edits, row.requested_rewrite, strict=True)]
    probes += _hop_probes(row, hops, how, edits_of or {})
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
    answers = golds(target, [*own_aliases, *aliases])
    tags: dict[str, Any] = {"tags": shared} if (shared := _shared([rival], answers)) else {}
    return Probe(
        kind="efficacy",
        prompt=edit.cloze,
        gold=answers,
        rival=rival,
        edit_ids=(edit.id,),
        scorers=SCORERS,
        subject=edit.subject,
        **tags,
    )


def _hop_probes(
    row: ChainRow, hops: Sequence[ChainHop], how: ChainPrompting, edits_of: Mapping[str, Collection[int]]
) -> list[Probe]:
    """The hops of the chain that no edit of the row asks for."""
    relations = [relation for _, relation, _ in row.orig.new_triples]
    probes = []
    for n, hop in enumerate(hops):
        if row.is_edited(hop):
            continue
        tags: Tags = {"n": n}
        if {*edits_of.get(hop.question.lower(), ())} - {row.id}:
            tags[ASKED_BY_OTHER] = True
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
                tags=tags,
            )
        )
    return probes


def _multihop_probes(
    row: ChainRow, edit_ids: tuple[str, ...], how: ChainPrompting, contaminated: bool
) -> Iterator[Probe]:
    old = golds(row.answer, [*row.answer_alias, *row.answer_extended])
    new = golds(row.new_answer, row.new_answer_alias)
    tags: Tags = {"hops": row.hops, **({"contaminated": True} if contaminated else {}), **_shared(old, new)}
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


def _shared(old: Sequence[str], new: Sequence[str]) -> Tags:
    """The tag `shared_form` with a form that stands for the old and the new answer, so that no flip can be seen."""
    shared = set(map(normalise, old)) & set(map(normalise, new))
    return {"shared_form": min(shared)} if shared else {}


def edit_questions(rows: Iterable[ChainRow]) -> dict[str, set[int]]:
    """The questions and clozes of all edits, in lower case, with the ids of the rows that make them."""
    edits_of: dict[str, set[int]] = {}
    for row in rows:
        for rewrite in row.requested_rewrite:
            for text in filter(None, (rewrite.question, rewrite.cloze)):
                edits_of.setdefault(text.lower(), set()).add(row.id)
    return edits_of


def _with_shots(question: str, shots: str) -> tuple[str, Style]:
    return (f"{shots.rstrip()}\nQ: {question} A:", "raw") if shots else (question, "question")
