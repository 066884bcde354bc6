"""Built-in judges that ask one question, with their roles from `agents/judging`."""

from emend.agents.judging.conversations import Nuggets, Order, Remembered
from emend.agents.judging.tendency import Tendency
from emend.agents.judging.verdicts import Agreement, Coherence, Equivalence, Supports
from emend.graphs.judges.graph import Judge

TENDENCY, AGREEMENT = Judge(Tendency()), Judge(Agreement())
COHERENCE, EQUIVALENCE, SUPPORTS = Judge(Coherence()), Judge(Equivalence()), Judge(Supports())
NUGGETS, ORDER, REMEMBERED = Judge(Nuggets()), Judge(Order()), Judge(Remembered())

# LangGraph Studio refers to a graph by a function of a module.
build_tendency, build_agreement = TENDENCY.build, AGREEMENT.build
build_coherence, build_equivalence, build_supports = (
    COHERENCE.build,
    EQUIVALENCE.build,
    SUPPORTS.build,
)
build_nuggets, build_order, build_remembered = NUGGETS.build, ORDER.build, REMEMBERED.build
