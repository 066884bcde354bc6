import json
from pathlib import Path

import pytest

from emend.agents.parsing.passages import read_passage
from emend.evals.metrics.assertion import asserts

REPLIES = Path(__file__).parents[2] / "data/replies"
RIVAL = "United States of America"


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("The author of Gossip Girl comes from Germany.", True),
        ("She is from Germany, not the United States.", True),
        ("Cecily von Ziegesar is a citizen of", False),
        ("Germany is not her country; she is American", False),
        ("Germany or the United States", False),
        ("Germany, France, Italy and Spain", False),
        ("Is Ana from Germany?", False),
    ],
)
def test_a_gold_answer_counts_where_a_person_would_count_it(reply, right):
    assert asserts(read_passage(reply), ["Germany"], [RIVAL]) == right


@pytest.mark.parametrize(
    ("passage", "gold", "right"),
    [
        ("She was born in New York", "York", False),
        ("It is written in C", "C", True),
        ("It is written in C++", "C", False),
        ("She works in IT", "IT", True),
        ("It is not known", "IT", False),
        ("首都是奥斯特里姆", "奥斯特里姆", True),
    ],
)
def test_short_names_and_names_inside_longer_ones(passage, gold, right):
    assert asserts(passage, [gold]) == right


def test_labelled_replies_of_models_are_scored_as_people_label_them():
    """Labels were given before the code existed; see docs/reference/concepts.md for the first figures."""
    rows = [
        json.loads(line) for file in sorted(REPLIES.glob("*.jsonl")) for line in file.read_text("utf-8").splitlines()
    ]
    verdicts = [
        (
            asserts(read_passage(r["reply"], r["form"] == "plain"), r["gold"], [r["rival"]], r["prompt"]),
            r["label"] == "right",
        )
        for r in rows
    ]
    assert len(rows) > 600
    assert sum(verdict == right for verdict, right in verdicts) / len(rows) >= 0.97
    assert sum(verdict and not right for verdict, right in verdicts) / len(rows) <= 0.01
