"""Demonstrations of chains of thought for ReCoE, two per scheme, about invented places and things (`shots.toml`).

The paper publishes no prompt for its chain-of-thought runs; the lines `Question:`, `Thoughts:` and `Answer:` are those
of its printed examples (Figures 13 and 14), and an answer has the form of the scheme's answers in the data.
"""

import tomllib
from functools import cache
from pathlib import Path

from emend.evals.data.benchmarks.chain_of_thought import COT_PROMPT


@cache
def shots(scheme: str) -> str:
    """The scheme's demonstrations, separated by a blank line."""
    table = tomllib.loads(Path(__file__).with_name("shots.toml").read_text("utf-8"))
    return "\n\n".join(
        f"{COT_PROMPT.format(question=shot['question'])} {shot['thoughts']}\nAnswer: {shot['answer']}"
        for shot in table[scheme]
    )
