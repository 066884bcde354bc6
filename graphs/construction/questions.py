"""Questions about one's own documents: facts with their proof, questions about them, and a reader who tries them.

A fact is kept if its proof stands in the document letter by letter, its questions can be asked without the document,
and a reader answers them with the document and not without it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from emend.agents.roles.author import SHIPPED, write_text
from emend.agents.scoring import is_chat_model
from emend.agents.structured import ask_structured
from emend.graphs.construction.akew import LANGUAGES
from emend.graphs.construction.name_forms import names_exactly
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    ConstructionState,
    FilterInfo,
    Pipeline,
    Recipe,
    may_retry,
)
from emend.graphs.construction.text_filters import AuthoredDraft, find_instruction, summary_of
from emend.graphs.execution import Graph
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage
from emend.memory.retrieval.tokens import words
from emend.memory.typography import fold_text

COUNT = 6
"""Facts that are asked for in a document."""
FACTS_TOKENS = 160 * COUNT
"""Limit of new tokens of a local author's reply; the facts of the example have 110 each."""
LONGEST_ANSWER = 8
"""Words of an answer."""
SHORTEST_QUESTION = 4
READABLE, FACT = "readable", "any_fact"
ANSWERABLE, UNGUESSABLE = "answerable", "not_guessable"
_ABOUT_DOCUMENT = re.compile(
    r"\b(?:(?:the|this) (?:document|text|passage|article|paragraph|report|author of the text)|according to|mentioned|"
    r"stated above|as described)\b|(?:文件|文章|本文|上文)",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"(?:he|she|it|they|this|that|these|those|we|you|who)", re.IGNORECASE)


class DocumentFact(BaseModel):
    """A fact that the document states, with questions about it."""

    sentence: str = Field(description="the sentence that states it, copied letter by letter")
    subject: str = Field(description="what the fact is about, as the document names it")
    question: str = Field(description="a question about the fact that names the subject and not the answer")
    paraphrase: str = Field(description="the same question in other words")
    answer: str = Field(description="the answer as it stands in the sentence, at most six words")
    wrong_answer: str = Field(description="a wrong answer of the same kind")
    statement: str = Field(description="the fact in one sentence")


class DocumentFacts(BaseModel):
    """Facts that the document states."""

    facts: list[DocumentFact]


class QuestionsState(ConstructionState, total=False):
    """The item has the `text` of a document; facts that pass are added, and those that are dropped as rejections."""

    facts: list[dict[str, Any]]
    readings: list[dict[str, Any]]


def find_facts(state: QuestionsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the author for facts of the document, with questions about them."""
    context = runtime.context
    language = LANGUAGES.get(context.language, context.language)
    filled = context.prompt("document_facts").fill(
        state.get("problem", ""), document=state["item"]["text"], language=language, count=str(COUNT)
    )
    prompt = filled.turns if is_chat_model(context.author) else filled.text
    attempts = state.get("attempts", 0) + 1
    try:
        reply = ask_structured(context.author, prompt, DocumentFacts, retries=0, new_tokens=FACTS_TOKENS)
    except ModelReplyError as error:
        problem = "the reply is not in the form that was asked for"
        rejection = {"filter": READABLE, "reason": str(error), "attempt": attempts}
        return {
            "attempts": attempts, "problem": problem, "passed": {READABLE: False}, "rejections": [rejection],
            "facts": [], "usage": error.usage,
        }  # fmt: skip
    facts = [fact.model_dump() for fact in reply.value.facts[: 2 * COUNT]]
    return {
        "attempts": attempts, "problem": "", "passed": {READABLE: True}, "facts": facts, "usage": reply.usage,
    }  # fmt: skip


def check_facts(state: QuestionsState) -> dict[str, Any]:
    """Keep the facts whose proof stands in the document, and whose questions can be asked without it."""
    document, earlier = state["item"]["text"], set[str]()
    usable, rejections = list[dict[str, Any]](), list[dict[str, Any]]()
    for fact in state["facts"]:
        proof = find_proof(document, fact["sentence"])
        name, reason = _first_fault(fact, proof, earlier)
        if name:
            rejections.append({"filter": name, "reason": f"{reason}: {fact['question']}", "attempt": state["attempts"]})
            continue
        earlier.add(fold_text(fact["question"]))
        usable.append(fact | {"sentence": proof})
    return {"facts": usable, "rejections": rejections, "passed": {FACT: bool(usable)}, "problem": _problem(usable)}


def _problem(facts: Sequence[object]) -> str:
    return "" if facts else "no fact had a sentence copied letter by letter and a question that names its subject"


def _first_fault(fact: Mapping[str, str], proof: str, earlier: set[str]) -> tuple[str, str]:
    for name, find in FACT_FILTERS.items():
        if reason := find(fact, proof):
            return name, reason
    return ("repeated", "the question was asked before") if fold_text(fact["question"]) in earlier else ("", "")


def try_questions(state: QuestionsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Let a reader answer each question with the document and without it."""
    context, usage = runtime.context, Usage()
    usable, readings, rejections = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for fact in state["facts"]:
        question = fact["question"]
        informed = write_text(
            context.judge, context.prompt("read_with").fill(document=state["item"]["text"], question=question), 32
        )
        uninformed = write_text(context.judge, context.prompt("read_without").fill(question=question), 32)
        usage = usage.plus(informed.usage).plus(uninformed.usage)
        readings.append({"question": question, "with": informed.text, "without": uninformed.text})
        if not names_exactly(informed.text, fact["answer"]):
            reason = f"a reader of the document answers '{informed.text[:40]}': {question}"
            rejections.append({"filter": ANSWERABLE, "reason": reason, "attempt": state["attempts"]})
        elif names_exactly(uninformed.text, fact["answer"]):
            reason = f"a reader without the document knows or guesses it: {question}"
            rejections.append({"filter": UNGUESSABLE, "reason": reason, "attempt": state["attempts"]})
        else:
            usable.append(fact)
    return {
        "facts": usable, "readings": readings, "rejections": rejections, "usage": usage,
        "passed": {FACT: bool(usable)}, "problem": _problem(usable),
    }  # fmt: skip


def finish(state: QuestionsState) -> dict[str, Any]:
    """Put the facts of the document together."""
    return {"result": {"facts": state["facts"]}}


def find_proof(document: str, sentence: str) -> str:
    """The part of the document that is this sentence, but for white space; empty if it is not there."""
    parts = sentence.strip().strip("\"'“”").split()
    hit = re.search(r"\s+".join(map(re.escape, parts)), document) if parts else None
    return hit[0] if hit else ""


def find_no_proof(fact: Mapping[str, str], proof: str) -> str:
    """The proof does not stand in the document letter by letter."""
    return "" if len(words(proof)) >= SHORTEST_QUESTION else "the sentence does not stand in the document"


def find_other_answer(fact: Mapping[str, str], proof: str) -> str:
    """The answer does not stand in its proof."""
    return "" if names_exactly(proof, fact["answer"]) else f"the answer '{fact['answer']}' is not in the sentence"


def find_long_answer(fact: Mapping[str, str], proof: str) -> str:
    """The answer is too long to be compared."""
    return "the answer is long" if len(words(fact["answer"])) > LONGEST_ANSWER else ""


def find_no_question(fact: Mapping[str, str], proof: str) -> str:
    """The question is none, or does not name what it is about."""
    for question in (fact["question"], fact["paraphrase"]):
        is_short = len(words(question)) < SHORTEST_QUESTION and len(question) < 2 * SHORTEST_QUESTION
        if is_short or not question.rstrip().endswith(("?", "？")):
            return "no question"
    subject = fact["subject"].strip()
    if _PRONOUN.fullmatch(subject) or not names_exactly(fact["question"], subject):
        return f"the question does not name the subject '{subject}'"
    return ""


def find_leak(fact: Mapping[str, str], proof: str) -> str:
    """A question holds its own answer."""
    leak = any(names_exactly(fact[name], fact["answer"]) for name in ("question", "paraphrase"))
    return "the question holds its answer" if leak else ""


def find_same_paraphrase(fact: Mapping[str, str], proof: str) -> str:
    """The paraphrase is the question itself."""
    return "the paraphrase is the question" if words(fact["question"]) == words(fact["paraphrase"]) else ""


def find_wrong_choice(fact: Mapping[str, str], proof: str) -> str:
    """The wrong answer is missing, or right."""
    wrong, answer = fact["wrong_answer"].strip(), fact["answer"]
    is_right = names_exactly(wrong, answer) or names_exactly(answer, wrong) or names_exactly(proof, wrong)
    return "the wrong answer is missing, or stands in the sentence" if not wrong or is_right else ""


def find_about_document(fact: Mapping[str, str], proof: str) -> str:
    """A question speaks of the document, which a reader of the answer does not see."""
    spoken = any(_ABOUT_DOCUMENT.search(fact[name]) for name in ("question", "paraphrase", "statement"))
    return "the question speaks of the document" if spoken else ""


def find_command(fact: Mapping[str, str], proof: str) -> str:
    """A text holds an instruction to a model, an address or active markup."""
    text = "\n".join(fact[name] for name in ("question", "paraphrase", "answer", "statement"))
    return "an instruction" if find_instruction(AuthoredDraft(text, "", "")) else ""


def find_other_statement(fact: Mapping[str, str], proof: str) -> str:
    """The statement does not say the answer, so that it cannot be turned into a false one."""
    return "" if names_exactly(fact["statement"], fact["answer"]) else "the statement does not name the answer"


FACT_FILTERS: Mapping[str, Callable[[Mapping[str, str], str], str]] = {
    "proof": find_no_proof,
    "instruction": find_command,
    "answer_in_proof": find_other_answer,
    "short_answer": find_long_answer,
    "question": find_no_question,
    "leak": find_leak,
    "paraphrase": find_same_paraphrase,
    "about_document": find_about_document,
    "wrong_answer": find_wrong_choice,
    "statement": find_other_statement,
}


def after_find(
    state: QuestionsState, runtime: Runtime[ConstructionContext]
) -> Literal["find_facts", "check_facts", "__end__"]:
    """Check the facts of a reply that could be read; ask again while attempts are left."""
    if not state["problem"]:
        return "check_facts"
    return "find_facts" if may_retry(state, runtime.context) else "__end__"


def after_check(
    state: QuestionsState, runtime: Runtime[ConstructionContext]
) -> Literal["find_facts", "try_questions", "__end__"]:
    """Try the questions that are left; without any ask again while attempts are left."""
    if not state["problem"]:
        return "try_questions"
    return "find_facts" if may_retry(state, runtime.context) else "__end__"


def after_try(state: QuestionsState) -> Literal["finish", "__end__"]:
    """Finish with the facts that are left."""
    return "__end__" if state["problem"] else "finish"


def build(recipe: Recipe = "best") -> Graph:
    """Find facts -> check them -> let a reader try the questions -> finish; there is no paper with another recipe."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(QuestionsState, context_schema=ConstructionContext)
    for node in (find_facts, check_facts, try_questions, finish):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "find_facts")
    graph.add_conditional_edges("find_facts", after_find)
    graph.add_conditional_edges("check_facts", after_check)
    graph.add_conditional_edges("try_questions", after_try)
    graph.set_finish_point("finish")
    return graph.compile(name="build_questions")


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """The filters of documents by whether they leave anything, and those of facts, which count attempts alone."""
    facts = {name: FilterInfo(rejects=summary_of(find)) for name, find in FACT_FILTERS.items()}
    return {
        READABLE: FilterInfo(rejects="The author's reply is not in the form that was asked for."),
        FACT: FilterInfo(rejects="No fact of the document is left."),
        **facts,
        "repeated": FilterInfo(rejects="The question was asked before."),
        ANSWERABLE: FilterInfo(rejects="A reader of the document does not find the answer."),
        UNGUESSABLE: FilterInfo(rejects="A reader without the document gives the answer too."),
    }


def sample(prompt: str) -> str:
    """A reply of usual length: six facts, or the answer of a reader."""
    if SHIPPED["document_facts"].task[:40] in prompt:
        text = prompt.rpartition("Document: ")[2]
        sentences = [each.strip() for each in re.split(r"(?<=[.!?])\s+", text) if len(each.split()) > 5][:COUNT]
        facts = [_sample_fact(sentence) for sentence in sentences]
        return DocumentFacts(facts=facts).model_dump_json()
    return "a short answer" if "Document: " not in prompt else prompt.rpartition("Question: ")[2].split()[-1]


def _sample_fact(sentence: str) -> DocumentFact:
    first, *_, last = words(sentence)
    return DocumentFact(
        sentence=sentence,
        subject=first,
        question=f"What is it that {first} has to do with in the end, to name it once?",
        paraphrase=f"To name it once, what does {first} have to do with in the end?",
        answer=last,
        wrong_answer="something else",
        statement=sentence,
    )


PIPELINE = Pipeline(
    name="questions",
    build=build,
    filters=filters,
    prompts=("document_facts", "read_with", "read_without"),
    sample=sample,
)
