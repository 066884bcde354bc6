"""The reader without faults, on the lines that memory systems hand it."""

import pytest

from emend.evals.streams.fairness import answer_prompt

ENDED = "[2025-01-01] user: The employer of Ana is Calder. (until 2025-03-01)"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What was the employer of Ana on 2025-02-01?", "Calder"),
        ("What was the employer of Ana on 2025-03-01?", "unknown"),
        ("What is the employer of Ana?", "unknown"),
    ],
)
def test_a_fact_with_an_end_holds_before_it(question: str, answer: str):
    assert answer_prompt(f"{ENDED}\n[2025-04-01] user: {question}") == answer
