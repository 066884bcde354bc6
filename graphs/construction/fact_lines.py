"""A table of the facts that documents state, in lines of subject, relation and object (ReCoE, appendix A.2).

A fact is kept if subject and object stand in the document, its relation is a noun, and the judge finds it in the
document. Questions are composed from the table as from any other.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from langgraph.runtime import Runtime

from emend.agents.roles.author import SHIPPED, write_text
from emend.graphs.construction.akew import CONVEYS
from emend.graphs.construction.document_facts import PRONOUN
from emend.graphs.construction.filters.name_forms import names_exactly
from emend.graphs.construction.filters.questions import find_command, find_markup
from emend.graphs.construction.filters.texts import first_fault
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    ConstructionState,
    FilterInfo,
    Node,
    Pipeline,
    Recipe,
    checking_graph,
    describe,
    rejection,
)
from emend.graphs.execution import Graph
from emend.graphs.extraction.sentences import split_sentences
from emend.memory.probe import Usage
from emend.memory.retrieval.tokens import words
from emend.memory.typography import fold_text

COUNT = 12
"""Facts that are asked for in a document."""
TOKENS = 24 * COUNT
"""Limit of new tokens of a local author's reply."""
LONGEST_RELATION, LONGEST_OBJECT = 5, 6
"""Words."""
READABLE, FACT = "readable", "any_fact"
_MARK = re.compile(r"^\s*(?:[-*\u2022]|\(?\d+[.):])\s*")
_AFTER_DOCUMENT = re.compile(r"\n+(?:Facts:|Reply with)")
_NO_NOUN = re.compile(
    r"\A(?:are|be|became|becomes|had|has|have|is|lies|to|was|were)\b"
    r"|\b(?:at|by|for|from|in|into|of|on|to|with)\Z|\A\w+ed\Z",
    re.IGNORECASE,
)


class FactLine(NamedTuple):
    """A fact as an author wrote it."""

    subject: str
    relation: str
    object: str

    @property
    def text(self) -> str:
        """The fact as a sentence."""
        return f"The {self.relation} of {self.subject} is {self.object}."


class FactLinesState(ConstructionState, total=False):
    """The item has the `text` of a document; `facts` come out, each with the sentence that has its object."""

    lines: list[str]
    facts: list[dict[str, str]]


def write_lines(state: FactLinesState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the author for the facts of the document, one in each line."""
    context = runtime.context
    prompt = context.fill("fact_lines", state, document=state["item"]["text"], count=str(COUNT))
    written = write_text(context.author, prompt, TOKENS)
    lines = [] if written.is_refused else [_MARK.sub("", line).strip() for line in written.text.splitlines()]
    return {
        "lines": [line for line in lines if line][: 2 * COUNT],
        "attempts": state.get("attempts", 0) + 1,
        "usage": written.usage,
    }


def check_lines(state: FactLinesState) -> dict[str, Any]:
    """Take the lines that are facts whose subject and object stand in the document."""
    document, earlier = state["item"]["text"], set[str]()
    facts, rejections = list[dict[str, str]](), list[dict[str, Any]]()
    for line in state["lines"]:
        fact = read_line(line)
        name, reason = READABLE, "no line of subject, relation and object"
        if fact:
            name, reason = first_fault(fact, LINE_FILTERS, document)
        if fact and not name and fold_text(line) in earlier:
            name, reason = "repeated", "the fact was given before"
        if fact is None or name:
            rejections.append(rejection(state, name, f"{reason}: {line[:80]}"))
            continue
        earlier.add(fold_text(line))
        facts.append({**fact._asdict(), "sentence": find_sentence(fact, document)})
    if not state["lines"]:
        rejections.append(rejection(state, FACT, "the author gave no line"))
    return _facts_left(facts, rejections)


def verify(state: FactLinesState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Take the facts that the judge finds in the document."""
    usage, context = Usage(), runtime.context
    facts, rejections = list[dict[str, str]](), list[dict[str, Any]]()
    paragraph = " ".join(state["item"]["text"].split())
    for fact in state["facts"]:
        text = FactLine(fact["subject"], fact["relation"], fact["object"]).text
        refusal = "the judge does not find it in the document"
        reason, spent = context.ask_judge(CONVEYS, refusal, fact=text, paragraph=paragraph)
        usage = usage.plus(spent)
        if reason:
            rejections.append(rejection(state, CONVEYS, f"{reason}: {text}"))
        else:
            facts.append(fact)
    return {**_facts_left(facts, rejections), "usage": usage}


def _facts_left(facts: list[dict[str, str]], rejections: list[dict[str, Any]]) -> dict[str, Any]:
    problem = "" if facts else "no line was a fact whose subject and object stand in the document"
    return {"facts": facts, "rejections": rejections, "passed": {FACT: bool(facts)}, "problem": problem}


def finish(state: FactLinesState) -> dict[str, Any]:
    """Take the facts."""
    return {"result": {"facts": state["facts"]}}


def build(recipe: Recipe = "best") -> Graph:
    """Write lines -> check them -> verify -> finish; there is no paper with another recipe."""
    again: dict[Node, Node | None] = {check_lines: write_lines, verify: write_lines}
    nodes = (write_lines, check_lines, verify, finish)
    return checking_graph("build_facts", FactLinesState, *nodes, checks=again)


def read_line(line: str) -> FactLine | None:
    """The fact of a line such as `Brisko | length | 6,400 km`; None for another line."""
    parts = [part.strip(' .;`*"') for part in line.strip().strip("|").split("|")]
    return FactLine(*parts) if len(parts) == 3 and all(parts) else None


def find_sentence(fact: FactLine, document: str) -> str:
    """The sentence of the document that names the object, best with the subject; empty if there is none."""
    sentences = [sentence for sentence in split_sentences(document) if names_exactly(sentence, fact.object)]
    both = (sentence for sentence in sentences if names_exactly(sentence, fact.subject))
    return " ".join(next(both, sentences[0] if sentences else "").split())


def find_no_subject(fact: FactLine, document: str) -> str:
    """The subject is a pronoun, or does not stand in the document."""
    is_named = names_exactly(document, fact.subject) and not PRONOUN.fullmatch(fact.subject)
    return "" if is_named else f"the document does not name '{fact.subject}'"


def find_no_object(fact: FactLine, document: str) -> str:
    """The object is the subject, long, or stands in no sentence of the document."""
    if fold_text(fact.object) == fold_text(fact.subject) or len(words(fact.object)) > LONGEST_OBJECT:
        return "the object is the subject, or long"
    return "" if find_sentence(fact, document) else f"no sentence names '{fact.object}'"


def find_no_relation(fact: FactLine, document: str) -> str:
    """The relation is long, no noun, or names subject or object."""
    size = len(words(fact.relation))
    if not 1 <= size <= LONGEST_RELATION or _NO_NOUN.search(fact.relation):
        return f"the relation is no noun: '{fact.relation}'"
    is_named = any(names_exactly(fact.relation, name) for name in (fact.subject, fact.object))
    return "the relation names subject or object" if is_named else ""


LINE_FILTERS: Mapping[str, Callable[[FactLine, str], str]] = {
    "instruction": lambda fact, document: find_command(" ".join(fact)),
    "markup": lambda fact, document: find_markup(" ".join(fact)),
    "subject": find_no_subject,
    "object": find_no_object,
    "relation": find_no_relation,
}


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """The filters of lines, which count attempts alone, and of documents by whether they leave anything."""
    rejects = {
        "instruction": "A line holds an instruction to a model, or an address.",
        "markup": "A line has a label, markup or a placeholder.",
    }
    return {
        FACT: FilterInfo(rejects="No fact of the document is left."),
        READABLE: FilterInfo(rejects="A line is no fact in three parts."),
        **describe(LINE_FILTERS, rejects),
        "repeated": FilterInfo(rejects="The fact was given before."),
        CONVEYS: FilterInfo(rejects="The judge does not find the fact in the document."),
    }


def sample(prompt: str) -> str:
    """Lines of usual length that pass all filters, or the judge's True."""
    if SHIPPED["fact_lines"].task.partition("{")[0][:40] not in prompt:
        return "True"
    document = _AFTER_DOCUMENT.split(prompt.rpartition("Document: ")[2])[0]
    sentences = [words(sentence) for sentence in split_sentences(document)]
    ends = [(each[0], each[-1]) for each in sentences if len(each) > 3 and each[0] != each[-1]]
    usable = [pair for pair in ends if not PRONOUN.fullmatch(pair[0])][:COUNT]
    return "\n".join(f"{first} | last word of note | {last}" for first, last in usable)


PIPELINE = Pipeline(
    name="facts", build=build, filters=filters, prompts=lambda recipe: ("fact_lines", CONVEYS), sample=sample
)
