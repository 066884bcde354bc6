"""Is a free-form answer the gold answer or an alias? Beside exact match."""

from langgraph.graph.state import CompiledStateGraph

from emend.agents.judging.equivalence import Equivalence
from emend.graphs.judges.graph import Judge, JudgeContext, JudgeState, one_question

ROLE = Equivalence()


def build() -> CompiledStateGraph[JudgeState, JudgeContext, JudgeState, JudgeState]:
    """Ask -> (again) -> settle."""
    return one_question(ROLE)


JUDGE = Judge(ROLE, build)
