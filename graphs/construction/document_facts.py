"""Extraction of facts from a document by an author: as structured output, or sentence by sentence
with small models.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from emend.agents.roles.author import write_text
from emend.agents.scoring import is_chat_model, is_small_model
from emend.agents.structured import ask_structured
from emend.graphs.construction.pipeline import ConstructionContext, ConstructionState
from emend.graphs.extraction.sentences import split_sentences
from emend.memory.errors import ModelReplyError
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
    """Facts and unanswered questions that an author wrote for a document, and the usage."""

    facts: list[dict[str, Any]]
    unanswered: list[dict[str, Any]]
    usage: Usage


def ask_facts(
    context: ConstructionContext, document: str, state: ConstructionState | None = None
) -> AskedFacts:
    """Ask the author for facts of a document, in the reply format that suits the author's size.

    Args:
        context: context with the author and its prompts.
        document: text of the document.
        state: state of the item, with the problem of an earlier reply.

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
    prompt = filled.turns if is_chat_model(context.author) else filled.text
    reply = ask_structured(
        context.author, prompt, DocumentFacts, retries=0, new_tokens=FACTS_TOKENS
    )
    facts = [fact.model_dump() for fact in reply.value.facts[: 2 * COUNT]]
    unanswered = [question.model_dump() for question in reply.value.unanswered[: 2 * UNANSWERED]]
    return AskedFacts(facts, unanswered, reply.usage)


def _ask_by_lines(
    context: ConstructionContext, document: str, state: ConstructionState
) -> AskedFacts:
    facts, usage, reply = list[dict[str, Any]](), Usage(), ""
    for sentence in choose_sentences(document):
        written = write_text(
            context.author, context.fill("sentence_fact", state, sentence=sentence), SENTENCE_TOKENS
        )
        usage, reply = usage.plus(written.usage), written.text
        facts += [fact.model_dump() for fact in read_fact(sentence, reply)]
    if not facts:
        raise ModelReplyError("no reply had all lines.", reply, usage)
    return AskedFacts(facts, [], usage)


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


def read_fact(sentence: str, reply: str) -> Iterable[DocumentFact]:
    """Parse the fact in a reply of labelled lines; yield nothing if a line is missing."""
    first = next(iter(LABELS.values()))
    # a base model may continue the prompt without the first label
    begins = re.search(rf"^\W*{first}\W*:", reply, re.IGNORECASE | re.MULTILINE) is None
    text = f"{first}: {reply}" if begins else reply
    lines: dict[str, str] = {}
    for name, label in LABELS.items():
        hit = re.search(
            rf"^[^\w\n]*{label}[^\w\n]*:[^\w\n]*(\S.*?)[^\w\n)%]*$",
            text,
            re.IGNORECASE | re.MULTILINE,
        )
        if hit is None:
            return
        lines[name] = hit[1]
    for name, mark in (("question", "?"), ("paraphrase", "?"), ("statement", ".")):
        lines[name] += mark
    yield DocumentFact(sentence=sentence, **lines)
