"""Planning of batches in which each shared prefix of token rows is processed only once.

There are two levels: a *trunk* is a long prefix of several prompts, such as a document or
demonstrations before many questions; trunks can be nested. A *stem* is the common prefix of one
prompt's targets, and a *leaf* is the rest of a target.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

Ids = tuple[int, ...]
# The row indices of one prompt's pairs.
Members = tuple[int, ...]


class Encoded(NamedTuple):
    """Token ids of a prompt, or of prompt and target; `ids[start:]` is the target; `cut` is the
    number of truncated ids.
    """

    ids: Ids
    start: int
    cut: int

    @property
    def fed(self) -> Ids:
        """The model's input for the target's probabilities: all but the last token."""
        return self.ids[:-1]


class Stem(NamedTuple):
    """An input row, and its pairs: row index, and the ids after the stem (none if the stem has them
    all).
    """

    ids: Ids
    leaves: tuple[tuple[int, Ids], ...]


class Branch(NamedTuple):
    """Rows that begin with `trunk`, whose first `above` tokens are the trunk of the parent branch.

    `stems` are complete rows, including the trunk.
    """

    trunk: Ids
    above: int
    stems: tuple[Stem, ...]
    branches: tuple["Branch", ...] = ()

    @property
    def shares(self) -> bool:
        """True if keys and values are reused."""
        return bool(self.branches) or any(leaf for stem in self.stems for _, leaf in stem.leaves)


class SharingMinimum(NamedTuple):
    """Minimum trunk length, and minimum number of tokens saved by a trunk or by stems, that justify
    extra passes.
    """

    trunk: int
    by_trunk: int
    by_stems: int


NEVER = 1 << 62
# No sharing, except that a row that is a prefix of another one is scored together with it.
APART = SharingMinimum(NEVER, NEVER, NEVER)


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the common prefix."""
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    )


def plan(
    rows: Sequence[Encoded], prompts: Sequence[Hashable], least: SharingMinimum | None
) -> Branch:
    """Return the tree of input rows, which covers every target's probabilities.

    Args:
        rows: the pairs.
        prompts: a key of each pair's prompt.
        least: the minimum for sharing; None shares only equal rows.
    """
    together: dict[Hashable, list[int]] = defaultdict(list)
    for place, prompt in enumerate(prompts):
        together[prompt].append(place)
    groups = [tuple(members) for members in together.values()]
    if least is None:
        return Branch((), 0, tuple(stem for members in groups for stem in _equal(rows, members)))
    heads = {members: _head(rows, members) for members in groups}
    groups.sort(key=lambda members: heads[members])
    return _branch(rows, groups, heads, ((), 0), least)


def _head(rows: Sequence[Encoded], members: Sequence[int]) -> Ids:
    """Return the common prefix of a prompt's pairs, up to the first position that scores a target's
    token.
    """
    ids = rows[members[0]].ids[: min(rows[place].start for place in members) - 1]
    for place in members[1:]:
        ids = ids[: common(ids, rows[place].ids)]
    return ids


def _branch(
    rows: Sequence[Encoded],
    groups: Sequence[Members],
    heads: Mapping[Members, Ids],
    at: tuple[Ids, int],
    least: SharingMinimum,
) -> Branch:
    """Return the branch of a trunk that ends before the last token of each of its prompts; `at` is
    (trunk, above).
    """
    depth = len(at[0])
    apart: list[Members] = []
    further: list[Branch] = []
    for run, shared in _runs([heads[members] for members in groups], depth + least.trunk):
        members = groups[run]
        if len(members) > 1 and (len(members) - 1) * (shared - depth) >= least.by_trunk:
            trunk = heads[members[0]][:shared]
            further.append(_branch(rows, members, heads, (trunk, depth), least))
        else:
            apart += members
    return Branch(*at, tuple(_stems(rows, apart, depth, least.by_stems)), tuple(further))


def _runs(heads: Sequence[Ids], shortest: int) -> Iterator[tuple[slice, int]]:
    """Yield runs of neighbours in sorted order with a common prefix of at least `shortest` tokens,
    and its length.
    """
    begin, shared = 0, len(heads[0]) if heads else 0
    for place in range(1, len(heads)):
        last, head = heads[place - 1], heads[place]
        both = 0
        if last[:shortest] == head[:shortest] and len(last) >= shortest:
            both = common(last, head)
        if both >= shortest:
            shared = min(shared, both)
        else:
            yield slice(begin, place), shared
            begin, shared = place, len(head)
    if heads:
        yield slice(begin, len(heads)), shared


def _stems(
    rows: Sequence[Encoded], groups: Sequence[Members], depth: int, least: int
) -> list[Stem]:
    """Return a row per prompt followed by its leaves, or a row per target if leaves save too
    little.
    """
    covers = [_covers(rows, members) for members in groups]
    forks = [_fork(cover, depth) for cover in covers]
    saved = sum(
        _cost(cover, depth) - _cost(fork, depth) for cover, fork in zip(covers, forks, strict=True)
    )
    return [stem for stems in (forks if saved >= least else covers) for stem in stems]


def _cost(stems: Sequence[Stem], depth: int) -> int:
    """Return the number of tokens to process."""
    return sum(len(stem.ids) - depth + sum(len(leaf) for _, leaf in stem.leaves) for stem in stems)


def _equal(rows: Sequence[Encoded], members: Sequence[int]) -> list[Stem]:
    places: dict[Ids, list[int]] = defaultdict(list)
    for place in members:
        places[rows[place].fed].append(place)
    return [Stem(ids, tuple((place, ()) for place in served)) for ids, served in places.items()]


def _covers(rows: Sequence[Encoded], members: Sequence[int]) -> list[Stem]:
    """Return the rows that are not a prefix of another one; in descending order a prefix follows a
    row that begins with it.
    """
    covers: list[Stem] = []
    for stem in sorted(_equal(rows, members), reverse=True):
        if covers and covers[-1].ids[: len(stem.ids)] == stem.ids:
            covers[-1] = Stem(covers[-1].ids, covers[-1].leaves + stem.leaves)
        else:
            covers.append(stem)
    return covers


def _fork(cover: list[Stem], depth: int) -> list[Stem]:
    """Return a single stem with leaves for all rows of a prompt; unchanged for a single row or
    without a common prefix.
    """
    ids = cover[0].ids
    for stem in cover[1:]:
        ids = ids[: common(ids, stem.ids)]
    if len(cover) == 1 or len(ids) <= depth:
        return cover
    return [
        Stem(
            ids, tuple((place, stem.ids[len(ids) :]) for stem in cover for place, _ in stem.leaves)
        )
    ]
