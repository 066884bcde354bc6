"""The decomposing role: a question is answered in steps, each checked against a retrieved fact.

The lines are those of MeLLo ("MQuAKE", Zhong et al. 2023, section 5 and appendix E):
`Subquestion:`, `Generated answer:`, `Retrieved fact:`, the one that says whether the fact
contradicts the answer, and `Final answer:`. The demonstrations are our own.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from emend.agents.parsing.answers import clean_answer
from emend.agents.roles import PROMPTS
from emend.agents.roles.conversation import Prompt, before_label
from emend.memory.edit import prompt_id
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Probe

QUESTION, SUBQUESTION, TENTATIVE = "Question:", "Subquestion:", "Generated answer:"
RETRIEVED, CHECKED, FINAL = "Retrieved fact:", "Retrieved fact", "Final answer:"
VERDICTS = ("contradicts", "does not contradict")
# Text after the verdict in the line of the check.
VERDICT_END = " to generated answer, so the intermediate answer is:"
# Part of the prompt id if a model generates one line at a time.
LINES_END = (
    "a probe with choices is put again, a fact is checked by its likelihood, a step is begun"
)
# Placeholder for the fact if retrieval has no hits.
NOTHING = "None."
MISSING = "Your reply could not be read: {problem} Go on in the form of the examples."
DEMONSTRATIONS = Path(__file__).with_name("mello_demonstrations.txt").read_text(encoding="utf-8")
STEP = PROMPTS["decompose"]["step"]
CHECK = PROMPTS["decompose"]["check"]
_VERDICT = re.compile(
    r"^Retrieved fact (contradicts|does not contradict) (?:to )?(?:the )?generated answer, "
    r"so the intermediate answer is:\s*(.*)$"
)
# Labels in the prompts of benchmarks; steps have their own labels.
_DRESS = re.compile(r"^Question:\s*|\n(?:Answer|Thoughts):\s*\Z", re.MULTILINE)


class FactCheck(NamedTuple):
    """The check of a tentative answer against the retrieved fact, and the answer of the step."""

    contradicts: bool
    answer: str


class Round(NamedTuple):
    """One generation of the published loop; `final` is None if there is another subquestion."""

    check: FactCheck | None
    subquestion: str
    tentative: str
    final: str | None
    text: str
    """The part of the reply that belongs to the question, without further questions that the model
    invented."""


class NextStep(BaseModel):
    """The next step, as a model with a schema replies."""

    model_config = ConfigDict(
        coerce_numbers_to_str=True,
        json_schema_extra={"description": "What to do next."},  # what the model sees
    )
    finished: bool = Field(alias="done", description="whether the steps so far answer the question")
    subquestion: str = Field(description="the next simple question; empty when done")
    tentative_answer: str = Field(
        description="your own answer to it, in one sentence; empty when done"
    )
    final_answer: str = Field(
        description="the answer to the whole question, a name or a few words; empty until done"
    )


def _named(answer: str) -> str:
    if not clean_answer(answer):
        raise ValueError(f"{answer!r} is not an answer: give a name or a few words")
    return answer


class Checked(BaseModel):
    """The check of one step."""

    model_config = ConfigDict(coerce_numbers_to_str=True)
    contradicts: bool = Field(
        description="whether the fact answers the same subquestion in another way"
    )
    intermediate_answer: Annotated[str, AfterValidator(_named)] = Field(
        min_length=1, description="the answer of this step, a name or a few words"
    )


def stepwise_question(probe: Probe) -> str:
    r"""Return the question for the steps: the prompt without labels, or the query of a prompt with
    chains of thought.

    >>> prompt = "Be brief.\nQuestion: Who?\nAnswer:"
    >>> stepwise_question(Probe(kind="fact", prompt=prompt, style="raw", gold=("Ana",)))
    'Be brief.\nWho?'
    """
    if not probe.prompt.strip() or probe.reading == "thoughts":
        return probe.retrieval_query
    return _DRESS.sub("", probe.prompt) if probe.style == "raw" else probe.prompt


def cloze_of(probe: Probe) -> str:
    """Return the cloze, which is its own subquestion, or "" for a question."""
    return probe.prompt if probe.style == "cloze" and probe.prompt.strip() else ""


def opening(question: str, demonstrations: str = "") -> str:
    """Return the demonstrations followed by the question."""
    head = f"{demonstrations.strip()}\n\n" if demonstrations.strip() else ""
    return f"{head}{QUESTION} {question}\n"


_LABEL = re.compile(r"\A(?:subquestion|generated answer|final answer):", re.IGNORECASE)


def read_round(reply: str, checking: bool = False) -> Round:
    """Parse one generation: the check of the last fact, if any, then a subquestion or the final
    answer.

    As published, the last subquestion of the reply counts, with the line after it as the tentative
    answer. Unlike the published code, the first final answer counts, and invented text after it is
    ignored.

    Args:
        reply: the model's reply, up to the next retrieval.
        checking: whether the reply must contain a check.

    Raises:
        ModelReplyError: it has neither a subquestion with an answer nor a final answer, or no
            check.
    """
    # Chat models write labels in bold or with different capitals.
    lines = [
        _LABEL.sub(lambda hit: hit[0].capitalize(), text)
        for line in reply.replace("**", "").splitlines()
        if (text := line.strip())
    ]
    verdict = read_check(lines[0]) if lines else None
    if checking and verdict is None:
        raise ModelReplyError(
            f"no line says whether the retrieved fact contradicts; the reply is {reply!r}.", reply
        )
    for place, line in enumerate(lines):
        if line.startswith(FINAL):
            final = line.removeprefix(FINAL).strip()
            if not clean_answer(final):
                break
            return Round(verdict, "", "", final, "\n".join(lines[: place + 1]))
    last = max(
        (place for place, line in enumerate(lines) if line.startswith(SUBQUESTION)),
        default=len(lines),
    )
    question = lines[last].removeprefix(SUBQUESTION).strip() if last + 1 < len(lines) else ""
    if not question:
        raise ModelReplyError(
            f"neither '{SUBQUESTION}' with an answer after it nor '{FINAL}' is in the reply "
            f"{reply!r}.",
            reply,
        )
    tentative = before_label(lines[last + 1].removeprefix(TENTATIVE).strip())
    if not tentative:
        raise ModelReplyError(f"nothing follows '{TENTATIVE}' in the reply {reply!r}.", reply)
    return Round(verdict, question, tentative, None, "\n".join(lines[: last + 2]))


def sample_round(prompt: str, text: str, hops: int) -> str:
    """Return a simulated generation for cost estimates: the next of `hops` subquestions, or the
    final answer.

    Args:
        prompt: the prompt; if it does not ask for steps, the result is empty.
        text: placeholder for each question and answer.
        hops: number of subquestions.
    """
    if SUBQUESTION not in prompt:
        return ""
    rounds = count_sampled(prompt, text)
    check = ""
    if rounds:
        check = (
            f"{CHECKED} {VERDICTS[1]} the generated answer, so the intermediate answer is: {text}\n"
        )
    return check + (
        f"{FINAL} {text}" if rounds >= hops else f"{SUBQUESTION} {text}?\n{TENTATIVE} {text}"
    )


def count_sampled(prompt: str, text: str) -> int:
    """Return the number of subquestions from `sample_round` in a prompt, not counting
    demonstrations.
    """
    return prompt.count(f"{SUBQUESTION} {text.strip()}")


def read_check(line: str) -> FactCheck | None:
    """Parse the check in a line; None if there is none."""
    hit = _VERDICT.match(line.strip())
    answer = hit[2].strip().removesuffix(".") if hit else ""
    return FactCheck(hit[1] == "contradicts", answer) if hit and answer else None


def opened(question: str, demonstrations: str, steps: str = "") -> Prompt:
    """Return the prompt of `opening` with the steps so far, assigned to sides by their labels."""
    head = f"{demonstrations.strip()}\n\n" if demonstrations.strip() else ""
    lead = f"{QUESTION} {question}\n"
    return _open_prompt(head).asked(lead, lead.strip()).plus(steps)


@lru_cache(maxsize=16)
def _open_prompt(demonstrations: str) -> Prompt:
    """Return the prompt of the demonstrations; cached, since it has about 30 turns and is the same
    in each call.
    """
    return Prompt().plus(demonstrations)


def check_line(verdict: FactCheck) -> str:
    """Return the line that states a check."""
    return f"{CHECKED} {VERDICTS[not verdict.contradicts]}{VERDICT_END} {verdict.answer}"


def step_prompt(question: str, steps: Sequence[str]) -> str:
    """Return the prompt for a reply in the schema `NextStep`."""
    return "\n".join([f"{STEP}\n\n{QUESTION} {question}", *(steps or ("No step yet.",))])


def check_prompt(subquestion: str, tentative: str, fact: str) -> str:
    """Return the prompt for a reply in the schema `Checked`."""
    return f"{CHECK}\n\n{SUBQUESTION} {subquestion}\n{TENTATIVE} {tentative}\n{RETRIEVED} {fact}"


def step_prompt_id(form: str, demonstrations: str, chats: bool = False) -> str:
    """Return a hash of the form's prompts, and of their chat forms if the model `chats`, as 8 hex
    digits.
    """
    schemas = [schema.model_json_schema() for schema in (NextStep, Checked)]
    ends = ((LINES_END,) if form == "lines" else ()) + (
        (MISSING, *VERDICTS, VERDICT_END) if chats else ()
    )
    return prompt_id(form, demonstrations, STEP, CHECK, schemas, opening("{}"), *ends)
