"""Drawing a few ids from a file that is sorted by label, so that the few are like the whole."""

from collections.abc import Mapping, Sequence

from emend.memory.edit import content_id


def sample_ids(ids: Sequence[int], labels: Mapping[int, str], limit: int, seed: int) -> list[int]:
    """`limit` ids, in their order: half with a reasoning question, its labels in the proportion of the data.

    The first half of DocTER's reasoning file is all True and the second all False, and ids above 1059 have no question,
    so a prefix would measure nothing. From a limit of 2 on both labels are there. When one half has too few ids the
    other fills up. Which ids, is decided by a hash of seed and id, not by their order.

    Args:
        ids: those to draw from.
        labels: id -> "True" or "False", for the ids that have a reasoning question.
        limit: how many to draw.
        seed: another seed, another sample.
    """
    if limit >= len(ids):
        return list(ids)
    order = sorted(ids, key=lambda number: content_id("sample", seed, number))
    plain = [number for number in order if number not in labels]
    true = [number for number in order if labels.get(number) == "True"]
    false = [number for number in order if labels.get(number) == "False"]
    both = len(true) + len(false)
    asked = min(both, limit, max(2, (limit + 1) // 2, limit - len(plain)))
    falses = round(asked * len(false) / both) if both else 0
    if true and false and asked >= 2:
        falses = min(max(falses, 1), asked - 1)
    chosen = {*true[: asked - falses], *false[:falses], *plain[: limit - asked]}
    return [number for number in ids if number in chosen]
