"""The answer in a reply, by the rules of the papers: its first line, or the line after a chain of thought's label."""

import re

from emend.agents.parsing.reply_marks import strip_marks
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Reading

NEXT_QUESTION = "\nQuestion:"
"""A model that has answered may go on to ask itself; from here on the reply is not its answer."""
QUESTION_LABEL, ANSWER_LABEL = "\nQ:", "\nA:"
"""Labels of the plain prompt of a question, which ends in the second; a model that has answered may write the first."""
_ANSWER = re.compile(r"(?:\*\*)?\banswer(?:\*\*)?\s*[:：](?:\*\*)?", re.IGNORECASE)
"""The label of the answer to a chain of thought, in bold or not."""


def read_answer(reply: str, reading: Reading, cloze: str = "", prompt: str = "", *, full_stop: bool = False) -> str:
    r"""The answer in a reply.

    A reasoning model's delimited thoughts are skipped. After a chain of thought the answer is the line after the last
    "Answer:", the form of the chains in ReCoE (Figures 13 and 14) and MQuAKE; how their authors parse it is not
    published. If the line repeats, as chat models do, the `cloze` or the last label of the `prompt`, such as "A:", the
    answer begins after it.

    >>> read_answer("Brisko is 40 metres deep.\nAnswer: Halmen.\n\nQuestion: Which", "thoughts")
    'Halmen'
    >>> read_answer("Brisko lies in Halmen.", "line", "Brisko lies in")
    'Halmen'
    >>> read_answer("A: Halmen.", "line", prompt="Q: Where does Brisko lie?\nA:")
    'Halmen'

    Args:
        reply: the model's reply.
        reading: the part of it that is the answer.
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
    r"""The text before the last "Answer:" of a chain of thought, and the line after it; "" if there is none.

    >>> thoughts_and_answer("Brisko is deep.\n**Answer**: Halmen.\n\nQuestion: Which")
    ('Brisko is deep.', 'Halmen')
    """
    text = reply.partition(NEXT_QUESTION)[0]
    *_, last = [None, *_ANSWER.finditer(text)]
    if last is None:
        return text.strip(), ""
    return text[: last.start()].strip(), clean_answer(text[last.end() :].replace("**", ""), full_stop)


def _concluded(reply: str, full_stop: bool) -> str:
    _, answer = thoughts_and_answer(strip_marks(reply), full_stop)
    if not answer:
        raise ModelReplyError(
            f"the thoughts come to no 'Answer:': {reply!r}. Allow more new tokens where they are cut off, or take a "
            "model that keeps to the form of the solved examples.",
            reply,
        )
    return answer


def _behind_lead(reply: str, prompt: str) -> str:
    """The reply without the prompt's last line, if it begins with it and that line ends with a colon."""
    text, lead = reply.strip(), prompt.rstrip().rpartition("\n")[2].strip()
    return text[len(lead) :] if lead.endswith((":", "：")) and text.startswith(lead) else reply


def _behind(answer: str, cloze: str) -> str:
    """The answer without the cloze, if it begins with it as whole words."""
    plain, lead = (" ".join(text.split()) for text in (answer, cloze))
    rest = plain[len(lead) :]
    repeated = lead and plain.casefold().startswith(lead.casefold()) and rest[:1] in (" ", ":")
    return rest.strip(" :") if repeated else answer


def clean_answer(text: str, full_stop: bool = False) -> str:
    """The first line that is not blank, without white space around it and without a final full stop, unless kept."""
    line = text.strip().partition("\n")[0].strip()
    return line if full_stop else line.removesuffix(".").rstrip()
