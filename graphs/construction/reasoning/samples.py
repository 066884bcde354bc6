"""Sample replies to the prompts of ReCoE's pipeline for cost estimates, with composed questions
answered by rules.
"""

import re
from collections.abc import Sequence

from emend.graphs.construction.debate import ANSWER, REVISE
from emend.graphs.construction.pipeline import is_prompt, last_line
from emend.memory.retrieval.tokens import words

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_COUNT = re.compile(
    r"[Ff]or how many of (?P<names>.+?) (?:is the [\w ]+?|the [\w ]+? is) "
    r"(?P<target>[A-Z\d].*?)(?=, and for|[.?,]|$)",
)
ENDING = ", by these facts"


def sample(prompt: str) -> str:
    """Return a paraphrase, aliases, a correction, a judge's decision, or an agent's answer."""
    question = last_line(prompt, "Question")
    if is_prompt("reasoned_question", prompt):
        return f"{question[:-1]}{ENDING}{question[-1:]}"
    facts = prompt.rpartition("Facts:\n")[2].partition("\nQuestion: ")[0].splitlines()
    if is_prompt(ANSWER, prompt) or is_prompt(REVISE, prompt):
        return (
            "This follows from the facts that are given about them.\nAnswer: "
            f"{solve(question, facts)}"
        )
    if is_prompt("answer_aliases", prompt):
        return f"First: the {last_line(prompt, 'First')}\nSecond: the {last_line(prompt, 'Second')}"
    if is_prompt("corrected_fact", prompt):
        return last_line(prompt, "Statement")
    if is_prompt("answer_follows", prompt):
        answer = prompt.rpartition("Answer in question: ")[2].partition("\n")[0]
        return str(words(answer) == words(solve(question, facts)))
    return "True"


def solve(question: str, facts: Sequence[str]) -> str:
    """Return the answer to a composed question of one of the six schemes; empty for others."""
    question = question.replace(ENDING, "")
    if counts := [_count(hit["names"], hit["target"], facts) for hit in _COUNT.finditer(question)]:
        return str(counts[0] - counts[1] if "By how much" in question else sum(counts))
    measured = {
        name: value
        for name in _names(question, facts)
        if (value := _value(name, facts)) is not None
    }
    ranked = sorted(measured, key=lambda name: -measured[name])
    if not ranked:
        return ""
    if question.startswith("Sort"):
        return ", ".join(ranked)
    if question.startswith("Does"):
        return "Yes" if question.startswith(f"Does {ranked[0]} ") else "No"
    return ranked[0]


def _names(question: str, facts: Sequence[str]) -> list[str]:
    """Return the longest beginning of each fact that occurs in the question, which is a name."""
    names = []
    for fact in facts:
        parts = fact.split()
        beginnings = (" ".join(parts[:size]) for size in range(len(parts), 0, -1))
        name = next((each for each in beginnings if each in question), "").split()
        # the match may include the verb if the name is the last one in the question
        while name and name[-1].islower():
            name.pop()
        names.append(" ".join(name))
    return [name for name in names if name]


def _value(name: str, facts: Sequence[str]) -> float | None:
    fact = next(fact for fact in facts if fact.startswith(f"{name} "))
    numbers = _NUMBER.findall(fact.removeprefix(name))
    return float(numbers[-1].replace(",", "")) if numbers else None


def _count(names: str, target: str, facts: Sequence[str]) -> int:
    listed = [part for each in names.split(", ") for part in each.split(" and ")]
    return sum(
        fact.startswith(f"{name} ") and fact.rstrip(".").endswith(target)
        for name in listed
        for fact in facts
    )
