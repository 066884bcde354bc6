"""Do the thoughts support the answer? ReCoE's judge of coherent generation."""

from langgraph.graph.state import CompiledStateGraph

from emend.agents.judging.coherence import Coherence
from emend.graphs.judges.graph import Judge, JudgeContext, JudgeState, one_question

ROLE = Coherence()


def build() -> CompiledStateGraph[JudgeState, JudgeContext, JudgeState, JudgeState]:
    """Ask -> (again) -> settle."""
    return one_question(ROLE)


JUDGE = Judge(ROLE, build)
