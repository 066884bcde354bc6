"""Marks for a free answer about what an event makes likely: ELKEN's judge of Tendency-G."""

from langgraph.graph.state import CompiledStateGraph

from emend.agents.judging.tendency import Tendency
from emend.graphs.judges.graph import Judge, JudgeContext, JudgeState, one_question

ROLE = Tendency()


def build() -> CompiledStateGraph[JudgeState, JudgeContext, JudgeState, JudgeState]:
    """Ask -> (again) -> settle."""
    return one_question(ROLE)


JUDGE = Judge(ROLE, build)
