"""Pipeline for a table of the facts that documents state, written as lines of subject, relation and
object (ReCoE, appendix A.2).

A fact is kept if its subject and object occur in the document, its relation is a noun, and the
judge finds it in the document.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from langgraph.runtime import Runtime

from emend.agents.roles.author import SHIPPED, write_text
from emend.graphs.construction.akew import CONVEYS
from emend.graphs.construction.document_facts import FACT, PRONOUN, facts_left
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
    count_tries,
    describe,
    rejection,
)
from emend.graphs.execution import Graph
from emend.graphs.extraction.sentences import split_sentences
from emend.memory.probe import Usage
from emend.memory.retrieval.tokens import words
from emend.memory.typography import fold_text

# Number of facts requested per document.
COUNT = 12
# Maximum number of new tokens of a local author's reply.
TOKENS = 24 * COUNT
# Maximum number of words.
LONGEST_RELATION, LONGEST_OBJECT = 5, 6
READABLE = "readable"
NO_FACT = "no line was a fact whose subject and object stand in the document"
_MARK = re.compile(r"^\s*(?:[-*\u2022]|\(?\d+[.):])\s*")
_AFTER_DOCUMENT = re.compile(r"\n+(?:Facts:|Reply with)")
_NO_NOUN = re.compile(
    r"\A(?:are|be|became|becomes|had|has|have|is|lies|to|was|were)\b"
    r"|\b(?:at|by|for|from|in|into|of|on|to|with)\Z|\A\w+ed\Z",
    re.IGNORECASE,
)


class FactLine(NamedTuple):
    """Fact as written by an author."""

    subject: str
    relation: str
    object: str

    @property
    def text(self) -> str:
        """Sentence that states the fact."""
        return f"The {self.relation} of {self.subject} is {self.object}."


class FactLinesState(ConstructionState, total=False):
    """State of the facts graph; the item has the `text` of a document.

    `facts` are those that passed so far, each with the sentence that names its object.
    """

    lines: list[str]
    facts: list[dict[str, str]]


def write_lines(state: FactLinesState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the author for the facts of the document, one per line."""
    context = runtime.context
    prompt = context.fill("fact_lines", state, document=state["item"]["text"], count=str(COUNT))
    written = write_text(context.author, prompt, TOKENS)
    if written.is_refused:
        lines = []
    else:
        lines = [_MARK.sub("", line).strip() for line in written.text.splitlines()]
    return {
        "lines": [line for line in lines if line][: 2 * COUNT],
        "attempts": state.get("attempts", 0) + 1,
        "usage": written.usage,
    }


def check_lines(state: FactLinesState) -> dict[str, Any]:
    """Keep the lines that are facts whose subject and object occur in the document."""
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
    names = (READABLE, *LINE_FILTERS, "repeated")
    faults = (each["filter"] for each in rejections)
    tries = count_tries(names, len(state["lines"]), faults)
    return facts_left(facts, rejections, tries, NO_FACT)


def verify(state: FactLinesState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Keep the facts that the document states according to the judge."""
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
    left = facts_left(facts, rejections, {CONVEYS: len(state["facts"])}, NO_FACT)
    return {**left, "usage": usage}


def finish(state: FactLinesState) -> dict[str, Any]:
    """Return the facts."""
    return {"result": {"facts": state["facts"]}}


def build(recipe: Recipe = "best") -> Graph:
    """Build the graph write_lines -> check_lines -> verify -> finish.

    Both recipes have the same graph.
    """
    again: dict[Node, Node | None] = {check_lines: write_lines, verify: write_lines}
    nodes = (write_lines, check_lines, verify, finish)
    return checking_graph("build_facts", FactLinesState, *nodes, checks=again)


def read_line(line: str) -> FactLine | None:
    """Parse a line such as `Brisko | length | 6,400 km`; return None if it has another form."""
    parts = [part.strip(' .;`*"') for part in line.strip().strip("|").split("|")]
    return FactLine(*parts) if len(parts) == 3 and all(parts) else None


def find_sentence(fact: FactLine, document: str) -> str:
    """Return the first sentence that names the object, preferably with the subject; empty if none
    does.
    """
    sentences = [
        sentence for sentence in split_sentences(document) if names_exactly(sentence, fact.object)
    ]
    both = (sentence for sentence in sentences if names_exactly(sentence, fact.subject))
    return " ".join(next(both, sentences[0] if sentences else "").split())


def find_no_subject(fact: FactLine, document: str) -> str:
    """The subject is a pronoun, or does not occur in the document."""
    is_named = names_exactly(document, fact.subject) and not PRONOUN.fullmatch(fact.subject)
    return "" if is_named else f"the document does not name '{fact.subject}'"


def find_no_object(fact: FactLine, document: str) -> str:
    """The object equals the subject, is too long, or does not occur in any sentence of the
    document.
    """
    if (
        fold_text(fact.object) == fold_text(fact.subject)
        or len(words(fact.object)) > LONGEST_OBJECT
    ):
        return "the object is the subject, or long"
    return "" if find_sentence(fact, document) else f"no sentence names '{fact.object}'"


def find_no_relation(fact: FactLine, document: str) -> str:
    """The relation is too long, is not a noun phrase, or contains the subject or the object."""
    size = len(words(fact.relation))
    if not 1 <= size <= LONGEST_RELATION or _NO_NOUN.search(fact.relation):
        return f"the relation is not a noun: '{fact.relation}'"
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
    """Return the filter of documents, which rejects the item, and the filters of its lines."""
    rejects = {
        "instruction": "A line contains an instruction to a model, a URL or an e-mail address.",
        "markup": "A line has a label, markup or a placeholder.",
    }
    return {
        FACT: FilterInfo(
            rejects="None of the facts written for the document passed the filters.", sums_up=True
        ),
        READABLE: FilterInfo(rejects="A line is not of the form `subject | relation | object`."),
        **describe(LINE_FILTERS, rejects),
        "repeated": FilterInfo(rejects="The fact repeats an earlier one."),
        CONVEYS: FilterInfo(
            rejects="According to the judge, the document does not state the fact."
        ),
    }


def sample(prompt: str) -> str:
    """Return lines of typical length that pass all filters, or a judge's True."""
    if SHIPPED["fact_lines"].task.partition("{")[0][:40] not in prompt:
        return "True"
    document = _AFTER_DOCUMENT.split(prompt.rpartition("Document: ")[2])[0]
    sentences = [words(sentence) for sentence in split_sentences(document)]
    ends = [(each[0], each[-1]) for each in sentences if len(each) > 3 and each[0] != each[-1]]
    usable = [pair for pair in ends if not PRONOUN.fullmatch(pair[0])][:COUNT]
    return "\n".join(f"{first} | last word of note | {last}" for first, last in usable)


PIPELINE = Pipeline(
    name="facts",
    build=build,
    filters=filters,
    prompts=lambda recipe: ("fact_lines", CONVEYS),
    sample=sample,
)
