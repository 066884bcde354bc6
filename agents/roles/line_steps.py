"""Question decomposition line by line, for models too small to follow a format.

The lines are those of `decompose`, each begun for the model. Small models do not signal the end:
for SmolLM2-135M the label of the final answer is no more likely after the last hop of a question
than before it. The end is therefore inferred from the subquestions. A chain ends when several
subquestions, with the facts that they led to, contain all words of the question; or when the next
one repeats an earlier one, is the final answer, or contains none of the question's open words, as a
step beyond the answer does (tiny asks for the spouse of an author after *Who wrote it?*). A
question that is a chain of nouns has as many steps as nouns, however the model words them. A cloze,
which is its own subquestion, takes one step. A small chat model repeats the whole question as its
first step, and its first step as its second one; it is then given the beginning of the next smaller
question, taken from the question's clauses, the innermost one first.
A base model writes the label of its next line itself, and so can end the chain, since it may have
been trained on these lines, as `tiny` was.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from langchain_core.language_models import BaseChatModel

from emend.agents.roles.completion import LINE_TOKENS, continue_text
from emend.agents.roles.conversation import Prompt, before_label
from emend.agents.roles.decompose import FINAL, SUBQUESTION, TENTATIVE
from emend.agents.roles.relation_chain import parse_nested
from emend.agents.scoring import is_chat_model, join_target
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage
from emend.memory.retrieval.tokens import FUNCTION_WORDS, missing_stems, stems, words
from emend.memory.typography import fold_text

# What ended a chain: the given number of steps, the maximum number, or its subquestions, see above.
End = Literal["", "given", "limit", "words", "repeated", "leads away", "final answer"]
# The type of an answer that the question mentions twice: *Which language is Ann's native language?*
SORT = re.compile(r"(?i)\b(?:which|what) (?P<sort>\w+)(?= .*\b(?P=sort)\b)")
# Phrases in which a question contains a smaller one, with the beginning of the smaller question;
# the innermost begins last. A clause: *the city where Ann was born*, *the sport played by Ann*; a
# relation of a name: *Ann Rell's spouse*, *the birthplace of Ann Rell*.
NESTED_PHRASES = (
    (
        re.compile(
            r"(?i)\bthe (?P<sort>[a-z]+) (?:where|that|who|whose|whom|which"
            r"|(?:of|in|from|to|on|at|by|for|with) (?:which|whom)"
            r"|[a-z]+(?:ed|en|ade) (?:by|with|in|to|from))\b"
        ),
        "Which {sort}",
    ),
    (
        re.compile(r"(?P<phrase>[A-Z][\w.&-]*(?: [A-Z][\w.&-]*)*['’]s [a-z]+)"),
        "Who or what is {phrase}",
    ),
    (
        re.compile(
            r"(?P<phrase>\bthe [a-z]+(?: [a-z]+)? of "
            r"(?:[\"“][^\"“”]+[\"”]|[A-Z\d][\w.&-]*(?: (?:of|the|de|van|von|[A-Z\d][\w.&-]*))*))"
        ),
        "Who or what is {phrase}",
    ),
)
# Words that a question does not ask for: *the person who wrote it*.
UNASKED = "name person"


class StepLimit(NamedTuple):
    """The number of steps of a chain: a maximum, or `exactly` the number that the data set
    gives.
    """

    steps: int
    exactly: bool = False


class PastStep(NamedTuple):
    """A subquestion with its answer, and the fact that contradicted the model, if one did."""

    subquestion: str
    answer: str = ""
    fact: str = ""


class LineStep(NamedTuple):
    """A step generated line by line: the prompt with both lines, their contents, and the cost.

    `end` is the reason if there is no further step; the prompt is then unchanged and both contents
    are empty.
    """

    prompt: Prompt
    subquestion: str
    tentative: str
    usage: Usage
    end: End = ""


def take_step(
    model: BaseChatModel,
    prompt: Prompt,
    question: str,
    earlier: Sequence[PastStep],
    limit: StepLimit,
    cloze: str = "",
) -> LineStep:
    """Generate the next subquestion and the model's answer to it, each after the label of its line.

    Args:
        model: a model that continues plain text or the beginning of a reply.
        prompt: the transcript so far.
        question: the question that the steps answer.
        earlier: the steps so far.
        limit: limit on the number of steps.
        cloze: the cloze, which is its own subquestion and which the model continues; empty for a
            question.

    Raises:
        ModelReplyError: a line is empty.
    """
    chats = is_chat_model(model)
    is_taken = bool(cloze) and any(cloze == step.subquestion for step in earlier)
    end = "words" if is_taken else find_end(question, earlier, limit, repeats=chats)
    if end:
        return LineStep(prompt, "", "", Usage(), end)
    if cloze and not earlier and not (limit.exactly and limit.steps > 1):
        return _answer_cloze(model, prompt, cloze)
    writes_label = bool(earlier) and not limit.exactly and not chats
    reply = continue_text(
        model, prompt if writes_label else prompt.plus(SUBQUESTION), ["\n"], LINE_TOKENS
    )
    start = next_start(question, len(earlier)) if chats and limit.steps > 1 else ""
    if start and earlier and not limit.exactly and goes_back(reply.text, question, earlier):
        subquestion, usage = _begin(model, prompt, start, reply.usage)
        if subquestion and not goes_back(subquestion, question, earlier):
            return _answer(model, prompt, subquestion, usage)
        reply = reply._replace(usage=usage)
    if not limit.exactly and (end := _end_in(reply.text, question, earlier, chats)):
        return LineStep(prompt, "", "", reply.usage, end)
    subquestion = first_line(reply.text, SUBQUESTION, reply.usage)
    if start and not earlier and len(open_words(question, [PastStep(subquestion)])) <= 1:
        smaller, usage = _begin(model, prompt, start, reply.usage)
        return _answer(model, prompt, smaller or subquestion, usage)
    return _answer(model, prompt, subquestion, reply.usage)


def next_start(question: str, steps: int = 0) -> str:
    """Return the first words of the subquestion after a number of steps, for a question that
    contains smaller ones; "" if there is none.

    These are its nested phrases, the innermost first, and then the question up to them.

    >>> question = "Who is the mayor of the city where Acme Motors has its seat?"
    >>> next_start(question), next_start(question, steps=1)
    ('Which city', 'Who is the mayor of')
    >>> next_start("What sport does Ann Rell's spouse play?")
    "Who or what is Ann Rell's spouse"
    >>> next_start("What is the capital of the birthplace of Ann Rell?")
    'Who or what is the birthplace of Ann Rell'
    >>> next_start("What is the capital of Peru?")
    ''
    """
    phrases = [
        (match.start(), form.format(**match.groupdict()))
        for pattern, form in NESTED_PHRASES
        for match in pattern.finditer(question)
    ]
    phrases.sort(reverse=True)
    if not phrases or not missing_stems(question, UNASKED, phrases[0][1]):
        return ""
    starts = [start for _, start in phrases]
    outer = question[: phrases[-1][0]].rstrip()
    if words(outer, FUNCTION_WORDS):
        starts.append(outer)
    return starts[steps] if steps < len(starts) else ""


def goes_back(reply: str, question: str, earlier: Sequence[PastStep]) -> bool:
    """Return whether a reply repeats an earlier subquestion or the whole question, or asks for none
    of the question's open words.

    >>> question = "Who founded the company that makes the Corolla?"
    >>> earlier = [PastStep("Which company makes the Corolla?", "Brenner")]
    >>> goes_back("Who makes the Corolla?", question, earlier)
    True
    >>> goes_back("Who founded Brenner?", question, earlier)
    False
    """
    text = reply.strip().removeprefix(SUBQUESTION).strip()
    if text.startswith(FINAL):
        return False
    line = before_label(text).partition("\n")[0]
    questions = (question, *(step.subquestion for step in earlier))
    still_open = open_words(question, earlier).keys()
    is_repeated = _plain(line) in map(_plain, questions)
    return is_repeated or bool(still_open) and still_open.isdisjoint(stems(line))


def _begin(model: BaseChatModel, prompt: Prompt, start: str, usage: Usage) -> tuple[str, Usage]:
    """Return a subquestion that is begun for the model, "" if the model does not continue it, and
    the usage including its own.
    """
    reply = continue_text(model, prompt.plus(f"{SUBQUESTION} {start}"), ["\n"], LINE_TOKENS)
    rest = before_label(reply.text).partition("\n")[0].rstrip()
    subquestion = join_target(start, rest) if rest[:1].isalnum() else f"{start}{rest}"
    return subquestion if rest.strip() else "", usage.plus(reply.usage)


def find_end(
    question: str, earlier: Sequence[PastStep], limit: StepLimit, repeats: bool = True
) -> End:
    """Return why a chain ends before its next subquestion; "" if the model may ask another one.

    `repeats` is True for a small chat model, which repeats the whole question at first even if it
    has several steps.

    >>> steps = [PastStep("Which is Ann's country?", "Peru"), PastStep("Who leads Peru?")]
    >>> find_end("Who leads the country of Ann?", steps, StepLimit(4))
    'words'
    """
    if len(earlier) >= limit.steps:
        return "given" if limit.exactly else "limit"
    if not earlier or limit.exactly or open_words(question, earlier):
        return ""
    return "words" if missing_stems(question, earlier[-1].subquestion) or not repeats else ""


def open_words(question: str, earlier: Sequence[PastStep]) -> Counter[str]:
    """Return the stems of a question that occur neither in the subquestions so far nor in their
    results.

    A fact about other open words than its subquestion has not answered this, whose words then stay
    open.

    >>> list(open_words("Which person leads Peru?", [PastStep("Who is Peru's president?")]))
    ['lead']
    >>> step = PastStep("What is the capital of Acme?", "Texas", "Acme lies in the state of Texas.")
    >>> list(open_words("What is the capital of the state where Acme lies?", [step]))
    ['capit']
    """
    terse = SORT.sub("", question)
    texts = [UNASKED]
    for step in earlier:
        others = missing_stems(terse, *texts, step.subquestion).keys()
        if others.isdisjoint(stems(step.fact)):
            texts.append(step.subquestion)
        texts += [step.answer, step.fact]
    return missing_stems(terse, *texts)


def _end_in(reply: str, question: str, earlier: Sequence[PastStep], chats: bool) -> End:
    """Return why a chain ends, given a reply in place of the next subquestion; "" if it does not
    end.
    """
    text = reply.strip().removeprefix(SUBQUESTION).strip()
    if earlier and text.startswith(FINAL):
        return "final answer"
    line = before_label(text).partition("\n")[0]
    if any(_plain(line) == _plain(step.subquestion) for step in earlier):
        return "repeated"
    return "leads away" if leads_away(line, question, earlier, chats) else ""


def leads_away(
    subquestion: str, question: str, earlier: Sequence[PastStep], chats: bool = False
) -> bool:
    """Return whether a further subquestion contains none of the question's open words, or no
    content words; False for the second subquestion of a small model that `chats` if the question
    contains a smaller one.

    >>> earlier = [PastStep("Who is the author of Emma?", "Bo")]
    >>> leads_away("Who is Bo's wife?", "Who wrote Emma?", earlier)
    True
    """
    still_open = open_words(question, earlier)
    if not earlier or not still_open or not still_open.keys().isdisjoint(stems(subquestion)):
        return False
    nested = parse_nested(question)
    if nested is not None:
        return len(earlier) >= len(nested.relations)
    return len(earlier) >= (2 if chats and next_start(question) else 1)


def _plain(question: str) -> str:
    return fold_text(question).strip(" ?.")


def _answer_cloze(model: BaseChatModel, prompt: Prompt, cloze: str) -> LineStep:
    """Return the cloze as its own step; a model that writes a label instead of completing it is
    asked for the answer only.
    """
    lead = f"{TENTATIVE} {cloze}"
    line_prompt = prompt.plus(f"{SUBQUESTION} {cloze}\n{lead}")
    reply = continue_text(model, line_prompt, ["\n"], LINE_TOKENS)
    try:
        answer = first_line(reply.text, TENTATIVE, reply.usage)
    except ModelReplyError as error:
        return _answer(model, prompt, cloze, error.usage)
    return _with_line(line_prompt, cloze, answer, join_target(cloze, answer), reply.usage)


def _answer(model: BaseChatModel, prompt: Prompt, subquestion: str, usage: Usage) -> LineStep:
    line_prompt = prompt.plus(f"{SUBQUESTION} {subquestion}\n{TENTATIVE}")
    reply = continue_text(model, line_prompt, ["\n"], LINE_TOKENS)
    usage = usage.plus(reply.usage)
    answer = first_line(reply.text, TENTATIVE, usage)
    return _with_line(line_prompt, subquestion, answer, answer, usage)


def _with_line(
    prompt: Prompt, subquestion: str, answer: str, tentative: str, usage: Usage
) -> LineStep:
    """Return the step whose second line ends with an answer."""
    line = join_target(prompt.text, answer)[len(prompt.text) :]
    return LineStep(prompt.begun(f"{line}\n", line, between=""), subquestion, tentative, usage)


def first_line(text: str, lead: str, usage: Usage) -> str:
    """Return the first line of a reply, without a repeated lead, up to the next label.

    Raises:
        ModelReplyError: the reply is blank or begins with another label; carries the usage.
    """
    reply = text.strip().removeprefix(lead).strip()
    line = before_label(reply).strip().partition("\n")[0].strip()
    if not line:
        raise ModelReplyError(f"nothing follows '{lead}'.", text, usage)
    return line
