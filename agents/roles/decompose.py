"""The decomposing role: a question in steps, each answered and checked against a retrieved fact.

The lines are those of MeLLo ("MQuAKE", Zhong et al. 2023, section 5 and appendix E): `Subquestion:`, `Generated
answer:`, `Retrieved fact:`, the one that says whether the fact contradicts the answer, and `Final answer:`. The
demonstrations are our own.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from emend.agents.calls import score_targets
from emend.agents.parsing.answers import clean_answer
from emend.agents.roles import PROMPTS
from emend.agents.roles.completion import LINE_TOKENS, continue_text
from emend.agents.roles.conversation import Prompt
from emend.agents.scoring import ScoringModel, is_chat_model, join_target
from emend.memory.edit import prompt_id
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Probe, Usage

QUESTION, SUBQUESTION, TENTATIVE = "Question:", "Subquestion:", "Generated answer:"
RETRIEVED, CHECKED, FINAL = "Retrieved fact:", "Retrieved fact", "Final answer:"
VERDICTS = ("contradicts", "does not contradict")
VERDICT_END = " to generated answer, so the intermediate answer is:"
"""What follows a verdict in the line of the check."""
LINES_END = "a probe with choices is put again"
"""Part of the prompts' id where a model generates one line at a time."""
NOTHING = "None."
"""The fact of a retrieval without hits."""
MISSING = "Your reply could not be read: {problem} Go on in the form of the examples."
DEMONSTRATIONS = Path(__file__).with_name("mello_demonstrations.txt").read_text(encoding="utf-8")
STEP = PROMPTS["decompose"]["step"]
CHECK = PROMPTS["decompose"]["check"]
_VERDICT = re.compile(
    r"^Retrieved fact (contradicts|does not contradict) (?:to )?(?:the )?generated answer, "
    r"so the intermediate answer is:\s*(.*)$"
)
_DRESS = re.compile(r"^Question:\s*|\n(?:Answer|Thoughts):\s*\Z", re.MULTILINE)
"""Labels in the prompts of benchmarks; steps have labels of their own."""


class FactCheck(NamedTuple):
    """The check of a tentative answer against the retrieved fact, and the answer of the step."""

    contradicts: bool
    answer: str


class Round(NamedTuple):
    """A generation of the published loop; `final` is None while there is another subquestion."""

    check: FactCheck | None
    subquestion: str
    tentative: str
    final: str | None
    text: str
    """The part of the reply that belongs to the question, without further questions that the model invented."""


class LineStep(NamedTuple):
    """A step generated line by line: the prompt with both lines, their contents, and the cost."""

    prompt: Prompt
    subquestion: str
    tentative: str
    usage: Usage


class NextStep(BaseModel):
    """The next step, as a model with a schema replies."""

    model_config = ConfigDict(
        coerce_numbers_to_str=True,
        json_schema_extra={"description": "What to do next."},  # what the model sees
    )
    finished: bool = Field(alias="done", description="whether the steps so far answer the question")
    subquestion: str = Field(description="the next simple question; empty when done")
    tentative_answer: str = Field(description="your own answer to it, in one sentence; empty when done")
    final_answer: str = Field(description="the answer to the whole question, a name or a few words; empty until done")


def _named(answer: str) -> str:
    if not clean_answer(answer):
        raise ValueError(f"{answer!r} is no answer: give a name or a few words")
    return answer


class Checked(BaseModel):
    """The check of one step."""

    model_config = ConfigDict(coerce_numbers_to_str=True)
    contradicts: bool = Field(description="whether the fact answers the same subquestion in another way")
    intermediate_answer: Annotated[str, AfterValidator(_named)] = Field(
        min_length=1, description="the answer of this step, a name or a few words"
    )


def stepwise_question(probe: Probe) -> str:
    r"""The question to take in steps: the prompt without labels; of a prompt with chains of thought, its query.

    >>> stepwise_question(Probe(kind="fact", prompt="Be brief.\nQuestion: Who?\nAnswer:", style="raw", gold=("Ana",)))
    'Be brief.\nWho?'
    """
    if not probe.prompt.strip() or probe.reading == "thoughts":
        return probe.retrieval_query
    return _DRESS.sub("", probe.prompt) if probe.style == "raw" else probe.prompt


def cloze_of(probe: Probe) -> str:
    """The cloze, which serves as its own subquestion; "" for a question."""
    return probe.prompt if probe.style == "cloze" and probe.prompt.strip() else ""


def opening(question: str, demonstrations: str = "") -> str:
    """The demonstrations, and the question whose steps follow."""
    head = f"{demonstrations.strip()}\n\n" if demonstrations.strip() else ""
    return f"{head}{QUESTION} {question}\n"


_LABEL = re.compile(r"\A(?:subquestion|generated answer|final answer):", re.IGNORECASE)


def read_round(reply: str, checking: bool = False) -> Round:
    """Parse one generation: the check of the last fact, if any, then a subquestion or the final answer.

    As published, the last subquestion of the reply counts, with the line after it as the tentative answer. Unlike
    there, the first final answer counts, whatever the model invents after it.

    Args:
        reply: the model's, up to the next retrieval.
        checking: whether it must contain a check.

    Raises:
        ModelReplyError: it has neither a subquestion with an answer nor a final answer, or no check.
    """
    # Chat models write the labels in bold, and with other capitals.
    lines = [
        _LABEL.sub(lambda hit: hit[0].capitalize(), text)
        for line in reply.replace("**", "").splitlines()
        if (text := line.strip())
    ]
    verdict = read_check(lines[0]) if lines else None
    if checking and verdict is None:
        raise ModelReplyError(f"no line says whether the retrieved fact contradicts; the reply is {reply!r}.", reply)
    for place, line in enumerate(lines):
        if line.startswith(FINAL):
            final = line.removeprefix(FINAL).strip()
            if not clean_answer(final):
                break
            return Round(verdict, "", "", final, "\n".join(lines[: place + 1]))
    last = max((place for place, line in enumerate(lines) if line.startswith(SUBQUESTION)), default=len(lines))
    question = lines[last].removeprefix(SUBQUESTION).strip() if last + 1 < len(lines) else ""
    if not question:
        raise ModelReplyError(
            f"neither '{SUBQUESTION}' with an answer after it nor '{FINAL}' is in the reply {reply!r}.", reply
        )
    tentative = lines[last + 1].removeprefix(TENTATIVE).strip()
    if not tentative:
        raise ModelReplyError(f"nothing follows '{TENTATIVE}' in the reply {reply!r}.", reply)
    return Round(verdict, question, tentative, None, "\n".join(lines[: last + 2]))


def sample_round(prompt: str, text: str, hops: int) -> str:
    """A generation for estimates, which `read_round` reads: another of so many subquestions, or the final answer.

    Args:
        prompt: what a model is asked; if it asks for no steps, the generation is empty.
        text: stands for each question and answer.
        hops: number of subquestions.
    """
    if SUBQUESTION not in prompt:
        return ""
    rounds = count_sampled(prompt, text)
    check = f"{CHECKED} {VERDICTS[1]} the generated answer, so the intermediate answer is: {text}\n" if rounds else ""
    return check + (f"{FINAL} {text}" if rounds >= hops else f"{SUBQUESTION} {text}?\n{TENTATIVE} {text}")


def count_sampled(prompt: str, text: str) -> int:
    """Number of subquestions in a prompt that `sample_round` gave; those of demonstrations are others."""
    return prompt.count(f"{SUBQUESTION} {text.strip()}")


def read_check(line: str) -> FactCheck | None:
    """The check that a line states; None if it states none."""
    hit = _VERDICT.match(line.strip())
    answer = hit[2].strip().removesuffix(".") if hit else ""
    return FactCheck(hit[1] == "contradicts", answer) if hit and answer else None


def opened(question: str, demonstrations: str, steps: str = "") -> Prompt:
    """The prompt that `opening` is, with the steps so far, whose labels say which side has written them."""
    head = f"{demonstrations.strip()}\n\n" if demonstrations.strip() else ""
    lead = f"{QUESTION} {question}\n"
    return Prompt().plus(head).asked(lead, lead.strip()).plus(steps)


def take_step(model: BaseChatModel, prompt: Prompt, cloze: str = "") -> LineStep:
    """Generate the next subquestion and the model's answer to it, each after the label of its line.

    Args:
        model: continues plain text, or a reply that is begun for it.
        prompt: the transcript so far.
        cloze: serves as its own subquestion, and the model continues it; empty for a question.

    Raises:
        ModelReplyError: a line is empty.
    """
    usage, question = Usage(), cloze
    if not cloze:
        reply = continue_text(model, prompt.plus(SUBQUESTION), ["\n"], LINE_TOKENS)
        usage = usage.plus(reply.usage)
        question = first_line(reply.text, SUBQUESTION, usage)
    lead = f"{TENTATIVE} {cloze}" if cloze else TENTATIVE
    line_prompt = prompt.plus(f"{SUBQUESTION} {question}\n{lead}")
    reply = continue_text(model, line_prompt, ["\n"], LINE_TOKENS)
    usage = usage.plus(reply.usage)
    answer = first_line(reply.text, TENTATIVE, usage)
    tentative = join_target(cloze, answer) if cloze else answer
    line = join_target(line_prompt.text, answer)[len(line_prompt.text) :]
    return LineStep(line_prompt.begun(f"{line}\n", line, between=""), question, tentative, usage)


def check_in_line(model: BaseChatModel, prompt: Prompt) -> tuple[FactCheck, Usage]:
    """The check of the last fact, in a line that is begun for the model, and its cost.

    A chat model that scores chooses the verdict by likelihood, since small ones repeat the fact instead; one that
    continues text does where its line cannot be read.

    Raises:
        ModelReplyError: the line does not say whether the fact contradicts, or names no answer.
    """
    if is_chat_model(model) and isinstance(model, ScoringModel):
        return _choose_verdict(model, prompt)
    reply = continue_text(model, prompt.plus(CHECKED), ["\n"], LINE_TOKENS)
    line = f"{CHECKED} {reply.text.strip()}".partition("\n")[0].strip()
    verdict = read_check(line)
    if verdict is not None:
        return verdict, reply.usage
    if isinstance(model, ScoringModel):
        chosen, usage = _choose_verdict(model, prompt)
        return chosen, reply.usage.plus(usage)
    raise ModelReplyError(f"'{line}' does not say whether the fact contradicts.", reply.text, reply.usage)


def _choose_verdict(model: Any, prompt: Prompt) -> tuple[FactCheck, Usage]:
    opened_line = prompt.plus(CHECKED)
    scores = score_targets(model, opened_line.turns if is_chat_model(model) else opened_line.text, VERDICTS)
    contradicts = scores.log_probs[0] > scores.log_probs[1]
    lead = f"{CHECKED} {VERDICTS[not contradicts]}{VERDICT_END}"
    reply = continue_text(model, prompt.plus(lead), ["\n"], LINE_TOKENS)
    usage = scores.usage.plus(reply.usage)
    return FactCheck(contradicts, first_line(clean_answer(reply.text), lead, usage)), usage


def check_line(verdict: FactCheck) -> str:
    """The line that states a check."""
    return f"{CHECKED} {VERDICTS[not verdict.contradicts]}{VERDICT_END} {verdict.answer}"


def first_line(text: str, lead: str, usage: Usage) -> str:
    """The first line of a reply, without the lead that small models say again.

    Raises:
        ModelReplyError: the reply is blank; carries the usage.
    """
    line = text.strip().removeprefix(lead).strip().partition("\n")[0].strip()
    if not line:
        raise ModelReplyError(f"nothing follows '{lead}'.", text, usage)
    return line


def step_prompt(question: str, steps: Sequence[str]) -> str:
    """The prompt for a reply in the schema `NextStep`."""
    return "\n".join([f"{STEP}\n\n{QUESTION} {question}", *(steps or ("No step yet.",))])


def check_prompt(subquestion: str, tentative: str, fact: str) -> str:
    """The prompt for a reply in the schema `Checked`."""
    return f"{CHECK}\n\n{SUBQUESTION} {subquestion}\n{TENTATIVE} {tentative}\n{RETRIEVED} {fact}"


def step_prompt_id(form: str, demonstrations: str, chats: bool = False) -> str:
    """Eight hex digits that change with the prompts of the form, and with those of chat models if the model `chats`."""
    schemas = [schema.model_json_schema() for schema in (NextStep, Checked)]
    ends = ((LINES_END,) if form == "lines" else ()) + ((MISSING, *VERDICTS, VERDICT_END) if chats else ())
    return prompt_id(form, demonstrations, STEP, CHECK, schemas, opening("{}"), *ends)
