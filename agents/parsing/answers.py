"""Parsing of the answer in a reply by the papers' rules: the first line, or the line after a chain
of thought's label.
"""

import re

from emend.agents.parsing.reply_marks import strip_marks
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Reading

# After its answer a model may invent another question; the reply from here on is not part of the
# answer.
NEXT_QUESTION = "\nQuestion:"
# Labels of the plain prompt for a question. The prompt ends with the second; after its answer a
# model may write the first.
QUESTION_LABEL, ANSWER_LABEL = "\nQ:", "\nA:"
# The label of the answer after a chain of thought, possibly in bold.
_ANSWER = re.compile(r"(?:\*\*)?\banswer(?:\*\*)?\s*[:：](?:\*\*)?", re.IGNORECASE)


def read_answer(
    reply: str, reading: Reading, cloze: str = "", prompt: str = "", *, full_stop: bool = False
) -> str:
    r"""Return the answer in a reply.

    A reasoning model's delimited thoughts are skipped. After a chain of thought the answer is the
    line after the last "Answer:", as in the chains of ReCoE (Figures 13 and 14) and MQuAKE, whose
    parsing is not published. If the line repeats the `cloze` or the last label of the `prompt`,
    such as "A:", as chat models do, the answer begins after it.

    >>> read_answer("Brisko is 40 metres deep.\nAnswer: Halmen.\n\nQuestion: Which", "thoughts")
    'Halmen'
    >>> read_answer("Brisko lies in Halmen.", "line", "Brisko lies in")
    'Halmen'
    >>> read_answer("A: Halmen.", "line", prompt="Q: Where does Brisko lie?\nA:")
    'Halmen'

    Args:
        reply: the model's reply.
        reading: which part of the reply is the answer.
        cloze: the probe's cloze, "" for a question.
        prompt: the prompt.
        full_stop: keep a final full stop.

    Raises:
        ModelReplyError: the chain of thought has no answer.
    """
    if reading == "thoughts":
        return _concluded(reply, full_stop)
    text = strip_marks(reply)
    if reading == "line":
        return _behind(clean_answer(_behind_lead(text, prompt), full_stop), cloze)
    return text.partition(NEXT_QUESTION)[0].strip()


def thoughts_and_answer(reply: str, full_stop: bool = False) -> tuple[str, str]:
    r"""Return the text before the last "Answer:" of a chain of thought, and the line after it, or
    "" if there is none.

    >>> thoughts_and_answer("Brisko is deep.\n**Answer**: Halmen.\n\nQuestion: Which")
    ('Brisko is deep.', 'Halmen')
    """
    text = reply.partition(NEXT_QUESTION)[0]
    *_, last = [None, *_ANSWER.finditer(text)]
    if last is None:
        return text.strip(), ""
    return text[: last.start()].strip(), clean_answer(
        text[last.end() :].replace("**", ""), full_stop
    )


def _concluded(reply: str, full_stop: bool) -> str:
    _, answer = thoughts_and_answer(strip_marks(reply), full_stop)
    if not answer:
        raise ModelReplyError(
            f"the thoughts come to no 'Answer:': {reply!r}. Allow more new tokens where they are "
            "cut off, or take a model that keeps to the form of the solved examples.",
            reply,
        )
    return answer


def _behind_lead(reply: str, prompt: str) -> str:
    """Return the reply without the prompt's last line, if it repeats that line and the line ends
    with a colon.
    """
    text, lead = reply.strip(), prompt.rstrip().rpartition("\n")[2].strip()
    return text[len(lead) :] if lead.endswith((":", "：")) and text.startswith(lead) else reply


def _behind(answer: str, cloze: str) -> str:
    """Return the answer without the cloze, if it begins with the cloze as whole words."""
    plain, lead = (" ".join(text.split()) for text in (answer, cloze))
    rest = plain[len(lead) :]
    repeated = lead and plain.casefold().startswith(lead.casefold()) and rest[:1] in (" ", ":")
    return rest.strip(" :") if repeated else answer


def clean_answer(text: str, full_stop: bool = False) -> str:
    """Return the first non-blank line, stripped, and without a final full stop unless
    `full_stop`.
    """
    line = text.strip().partition("\n")[0].strip()
    return line if full_stop else line.removesuffix(".").rstrip()
