"""Extraction of facts from a document by an author: as structured output, or sentence by sentence
with small models.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from emend.agents.roles.author import write_text
from emend.agents.scoring import is_small_model
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    ConstructionState,
    outcomes_of,
)
from emend.graphs.extraction.sentences import split_sentences
from emend.memory.probe import Usage
from emend.memory.retrieval.tokens import words

# Number of facts requested per document.
COUNT = 6
# Number of unanswered questions requested per document.
UNANSWERED = 2
# Maximum number of new tokens of a local author's reply; the facts of the example have 120 each.
FACTS_TOKENS = 160 * COUNT + 60 * UNANSWERED
SENTENCE_TOKENS = 160
# Minimum and maximum number of words of a sentence given to a small author.
SHORTEST, LONGEST = 6, 40
PRONOUN = re.compile(
    r"(?:he|she|it|they|this|that|these|those|we|you|who|his|her|its|their)", re.IGNORECASE
)
# Line labels in a small author's reply, which does not repeat the sentence.
LABELS = {
    "subject": "Subject",
    "answer": "Answer",
    "question": "Question",
    "paraphrase": "Same question",
    "wrong_answer": "Wrong answer",
    "statement": "Statement",
}
MARKS = {"question": "?", "paraphrase": "?", "statement": "."}


class DocumentFact(BaseModel):
    """A fact that the document states, with questions about it."""

    sentence: str = Field(description="the sentence that states it, copied letter by letter")
    subject: str = Field(description="what the fact is about, as the document names it")
    question: str = Field(
        description="a question about the fact that names the subject and not the answer"
    )
    paraphrase: str = Field(description="the same question in other words")
    answer: str = Field(description="the answer as it stands in the sentence, at most six words")
    wrong_answer: str = Field(description="a wrong answer of the same kind")
    statement: str = Field(description="the fact in one sentence")
    description: str = Field(
        default="",
        description="the answer described through the subject without its name, such "
        "as: the keeper of X",
    )


class UnansweredQuestion(BaseModel):
    """A question about something in the document that it does not answer."""

    subject: str = Field(description="what the question is about, as the document names it")
    question: str = Field(
        description="a question that names the subject and that the document does not answer"
    )


class DocumentFacts(BaseModel):
    """Facts that the document states, and questions that it leaves open."""

    facts: list[DocumentFact]
    unanswered: list[UnansweredQuestion] = []


class AskedFacts(NamedTuple):
    """Facts and unanswered questions that an author wrote for a document, and the usage.

    Attributes:
        facts: facts with the fields of `DocumentFact`.
        unanswered: questions with the fields of `UnansweredQuestion`.
        usage: usage of all calls.
        problems: faults of a small author's replies, by sentence.
        sent_problems: the faults that a small author was told of, by sentence.
    """

    facts: list[dict[str, Any]]
    unanswered: list[dict[str, Any]]
    usage: Usage
    problems: dict[str, str] = {}
    sent_problems: dict[str, str] = {}


class QuestionsState(ConstructionState, total=False):
    """State of the questions graph; the item has the `text` of a document.

    `facts` are those that passed so far, `unanswered` the questions that the document does not
    answer, and `readings` the reader's answers. `problems` has the fault of each sentence's last
    fact, and `sent_problems` the faults that a small author was told of.
    """

    facts: list[dict[str, Any]]
    unanswered: list[dict[str, Any]]
    readings: list[dict[str, Any]]
    problems: dict[str, str]
    sent_problems: dict[str, str]


# Filter that rejects a document of which no fact is left.
FACT = "any_fact"


def facts_left(
    facts: Sequence[Mapping[str, Any]],
    rejections: list[dict[str, Any]],
    tries: Mapping[str, int],
    problem: str,
) -> dict[str, Any]:
    """Return the state update with the facts that passed; without any, `problem` is the reason."""
    outcomes = outcomes_of(tries, rejections)
    outcomes["passed"][FACT] = bool(facts)
    left = {"facts": facts, "rejections": rejections, "problem": "" if facts else problem}
    return {**left, **outcomes}


def ask_facts(
    context: ConstructionContext, document: str, state: QuestionsState | None = None
) -> AskedFacts:
    """Ask the author for facts of a document, in the reply format that suits the author's size.

    Args:
        context: context with the author and its prompts.
        document: text of the document.
        state: state of the item, with the problems of earlier replies.

    Raises:
        ModelReplyError: the reply cannot be parsed.
        ModelError: the call failed.
    """
    return (_ask_by_lines if is_small_model(context.author) else _ask_at_once)(
        context, document, state or {}
    )


def _ask_at_once(
    context: ConstructionContext, document: str, state: ConstructionState
) -> AskedFacts:
    counts = {"count": str(COUNT), "open_count": str(UNANSWERED)}
    filled = context.fill("document_facts", state, document=document, **counts)
    reply = context.ask_author(filled, DocumentFacts, FACTS_TOKENS)
    facts = [fact.model_dump() for fact in reply.value.facts[: 2 * COUNT]]
    unanswered = [question.model_dump() for question in reply.value.unanswered[: 2 * UNANSWERED]]
    return AskedFacts(facts, unanswered, reply.usage)


def _ask_by_lines(context: ConstructionContext, document: str, state: QuestionsState) -> AskedFacts:
    """Ask a small author for one fact per sentence.

    In a new attempt it is told what was wrong with its fact of that sentence. A sentence is left
    out if the author was told the same before, since a local model would give the same reply.
    """
    facts, usage = list[dict[str, Any]](), Usage()
    problems, sent_problems = dict(state.get("problems", {})), dict(state.get("sent_problems", {}))
    for sentence in choose_sentences(document):
        problem = problems.get(sentence, "")
        if sent_problems.get(sentence) == problem:
            continue
        sent_problems[sentence] = problem
        last: ConstructionState = {"problem": problem}
        filled = context.fill("sentence_fact", last, sentence=sentence)
        written = write_text(context.author, filled, SENTENCE_TOKENS)
        usage, lines = usage.plus(written.usage), read_lines(written.text)
        if missing := [label for name, label in LABELS.items() if name not in lines]:
            problems[sentence] = f"the line '{missing[0]}' is missing"
            continue
        facts.append(DocumentFact(sentence=sentence, **lines).model_dump())
    return AskedFacts(facts, [], usage, problems, sent_problems)


def choose_sentences(document: str) -> list[str]:
    """Return the first sentences of a document that are of suitable length and do not begin with a
    pronoun.
    """
    sentences = ((sentence, words(sentence)) for sentence in split_sentences(document))
    usable = (
        sentence
        for sentence, tokens in sentences
        if SHORTEST <= len(tokens) <= LONGEST and not PRONOUN.fullmatch(tokens[0])
    )
    return [sentence for sentence, _ in zip(usable, range(COUNT), strict=False)]


def read_lines(reply: str) -> dict[str, str]:
    """Parse a reply of labelled lines; lines that are missing are left out."""
    first = next(iter(LABELS.values()))
    labels = "|".join(LABELS.values())
    # a base model may continue the prompt without the first label
    begins = re.match(rf"\W*(?:{labels})\W*:", reply, re.IGNORECASE) is None
    if begins and re.search(rf"^\W*{first}\W*:", reply, re.IGNORECASE | re.MULTILINE) is None:
        reply = f"{first}: {reply}"
    lines: dict[str, str] = {}
    for name, label in LABELS.items():
        hit = re.search(
            rf"^[^\w\n]*{label}[^\w\n]*:[^\w\n]*(\S.*?)[^\w\n)%]*$",
            reply,
            re.IGNORECASE | re.MULTILINE,
        )
        if hit is not None:
            lines[name] = hit[1] + MARKS.get(name, "")
    return lines
