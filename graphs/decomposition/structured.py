"""Decomposition by schema: the model is asked for each step and each check as JSON."""

from emend.agents.parsing.answers import clean_answer
from emend.agents.roles.decompose import (
    SUBQUESTION,
    TENTATIVE,
    Checked,
    FactCheck,
    NextStep,
    check_prompt,
    opening,
    step_prompt,
    stepwise_question,
)
from emend.agents.structured import ask_structured
from emend.graphs.decomposition.state import HopState, MelloContext, MelloState, check_limit
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Probe, Usage


def next_schema(
    probe: Probe, context: MelloContext, hops: list[HopState], transcript: str
) -> MelloState:
    """Ask for the next subquestion with a tentative answer, or for the final answer.

    Raises:
        ModelReplyError: the reply has neither, or exceeds the limit of subquestions.
    """
    question = stepwise_question(probe)
    steps = transcript.removeprefix(opening(question)).splitlines()
    reply = ask_structured(context.model, step_prompt(question, steps), NextStep)
    usage, step = reply.usage, reply.value
    if step.finished and clean_answer(step.final_answer):
        return {
            "transcript": transcript,
            "hops": hops,
            "final": step.final_answer.strip(),
            "usage": usage,
        }
    if step.finished or not step.subquestion.strip() or not step.tentative_answer.strip():
        raise ModelReplyError(
            f"the step has neither a subquestion with an answer nor a final answer: {reply.reply}",
            *(reply.reply, reply.usage),
        )
    check_limit(probe, context, hops, reply.reply, reply.usage)
    hops.append(
        {"subquestion": step.subquestion.strip(), "tentative": step.tentative_answer.strip()}
    )
    transcript += f"{SUBQUESTION} {hops[-1]['subquestion']}\n{TENTATIVE} {hops[-1]['tentative']}\n"
    return {"transcript": transcript, "hops": hops, "usage": usage}


def check_by_schema(
    probe: Probe, context: MelloContext, hops: list[HopState], transcript: str
) -> tuple[FactCheck, Usage]:
    """Return the check of the last hop's fact, and its cost.

    Raises:
        ModelReplyError: the reply does not match the schema, or names no answer.
    """
    hop = hops[-1]
    prompt = check_prompt(hop["subquestion"], hop["tentative"], hop["fact"])
    value, _, usage = ask_structured(context.model, prompt, Checked)
    return FactCheck(value.contradicts, clean_answer(value.intermediate_answer)), usage
