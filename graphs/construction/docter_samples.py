"""Sample replies to DocTER's prompts for cost estimates, which pass all filters, so that each call
is made once.
"""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

from emend.graphs.construction.pipeline import is_prompt, last_line
from emend.graphs.construction.translation import TranslatedFact

# Sample document by language, and a statement template for languages other than English.
SAMPLES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("docter_samples.toml").read_text(encoding="utf-8")
)


def sample(prompt: str) -> str:
    """Return a reply of typical length to a prompt of DocTER's pipeline."""
    for name, reply in REPLIES.items():
        if is_prompt(name, prompt):
            return reply(prompt)
    return "True"


def _document(prompt: str) -> str:
    language = next((name for name in SAMPLES if f"press articles in {name}" in prompt), "English")
    return f"{last_line(prompt, 'Fact')} {SAMPLES[language]['document']}"


def _translation(prompt: str) -> str:
    language = next((name for name in SAMPLES if f"English into {name}" in prompt), "Chinese")
    subject, target, old = (last_line(prompt, label) for label in ("Subject", "End", "Another end"))
    fact = SAMPLES[language]["statement"].format(subject=subject, object=target)
    query = fact.partition(target)[0].strip()
    translated = TranslatedFact(
        subject=subject,
        fact=fact,
        query=query,
        object=target,
        old=old,
        paraphrases=[f"{query} ..."] * len(last_line(prompt, "Other beginnings").split(" / ")),
    )
    return translated.model_dump_json()


def _read_with(prompt: str) -> str:
    """Return the completion of the cloze found in the document."""
    document, _, question = prompt.rpartition("Document: ")[2].rpartition("Question: ")
    query = re.sub(r"\s\.\.\.$", "", question.partition("\n")[0].partition("end? ")[2].strip())
    return document.partition(query)[2].strip()[:60]


def _knowledge(prompt: str) -> str:
    return (
        f"{last_line(prompt, 'First name')} is known to many people from the books of their "
        "schools."
    )


def _question(prompt: str) -> str:
    words = last_line(prompt, "Statement").rstrip(".").split()
    return f"Does {' '.join(words[:-1])} what many people know from the books of their schools?"


REPLIES: dict[str, Callable[[str], str]] = {
    "press_document": _document,
    "translate_fact": _translation,
    "translate_back": lambda prompt: last_line(prompt, "Sentence"),
    "read_with": _read_with,
    "read_without": lambda prompt: "I do not know.",
    "object_knowledge": _knowledge,
    "reasoning_question": _question,
    "follows": lambda prompt: "True",
}
