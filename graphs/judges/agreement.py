"""How far answers before and after an edit agree: ELKEN's judge of locality."""

from langgraph.graph.state import CompiledStateGraph

from emend.agents.judging.agreement import Agreement
from emend.graphs.judges.graph import Judge, JudgeContext, JudgeState, one_question

ROLE = Agreement()


def build() -> CompiledStateGraph[JudgeState, JudgeContext, JudgeState, JudgeState]:
    """Ask -> (again) -> settle."""
    return one_question(ROLE)


JUDGE = Judge(ROLE, build)
