"""ROUGE-1 between events, and the duplicates that the paper's threshold finds."""

import json
from collections import Counter
from pathlib import Path

import pytest

from emend.graphs.construction.filters.duplicates import rouge_1
from emend.memory.retrieval.tokens import words
from scripts.benchmarks.check_event_duplicates import GeneratedEvent, count_duplicates, generated_events


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("China overtakes the world.", "china overtakes the world", 1.0),
        ("a b c d", "a b e f", 0.5),
        ("a a a b", "a c", 2 / 6),
        ("a b", "c d", 0.0),
        ("", "", 0.0),
    ],
)
def test_rouge_1_is_the_f_measure_of_shared_words(first: str, second: str, expected: float):
    assert rouge_1(Counter(words(first)), Counter(words(second))) == pytest.approx(expected)


def test_of_each_pair_above_the_threshold_the_first_event_stays():
    texts = [("moon", "a b c d"), ("moon", "a b c e"), ("sea", "a b c d"), ("sea", "v w x y")]
    events = [GeneratedEvent(*each) for each in texts]
    assert count_duplicates(events) == {"events": 4, "pairs": 3, "pairs of one topic": 1, "dropped": 2}


def test_events_about_facts_are_left_out(tmp_path: Path):
    fact = {"question": "Who?"}
    rows = [
        {"event_type": "sea", "event": "x", "fact": {"qas": [], "local_qas": []}},
        {"event_type": "marry", "event": "y", "fact": {"qas": [fact], "local_qas": []}},
    ]
    file = tmp_path / "test.json"
    file.write_text(json.dumps(rows))
    assert generated_events([file, file]) == [GeneratedEvent("sea", "x")] * 2
