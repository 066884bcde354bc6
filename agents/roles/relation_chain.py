"""The planning role: converts a question to an entity and a chain of relations that leads to the
answer.

Used by walks over graphs of edited facts, instead of planning one step at a time (GMeLLo, Chen et
al. 2024; KEDKG, Lu et al. 2025). Prompts and demonstrations are our own.
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
# Other separators that models write.
ARROWS = re.compile(r"->|→|=>")
NESTED = re.compile(
    r"(?:(?:what|who) (?:is|was|are|were) )?the (?P<chain>.+?)(?:\?| is| "
    r"was)?",
    re.I,
)
NO_RELATION = re.compile(r"^(?:name|location) of the ")
CLAUSE = (
    r"(?!.*\b(?:that|where|who|whom|whose|which|when|with|to|from|in|on|at|by|for|is|was|were|and|"
    r"or|its|their)\b)"
)
# A relation, or an entity without capitals: a noun without clauses.
NOUNS = re.compile(rf"{CLAUSE}[a-z][a-z -]*")
# A relation, and an entity that is a name or in quotes.
NAMED = re.compile(
    r"(?P<relation>[a-z -]+?) of "
    r"(?P<entity>[\"“][^\"“”]+[\"”]|[A-Z\d][\w.&-]*(?: "
    r"(?:of|the|de|di|da|la|le|van|von|and|&|[A-Z\d][\w.&-]*))*)"
)
QUESTION, ANSWER = "Question:", "Answer:"
# The label of the relations, in the variants that models write.
LABEL = re.compile(r"(?im:^\W*relations?\W*:)|Relations:")
# Maximum number of relations in a plan; the questions of MQuAKE have up to four.
MOST_RELATIONS = 8
PLAN_TOKENS = 2 * LINE_TOKENS
TASK = PROMPTS["relation_chain"]["task"]
# The question of a hop, and examples with short answers, without which a chat model would answer in
# sentences.
RECALL = PROMPTS["relation_chain"]["recall"]
RECALL_EXAMPLES = PROMPTS["relation_chain"]["recall_examples"]
# The two lines of the request and the lines of the answer; examples are separated by a blank line.
CHAIN_EXAMPLES = PROMPTS["relation_chain"]["recall_chain_examples"]
# Part of the prompt id, since the place where a walk begins decides what the model is asked.
START = "a walk begins at the edit's subject that the question names"
DEMONSTRATIONS = Path(__file__).with_name("chain_demonstrations.txt").read_text(encoding="utf-8")


class RelationChain(BaseModel):
    """The plan, as a model with a schema replies."""

    model_config = ConfigDict(
        json_schema_extra={"description": "Where to begin, and which way to go."}
    )
    entity: str = Field(
        min_length=1, description="the entity that the question names, as it is written there"
    )
    relations: list[str] = Field(
        min_length=1,
        max_length=MOST_RELATIONS,
        description="the relations from it to the answer, in order, as nouns",
    )


class PlannedChain(NamedTuple):
    """An entity, the relations from it to the answer, and the cost of the plan."""

    entity: str
    relations: tuple[str, ...]
    usage: Usage


class RecalledObject(NamedTuple):
    """A model's object of a relation, with the cost; `further` are the objects of the following
    relations.
    """

    answer: str
    usage: Usage
    further: tuple[str, ...] = ()


def plan_chain(model: BaseChatModel, question: str, form: ChainForm) -> PlannedChain:
    """Ask for the plan of a question in one call, and again for the relations if the model named
    only the entity.

    Raises:
        ModelReplyError: the reply is not a plan; carries the usage.
        ModelError: the call failed.
    """
    if form == "structured":
        chain, text, usage = ask_structured(
            model, f"{TASK}\n\n{QUESTION} {question}", RelationChain
        )
        return read_chain(
            f"{chain.entity}\n{RELATIONS} {SEPARATOR.join(chain.relations)}", usage, text
        )
    lead = f"{QUESTION} {question}\n"
    prompt = Prompt().plus(f"{DEMONSTRATIONS.strip()}\n\n").asked(lead, lead.strip())
    reply = continue_text(model, prompt.begun(ENTITY, ENTITY), [NEXT_QUESTION, "\n\n"], PLAN_TOKENS)
    entity = clean_answer(reply.text)
    if "\n" in reply.text.strip() or not entity or entity.lower() not in question.lower():
        return read_chain(reply.text, reply.usage)
    lead = f"{ENTITY} {entity}\n{RELATIONS}"
    rest = continue_text(model, prompt.begun(lead, lead), [NEXT_QUESTION, "\n\n"], PLAN_TOKENS)
    return read_chain(f"{lead}{rest.text}", reply.usage.plus(rest.usage))


def read_chain(reply: str, usage: Usage | None = None, raw: str = "") -> PlannedChain:
    r"""Parse the plan in a reply, whose beginning, `Entity:`, was given.

    >>> read_chain("Emma\nRelations: author; spouse").relations
    ('author', 'spouse')

    Args:
        reply: the reply: the entity, and the line of the relations.
        usage: the cost of the reply.
        raw: the model's raw text, if it differs.

    Raises:
        ModelReplyError: a line is missing or empty; carries the usage.
    """
    usage, raw = usage or Usage(), raw or reply
    text = reply.strip().removeprefix(ENTITY)
    entity, *after = LABEL.split(text, maxsplit=1)
    rest = "".join(after)
    parts = ARROWS.sub(SEPARATOR, rest.partition("\n")[0]).split(SEPARATOR)
    relations = tuple(part for part in map(clean_answer, parts) if part)
    entity = clean_answer(entity)
    if not entity or not relations:
        raise ModelReplyError(f"no entity and '{RELATIONS}' in the reply {raw!r}.", raw, usage)
    return PlannedChain(entity, relations[:MOST_RELATIONS], usage)


def parse_nested(question: str) -> PlannedChain | None:
    """Return the plan of a question whose relations are nested nouns; None for any other question.

    >>> question = "What is the capital of the country of citizenship of Albert of Saxony?"
    >>> parse_nested(question).relations
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
    """Return the object of a relation from the model's own knowledge, or from one of the facts
    about the entity.

    Raises:
        ModelReplyError: the reply is blank; carries the usage.
        ModelError: the call failed.
    """
    fact_lines = "".join(
        f"{find_wording(wording).fact.format(fact=fact.strip())}\n" for fact in facts
    )
    lead = f"{fact_lines}{QUESTION} {RECALL.format(relation=relation, entity=entity)}\n"
    prompt = Prompt().plus(RECALL_EXAMPLES).asked(lead, lead.strip()).begun(ANSWER, ANSWER)
    reply = continue_text(model, prompt, ["\n"], LINE_TOKENS)
    answer = clean_answer(reply.text)
    if not answer:
        raise ModelReplyError(f"nothing follows '{ANSWER}'.", reply.text, reply.usage)
    return RecalledObject(answer, reply.usage)


def recall_chain(model: BaseChatModel, entity: str, relations: Sequence[str]) -> RecalledObject:
    """Return the objects of several relations from the model's own knowledge, in one call.

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
    """Yield the answers of lines that begin with the relations, as long as they are in order."""
    for line, relation in zip(lines, relations, strict=False):
        label, _, answer = line.partition(":")
        if fold_text(label).strip() != fold_text(relation).strip() or not (
            answer := clean_answer(answer)
        ):
            return
        yield answer


def sample_chain(prompt: str, text: str) -> str:
    """Return a simulated reply for cost estimates to a prompt for a plan (of two relations) or for
    objects; "" for other prompts.
    """
    end = prompt.rstrip()
    # the line is begun for the model, or requested by an instruction
    if end.endswith((ENTITY, f'"{ENTITY}"')):
        return f"{text}\n{RELATIONS} {text}; {text}"
    return f"{text}\n{text}: {text}" if end.endswith((f"\n{text}:", f'"{text}:"')) else ""


def chain_id(form: ChainForm) -> str:
    """Return a hash of a form's prompts and of where its walks begin, as 8 hex digits."""
    parts = DEMONSTRATIONS if form == "text" else [TASK, RelationChain.model_json_schema()]
    return prompt_id(
        form, parts, RECALL, RECALL_EXAMPLES, CHAIN_EXAMPLES, QUESTION, ENTITY, RELATIONS, START
    )
