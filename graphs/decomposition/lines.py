"""Decomposition line by line: the model completes lines whose labels are given, and the check
chooses one of its verdicts.
"""

from collections.abc import Sequence

from emend.agents.roles.decompose import FactCheck, cloze_of, stepwise_question
from emend.agents.roles.line_check import check_in_line
from emend.agents.roles.line_steps import PastStep, take_step
from emend.agents.scoring import is_chat_model
from emend.graphs.decomposition.state import HopState, MelloContext, MelloState, limit_of, prompt_of
from emend.memory.probe import Probe, Usage
from emend.memory.retrieval.tokens import missing_stems, stems


def next_line(
    probe: Probe, context: MelloContext, hops: list[HopState], transcript: str
) -> MelloState:
    """Generate a subquestion and its tentative answer, or end the chain (see `take_step`).

    Raises:
        ModelReplyError: a line is empty.
    """
    limit = limit_of(probe, context.hops, context.hops_from)
    chats = is_chat_model(context.model)
    earlier = [_past_step(hop, chats) for hop in hops]
    prompt = prompt_of(probe, context, "lines", transcript)
    step = take_step(
        context.model, prompt, stepwise_question(probe), earlier, limit, cloze_of(probe)
    )
    if step.end:
        return {"transcript": transcript, "hops": hops, "end": step.end, "usage": step.usage}
    hops.append({"subquestion": step.subquestion, "tentative": step.tentative})
    return {"transcript": step.prompt.text, "hops": hops, "usage": step.usage}


def _past_step(hop: HopState, chats: bool) -> PastStep:
    """Return a hop with its fact if this contradicts the tentative answer, and so is about the
    subquestion; with a model that `chats`, it may have answered other words of the question.
    """
    if not hop["contradicts"]:
        return PastStep(hop["subquestion"], hop["answer"])
    if chats:
        return PastStep(hop["subquestion"], hop["answer"], hop["fact"])
    return PastStep(hop["subquestion"], f"{hop['fact']} {hop['answer']}")


def check_line_by_line(
    probe: Probe, context: MelloContext, hops: list[HopState], transcript: str
) -> tuple[FactCheck, Usage]:
    """Return the check of the last hop's fact, and its cost.

    Raises:
        ModelReplyError: the line does not say whether the fact contradicts, or names no answer.
    """
    hop = hops[-1]
    prompt = prompt_of(probe, context, "lines", transcript)
    return check_in_line(context.model, prompt, hop["subquestion"], hop["tentative"], hop["fact"])


def is_unrelated(hops: Sequence[HopState]) -> bool:
    """Return whether there are several hops and none of them follows its fact."""
    return len(hops) > 1 and not any(map(follows_fact, hops))


def follows_fact(hop: HopState) -> bool:
    """Return whether the fact contradicts the tentative answer, or shares a word with the answer
    that the subquestion lacks.
    """
    return hop["contradicts"] or not missing_stems(
        hop["fact"], hop["subquestion"]
    ).keys().isdisjoint(stems(hop["answer"]))
