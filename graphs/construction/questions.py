"""Pipeline for questions about a user's documents: extract facts with proof sentences, write
questions about them, and test these with a reader model.

A fact is kept if its proof occurs verbatim in the document, its questions are self-contained, and
the reader answers them with the document but not without it.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from langgraph.runtime import Runtime

from emend.agents.roles.author import SHIPPED, write_text
from emend.graphs.construction.document_facts import (
    COUNT,
    FACT,
    LABELS,
    LONGEST,
    SHORTEST,
    DocumentFact,
    DocumentFacts,
    QuestionsState,
    UnansweredQuestion,
    ask_facts,
    facts_left,
)
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
)
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    FilterInfo,
    Pipeline,
    Recipe,
    accept,
    checking_graph,
    count_tries,
    describe,
    outcomes_of,
    reject,
    rejection,
)
from emend.graphs.execution import Graph
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage
from emend.memory.registry import summary_of
from emend.memory.retrieval.tokens import words
from emend.memory.typography import fold_text

READABLE = "readable"
NO_FACT = "no fact had a sentence copied letter by letter and a question that names its subject"
ANSWERABLE, UNGUESSABLE, UNANSWERED = "answerable", "not_guessable", "unanswered"
LANGUAGE, REPEATED = "language", "repeated"
READING_TOKENS = 32


def find_facts(state: QuestionsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the author for facts of the document, with questions about them."""
    attempts = state.get("attempts", 0) + 1
    try:
        reply = ask_facts(runtime.context, state["item"]["text"], state)
    except ModelReplyError as error:
        update = reject({"attempts": attempts}, READABLE, str(error)) | {
            "attempts": attempts,
            "usage": error.usage,
        }
        return update | {
            "problem": "the reply is not in the form that was asked for",
            "facts": [],
            "unanswered": [],
        }
    update = {"attempts": attempts, **reply._asdict()}
    reason = ""
    if not reply.facts and reply.problems:
        reason = "no reply had all lines"
    elif not reply.facts and not reply.usage.calls:
        reason = f"no sentence of {SHORTEST} to {LONGEST} words stands on its own"
    is_new = bool(reply.usage.calls or not reply.sent_problems)
    if reason and is_new:
        return {**update, **reject({"attempts": attempts}, READABLE, reason)}
    return update if reason else {**update, **accept(READABLE)}


def check_facts(state: QuestionsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Keep the facts whose proof is a quotation from the document and whose questions are self-
    contained.
    """
    document, earlier = state["item"]["text"], set[str]()
    usable, rejections = list[dict[str, Any]](), list[dict[str, Any]]()
    problems = dict(state.get("problems", {}))
    for fact in state["facts"]:
        proof = find_proof(document, fact["sentence"])
        name, reason = _first_fault(fact, proof, earlier, runtime.context.language)
        if name:
            rejections.append(rejection(state, name, f"{reason}: {fact['question']}"))
            problems[fact["sentence"]] = reason
            continue
        earlier.add(fold_text(fact["question"]))
        usable.append(fact | {"sentence": proof, "description": usable_description(fact)})
    names = (*FACT_FILTERS, LANGUAGE, REPEATED)
    faults = (each["filter"] for each in rejections)
    tries = count_tries(names, len(state["facts"]), faults)
    return facts_left(usable, rejections, tries, NO_FACT) | {"problems": problems}


def _first_fault(
    fact: Mapping[str, str], proof: str, earlier: set[str], language: str
) -> tuple[str, str]:
    name, reason = first_fault(fact, FACT_FILTERS, proof)
    if name:
        return name, reason
    if reason := _find_other_language(fact, language):
        return LANGUAGE, reason
    if fold_text(fact["question"]) in earlier:
        return (REPEATED, "the question was asked before")
    return ("", "")


def _find_other_language(fact: Mapping[str, str], language: str) -> str:
    """Return the reason if a fact's texts are in another language, else an empty text.

    Letters are checked for each text, and words for all texts together, since a single text has too
    few of them.
    """
    texts = [fact[name] for name in ("question", "paraphrase", "statement")]
    drafts = [AuthoredDraft(text, "", "", language=language) for text in texts]
    whole = AuthoredDraft(" ".join(texts), "", "", language=language)
    return next(filter(None, map(find_foreign_letters, drafts)), "") or find_foreign_language(whole)


def try_questions(state: QuestionsState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Let a model answer each question with the document, in both wordings, and without the
    document.
    """
    usage, usable = Usage(), list[dict[str, Any]]()
    readings, rejections = list[dict[str, Any]](), list[dict[str, Any]]()
    for fact in state["facts"]:
        reading = read_question(runtime.context, state["item"]["text"], fact)
        usage = usage.plus(reading.usage)
        readings.append(reading.answers)
        if reading.filter:
            rejections.append(
                rejection(state, reading.filter, f"{reading.reason}: {fact['question']}")
            )
        else:
            usable.append(fact)
    faults = (each["filter"] for each in rejections)
    tries = count_tries((ANSWERABLE, UNGUESSABLE), len(state["facts"]), faults)
    left = facts_left(usable, rejections, tries, NO_FACT)
    return {**left, "readings": readings, "usage": usage}


class QuestionReading(NamedTuple):
    """Answers of a reader to a fact's questions, and the rejecting filter and reason, if any."""

    answers: dict[str, str]
    usage: Usage
    filter: str = ""
    reason: str = ""


def read_question(
    context: ConstructionContext, document: str, fact: Mapping[str, str]
) -> QuestionReading:
    """Ask the judge a fact's questions as a reader, with and without the document, up to the first
    rejection.
    """
    answers, usage = {"question": fact["question"]}, Usage()
    for name, question in (("with", fact["question"]), ("paraphrase", fact["paraphrase"])):
        informed = write_text(
            context.judge,
            context.prompt("read_with").fill(document=document, question=question),
            READING_TOKENS,
        )
        answers[name], usage = informed.text, usage.plus(informed.usage)
        if not names_exactly(informed.text, fact["answer"]):
            reason = f"a reader of the document answers '{informed.text[:40]}'"
            return QuestionReading(answers, usage, ANSWERABLE, reason)
    uninformed = write_text(
        context.judge,
        context.prompt("read_without").fill(question=fact["question"]),
        READING_TOKENS,
    )
    answers["without"], usage = uninformed.text, usage.plus(uninformed.usage)
    if names_exactly(uninformed.text, fact["answer"]):
        return QuestionReading(
            answers, usage, UNGUESSABLE, "a reader without the document knows or guesses it"
        )
    return QuestionReading(answers, usage)


def check_unanswered(
    state: QuestionsState, runtime: Runtime[ConstructionContext]
) -> dict[str, Any]:
    """Keep the usable questions to which the judge finds no answer in the document."""
    document, usage = state["item"]["text"], Usage()
    usable, rejections = list[dict[str, Any]](), list[dict[str, Any]]()
    for question in state["unanswered"]:
        reason = find_unusable_question(question, document)
        if not reason:
            refusal, text = "the judge finds an answer in the document", question["question"]
            reason, spent = runtime.context.ask_judge(
                "answers", refusal, False, document=document, question=text
            )
            usage = usage.plus(spent)
        if reason:
            rejections.append(rejection(state, UNANSWERED, f"{reason}: {question['question']}"))
        else:
            usable.append(question)
    outcomes = outcomes_of({UNANSWERED: len(state["unanswered"])}, rejections)
    return {"unanswered": usable, "rejections": rejections, "usage": usage, **outcomes}


def finish(state: QuestionsState) -> dict[str, Any]:
    """Return the facts of the document, and the questions that it does not answer."""
    return {"result": {"facts": state["facts"], "unanswered": state["unanswered"]}}


def build(recipe: Recipe = "best") -> Graph:
    """Build the graph find_facts -> check_facts -> try_questions -> check_unanswered -> finish.

    Both recipes have the same graph, since the kind follows no paper.
    """
    nodes = (find_facts, check_facts, try_questions, check_unanswered, finish)
    again = {find_facts: find_facts, check_facts: find_facts, try_questions: None}
    return checking_graph("build_questions", QuestionsState, *nodes, checks=again)


def filters(recipe: Recipe) -> Mapping[str, FilterInfo]:
    """Return the filters of documents, which reject the item, and the filters of its facts and
    questions.
    """
    return {
        READABLE: FilterInfo(rejects="The author's reply cannot be parsed."),
        FACT: FilterInfo(
            rejects="None of the facts written for the document passed the filters.", sums_up=True
        ),
        **describe(FACT_FILTERS),
        LANGUAGE: FilterInfo(rejects=summary_of(find_foreign_language)),
        REPEATED: FilterInfo(rejects="The question repeats an earlier one."),
        ANSWERABLE: FilterInfo(rejects="A model that reads the document does not give the answer."),
        UNGUESSABLE: FilterInfo(
            rejects="A model that does not read the document also gives the answer."
        ),
        UNANSWERED: FilterInfo(
            rejects="A question that is meant to be unanswerable is answered by the document, or "
            "is unusable."
        ),
    }


def sample(prompt: str) -> str:
    """Return a reply of typical length: six facts with two unanswered questions, the lines of one
    sentence's fact, False, or the correct answer of a reader.
    """
    if SHIPPED["answers"].task[:40] in prompt:
        return "False"
    if SHIPPED["document_facts"].task[:40] in prompt:
        facts = [
            _sample_fact(sentence)
            for sentence in _sample_sentences(prompt.rpartition("Document: ")[2])
        ]
        unanswered = [_sample_question(fact.subject) for fact in facts[:2]]
        return DocumentFacts(facts=facts, unanswered=unanswered).model_dump_json()
    if SHIPPED["sentence_fact"].task.partition("{")[0][:40] in prompt:
        fact = _sample_fact(prompt.rpartition("Sentence: ")[2].partition("\n")[0])
        return "\n".join(f"{label}: {getattr(fact, name)}" for name, label in LABELS.items())
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
    return UnansweredQuestion(
        subject=subject, question=f"How many people have ever asked about {subject} before?"
    )


PIPELINE = Pipeline(
    name="questions",
    build=build,
    filters=filters,
    prompts=lambda recipe: (
        "document_facts",
        "sentence_fact",
        "read_with",
        "read_without",
        "answers",
    ),
    sample=sample,
)
