"""Filters of facts of a document and of questions about it: each says why one cannot be used, or nothing."""

import re
from collections.abc import Callable, Mapping

from emend.graphs.construction.document_facts import PRONOUN
from emend.graphs.construction.name_forms import names_exactly
from emend.graphs.construction.text_filters import AuthoredDraft, find_instruction
from emend.memory.retrieval.tokens import words

LONGEST_ANSWER = 8
"""Words of an answer."""
SHORTEST_QUESTION = 4
ABOUT_DOCUMENT = re.compile(
    r"\b(?:(?:the|this) (?:document|text|passage|article|paragraph|report|author of the text)|according to|mentioned|"
    r"stated above|as described)\b|(?:文件|文章|本文|上文)",
    re.IGNORECASE,
)


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
    if not is_question(fact["paraphrase"]):
        return "no question"
    return find_no_subject(fact["question"], fact["subject"].strip())


def find_no_subject(question: str, subject: str) -> str:
    """The question is none, or does not name what it is about."""
    if not is_question(question):
        return "no question"
    is_named = not PRONOUN.fullmatch(subject) and names_exactly(question, subject)
    return "" if is_named else f"the question does not name the subject '{subject}'"


def is_question(text: str) -> bool:
    """True for a text of some length with a question mark at its end."""
    is_short = len(words(text)) < SHORTEST_QUESTION and len(text) < 2 * SHORTEST_QUESTION
    return not is_short and text.rstrip().endswith(("?", "？"))


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
    spoken = any(ABOUT_DOCUMENT.search(fact[name]) for name in ("question", "paraphrase", "statement"))
    return "the question speaks of the document" if spoken else ""


def find_command(fact: Mapping[str, str], proof: str) -> str:
    """A text holds an instruction to a model, an address or active markup."""
    text = "\n".join(fact[name] for name in ("question", "paraphrase", "answer", "statement"))
    return "an instruction" if find_instruction(AuthoredDraft(text, "", "")) else ""


def find_other_statement(fact: Mapping[str, str], proof: str) -> str:
    """The statement does not say the answer, so that it cannot be turned into a false one."""
    return "" if names_exactly(fact["statement"], fact["answer"]) else "the statement does not name the answer"


def find_unusable_question(question: Mapping[str, str], document: str) -> str:
    """A question that the document leaves open names nothing of it, or cannot be asked without it."""
    text, subject = question["question"], question["subject"].strip()
    if fault := find_no_subject(text, subject):
        return fault
    if not names_exactly(document, subject):
        return f"the document does not name the subject '{subject}'"
    if ABOUT_DOCUMENT.search(text):
        return "the question speaks of the document"
    return "an instruction" if find_instruction(AuthoredDraft(text, "", "")) else ""


def usable_description(fact: Mapping[str, str]) -> str:
    """The description of the answer, if it names the subject and not the answer; empty otherwise."""
    text = fact.get("description", "").strip().rstrip(".")
    is_usable = names_exactly(text, fact["subject"]) and not names_exactly(text, fact["answer"])
    is_noun = len(words(text)) > len(words(fact["subject"])) and not re.search(r"[.?!:;\n]\s", text)
    return text if is_usable and is_noun else ""


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
