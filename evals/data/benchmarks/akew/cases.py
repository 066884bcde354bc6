"""Cases of AKEW's records: the edit of a setting, its questions, and those of a chain."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.akew.rows import AkewRewrite, AkewRow, Key, MultiHopRow
from emend.evals.data.benchmarks.rows import (
    Tags,
    chain_fields,
    contaminated_ids,
    contested_keys,
    golds,
)
from emend.evals.metrics.hops import distinct_golds
from emend.memory.edit import Edit, Triplet
from emend.memory.probe import Probe

SCORERS = ("exact_match", "strict_match")


@dataclass(frozen=True)
class Interference:
    """Interference between the edits of all drawn records when they are applied together."""

    repeated: frozenset[tuple[int, int]] = frozenset()
    """(record id, index of the edit) of edits that an earlier record contains too."""
    contested: frozenset[Key] = frozenset()
    """Subjects and relations that are edited to different targets."""
    contaminated: frozenset[int] = frozenset()
    """Ids of records with an answer that is changed by another record's edit."""


def interference(rows: Sequence[AkewRow]) -> Interference:
    """Find repeated edits, and records whose answers change if other records' edits are also
    applied.
    """
    edits: set[tuple[str, str, str]] = set()
    repeated: set[tuple[int, int]] = set()
    for row in rows:
        for index, rewrite in enumerate(row.requested_rewrite):
            if rewrite.content in edits:
                repeated.add((row.id, index))
            edits.add(rewrite.content)
    contested = contested_keys(
        (edit.key, edit.target_new.label) for row in rows for edit in row.requested_rewrite
    )
    contaminated = {
        row.id for row in rows for rewrite in row.requested_rewrite if rewrite.key in contested
    }
    chains = contaminated_ids({row.id: row.orig for row in rows if isinstance(row, MultiHopRow)})
    return Interference(frozenset(repeated), contested, chains | contaminated)


def edits_of(rewrite: AkewRewrite, setting: str) -> tuple[Edit, ...]:
    """Return the edits of a setting: the `struct` sentence, the `unstruct` text, or one edit per
    `extract` triplet.
    """
    if setting == "struct":
        return (_structured(rewrite),)
    if setting == "unstruct":
        return (Edit(form="document", text=rewrite.fact_new_uns, time=rewrite.since),)
    parts = (row.parts for row in rewrite.triplets)
    triplets = [
        (Triplet(subject=s, relation=" ".join(p.replace("{}", "").split()), object=o), p)
        for s, p, o in parts
    ]
    return tuple(
        Edit.from_triplet(triplet, prompt, time=rewrite.since) for triplet, prompt in triplets
    )


def _structured(rewrite: AkewRewrite) -> Edit:
    new = rewrite.target_new
    relation = rewrite.relation or rewrite.prompt or rewrite.question
    ids = {"relation_id": rewrite.relation_id, "object_id": new.id}
    return Edit(
        form="triplet",
        text=rewrite.fact,
        subject=rewrite.subject,
        prompt=rewrite.cloze_prompt,
        question=rewrite.question,
        target_new=new.label,
        target_true=rewrite.old_label or "",
        triplets=(Triplet(subject=rewrite.subject, relation=relation, object=new.label, **ids),),
        time=rewrite.since,
    )


def case_of(row: AkewRow, setting: str, ask: str, others: Interference, chains: str = "") -> Case:
    """Return a record's edits, a probe for each, and the paraphrases of its multi-hop question if
    it has one.

    Args:
        row: the record.
        setting: `struct`, `unstruct` or `extract`.
        ask: form of the questions about an edit, `cloze` or `question`; the other form if the
            record lacks it.
        others: interference between the edits of the drawn records.
        chains: solved chains of thought to show before a multi-hop question; "" to ask it directly.
    """
    groups = [edits_of(rewrite, setting) for rewrite in row.requested_rewrite]
    edits = tuple({edit.id: edit for group in groups for edit in group}.values())
    probes = []
    for index, (rewrite, group) in enumerate(zip(row.requested_rewrite, groups, strict=True)):
        kind = "efficacy"
        if rewrite.key in others.contested:
            kind = "efficacy_contaminated"
        if (row.id, index) in others.repeated:
            kind = "efficacy_repeated"
        probes.append(
            _edit_probe(rewrite, row.aliases(rewrite), kind, [e.id for e in group], ask, setting)
        )
    contaminated = row.id in others.contaminated
    if isinstance(row, MultiHopRow):
        probes += _multihop_probes(row, tuple(edit.id for edit in edits), contaminated, chains)
    tags: Tags = {
        "akew_id": row.id,
        "edits": len(row.requested_rewrite),
        "contaminated": contaminated,
    }
    if not isinstance(row, MultiHopRow):
        return Case(edits=edits, probes=tuple(probes), tags=tags)
    tags["hops"] = row.hops
    answers = distinct_golds(golds(hop.answer, hop.answer_alias) for hop in row.new_single_hops)
    return Case(edits=edits, probes=tuple(probes), hop_golds=answers, tags=tags)


def record_demonstrations(row: AkewRow, setting: str) -> Iterator[Demonstration]:
    """Yield each edit as a cloze and as a question, and each hop that no edit asks about."""
    for rewrite in row.requested_rewrite:
        if not (text := _edit_text(rewrite, setting)):
            continue
        target = rewrite.target_new.label
        if rewrite.cloze:
            yield Demonstration(kind="copy", fact=text, prompt=rewrite.cloze, target=target)
        if rewrite.question:
            yield Demonstration(
                kind="update", fact=text, prompt=rewrite.question, style="question", target=target
            )
        for hop in row.new_single_hops if isinstance(row, MultiHopRow) else ():
            if all(hop.question != other.question for other in row.requested_rewrite):
                yield Demonstration(
                    kind="retain",
                    fact=text,
                    prompt=hop.question,
                    style="question",
                    target=hop.answer,
                )


def edited_subjects(row: AkewRow) -> list[str]:
    """Return the subjects of a record's edits."""
    return [edit.subject for edit in row.requested_rewrite]


def record_texts(row: AkewRow) -> Iterator[str]:
    """Yield the texts of a record that name its edited subjects and its questions."""
    for rewrite in row.requested_rewrite:
        yield from (rewrite.subject, rewrite.question)
    if isinstance(row, MultiHopRow):
        yield from row.questions
        yield from (hop.question for hop in row.new_single_hops)


def _edit_text(rewrite: AkewRewrite, setting: str) -> str:
    """Return the text of the edit; in `extract` the first triplet that names subject and new
    target, else "".
    """
    texts = [edit.text for edit in edits_of(rewrite, setting)]
    if setting != "extract":
        return texts[0]
    return next(filter(rewrite.is_named_in, texts), "")


def _edit_probe(
    rewrite: AkewRewrite,
    aliases: Collection[str],
    kind: str,
    edit_ids: Collection[str],
    ask: str,
    setting: str,
) -> Probe:
    cloze = bool(rewrite.cloze) and (ask == "cloze" or not rewrite.question)
    return Probe(
        kind=kind,
        prompt=rewrite.cloze if cloze else rewrite.question,
        style="cloze" if cloze else "question",
        gold=golds(rewrite.target_new.label, aliases),
        rival=rewrite.old_label,
        edit_ids=tuple(dict.fromkeys(edit_ids)),
        scorers=SCORERS,
        subject=rewrite.subject,
        tags={"recoverable": rewrite.recoverable} if setting == "extract" else {},
    )


def _multihop_probes(
    row: MultiHopRow, edit_ids: tuple[str, ...], contaminated: bool, chains: str
) -> list[Probe]:
    return [
        Probe(
            kind="multihop_contaminated" if contaminated else "multihop",
            **chain_fields(question, chains),
            gold=golds(row.new_answer, row.new_answer_alias),
            rival=row.answer,
            edit_ids=edit_ids,
            scorers=SCORERS,
            tags={"n": n, "hops": row.hops},
        )
        for n, question in enumerate(row.questions)
    ]
