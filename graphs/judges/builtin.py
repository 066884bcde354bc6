"""Emend's judges that ask one question; each is a role of `agents/judging`."""

from emend.agents.judging.tendency import Tendency
from emend.agents.judging.verdicts import Agreement, Coherence, Equivalence, Supports
from emend.graphs.judges.graph import Judge

TENDENCY, AGREEMENT = Judge(Tendency()), Judge(Agreement())
COHERENCE, EQUIVALENCE, SUPPORTS = Judge(Coherence()), Judge(Equivalence()), Judge(Supports())

# LangGraph Studio names a graph by a function of a module.
build_tendency, build_agreement = TENDENCY.build, AGREEMENT.build
build_coherence, build_equivalence, build_supports = COHERENCE.build, EQUIVALENCE.build, SUPPORTS.build
