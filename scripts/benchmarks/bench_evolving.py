"""Measures a memory of facts that change: is the current value found, and is what it superseded left out?

    python scripts/benchmarks/bench_evolving.py [--pairs 300] [--unrelated 5000] [--embedding lexical]

Each (subject, relation) pair is said once and updated one to four times, in any wording, mixed into unrelated edits;
every second update has a time, and comes before an older one now and then. Triplets know what they are about; of
documents it is read out of their text (`extract_edits`, the rules that need no model), or given. `never` is plain
dense retrieval over everything that was said. Of each question the first five entries count.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from emend.graphs.extraction.graph import ExtractContext, extract_edits  # noqa: E402
from emend.graphs.extraction.rules import RulesExtractor  # noqa: E402
from emend.memory.edit import Edit, Triplet  # noqa: E402
from emend.memory.embeddings.embed import Embedding, LexicalEmbedding, load_embedding  # noqa: E402
from emend.memory.retrieval.base import Corpus  # noqa: E402
from emend.memory.store.chroma import ChromaMemory  # noqa: E402
from emend.memory.store.superseding import Superseding  # noqa: E402
from scripts.benchmarks.bench_memory import NOUNS, name_of  # noqa: E402

K = 5
WORDINGS = (
    "The {r} of {s} is {o}. The news came as no surprise.",
    "After long talks it was settled: {o} is the {r} of {s}.",
    "{o} is the {r} of {s}, as the paper of the day says.",
    "Many had waited for it. The {r} of {s} is {o}.",
)
VARIED = (
    *WORDINGS,
    "{s}'s new {r} is {o}.",
    "{o} has become the {r} of {s}. There was some applause.",
    "{s} has {o} as its {r}.",
    "{s} named {o} as its {r} after a vote of the council.",
    "{o}, the {r} of {s}, was cheered by the crowd.",
    "Few were surprised that {o} was made {r} of {s}.",
    "{o} now serves as {r} of {s}.",
    "For a long time nobody could agree. Now {s} has a new {r}: {o}.",
    "If you ask for the {r} of {s}, people will point to {o}.",
    "{s} got a new {r} this week, and it is {o}.",
)
"""Wordings in which one says such a thing; of the last three the rules do not read what they say."""


@dataclass(frozen=True)
class Evolving:
    """One fact: what was said of it, oldest first, and the edits in the order in which they are added."""

    subject: str
    relation: str
    edits: tuple[Edit, ...]

    @property
    def question(self) -> str:
        """Asks for the current value."""
        return f"Who or what is the {self.relation} of {self.subject}?"


@dataclass
class Score:
    """Counts over the pairs; `unread` are documents out of which no fact could be read, `lost` other edits hidden."""

    pairs: int = 0
    right: int = 0
    current: int = 0
    stale_first: int = 0
    stale: int = 0
    history: int = 0
    withdrawn: int = 0
    unread: int = 0
    lost: int = 0


def facts(pairs: int, form: str, seed: int = 0, wordings: Sequence[str] = WORDINGS) -> list[Evolving]:
    """Facts with two to five values each, none of which returns."""
    draw, seen = random.Random(seed), set()
    out: list[Evolving] = []
    while len(out) < pairs:
        subject, relation = name_of(draw), draw.choice(NOUNS)
        if (subject, relation) in seen:
            continue
        seen.add((subject, relation))
        values = draw.sample([name_of(draw) for _ in range(20)], draw.randint(2, 5))
        dated = draw.random() < 0.5
        times = [f"20{10 + place:02d}-0{draw.randint(1, 9)}" if dated else None for place in range(len(values))]
        edits = [_edit(form, subject, relation, o, t, draw, wordings) for o, t in zip(values, times, strict=True)]
        out.append(Evolving(subject, relation, tuple(edits)))
    return out


def unrelated(count: int, form: str, taken: Sequence[Evolving], wordings: Sequence[str] = WORDINGS) -> list[Edit]:
    """Edits of other facts, each said once."""
    seen, draw = {(one.subject, one.relation) for one in taken}, random.Random(1)
    out: list[Edit] = []
    while len(out) < count:
        subject, relation = name_of(draw), draw.choice(NOUNS)
        if (subject, relation) not in seen:
            seen.add((subject, relation))
            out.append(_edit(form, subject, relation, name_of(draw), None, draw, wordings))
    return out


def _edit(
    form: str, subject: str, relation: str, value: str, time: str | None, draw: random.Random, wordings: Sequence[str]
) -> Edit:
    triplet = Triplet(subject=subject, relation=relation, object=value)
    if form == "triplet":
        return Edit(form="triplet", text=triplet.text, triplets=(triplet,), time=time)
    text = draw.choice(wordings).format(s=subject, r=relation, o=value)
    return Edit(form="document", text=text, triplets=(triplet,), time=time)


def mixed(told: Sequence[Evolving], others: Sequence[Edit]) -> list[Edit]:
    """All edits in one stream: what is undated in its order, what is dated in any order."""
    draw = random.Random(2)
    stream = [(draw.random(), edit) for edit in others]
    for one in told:
        places = [draw.random() for _ in one.edits]
        if one.edits[0].time is None:
            places.sort()
        stream += zip(places, one.edits, strict=True)
    return [edit for _, edit in sorted(stream, key=lambda pair: pair[0])]


def measure(
    told: Sequence[Evolving],
    others: Sequence[Edit],
    embedding: Embedding,
    rule: Superseding,
    read: bool = False,
    normalisation: bool = True,
) -> Score:
    """The score of one memory; with `read`, what documents speak of is read out of their text."""
    stream = mixed(told, others)
    if read:
        bare = [edit.model_copy(update={"triplets": ()}) for edit in stream]
        stream = extract_edits(bare, ExtractContext(RulesExtractor(), embedding, normalisation=normalisation))
    score = Score(unread=sum(not edit.triplets for edit in stream))
    with ChromaMemory(None, embedding, superseding=rule) as memory:
        memory.add(stream)
        view = memory.view()
        view.embed([one.question for one in told])
        for one in told:
            _ask(view, one, score)
        score.lost = len({edit.id for edit in others} - {entry.edit_id for entry in view.entries()})
        if rule == "arrival" and not read:
            _look_back(memory, told, score)
    return score


def _ask(view: Corpus, one: Evolving, score: Score) -> None:
    found = [hit.entry.edit_id for hit in view.nearest(one.question, K)]
    current, old = one.edits[-1].id, {edit.id for edit in one.edits[:-1]}
    score.pairs += 1
    score.right += found[0] == current
    score.current += current in found
    score.stale_first += found[0] in old
    score.stale += not old.isdisjoint(found)


def _look_back(memory: ChromaMemory, told: Sequence[Evolving], score: Score) -> None:
    """History in order; and the value before is current once the last is withdrawn."""
    for one in told:
        versions = memory.history(one.subject, one.relation).versions
        in_order = [version.edit.id for version in versions] == [edit.id for edit in one.edits]
        score.history += in_order and [version.current for version in versions].index(True) == len(versions) - 1
    memory.withdraw([one.edits[-1].id for one in told])
    ids = {entry.edit_id for entry in memory.view().entries()}
    for one in told:
        score.withdrawn += [edit.id in ids for edit in one.edits] == [False] * (len(one.edits) - 2) + [True, False]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--unrelated", type=int, default=5000)
    parser.add_argument("--embedding", default="lexical")
    asked = parser.parse_args()
    embedding = LexicalEmbedding() if asked.embedding == "lexical" else load_embedding(asked.embedding)
    for wordings in (WORDINGS, VARIED):
        for form, rule, facts_from in LINES if wordings is WORDINGS else LINES[2:]:
            told = facts(asked.pairs, form, wordings=wordings)
            others = unrelated(asked.unrelated, form, told, wordings)
            read, normalisation = facts_from.startswith("read"), facts_from != "read, as worded"
            score = measure(told, others, embedding, rule, read, normalisation)
            print(f"{len(wordings):2} wordings  {form:8}  {facts_from:15}  {rule:7}  {_shown(score, read)}", flush=True)


LINES: tuple[tuple[str, Superseding, str], ...] = (
    ("triplet", "never", "their own"),
    ("triplet", "arrival", "their own"),
    ("document", "never", "none needed"),
    ("document", "arrival", "read, as worded"),
    ("document", "arrival", "read"),
    ("document", "arrival", "given"),
)


def _shown(score: Score, read: bool) -> str:
    shares = {name: getattr(score, name) / score.pairs for name in ("right", "current", "stale_first", "stale")}
    told = "  ".join(f"{name} {share:.3f}" for name, share in shares.items())
    if read:
        return f"{told}  unread {score.unread}  lost {score.lost}"
    back = f"  history {score.history}/{score.pairs}  withdrawn {score.withdrawn}/{score.pairs}"
    return told + (back if score.history else "")


if __name__ == "__main__":
    main()
