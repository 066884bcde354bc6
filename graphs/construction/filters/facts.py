"""Filters of facts and questions about a document, each of which returns why one is rejected, or an
empty text.
"""

import re
from collections.abc import Callable, Mapping

from emend.graphs.construction.document_facts import PRONOUN
from emend.graphs.construction.filters.name_forms import leaves, names_exactly
from emend.graphs.construction.filters.patterns import MARKUP, REFUSAL, TALK, read_pattern
from emend.graphs.construction.filters.texts import AuthoredDraft, find_instruction
from emend.memory.retrieval.tokens import FUNCTION_WORDS, words

# Maximum number of words of an answer.
LONGEST_ANSWER = 8
SHORTEST_QUESTION = 4
# Phrases that refer to the document; "report" or "article" alone may refer to a thing in the world.
ABOUT_DOCUMENT = read_pattern("about_document")
SEVERAL_QUESTIONS = read_pattern("several_questions", re.IGNORECASE | re.DOTALL)
QUESTIONS = ("question", "paraphrase")
# Fields that the author writes.
WRITTEN = (*QUESTIONS, "answer", "wrong_answer", "statement", "description")


def find_proof(document: str, sentence: str) -> str:
    """Return the passage of the document that equals a sentence up to white space; empty if there
    is none.
    """
    parts = sentence.strip().strip("\"'“”").split()
    hit = re.search(r"\s+".join(map(re.escape, parts)), document) if parts else None
    return hit[0] if hit else ""


def find_no_proof(fact: Mapping[str, str], proof: str) -> str:
    """The proof is not a verbatim quotation from the document."""
    if len(words(proof)) >= SHORTEST_QUESTION:
        return ""
    return "the sentence does not stand in the document"


def find_other_answer(fact: Mapping[str, str], proof: str) -> str:
    """The proof does not contain the answer, or the answer has only function words."""
    if set(words(fact["answer"])) <= FUNCTION_WORDS:
        return f"the answer '{fact['answer']}' says nothing"
    if names_exactly(proof, fact["answer"]):
        return ""
    return f"the answer '{fact['answer']}' is not in the sentence"


def find_long_answer(fact: Mapping[str, str], proof: str) -> str:
    """The answer has more than 8 words."""
    return "the answer is long" if len(words(fact["answer"])) > LONGEST_ANSWER else ""


def find_no_question(fact: Mapping[str, str], proof: str) -> str:
    """The text is not a single question, or does not name its subject."""
    subject = fact["subject"].strip()
    return next(filter(None, (find_no_subject(fact[name], subject) for name in QUESTIONS)), "")


def find_no_subject(question: str, subject: str) -> str:
    """Return the reason if a text is not a single question that names the subject, else empty."""
    if not is_question(question):
        return "no question"
    if SEVERAL_QUESTIONS.search(question):
        return "several questions in one"
    is_named = not PRONOUN.fullmatch(subject) and names_exactly(question, subject)
    return "" if is_named else f"the question does not name the subject '{subject}'"


def is_question(text: str) -> bool:
    """Return whether a text has a minimum length and ends with a question mark."""
    is_short = len(words(text)) < SHORTEST_QUESTION and len(text) < 2 * SHORTEST_QUESTION
    return not is_short and text.rstrip().endswith(("?", "？"))


def find_leak(fact: Mapping[str, str], proof: str) -> str:
    """A question contains its answer or a distinctive part of it."""
    answer, others = fact["answer"], (fact["subject"],)
    leak = any(
        names_exactly(fact[name], answer) or leaves(fact[name], answer, others)
        for name in QUESTIONS
    )
    return "the question holds its answer" if leak else ""


def find_same_paraphrase(fact: Mapping[str, str], proof: str) -> str:
    """The paraphrase repeats the question word for word."""
    if words(fact["question"]) == words(fact["paraphrase"]):
        return "the paraphrase is the question"
    return ""


def find_wrong_choice(fact: Mapping[str, str], proof: str) -> str:
    """The wrong answer is missing, or is in fact correct."""
    wrong, answer = fact["wrong_answer"].strip(), fact["answer"]
    is_right = (
        names_exactly(wrong, answer) or names_exactly(answer, wrong) or names_exactly(proof, wrong)
    )
    return "the wrong answer is missing, or stands in the sentence" if not wrong or is_right else ""


def find_about_document(fact: Mapping[str, str], proof: str) -> str:
    """A question refers to the document, which is not shown with the question."""
    spoken = any(ABOUT_DOCUMENT.search(fact[name]) for name in (*QUESTIONS, "statement"))
    return "the question speaks of the document" if spoken else ""


def find_command(fact: Mapping[str, str], proof: str) -> str:
    """A text contains an instruction to a model, a URL, an e-mail address or active markup."""
    text = "\n".join(fact[name] for name in WRITTEN)
    return "an instruction" if find_instruction(AuthoredDraft(text, "", "")) else ""


def find_talk(fact: Mapping[str, str], proof: str) -> str:
    """The author refuses, comments on its own text, or addresses the reader."""
    texts = [fact[name] for name in (*QUESTIONS, "statement")]
    hit = next(filter(None, (TALK.search(text) or REFUSAL.search(text) for text in texts)), None)
    return f"the author speaks to its reader: '{hit[0].strip()[:40]}'" if hit else ""


def find_markup(fact: Mapping[str, str], proof: str) -> str:
    """A text has labels, markup or placeholders."""
    hit = next(filter(None, (MARKUP.search(fact[name]) for name in WRITTEN)), None)
    return f"a text has markup: '{hit[0].strip()[:40]}'" if hit else ""


def find_other_statement(fact: Mapping[str, str], proof: str) -> str:
    """The statement does not name subject and answer, or also names the wrong answer."""
    statement = fact["statement"]
    if statement.rstrip().endswith(("?", "？")):
        return "the statement is a question"
    for name in ("subject", "answer"):
        if not names_exactly(statement, fact[name]):
            return f"the statement does not name the {name}"
    if names_exactly(statement, fact["wrong_answer"]):
        return "the statement names the wrong answer"
    return ""


def find_unusable_question(question: Mapping[str, str], document: str) -> str:
    """Return the reason if an unanswered question does not name a subject of the document or is not
    self-contained, else empty.
    """
    text, subject = question["question"], question["subject"].strip()
    if fault := find_no_subject(text, subject):
        return fault
    if not names_exactly(document, subject):
        return f"the document does not name the subject '{subject}'"
    if ABOUT_DOCUMENT.search(text):
        return "the question speaks of the document"
    has_command = find_instruction(AuthoredDraft(text, "", "")) or MARKUP.search(text)
    return "an instruction or markup" if has_command else ""


def usable_description(fact: Mapping[str, str]) -> str:
    """Return the description of the answer if it is a noun phrase that names the subject and not
    the answer, else empty.
    """
    text = fact.get("description", "").strip().rstrip(".")
    is_usable = names_exactly(text, fact["subject"]) and not names_exactly(text, fact["answer"])
    is_noun = len(words(text)) > len(words(fact["subject"])) and not re.search(r"[.?!:;\n]\s", text)
    return text if is_usable and is_noun else ""


FACT_FILTERS: Mapping[str, Callable[[Mapping[str, str], str], str]] = {
    "proof": find_no_proof,
    "instruction": find_command,
    "talk": find_talk,
    "markup": find_markup,
    "answer_in_proof": find_other_answer,
    "short_answer": find_long_answer,
    "question": find_no_question,
    "leak": find_leak,
    "paraphrase": find_same_paraphrase,
    "about_document": find_about_document,
    "wrong_answer": find_wrong_choice,
    "statement": find_other_statement,
}
