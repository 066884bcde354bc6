"""From AKEW's rows to edits, probes and cases, and what the edits of several rows do to each other."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from emend.evals.benchmarks.akew.rows import AkewRow, Key, MultiHopRow, Rewrite
from emend.evals.case import Case
from emend.memory.edit import Edit, Triplet
from emend.memory.probe import Probe

Tags = dict[str, str | int | float | bool]
SCORERS = ("exact_match", "strict_match")


@dataclass(frozen=True)
class Standing:
    """What the edits of all records drawn do to each other when they stand together."""

    repeated: frozenset[tuple[int, int]] = frozenset()
    """(record id, place of the edit) of edits that an earlier record makes too."""
    contested: frozenset[Key] = frozenset()
    """Subject and relation of edits with unlike targets."""
    contaminated: frozenset[int] = frozenset()
    """Ids of records with an answer that another record's edit changes."""


def standing_together(rows: Iterable[AkewRow]) -> Standing:
    """Repeated edits, and the records whose answer depends on whether others' edits stand too."""
    rows = list(rows)
    seen: set[tuple[str, str, str]] = set()
    repeated: set[tuple[int, int]] = set()
    targets: dict[Key, set[str]] = {}
    for row in rows:
        for place, rewrite in enumerate(row.requested_rewrite):
            if rewrite.content in seen:
                repeated.add((row.id, place))
            seen.add(rewrite.content)
            targets.setdefault(rewrite.asks, set()).add(rewrite.target_new.label)
    contested = frozenset(key for key, named in targets.items() if len(named) > 1)
    hit = {row.id for row in rows if any(rewrite.asks in contested for rewrite in row.requested_rewrite)}
    return Standing(frozenset(repeated), contested, frozenset(hit | _crossed(rows)))


def _crossed(rows: Iterable[AkewRow]) -> set[int]:
    """Records with a hop that someone's edit leads elsewhere."""
    chains = [(row.id, row.orig) for row in rows if isinstance(row, MultiHopRow)]
    edited: dict[Key, set[str]] = {}
    for _, orig in chains:
        for subject, relation, target in orig.edit_triples:
            edited.setdefault((subject, relation), set()).add(target)
    return {
        number
        for number, orig in chains
        if any(edited.get((subject, relation), {target}) - {target} for subject, relation, target in orig.new_triples)
    }


def edits_of(rewrite: Rewrite, setting: str) -> tuple[Edit, ...]:
    """What the editor is given: the `struct` sentence, the `unstruct` text, or each `extract` triplet as an edit."""
    if setting == "struct":
        return (_structured(rewrite),)
    if setting == "unstruct":
        return (Edit(form="document", text=rewrite.fact_new_uns, time=rewrite.since),)
    return tuple(_extracted(*row.parts, rewrite.since) for row in rewrite.triplets)


def _extracted(subject: str, prompt: str, target: str, since: str | None) -> Edit:
    relation = " ".join(prompt.replace("{}", "").split())
    return Edit.from_triplet(Triplet(subject=subject, relation=relation, object=target), prompt, time=since)


def _structured(rewrite: Rewrite) -> Edit:
    new = rewrite.target_new
    triplet = Triplet(
        subject=rewrite.subject,
        relation=rewrite.relation or rewrite.prompt or rewrite.question,
        object=new.label,
        relation_id=rewrite.relation_id,
        object_id=new.id,
    )
    return Edit(
        form="triplet",
        text=rewrite.fact,
        subject=rewrite.subject,
        prompt=rewrite.cloze_prompt,
        question=rewrite.question,
        target_new=new.label,
        target_true=rewrite.target_true.label,
        triplets=(triplet,),
        time=rewrite.since,
    )


def case_of(row: AkewRow, setting: str, ask: str, standing: Standing) -> Case:
    """A record's edits, a probe for each, and the three wordings of its multi-hop question where it has one.

    Args:
        row: the record.
        setting: `struct`, `unstruct` or `extract`.
        ask: `cloze` or `question`: how an edit is asked; where the record lacks one the other is taken.
        standing: what the edits of the records drawn do to each other.
    """
    given = [edits_of(rewrite, setting) for rewrite in row.requested_rewrite]
    edits = tuple({edit.id: edit for group in given for edit in group}.values())
    probes = []
    for place, (rewrite, group) in enumerate(zip(row.requested_rewrite, given, strict=True)):
        kind = _kind(row.id, place, rewrite, standing)
        probes.append(_edited(rewrite, row.aliases(rewrite), kind, [e.id for e in group], ask, setting))
    contaminated = row.id in standing.contaminated
    if isinstance(row, MultiHopRow):
        probes += _questions(row, tuple(edit.id for edit in edits), contaminated)
    tags: Tags = {"akew_id": row.id, "edits": len(row.requested_rewrite), "contaminated": contaminated}
    return Case(edits=edits, probes=tuple(probes), tags=tags | ({"hops": row.hops} if row.hops else {}))


def _kind(number: int, place: int, rewrite: Rewrite, standing: Standing) -> str:
    if (number, place) in standing.repeated:
        return "efficacy_repeated"
    return "efficacy_contaminated" if rewrite.asks in standing.contested else "efficacy"


def _edited(
    rewrite: Rewrite, aliases: Collection[str], kind: str, edit_ids: Collection[str], ask: str, setting: str
) -> Probe:
    cloze = bool(rewrite.cloze) and (ask == "cloze" or not rewrite.question)
    return Probe(
        kind=kind,
        prompt=rewrite.cloze if cloze else rewrite.question,
        style="cloze" if cloze else "question",
        gold=golds(rewrite.target_new.label, aliases),
        rival=rewrite.target_true.label,
        edit_ids=tuple(dict.fromkeys(edit_ids)),
        scorers=SCORERS,
        subject=rewrite.subject,
        tags={"recoverable": rewrite.recoverable} if setting == "extract" else {},
    )


def _questions(row: MultiHopRow, edit_ids: tuple[str, ...], contaminated: bool) -> list[Probe]:
    return [
        Probe(
            kind="multihop_contaminated" if contaminated else "multihop",
            prompt=question,
            style="question",
            gold=golds(row.new_answer, row.new_answer_alias),
            rival=row.answer,
            edit_ids=edit_ids,
            scorers=SCORERS,
            tags={"n": n, "hops": row.hops},
        )
        for n, question in enumerate(row.questions)
    ]


def golds(answer: str, aliases: Iterable[str]) -> tuple[str, ...]:
    """The answer, then each alias once; blank ones are left out."""
    return tuple(dict.fromkeys(name for name in (answer, *aliases) if name.strip()))


def shares(groups: Mapping[int, int], limit: int) -> dict[int, int]:
    """How many of `limit` each group gets, in proportion to its size, the largest remainders first."""
    total = sum(groups.values())
    exact = {name: limit * size / total for name, size in groups.items()}
    given = {name: int(share) for name, share in exact.items()}
    order = sorted(groups, key=lambda name: (given[name] - exact[name], name))
    for name in order[: limit - sum(given.values())]:
        given[name] += 1
    return given
