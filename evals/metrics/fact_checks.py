"""Counts of checks of retrieved facts in a stepwise answer, see the graph `mello`."""

from emend.memory.probe import Answer

# Outputs: the number of checks, and of those that found a contradiction.
CHECKS, CONTRADICTIONS = "fact_checks", "contradictions"


def score_checks(answer: Answer) -> dict[str, float]:
    """Return the counts of an answer's checks; {} without checks."""
    hops = next(
        (step.update["hops"] for step in reversed(answer.steps) if "hops" in step.update), ()
    )
    verdicts = [
        hop["contradicts"] for hop in hops if isinstance(hop, dict) and "contradicts" in hop
    ]
    if verdicts:
        return {CHECKS: float(len(verdicts)), CONTRADICTIONS: float(sum(verdicts))}
    return {}
