"""What a scripted model says that believes what it reads, in every form in which graphs ask: a responder."""

import json
import re

from emend.agents.roles.decompose import CHECK, CHECKED, FINAL, QUESTION, RETRIEVED, STEP, SUBQUESTION, TENTATIVE
from emend.agents.roles.relation_chain import ENTITY, RELATIONS
from emend.agents.roles.relevance import TASK
from emend.agents.roles.tools import NOTHING
from emend.editors.conformance_toys import UNKNOWN, ReadingModel, change_about, continuation, next_steps
from tests.fakes import begun
from tests.provider.protocols import Asked, Said, ToolCall

READER = ReadingModel()
LAND = re.compile(r"\bLand(\d+)")


def believes(asked: Asked) -> Said | str:
    """Searches where it has tools, judges where it is shown a passage, takes steps, thinks, or continues a fact."""
    text = begun(_since_question(asked))
    if "search_memory" in asked.tools:
        return _searched(asked)
    if asked.prompt.startswith(TASK):
        return _judged(asked.prompt)
    if asked.prompt.startswith(STEP):
        return _stepped(asked.prompt)
    if asked.prompt.startswith(CHECK):
        return _checked(asked.prompt)
    return _line(text) or next_steps(text) or str(READER.invoke(text).text)


def place_of(asked: Asked) -> int:
    """The number of the toy benchmark's land that the first message with one asks about."""
    question = next(text for role, text in asked.messages if role == "user" and LAND.search(text))
    return int(LAND.findall(question)[-1])


def _since_question(asked: Asked) -> str:
    """The messages from the one that asks the last question on, as a text."""
    texts = [text for _, text in asked.messages]
    start = max((place for place, text in enumerate(texts) if QUESTION in text), default=len(texts) - 1)
    return "\n".join(texts[start:])


def _searched(asked: Asked) -> Said | str:
    question = next(text for role, text in asked.messages if role == "user")
    if "<change>" in asked.prompt or NOTHING in asked.prompt:
        return change_about(asked.prompt, question)
    return Said(calls=[ToolCall("search_memory", {"query": question})])


def _judged(prompt: str) -> str:
    passages, question = prompt.split("<passage>\n")[1:], _after(prompt, QUESTION)
    return json.dumps({"scores": [0.9 if continuation(passage, question) else -0.99 for passage in passages]})


def _stepped(prompt: str) -> str:
    told = {"done": False, "subquestion": "", "tentative_answer": "", "final_answer": ""}
    _, found, answer = prompt.rpartition("so the intermediate answer is: ")
    if not found:
        return json.dumps(told | {"subquestion": _after(prompt, QUESTION), "tentative_answer": UNKNOWN})
    return json.dumps(told | {"done": True, "final_answer": answer.partition("\n")[0]})


def _checked(prompt: str) -> str:
    found = continuation(_after(prompt, RETRIEVED), _after(prompt, SUBQUESTION))
    return json.dumps({"contradicts": found is not None, "intermediate_answer": found or UNKNOWN})


def _line(text: str) -> str | None:
    """One line of a walk whose beginning is given; None for another prompt."""
    block = text.rpartition("\n\n")[2].split("\n")
    asked = next((line.removeprefix(f"{QUESTION} ") for line in block if line.startswith(QUESTION)), "")
    if block[-1] == ENTITY:
        return f"Land{LAND.findall(asked)[-1]}\n{RELATIONS} capital"
    if block[-1] == SUBQUESTION:
        return asked
    if asked and block[-1].startswith(TENTATIVE):
        facts = [line.removeprefix("New Fact: ") for line in block if line.startswith("New Fact: ")]
        return f"{next(filter(None, (continuation(fact, asked) for fact in facts)), UNKNOWN)}."
    if asked and block[-1] == FINAL:
        told = block[-2].rpartition(": ")[2]
        return continuation(told, asked) or told
    if block[-1] != CHECKED:
        return None
    found = continuation(block[-2].removeprefix(f"{RETRIEVED} "), asked)
    does = "contradicts" if found else "does not contradict"
    return f"{does} to generated answer, so the intermediate answer is: {found or UNKNOWN}"


def _after(prompt: str, lead: str) -> str:
    """What follows the first line that begins so."""
    return next(line.removeprefix(lead).strip() for line in prompt.split("\n") if line.startswith(lead))
