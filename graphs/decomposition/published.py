"""Decomposition as published (Zhong et al. 2023, section 5): one generation per round, up to the
next retrieval.

A generation begins with the check of the last retrieved fact, and ends with the next subquestion
and its tentative answer, or with the final answer.
"""

from emend.agents.roles.completion import continue_text
from emend.agents.roles.conversation import Prompt
from emend.agents.roles.decompose import MISSING, RETRIEVED, Round, read_round
from emend.agents.scoring import is_chat_model
from emend.graphs.decomposition.state import (
    HopState,
    MelloContext,
    MelloState,
    check_limit,
    prompt_of,
)
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Probe, Usage

# Maximum number of tokens of a round, as in the published code.
ROUND_TOKENS = 256


def next_round(
    probe: Probe, context: MelloContext, hops: list[HopState], transcript: str
) -> MelloState:
    """Generate a round: a subquestion with a tentative answer, or the final answer.

    Raises:
        ModelReplyError: the reply does not follow the format, or exceeds the limit of subquestions.
    """
    prompt = prompt_of(probe, context, "text", transcript)
    step, usage, cut_tokens = _generate(context, prompt, checking=bool(hops))
    if step.check is not None and hops:
        hops[-1] = {**hops[-1], "contradicts": step.check.contradicts, "answer": step.check.answer}
    if step.final is not None:
        before = step.text.rpartition("\n")[0]
        transcript += f"{before}\n" if before else ""
        final: MelloState = {"final": step.final, "cut_tokens": cut_tokens}
        return {**final, "transcript": transcript, "hops": hops, "usage": usage}
    check_limit(probe, context, hops, step.text, usage)
    hops.append({"subquestion": step.subquestion, "tentative": step.tentative})
    return {"transcript": f"{transcript}{step.text}\n", "hops": hops, "usage": usage}


def _generate(context: MelloContext, prompt: Prompt, checking: bool) -> tuple[Round, Usage, int]:
    """Generate a round, and return it with its cost and its number of cut prompt tokens.

    If there is a further form to fall back to, a chat model gets one more try.

    Raises:
        ModelReplyError: the reply does not follow the format; it has the usage of all tries.
    """
    usage, attempt = Usage(), prompt
    for left in (1, 0) if context.fallbacks and is_chat_model(context.model) else (0,):
        reply = continue_text(context.model, attempt, [RETRIEVED], ROUND_TOKENS)
        usage = usage.plus(reply.usage)
        try:
            return read_round(reply.text, checking), usage, reply.cut_tokens
        except ModelReplyError as error:
            error.usage = usage
            if not left:
                raise
            problem = str(error).partition("; the reply is")[0].partition(" in the reply")[0]
            attempt = prompt.begun("", reply.text).asked("", MISSING.format(problem=f"{problem}."))
    raise AssertionError("the last attempt returns or raises")
