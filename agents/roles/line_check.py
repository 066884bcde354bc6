"""The check of a tentative answer against a retrieved fact, for small models.

Asked for one of the two verdicts, SmolLM2-135M gives the same for every fact, and its probability
of "contradicts" is not higher for facts that contradict. But likelihoods do show what a fact is
about: conditioned on the subquestion, a fact that answers it becomes more likely by at least 0.29
nats per character, and a fact about something else does not.
"""

from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.calls import score_targets
from emend.agents.parsing.answers import clean_answer
from emend.agents.roles.completion import LINE_TOKENS, continue_text
from emend.agents.roles.conversation import Prompt
from emend.agents.roles.decompose import (
    CHECKED,
    NOTHING,
    RETRIEVED,
    SUBQUESTION,
    VERDICT_END,
    VERDICTS,
    FactCheck,
    read_check,
)
from emend.agents.roles.line_steps import first_line
from emend.agents.scoring import ScoringModel, TextModel, is_chat_model
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage
from emend.memory.retrieval.tokens import missing_stems, stems

# Minimum increase in log-likelihood, in nats per character, of a fact that answers the subquestion.
#
# On facts of MQuAKE's relations, SmolLM2-135M-Instruct and Qwen2.5-Coder-0.5B-Instruct exceed it
# for 58 of 60 facts that answer the subquestion, for none of 60 about another entity, and for 13 of
# 30 about another relation of the same entity.
PERTINENT = 0.3


def check_in_line(
    model: BaseChatModel, prompt: Prompt, subquestion: str, tentative: str, fact: str
) -> tuple[FactCheck, Usage]:
    """Check the last fact in a line that is begun for the model; returns the check and its cost.

    For a chat model with likelihoods, these decide whether the fact answers the subquestion; the
    fact contradicts if it does and does not agree with the tentative answer (see `agrees`). A base
    model, which may have been trained on these lines, writes the line itself; likelihoods decide
    only if the line cannot be parsed.

    Args:
        model: a model that continues plain text or the beginning of a reply.
        prompt: the transcript up to the fact.
        subquestion: the step's subquestion.
        tentative: the model's own answer to the subquestion.
        fact: the fact retrieved for the subquestion.

    Raises:
        ModelReplyError: the line does not say whether the fact contradicts, or names no answer.
    """
    usage = Usage()
    if not (is_chat_model(model) and isinstance(model, ScoringModel)):
        try:
            return _write_line(model, prompt)
        except ModelReplyError as error:
            if not isinstance(model, ScoringModel):
                raise
            usage = error.usage
    contradicts, cost = contradicts_by_likelihood(model, subquestion, tentative, fact)
    lead = f"{CHECKED} {VERDICTS[not contradicts]}{VERDICT_END}"
    reply = continue_text(model, prompt.plus(lead), ["\n"], LINE_TOKENS)
    usage = usage.plus(cost).plus(reply.usage)
    return FactCheck(contradicts, first_line(clean_answer(reply.text), lead, usage)), usage


def _write_line(model: BaseChatModel, prompt: Prompt) -> tuple[FactCheck, Usage]:
    reply = continue_text(model, prompt.plus(CHECKED), ["\n"], LINE_TOKENS)
    line = f"{CHECKED} {reply.text.strip()}".partition("\n")[0].strip()
    verdict = read_check(line)
    if verdict is None:
        raise ModelReplyError(
            f"'{line}' does not say whether the fact contradicts.", reply.text, reply.usage
        )
    return verdict, reply.usage


def agrees(tentative: str, fact: str, subquestion: str) -> bool:
    """Return whether a tentative answer has only words of the fact and the subquestion, and not
    merely repeats the subquestion.

    >>> fact = "Emma was written by Bo Li."
    >>> agrees("Bo Li", fact, "Who wrote Emma?")
    True
    >>> agrees("The author of Emma", fact, "Who is the author of Emma?")
    False
    """
    added = missing_stems(fact, subquestion).keys()
    is_repetition = bool(added) and added.isdisjoint(stems(tentative))
    return not missing_stems(tentative, fact, subquestion) and not is_repetition


def contradicts_by_likelihood(
    model: Any, subquestion: str, tentative: str, fact: str
) -> tuple[bool, Usage]:
    """Return whether a fact answers a subquestion differently from the tentative answer, and the
    cost.
    """
    if fact == NOTHING or agrees(tentative, fact, subquestion):
        return False, Usage()
    plain = model.plain() if isinstance(model, TextModel) else model
    after = score_targets(plain, f"{SUBQUESTION} {subquestion}\n{RETRIEVED}", [fact])
    alone = score_targets(plain, RETRIEVED, [fact])
    gain = (after.log_probs[0] - alone.log_probs[0]) / len(fact)
    return gain >= PERTINENT, after.usage.plus(alone.usage)
