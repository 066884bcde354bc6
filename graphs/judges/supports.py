"""Does a paragraph convey a sentence? AKEW's verification of its texts."""

from langgraph.graph.state import CompiledStateGraph

from emend.agents.judging.supports import Supports
from emend.graphs.judges.graph import Judge, JudgeContext, JudgeState, one_question

ROLE = Supports()


def build() -> CompiledStateGraph[JudgeState, JudgeContext, JudgeState, JudgeState]:
    """Ask -> (again) -> settle."""
    return one_question(ROLE)


JUDGE = Judge(ROLE, build)
