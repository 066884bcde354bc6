"""Duplicates that the paper's threshold finds among ELKEN's own events."""

import json
from pathlib import Path

from scripts.benchmarks.check_event_duplicates import GeneratedEvent, count_duplicates, generated_events


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
