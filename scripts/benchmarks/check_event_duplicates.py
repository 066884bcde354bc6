"""Count near duplicates among ELKEN's generated events: pairs whose ROUGE-1 is above the paper's 0.4 (appendix A.2).

    python -m scripts.benchmarks.check_event_duplicates test.json train.json

ROUGE-1 is the F measure of shared words, without stemming. Events are compared with those of all files; those about
facts, which templates state, are left out.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from emend.graphs.construction.filters.duplicates import THRESHOLD, find_duplicates, rouge_1
from emend.memory.retrieval.tokens import words


class GeneratedEvent(NamedTuple):
    """An event that a model generated, and its topic."""

    topic: str
    text: str


def count_duplicates(events: Sequence[GeneratedEvent]) -> dict[str, int]:
    """The pairs above the threshold, those of one topic, and the events that a filter drops which keeps the first."""
    tokens = [Counter(words(event.text)) for event in events]
    pairs = [
        (first, second)
        for first, second in combinations(range(len(events)), 2)
        if rouge_1(tokens[first], tokens[second]) > THRESHOLD
    ]
    dropped = find_duplicates([event.text for event in events])
    of_one_topic = sum(events[first].topic == events[second].topic for first, second in pairs)
    return {"events": len(events), "pairs": len(pairs), "pairs of one topic": of_one_topic, "dropped": len(dropped)}


def generated_events(files: Sequence[Path]) -> list[GeneratedEvent]:
    """The events without questions about facts, which a model generated."""
    rows = [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))]
    texts = [row for row in rows if not row["fact"]["qas"] and not row["fact"]["local_qas"]]
    return [GeneratedEvent(row["event_type"], row["event"]) for row in texts]


def main() -> None:
    """Print the counts of some files as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", type=Path, nargs="+")
    print(json.dumps(count_duplicates(generated_events(parser.parse_args().files))))


if __name__ == "__main__":
    main()
