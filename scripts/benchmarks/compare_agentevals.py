"""Verdicts of agentevals over hand-written trajectories, as the tests of ours compare them.

    pip install agentevals
    python -m scripts.benchmarks.compare_agentevals

It writes `tests/data/trajectories/agentevals.json`.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

from agentevals.trajectory.match import create_trajectory_match_evaluator  # type: ignore[import-not-found]

from tests.evals.metrics.test_trajectory import AGENTEVALS, HAND_SCORED, MODES, turns

RULES = ("exact", "ignore", "subset", "superset")
ARGUMENTS = [
    ("look(a)", "look(b)"),
    ("look(a,n=1)", "look(a)"),
    ("look(a)", "look(a,n=1)"),
    ("look(a,n=1) | look(b)", "look(a) | look(b)"),
    ("look(b) | look(a)", "look(a,n=1) | look(b)"),
]
"""Trajectories that the rules for arguments tell apart."""


def conversation(made: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Messages in OpenAI's format: a turn of calls, and a result for each."""
    yield {"role": "user", "content": "Who?"}
    number = itertools.count()
    for turn in made:
        ids = [str(next(number)) for _ in turn]
        calls = [
            {"id": id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
            for id, call in zip(ids, turn, strict=True)
        ]
        yield {"role": "assistant", "content": "", "tool_calls": calls}
        yield from ({"role": "tool", "tool_call_id": id, "content": "result"} for id in ids)
    yield {"role": "assistant", "content": "Paul"}


def verdict(made: str, gold: str, mode: str, rule: str) -> bool:
    """The evaluator's score."""
    evaluate: Any = create_trajectory_match_evaluator(trajectory_match_mode=mode, tool_args_match_mode=rule)
    result = evaluate(outputs=list(conversation(turns(made))), reference_outputs=list(conversation(turns(gold))))
    return bool(result["score"])


def main() -> None:
    """Write the file."""
    pairs = [(made, gold, "exact") for made, gold, *_ in HAND_SCORED if "!" not in made]
    pairs += [(made, gold, rule) for made, gold in ARGUMENTS for rule in RULES]
    cases = [
        {
            "made": made,
            "gold": gold,
            "arguments": rule,
            "verdicts": {mode: verdict(made, gold, mode, rule) for mode in MODES},
        }
        for made, gold, rule in pairs
    ]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    AGENTEVALS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(cases)} trajectories, agentevals {version('agentevals')}")


if __name__ == "__main__":
    main()
