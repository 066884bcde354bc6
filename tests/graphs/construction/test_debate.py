"""Debates of scripted agents: rounds, votes, and what a filter of agents with known error rates lets pass."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import NamedTuple

import pytest
from langchain_core.language_models import BaseChatModel

from emend.agents.roles.author import SHIPPED
from emend.graphs.construction.debate import REVISE, Position, build, read_position, vote_key
from emend.graphs.construction.pipeline import ROUNDS, ConstructionContext
from emend.graphs.execution import run_graph
from emend.memory.probe import Step, Usage
from tests.fakes import ScriptedChatModel

GRAPH = build()
FACTS = ["Brisko has a length of 6,400 km.", "Halmen has a length of 4,880 km."]
QUESTION = "Which is longer, Brisko or Halmen?"


def speaker(*answers: str) -> ScriptedChatModel:
    """An agent that gives these answers, one a round, whatever the others say."""
    script = iter(answers)
    return ScriptedChatModel(reply=lambda prompt: f"I read it there.\nAnswer: {next(script)}")


class DebateOutcome(NamedTuple):
    """What the graph of a debate leaves, and its steps."""

    verdict: str
    positions: list[Position]
    usage: Usage
    steps: tuple[Step, ...]


def debate(models: Sequence[BaseChatModel], rounds: int = ROUNDS) -> DebateOutcome:
    """The outcome of the graph for these agents."""
    context = ConstructionContext(models[0], models[0], debaters=(*models,), rounds=rounds)
    state, steps = run_graph(GRAPH, {"question": QUESTION, "facts": FACTS}, context)
    return DebateOutcome(state["verdict"], state["positions"], state["usage"], steps)


def is_revision(prompt: str) -> bool:
    return "Answers of others" in prompt


def test_agents_that_agree_do_not_revise():
    agents = speaker("Brisko"), speaker("brisko."), speaker("the Brisko")
    outcome = debate(agents, rounds=3)
    assert outcome.verdict == "Brisko" and [step.node for step in outcome.steps] == ["answer_alone", "vote"]
    assert all(FACTS[0] in agent.calls[0] and QUESTION in agent.calls[0] for agent in agents)
    assert len({agent.calls[0] for agent in agents}) == 3  # each has a viewpoint of its own


def test_an_agent_sees_the_others_and_its_own_answer_and_can_be_convinced():
    convinced = ScriptedChatModel(reply=lambda prompt: f"So be it.\nAnswer: {'Brisko' if is_revision(prompt) else '7'}")
    outcome = debate([speaker("Brisko", "Brisko"), speaker("Brisko", "Brisko"), convinced])
    assert outcome.positions[2] == Position("Brisko", "So be it.")
    assert [step.node for step in outcome.steps] == ["answer_alone", "revise", "vote"] and outcome.usage.calls == 6
    shown = convinced.calls[1].partition("Your answer:")[2]
    assert shown.count("- Brisko: I read it there.") == 2 and "- 7: So be it." in shown.partition("Answers of")[0]


def test_a_debate_ends_after_its_rounds_without_a_majority():
    outcome = debate([speaker(*"123"), speaker(*"456"), speaker(*"789")], rounds=3)
    assert outcome.verdict == "" and [step.node for step in outcome.steps].count("revise") == 2
    assert outcome.steps[-1].update["votes"] == {"3": 1, "6": 1, "9": 1}


def test_an_agent_without_an_answer_abstains_and_half_is_no_majority():
    silent = ScriptedChatModel(reply=lambda prompt: "I cannot tell.")
    assert debate([speaker("A", "A"), silent, silent]).verdict == ""
    assert debate([speaker("A", "A"), speaker("A", "A"), silent]).verdict == "A"
    assert debate([speaker("A", "A"), speaker("B", "B")]).verdict == ""


def test_the_last_answer_of_a_reply_counts():
    assert read_position("Answer: 3? No.\nThere are two.\n**Answer:** 2.") == Position(
        "2", "Answer: 3? No. There are two."
    )
    assert read_position("Two.") == Position("", "Two.")
    assert vote_key("The Salt, Meridian.") == vote_key("salt meridian") != vote_key("salt")


RATES = Fraction(1, 4), Fraction(1, 3), Fraction(2, 5)
"""Error rates of the agents."""


class Trial(NamedTuple):
    """A question with the right answer, the answer that is planned for it, and whether each agent errs on it."""

    planned: str
    errs: tuple[bool, ...]
    share: Fraction
    """Share of such questions among all with that planned answer, where agents err independently."""


def trials() -> Iterator[Trial]:
    """All combinations of errors; half of the questions are planned wrongly."""
    for planned, errs in product(("right", "wrong"), product((True, False), repeat=len(RATES))):
        share = prod(rate if is_wrong else 1 - rate for rate, is_wrong in zip(RATES, errs, strict=True))
        yield Trial(planned, errs, Fraction(share))


def measure(wrong: Callable[[int], str], convinced: tuple[int, ...] = ()) -> tuple[Fraction, Fraction]:
    """Precision and recall of taking the questions whose debate ends on the planned answer.

    Args:
        wrong: the answer of an agent that errs.
        convinced: the agents that take over in the second round what both others say, if these agree.
    """
    taken = right = good = Fraction(0)
    for trial in trials():
        outcome = debate([erring(trial, place, wrong, place in convinced) for place in range(3)])
        is_taken, is_good = outcome.verdict == trial.planned, trial.planned == "right"
        taken += trial.share * is_taken
        right += trial.share * (is_taken and is_good)
        good += trial.share * is_good
    return right / taken, right / good


def erring(trial: Trial, place: int, wrong: Callable[[int], str], is_convinced: bool) -> ScriptedChatModel:
    own = wrong(place) if trial.errs[place] else "right"

    def reply(prompt: str) -> str:
        lines = prompt.partition("Answers of others:\n")[2].splitlines()
        others = [line.removeprefix("- ").partition(":")[0] for line in lines if line.startswith("- ")]
        takes_over = is_convinced and len(others) == 2 and others[0] == others[1]
        return f"So it is.\nAnswer: {others[0] if takes_over else own}"

    return ScriptedChatModel(reply=reply)


A, B, C = RATES
MAJORITY_RIGHT = (1 - A) * (1 - B) * (1 - C) + A * (1 - B) * (1 - C) + (1 - A) * B * (1 - C) + (1 - A) * (1 - B) * C
"""Closed form of at least two of three being right."""


def test_errors_in_common_give_the_precision_and_recall_of_a_majority_of_three():
    # a wrongly planned question passes where at least two agents make the mistake that was planned
    precision = MAJORITY_RIGHT / (MAJORITY_RIGHT + (1 - MAJORITY_RIGHT))
    assert measure(lambda place: "wrong") == (precision, MAJORITY_RIGHT) == (Fraction(3, 4), Fraction(3, 4))


@pytest.mark.slow
def test_errors_of_ones_own_let_no_wrongly_planned_question_pass():
    wrong = ("wrong", "awry", "amiss")
    assert measure(lambda place: wrong[place]) == (Fraction(1), MAJORITY_RIGHT)


@pytest.mark.slow
def test_agents_that_can_be_convinced_add_no_majority():
    # who joins two that agree changes the count and not the winner
    assert measure(lambda place: "wrong", convinced=(0, 1, 2)) == (MAJORITY_RIGHT, MAJORITY_RIGHT)


def test_the_prompts_show_the_agents_each_other():
    assert {"own", "others", "facts", "question"} <= SHIPPED[REVISE].names
