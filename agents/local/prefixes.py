"""What rows of tokens have in common, planned before anything is computed: each common beginning is fed once.

Two levels. A *trunk* is a long beginning of several prompts, such as a document or demonstrations before many
questions; trunks nest. A *stem* is what the targets of one prompt have in common, and a leaf what is left of a target.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

Ids = tuple[int, ...]
Members = tuple[int, ...]
"""The pairs of one prompt, by number."""


class Encoded(NamedTuple):
    """Token ids of a prompt, or of prompt and target; `ids[start:]` is the target; `cut` ids did not fit the window."""

    ids: Ids
    start: int
    cut: int

    @property
    def fed(self) -> Ids:
        """What the model reads to give the target's probabilities: all but the last token."""
        return self.ids[:-1]


class Stem(NamedTuple):
    """A row to feed, and the pairs that it serves: number, and the ids that follow the stem (none: all is in it)."""

    ids: Ids
    leaves: tuple[tuple[int, Ids], ...]


class Branch(NamedTuple):
    """What begins with the same tokens: `trunk`, of which the first `above` are in the branch above, and what follows.

    `stems` are whole rows, trunk included.
    """

    trunk: Ids
    above: int
    stems: tuple[Stem, ...]
    branches: tuple["Branch", ...] = ()

    @property
    def shares(self) -> bool:
        """Whether keys and values are to be reused."""
        return bool(self.branches) or any(leaf for stem in self.stems for _, leaf in stem.leaves)


class Least(NamedTuple):
    """From where on sharing is worth its extra passes: tokens of a trunk, and tokens that a trunk or stems save."""

    trunk: int
    by_trunk: int
    by_stems: int


NEVER = 1 << 62
APART = Least(NEVER, NEVER, NEVER)
"""Nothing is computed for later reuse; a row that another one begins with is still read off that one."""


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning."""
    return sum(1 for _ in takewhile(lambda two: two[0] == two[1], zip(one, other, strict=False)))


def plan(rows: Sequence[Encoded], prompts: Sequence[Hashable], least: Least | None) -> Branch:
    """What to compute in which order, so that every probability can be read off.

    Args:
        rows: the pairs.
        prompts: what tells the prompt of each pair from others.
        least: what is worth sharing; None lets rows serve only pairs that feed the very same.
    """
    together: dict[Hashable, list[int]] = defaultdict(list)
    for place, prompt in enumerate(prompts):
        together[prompt].append(place)
    asked = [tuple(members) for members in together.values()]
    if least is None:
        return Branch((), 0, tuple(stem for members in asked for stem in _equal(rows, members)))
    heads = {members: _head(rows, members) for members in asked}
    asked.sort(key=lambda members: heads[members])
    return _branch(rows, asked, heads, ((), 0), least)


def _head(rows: Sequence[Encoded], members: Sequence[int]) -> Ids:
    """What all pairs of a prompt have in common before the first token of which a target's probability is read."""
    ids = rows[members[0]].ids[: min(rows[place].start for place in members) - 1]
    for place in members[1:]:
        ids = ids[: common(ids, rows[place].ids)]
    return ids


def _branch(
    rows: Sequence[Encoded], asked: Sequence[Members], heads: Mapping[Members, Ids], at: tuple[Ids, int], least: Least
) -> Branch:
    """The branch of a trunk that ends before the last token of every prompt in it; `at` is trunk and `above`."""
    depth = len(at[0])
    apart: list[Members] = []
    further: list[Branch] = []
    for run, shared in _runs([heads[members] for members in asked], depth + least.trunk):
        found = asked[run]
        if len(found) > 1 and (len(found) - 1) * (shared - depth) >= least.by_trunk:
            trunk = heads[found[0]][:shared]
            further.append(_branch(rows, found, heads, (trunk, depth), least))
        else:
            apart += found
    return Branch(*at, tuple(_stems(rows, apart, depth, least.by_stems)), tuple(further))


def _runs(heads: Sequence[Ids], shortest: int) -> Iterator[tuple[slice, int]]:
    """Neighbours in sorted order with at least so much in common, and how much all of them have."""
    begin, shared = 0, len(heads[0]) if heads else 0
    for place in range(1, len(heads)):
        one, other = heads[place - 1], heads[place]
        both = common(one, other) if one[:shortest] == other[:shortest] and len(one) >= shortest else 0
        if both >= shortest:
            shared = min(shared, both)
        else:
            yield slice(begin, place), shared
            begin, shared = place, len(other)
    if heads:
        yield slice(begin, len(heads)), shared


def _stems(rows: Sequence[Encoded], asked: Sequence[Members], depth: int, least: int) -> list[Stem]:
    """One row per prompt with leaves after it, or one per target where leaves are not worth what they save."""
    covers = [_covers(rows, members) for members in asked]
    forks = [_fork(cover, depth) for cover in covers]
    saved = sum(_cost(cover, depth) - _cost(fork, depth) for cover, fork in zip(covers, forks, strict=True))
    return [stem for found in (forks if saved >= least else covers) for stem in found]


def _cost(found: Sequence[Stem], depth: int) -> int:
    """Tokens to feed."""
    return sum(len(stem.ids) - depth + sum(len(leaf) for _, leaf in stem.leaves) for stem in found)


def _equal(rows: Sequence[Encoded], members: Sequence[int]) -> list[Stem]:
    places: dict[Ids, list[int]] = defaultdict(list)
    for place in members:
        places[rows[place].fed].append(place)
    return [Stem(ids, tuple((place, ()) for place in served)) for ids, served in places.items()]


def _covers(rows: Sequence[Encoded], members: Sequence[int]) -> list[Stem]:
    """The longest rows: in sorted order what begins another row stands right before one that it begins."""
    kept: list[Stem] = []
    for stem in sorted(_equal(rows, members), reverse=True):
        if kept and kept[-1].ids[: len(stem.ids)] == stem.ids:
            kept[-1] = Stem(kept[-1].ids, kept[-1].leaves + stem.leaves)
        else:
            kept.append(stem)
    return kept


def _fork(cover: list[Stem], depth: int) -> list[Stem]:
    """One stem with leaves for all rows of a prompt; as they are where there is but one, or nothing in common."""
    ids = cover[0].ids
    for stem in cover[1:]:
        ids = ids[: common(ids, stem.ids)]
    if len(cover) == 1 or len(ids) <= depth:
        return cover
    return [Stem(ids, tuple((place, stem.ids[len(ids) :]) for stem in cover for place, _ in stem.leaves))]
