"""Drawing a few ids from a file that is sorted by label."""

from collections import Counter

import pytest

from emend.evals.data.benchmarks.rows import sample_ids


def sorted_like_the_data():
    ids = list(range(1000))
    return ids, {i: "True" if i < 160 else "False" for i in range(286)}


@pytest.mark.parametrize("limit", [2, 3, 7, 40, 100, 571, 900, 999])
@pytest.mark.parametrize("seed", [0, 1])
def test_half_of_a_sample_has_questions_and_both_labels_in_proportion(limit, seed):
    ids, labels = sorted_like_the_data()
    drawn = sample_ids(ids, limit, seed, labels)
    found = Counter(labels.get(i) for i in drawn)
    asked = found["True"] + found["False"]
    assert len(drawn) == limit == len(set(drawn))
    assert drawn == sorted(drawn)
    assert asked == min(286, max(2, (limit + 1) // 2, limit - 714))
    assert found["True"] >= 1
    assert found["False"] >= 1
    assert abs(found["True"] - asked * 160 / 286) <= 1


def test_a_rare_label_is_not_lost_and_ids_without_question_fill_up():
    labels = {i: "True" for i in range(50)} | {7: "False"}
    for limit in (2, 4, 10):
        assert 7 in sample_ids(list(range(100)), limit, 0, labels)
    labels = {i: "True" if i % 2 else "False" for i in range(80)}
    drawn = sample_ids(list(range(100)), 70, 0, labels)
    assert Counter(labels.get(i) for i in drawn) == {"True": 25, "False": 25, None: 20}


def test_a_sample_depends_on_seed_and_ids_alone():
    ids, labels = sorted_like_the_data()
    assert sample_ids(ids, 50, 0, labels) == sorted(sample_ids(ids[::-1], 50, 0, labels))
    assert sample_ids(ids, 50, 0, labels) != sample_ids(ids, 50, 1, labels)
    assert sample_ids(ids, 50, 0) != ids[:50]
    assert sample_ids(ids, 1000, 0, labels) == ids
