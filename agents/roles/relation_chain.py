"""The planning role: a question as an entity, and the relations that lead from it to the answer.

Walks over graphs of edited facts plan so in place of one step at a time (GMeLLo, Chen et al. 2024; KEDKG, Lu et al.
2025). Prompts and demonstrations are our own.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, ConfigDict, Field

from emend.agents.parsing.answers import NEXT_QUESTION, clean_answer
from emend.agents.roles import PROMPTS
from emend.agents.roles.answer import find_wording
from emend.agents.roles.completion import LINE_TOKENS, continue_text
from emend.agents.roles.conversation import Prompt
from emend.agents.structured import ask_structured
from emend.memory.edit import prompt_id
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage
from emend.memory.typography import fold_text

ChainForm = Literal["structured", "text"]
ENTITY, RELATIONS, SEPARATOR = "Entity:", "Relations:", ";"
ARROWS = re.compile(r"->|→|=>")
"""Other separators that models write."""
NESTED = re.compile(r"(?:(?:what|who) (?:is|was|are|were) )?the (?P<chain>.+?)(?:\?| is| was)?", re.I)
NO_RELATION = re.compile(r"^(?:name|location) of the ")
CLAUSE = r"(?!.*\b(?:that|where|who|whom|whose|which|when|with|to|from|in|on|at|by|for|is|was|were|and|or|its|their)\b)"
NOUNS = re.compile(rf"{CLAUSE}[a-z][a-z -]*")
"""A relation, or an entity without capitals, as a noun without clauses."""
NAMED = re.compile(
    r"(?P<relation>[a-z -]+?) of "
    r"(?P<entity>[\"“][^\"“”]+[\"”]|[A-Z\d][\w.&-]*(?: (?:of|the|de|di|da|la|le|van|von|and|&|[A-Z\d][\w.&-]*))*)"
)
"""A relation, and an entity that is a name or in quotes."""
QUESTION, ANSWER = "Question:", "Answer:"
MOST_RELATIONS = 8
"""Relations of a plan at most; the questions of MQuAKE have four."""
PLAN_TOKENS = 2 * LINE_TOKENS
TASK = PROMPTS["relation_chain"]["task"]
RECALL, RECALL_EXAMPLES = PROMPTS["relation_chain"]["recall"], PROMPTS["relation_chain"]["recall_examples"]
"""The question of a hop, and some that are answered by a name alone, or a chat model would answer in sentences."""
CHAIN_EXAMPLES = PROMPTS["relation_chain"]["recall_chain_examples"]
"""Two lines that are asked, and the lines of the answer; examples stand apart by a blank line."""
DEMONSTRATIONS = Path(__file__).with_name("chain_demonstrations.txt").read_text(encoding="utf-8")


class RelationChain(BaseModel):
    """The plan, as a model with a schema replies."""

    model_config = ConfigDict(json_schema_extra={"description": "Where to begin, and which way to go."})
    entity: str = Field(min_length=1, description="the entity that the question names, as it is written there")
    relations: list[str] = Field(
        min_length=1, max_length=MOST_RELATIONS, description="the relations from it to the answer, in order, as nouns"
    )


class PlannedChain(NamedTuple):
    """An entity, the relations from it to the answer, and the cost of the plan."""

    entity: str
    relations: tuple[str, ...]
    usage: Usage


class RecalledObject(NamedTuple):
    """A model's object of a relation, and the cost; `further` are those of the relations after it."""

    answer: str
    usage: Usage
    further: tuple[str, ...] = ()


def plan_chain(model: BaseChatModel, question: str, form: ChainForm) -> PlannedChain:
    """Ask for the plan of a question, in one call.

    Raises:
        ModelReplyError: the reply is no plan; carries the usage.
        ModelError: the call failed.
    """
    if form == "structured":
        chain, text, usage = ask_structured(model, f"{TASK}\n\n{QUESTION} {question}", RelationChain)
        return read_chain(f"{chain.entity}\n{RELATIONS} {SEPARATOR.join(chain.relations)}", usage, text)
    lead = f"{QUESTION} {question}\n"
    prompt = Prompt().plus(f"{DEMONSTRATIONS.strip()}\n\n").asked(lead, lead.strip()).begun(ENTITY, ENTITY)
    reply = continue_text(model, prompt, [NEXT_QUESTION, "\n\n"], PLAN_TOKENS)
    return read_chain(reply.text, reply.usage)


def read_chain(reply: str, usage: Usage | None = None, raw: str = "") -> PlannedChain:
    r"""The plan that a reply is, whose beginning, `Entity:`, was given.

    >>> read_chain("Emma\nRelations: author; spouse").relations
    ('author', 'spouse')

    Args:
        reply: the entity, and the line of the relations.
        usage: its cost.
        raw: what the model wrote, where that is another text.

    Raises:
        ModelReplyError: a line is missing or empty; carries the usage.
    """
    usage, raw = usage or Usage(), raw or reply
    text = reply.strip().removeprefix(ENTITY)
    entity, label, rest = text.partition(RELATIONS)
    parts = ARROWS.sub(SEPARATOR, rest.partition("\n")[0]).split(SEPARATOR)
    relations = tuple(part for part in map(clean_answer, parts) if part)
    entity = clean_answer(entity)
    if not entity or not label or not relations:
        raise ModelReplyError(f"no entity and '{RELATIONS}' in the reply {raw!r}.", raw, usage)
    return PlannedChain(entity, relations[:MOST_RELATIONS], usage)


def parse_nested(question: str) -> PlannedChain | None:
    """The plan of a question whose relations follow each other as nouns; None for any other.

    >>> parse_nested("What is the capital of the country of citizenship of Albert of Saxony?").relations
    ('country of citizenship', 'capital')
    """
    if not (match := NESTED.fullmatch(question.strip())):
        return None
    chain = NO_RELATION.sub("", match["chain"])
    named = NAMED.fullmatch(chain)
    path, entity = named.groups() if named else chain.rpartition(" of ")[::2]
    relations = tuple(reversed(path.split(" of the ")))
    nouns = relations if named else (*relations, entity)
    return PlannedChain(entity, relations, Usage()) if all(map(NOUNS.fullmatch, nouns)) else None


def recall_object(
    model: BaseChatModel, entity: str, relation: str, facts: tuple[str, ...], wording: str
) -> RecalledObject:
    """The object of a relation by the model's own knowledge, or by one of the facts that speak of the entity.

    Raises:
        ModelReplyError: the reply is blank; carries the usage.
        ModelError: the call failed.
    """
    fact_lines = "".join(f"{find_wording(wording).fact.format(fact=fact.strip())}\n" for fact in facts)
    lead = f"{fact_lines}{QUESTION} {RECALL.format(relation=relation, entity=entity)}\n"
    prompt = Prompt().plus(RECALL_EXAMPLES).asked(lead, lead.strip()).begun(ANSWER, ANSWER)
    reply = continue_text(model, prompt, ["\n"], LINE_TOKENS)
    answer = clean_answer(reply.text)
    if not answer:
        raise ModelReplyError(f"nothing follows '{ANSWER}'.", reply.text, reply.usage)
    return RecalledObject(answer, reply.usage)


def recall_chain(model: BaseChatModel, entity: str, relations: Sequence[str]) -> RecalledObject:
    """The objects along several relations by the model's own knowledge, in one call.

    Raises:
        ModelReplyError: the reply is blank; carries the usage.
        ModelError: the call failed.
    """
    first, prompt = f"{relations[0]}:", Prompt()
    for example in CHAIN_EXAMPLES.split("\n\n"):
        entity_line, relation_line, objects = example.split("\n", 2)
        task = f"{entity_line}\n{relation_line}"
        prompt = prompt.asked(f"{task}\n", task).begun(f"{objects}\n\n", objects)
    lead = f"{ENTITY} {entity}\n{RELATIONS} {f'{SEPARATOR} '.join(relations)}"
    prompt = prompt.asked(f"{lead}\n", lead).begun(first, first)
    reply = continue_text(model, prompt, ["\n\n", ENTITY], LINE_TOKENS * len(relations))
    line, *lines = reply.text.strip().removeprefix(first).split("\n")
    if not (answer := clean_answer(line)):
        raise ModelReplyError(f"nothing follows '{first}'.", reply.text, reply.usage)
    return RecalledObject(answer, reply.usage, tuple(read_further(lines, relations[1:])))


def read_further(lines: Sequence[str], relations: Sequence[str]) -> Iterator[str]:
    """The answers of lines that begin with the relations, as far as they do so in order."""
    for line, relation in zip(lines, relations, strict=False):
        label, _, answer = line.partition(":")
        if fold_text(label).strip() != fold_text(relation).strip() or not (answer := clean_answer(answer)):
            return
        yield answer


def sample_chain(prompt: str, text: str) -> str:
    """A reply for estimates, to a prompt that asks for a plan of two relations, or for their objects; else empty."""
    end = prompt.rstrip()
    if end.endswith((ENTITY, f'"{ENTITY}"')):  # begun for the model, or by an instruction
        return f"{text}\n{RELATIONS} {text}; {text}"
    return f"{text}\n{text}: {text}" if end.endswith((f"\n{text}:", f'"{text}:"')) else ""


def chain_id(form: ChainForm) -> str:
    """Eight hex digits that change with the prompts of a form."""
    parts = DEMONSTRATIONS if form == "text" else [TASK, RelationChain.model_json_schema()]
    return prompt_id(form, parts, RECALL, RECALL_EXAMPLES, CHAIN_EXAMPLES, QUESTION, ENTITY, RELATIONS)
