"""MQuAKE's rows and the pure functions that turn them into edits and probes.

One row, shortened (`requested_rewrite` is a list here, and a dict in files made after CounterFact's fashion):

    {"case_id": 7, "requested_rewrite": [{"prompt": "{} is a citizen of", "relation_id": "P27", "subject": "Ida Holt",
      "target_new": {"str": "Iceland", "id": "Q189"}, "target_true": {"str": "Norway", "id": "Q20"},
      "question": "What is the country of citizenship of Ida Holt?"}],
     "questions": ["What is the capital of the country of which Ida Holt is a citizen?", ..],
     "answer": "Oslo", "answer_alias": ["Christiania"], "new_answer": "Reykjavík", "new_answer_alias": [],
     "single_hops": [{"question": .., "cloze": .., "answer": "Norway", "answer_alias": [..]}, ..],
     "new_single_hops": [{"question": .., "cloze": .., "answer": "Iceland", "answer_alias": [..]}, ..],
     "orig": {"new_triples": [["Q1", "P27", "Q189"], ["Q189", "P36", "Q1764"]],
              "edit_triples": [["Q1", "P27", "Q189"]], ..}}
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AliasChoices, BeforeValidator, Field, StringConstraints

from emend.evals.benchmarks.counterfact.rows import RewriteRow
from emend.evals.benchmarks.files import NumberedRow, Row
from emend.evals.case import Case
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData
from emend.memory.probe import Probe, Style

Text = Annotated[str, StringConstraints(min_length=1)]
Ids = tuple[str, str, str]
Tags = dict[str, str | int | float | bool]
SCORERS = ("exact_match", "strict_match")


def _listed(value: object) -> object:
    return [value] if isinstance(value, dict) else value


def _aliases(name: str) -> AliasChoices:
    return AliasChoices(name, f"{name}es")


class HopRewriteRow(RewriteRow):
    """One edit of a chain; the aliases are of files that have them at the edit and not at the hop."""

    question: str = ""
    answer_new_alias: tuple[str, ...] = Field((), validation_alias=_aliases("answer_new_alias"))
    answer_true_alias: tuple[str, ...] = Field((), validation_alias=_aliases("answer_true_alias"))


class HopRow(Row):
    """One hop of a chain, as a question and as a cloze."""

    question: Text
    cloze: Text
    answer: Text
    answer_alias: tuple[str, ...] = Field((), validation_alias=_aliases("answer_alias"))


class TriplesRow(Row):
    """The chain after the edit, and the edits, in Wikidata ids (subject, relation, object)."""

    new_triples: tuple[Ids, ...]
    edit_triples: tuple[Ids, ...]


class ChainRow(NumberedRow):
    """A row of any MQuAKE file; `answer_extended` (MQuAKE-T) holds further right answers from before the edit."""

    id: int = Field(validation_alias="case_id")
    requested_rewrite: Annotated[tuple[HopRewriteRow, ...], BeforeValidator(_listed), Field(min_length=1)]
    questions: Annotated[tuple[Text, ...], Field(min_length=1)]
    answer: Text
    answer_alias: tuple[str, ...] = Field((), validation_alias=_aliases("answer_alias"))
    answer_extended: tuple[str, ...] = ()
    new_answer: Text
    new_answer_alias: tuple[str, ...] = Field((), validation_alias=_aliases("new_answer_alias"))
    single_hops: tuple[HopRow, ...]
    new_single_hops: tuple[HopRow, ...]
    orig: TriplesRow


@dataclass(frozen=True)
class Asking:
    """How the questions are put, and which answers are right.

    `old` takes the answers from before the edit; `multihop` and `relations` are the solved examples that go before a
    multi-hop question and before a single hop of a relation, "" and {} for none.
    """

    old: bool = False
    multihop: str = ""
    relations: Mapping[str, str] = field(default_factory=dict)


def chain_edits(row: ChainRow, file: str = "") -> tuple[Edit, ...]:
    """The edits of a row, in its order; they stand together.

    Raises:
        BadData: a prompt has not exactly one `{}`.
    """
    return tuple(_edit(row, number, rewrite, file) for number, rewrite in enumerate(row.requested_rewrite))


def chain_case(row: ChainRow, asking: Asking | None = None, contaminated: bool = False, file: str = "") -> Case:
    """The edits of one row, each edited fact, each unedited hop, and the multi-hop questions, each different one once.

    Args:
        row: the record.
        asking: examples and golds; zero-shot with the new answers when None.
        contaminated: an edit of another record changes a hop of this one, so that with both edits standing the answer
            cannot be reached; its multi-hop questions get a kind of their own, so that they can be left out.
        file: named in complaints.

    Raises:
        BadData: a prompt has not exactly one `{}`, or there are not as many hops as triples.
    """
    how, edits = asking or Asking(), chain_edits(row, file)
    hops = row.single_hops if how.old else row.new_single_hops
    if len(row.new_single_hops) != len(row.orig.new_triples):
        raise BadData(
            f"{file}, case_id {row.id}, field 'new_single_hops': {len(row.new_single_hops)} hops but "
            f"{len(row.orig.new_triples)} in 'orig.new_triples'. Correct the record or fetch the file again."
        )
    probes = [_edited(edit, rewrite, hops, how) for edit, rewrite in zip(edits, row.requested_rewrite, strict=True)]
    probes += _unedited(row, how)
    probes += _multihop(row, edits, how, contaminated)
    tags: Tags = {
        "case_id": row.id,
        "hops": len(row.new_single_hops),
        "edits": len(edits),
        "contaminated": contaminated,
    }
    return Case(edits=edits, probes=tuple(probes), tags=tags)


def unedited_hops(row: ChainRow) -> list[HopRow]:
    """The hops after the edit that no edit of the row asks for."""
    return [hop for hop in row.new_single_hops if not _asks_edit(row.requested_rewrite, hop)]


def contaminated_ids(rows: Iterable[ChainRow]) -> frozenset[int]:
    """The rows with a hop (edited or not) to which another row's edit gives another object."""
    held = list(rows)
    objects: dict[tuple[str, str], set[str]] = {}
    for row in held:
        for subject, relation, target in row.orig.edit_triples:
            objects.setdefault((subject, relation), set()).add(target)
    return frozenset(
        row.id
        for row in held
        if any(objects.get((subject, relation), set()) - {target} for subject, relation, target in row.orig.new_triples)
    )


def _edit(row: ChainRow, number: int, rewrite: HopRewriteRow, file: str) -> Edit:
    if rewrite.prompt.count("{}") != 1:
        raise BadData(
            f"{file}, case_id {row.id}, field 'requested_rewrite[{number}].prompt': exactly one {{}} expected; "
            f"value '{rewrite.prompt}'. Correct the record."
        )
    triplet = Triplet(
        subject=rewrite.subject,
        relation=rewrite.relation_id,
        object=rewrite.target_new.label,
        relation_id=rewrite.relation_id,
        object_id=rewrite.target_new.id,
    )
    more = {"question": rewrite.question, "target_true": rewrite.target_true.label}
    return Edit.from_triplet(triplet, rewrite.prompt, **more)


def _edited(edit: Edit, rewrite: HopRewriteRow, hops: Sequence[HopRow], how: Asking) -> Probe:
    """The edited fact in the edit's own words; aliases stand at the hop with the same question or cloze."""
    target, other = rewrite.target_new.label, rewrite.target_true.label
    named = rewrite.answer_true_alias if how.old else rewrite.answer_new_alias
    if how.old:
        target, other = other, target
    same = [hop for hop in hops if edit.question and hop.question == edit.question or hop.cloze == edit.cloze]
    aliases = [alias for hop in same if hop.answer == target for alias in hop.answer_alias]
    return Probe(
        kind="efficacy",
        prompt=edit.cloze,
        gold=_golds(target, [*named, *aliases]),
        rival=other,
        edit_ids=(edit.id,),
        scorers=SCORERS,
        subject=edit.subject,
    )


def _unedited(row: ChainRow, how: Asking) -> list[Probe]:
    """The hops that no edit of the row changes; with the old answers those of the old chain that it leaves alone."""
    chain = row.single_hops if how.old else row.new_single_hops
    relations = [relation for _, relation, _ in row.orig.new_triples]
    kept = [not _asks_edit(row.requested_rewrite, hop) for hop in chain]
    return [
        Probe(
            kind="hop",
            prompt=prompt,
            style=style,
            query=hop.question,
            gold=_golds(hop.answer, hop.answer_alias),
            in_scope=False,
            scorers=SCORERS,
            tags={"n": n},
        )
        for n, hop in enumerate(chain)
        if kept[n]
        for prompt, style in [_put(hop.question, how.relations.get(relations[n], "") if n < len(relations) else "")]
    ]


def _asks_edit(rewrites: Sequence[HopRewriteRow], hop: HopRow) -> bool:
    clozes = {rewrite.prompt.replace("{}", rewrite.subject, 1) for rewrite in rewrites}
    return hop.cloze in clozes or hop.question in {rewrite.question for rewrite in rewrites}


def _multihop(row: ChainRow, edits: Collection[Edit], how: Asking, contaminated: bool) -> list[Probe]:
    old = _golds(row.answer, [*row.answer_alias, *row.answer_extended])
    new = _golds(row.new_answer, row.new_answer_alias)
    tags: Tags = {"hops": len(row.new_single_hops)}
    if contaminated:
        tags["contaminated"] = True
    return [
        Probe(
            kind="multihop_contaminated" if contaminated else "multihop",
            prompt=prompt,
            style=style,
            query=question,
            gold=old if how.old else new,
            rival=new[0] if how.old else old[0],
            edit_ids=tuple(edit.id for edit in edits),
            scorers=SCORERS,
            tags=tags | {"n": n},
        )
        for n, question in enumerate(dict.fromkeys(row.questions))
        for prompt, style in [_put(question, how.multihop)]
    ]


def _put(question: str, examples: str) -> tuple[str, Style]:
    return (f"{examples.rstrip()}\nQ: {question} A:", "raw") if examples else (question, "question")


def _golds(answer: str, aliases: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([answer, *(alias for alias in aliases if alias.strip())]))
