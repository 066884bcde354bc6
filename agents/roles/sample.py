"""Simulated replies to prompts for steps, for cost estimates of a run."""

from emend.agents.roles.decompose import count_sampled, sample_round
from emend.agents.roles.relation_chain import sample_chain


def sample_reply(prompt: str, text: str, hops: int) -> str:
    """Return a reply that a role parses as its next step; "" for a prompt that does not ask for
    steps.

    Args:
        prompt: the prompt.
        text: placeholder for each question and answer.
        hops: number of subquestions.
    """
    return sample_chain(prompt, text) or sample_round(prompt, text, hops)


def is_decomposed(prompt: str, text: str, hops: int) -> bool:
    """Return whether a prompt already has all subquestions of `sample_reply`."""
    return count_sampled(prompt, text) >= hops
