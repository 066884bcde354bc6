"""Questions about one's own documents: facts with their proof, questions about them, and a reader who tries them.

A fact is kept if its proof stands in the document letter by letter, its questions can be asked without the document,
and a reader answers them with the document and not without it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langgraph.runtime import Runtime

from emend.agents.roles.author import SHIPPED, write_text
from emend.graphs.construction.document_facts import COUNT, DocumentFact, DocumentFacts, UnansweredQuestion, ask_facts
from emend.graphs.construction.filters.facts import (
    FACT_FILTERS,
    find_proof,
    find_unusable_question,
    usable_description,
)
from emend.graphs.construction.filters.name_forms import names_exactly
from emend.graphs.construction.filters.texts import (
    AuthoredDraft,
    find_foreign_language,
    find_foreign_letters,
    first_fault,
    summary_of,
)
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    ConstructionState,
    FilterInfo,
    Pipeline,
    Recipe,
    accept,
    checking_graph,
    describe,
    reject,
    rejection,
)
from emend.graphs.execution import Graph
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage
from emend.memory.retrieval.tokens import words
from emend.memory.typography import fold_text

READABLE, FACT = "readable", "any_fact"
ANSWERABLE, UNGUESSABLE, UNANSWERED = "answerable", "not_guessable", "unanswered"
LANGUAGE = "language"
READING_TOKENS = 32


class QuestionsState(ConstructionState, total=False):
    """The item has the `text` of a document; facts that pass are added, and those that are dropped as rejections.

    `unanswered` are questions that the document leaves open.
    """

    facts: list[dict[str, Any]]
    unanswered: list[dict[str, Any]]
    readings: list[dict[str, Any]]


def find_facts(state: QuestionsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the author for facts of the document, with questions about them."""
    attempts = state.get("attempts", 0) + 1
    try:
        reply = ask_facts(runtime.context, state["item"]["text"], state)
    except ModelReplyError as error:
        update = reject({"attempts": attempts}, READABLE, str(error)) | {"attempts": attempts, "usage": error.usage}
        return update | {"problem": "the reply is not in the form that was asked for", "facts": [], "unanswered": []}
    return {"attempts": attempts, **accept(READABLE), **reply._asdict()}


def check_facts(state: QuestionsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Keep the facts whose proof stands in the document, and whose questions can be asked without it."""
    document, earlier = state["item"]["text"], set[str]()
    usable, rejections = list[dict[str, Any]](), list[dict[str, Any]]()
    for fact in state["facts"]:
        proof = find_proof(document, fact["sentence"])
        name, reason = _first_fault(fact, proof, earlier, runtime.context.language)
        if name:
            rejections.append(rejection(state, name, f"{reason}: {fact['question']}"))
            continue
        earlier.add(fold_text(fact["question"]))
        usable.append(fact | {"sentence": proof, "description": usable_description(fact)})
    return {"facts": usable, "rejections": rejections, "passed": {FACT: bool(usable)}, "problem": _problem(usable)}


def _problem(facts: Sequence[object]) -> str:
    return "" if facts else "no fact had a sentence copied letter by letter and a question that names its subject"


def _first_fault(fact: Mapping[str, str], proof: str, earlier: set[str], language: str) -> tuple[str, str]:
    name, reason = first_fault(fact, FACT_FILTERS, proof)
    if name:
        return name, reason
    if reason := _find_other_language(fact, language):
        return LANGUAGE, reason
    return ("repeated", "the question was asked before") if fold_text(fact["question"]) in earlier else ("", "")


def _find_other_language(fact: Mapping[str, str], language: str) -> str:
    """A text is in the letters of another language, or all of them are in its words, too few in one alone."""
    texts = [fact[name] for name in ("question", "paraphrase", "statement")]
    drafts = [AuthoredDraft(text, "", "", language=language) for text in texts]
    whole = AuthoredDraft(" ".join(texts), "", "", language=language)
    return next(filter(None, map(find_foreign_letters, drafts)), "") or find_foreign_language(whole)


def try_questions(state: QuestionsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Let a reader answer each question with the document, in both wordings, and without it."""
    usage, usable = Usage(), list[dict[str, Any]]()
    readings, rejections = list[dict[str, Any]](), list[dict[str, Any]]()
    for fact in state["facts"]:
        reading = read_question(runtime.context, state["item"]["text"], fact)
        usage = usage.plus(reading.usage)
        readings.append(reading.answers)
        if reading.filter:
            rejections.append(rejection(state, reading.filter, f"{reading.reason}: {fact['question']}"))
        else:
            usable.append(fact)
    return {
        "facts": usable, "readings": readings, "rejections": rejections, "usage": usage,
        "passed": {FACT: bool(usable)}, "problem": _problem(usable),
    }  # fmt: skip


class QuestionReading(NamedTuple):
    """Answers of a reader to a fact's questions, and the filter that they do not pass, with its reason."""

    answers: dict[str, str]
    usage: Usage
    filter: str = ""
    reason: str = ""


def read_question(context: ConstructionContext, document: str, fact: Mapping[str, str]) -> QuestionReading:
    """The reading of a fact's questions; none is asked after one that the fact does not pass."""
    answers, usage = {"question": fact["question"]}, Usage()
    for name, question in (("with", fact["question"]), ("paraphrase", fact["paraphrase"])):
        informed = write_text(
            context.judge, context.prompt("read_with").fill(document=document, question=question), READING_TOKENS
        )
        answers[name], usage = informed.text, usage.plus(informed.usage)
        if not names_exactly(informed.text, fact["answer"]):
            reason = f"a reader of the document answers '{informed.text[:40]}'"
            return QuestionReading(answers, usage, ANSWERABLE, reason)
    uninformed = write_text(
        context.judge, context.prompt("read_without").fill(question=fact["question"]), READING_TOKENS
    )
    answers["without"], usage = uninformed.text, usage.plus(uninformed.usage)
    if names_exactly(uninformed.text, fact["answer"]):
        return QuestionReading(answers, usage, UNGUESSABLE, "a reader without the document knows or guesses it")
    return QuestionReading(answers, usage)


def check_unanswered(state: QuestionsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Keep the questions that can be asked, and to which the judge finds no answer in the document."""
    document, usage = state["item"]["text"], Usage()
    usable, rejections = list[dict[str, Any]](), list[dict[str, Any]]()
    for question in state["unanswered"]:
        reason = find_unusable_question(question, document)
        if not reason:
            refusal, text = "the judge finds an answer in the document", question["question"]
            reason, spent = runtime.context.ask_judge("answers", refusal, False, document=document, question=text)
            usage = usage.plus(spent)
        if reason:
            rejections.append(rejection(state, UNANSWERED, f"{reason}: {question['question']}"))
        else:
            usable.append(question)
    return {"unanswered": usable, "rejections": rejections, "usage": usage}


def finish(state: QuestionsState) -> dict[str, Any]:
    """Put the facts of the document together, and the questions that it leaves open."""
    return {"result": {"facts": state["facts"], "unanswered": state["unanswered"]}}


def build(recipe: Recipe = "best") -> Graph:
    """Find facts -> check them -> let a reader try the questions -> check what is unanswered -> finish.

    There is no paper with another recipe.
    """
    nodes = (find_facts, check_facts, try_questions, check_unanswered, finish)
    again = {find_facts: find_facts, check_facts: find_facts, try_questions: None}
    return checking_graph("build_questions", QuestionsState, *nodes, checks=again)


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """The filters of documents by whether they leave anything, and those of facts, which count attempts alone."""
    return {
        READABLE: FilterInfo(rejects="The author's reply is not in the form that was asked for."),
        FACT: FilterInfo(rejects="No fact of the document is left."),
        **describe(FACT_FILTERS),
        LANGUAGE: FilterInfo(rejects=summary_of(find_foreign_language)),
        "repeated": FilterInfo(rejects="The question was asked before."),
        ANSWERABLE: FilterInfo(rejects="A reader of the document does not find the answer."),
        UNGUESSABLE: FilterInfo(rejects="A reader without the document gives the answer too."),
        UNANSWERED: FilterInfo(rejects="A question that the document is said to leave open is answered, or unusable."),
    }


def sample(prompt: str) -> str:
    """A reply of usual length: six facts with two open questions, False, or the answer of a reader who finds it."""
    if SHIPPED["answers"].task[:40] in prompt:
        return "False"
    if SHIPPED["document_facts"].task[:40] in prompt:
        facts = [_sample_fact(sentence) for sentence in _sample_sentences(prompt.rpartition("Document: ")[2])]
        unanswered = [_sample_question(fact.subject) for fact in facts[:2]]
        return DocumentFacts(facts=facts, unanswered=unanswered).model_dump_json()
    document, _, question = prompt.rpartition("Document: ")[2].rpartition("Question: ")
    asked_for = _SAMPLE_SUBJECT.search(question)
    sentences = [words(sentence) for sentence in _sample_sentences(document)]
    answers = [each[-1] for each in sentences if asked_for and each[0] == asked_for[1]]
    return answers[0] if answers else "a short answer"


_SAMPLE_SUBJECT = re.compile(r"(?:it that|what does) (\w+) ha")


def _sample_sentences(document: str) -> list[str]:
    sentences = (each.strip() for each in re.split(r"(?<=[.!?])\s+", document))
    return [each for each in sentences if len(words(each)) > 5][:COUNT]


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
        description=f"the thing that {first} has to do with",
    )


def _sample_question(subject: str) -> UnansweredQuestion:
    return UnansweredQuestion(subject=subject, question=f"How many people have ever asked about {subject} before?")


PIPELINE = Pipeline(
    name="questions",
    build=build,
    filters=filters,
    prompts=lambda recipe: ("document_facts", "sentence_fact", "read_with", "read_without", "answers"),
    sample=sample,
)
