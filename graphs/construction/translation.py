"""Translation of a fact with its cloze and answers, checked by rules and by back-translation."""

from collections.abc import Mapping
from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from emend.agents.roles.author import write_text
from emend.graphs.construction.filters.name_forms import names, names_exactly
from emend.graphs.construction.filters.texts import (
    AuthoredDraft,
    find_foreign_language,
    find_instruction,
)
from emend.graphs.construction.pipeline import (
    LANGUAGES,
    ConstructionContext,
    ConstructionState,
    FilterInfo,
    accept,
    reject,
)
from emend.memory.errors import ModelReplyError
from emend.memory.typography import fold_text

# Maximum number of new tokens of a local author's reply.
TOKENS = 480
TRANSLATED, BACK = "translated", "back_translation"
TRANSLATION_FILTERS = {
    TRANSLATED: FilterInfo(
        rejects="The translation cannot be parsed, or its parts are inconsistent."
    ),
    BACK: FilterInfo(
        rejects="The back-translation of the statement into English lacks its subject or its "
        "object."
    ),
}


class TranslatedFact(BaseModel):
    """A fact and its parts in another language."""

    subject: str = Field(min_length=1, description="the subject, as it stands in the statement")
    fact: str = Field(min_length=1, description="the statement")
    query: str = Field(min_length=1, description="the beginning of the statement, without its end")
    object: str = Field(min_length=1, description="the end of the statement")
    old: str = Field(min_length=1, description="the other end")
    paraphrases: list[str] = Field(description="the other beginnings")


class TranslationState(ConstructionState, total=False):
    """State with the translated fields of an item, and the number of translation attempts."""

    translated: dict[str, Any]
    translations: int


def language_of_translation(context: ConstructionContext) -> str:
    """Return the target language: that of the documents or, if that is English, of the queries.

    English means that the fact is not translated.
    """
    return context.language if context.language != "en" else context.queries or "en"


def translate(state: TranslationState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the author for the fact in the language of the document."""
    context, item = runtime.context, state["item"]
    values = {name: item[name] for name in ("subject", "fact", "query", "object", "old")}
    target = language_of_translation(context)
    paraphrases = " / ".join(item["short_paraphrases"]) or "-"
    language = LANGUAGES.get(target, target)
    filled = context.fill(
        "translate_fact", state, paraphrases=paraphrases, language=language, **values
    )
    count = {"translations": state.get("translations", 0) + 1}
    try:
        reply = context.ask_author(filled, TranslatedFact, TOKENS)
    except ModelReplyError as error:
        return {**count, **reject(state, TRANSLATED, str(error)), "usage": error.usage}
    return {
        **count,
        **accept(TRANSLATED),
        "translated": reply.value.model_dump(),
        "usage": reply.usage,
    }


def check_translation(
    state: TranslationState, runtime: Runtime[ConstructionContext]
) -> dict[str, Any]:
    """Reject a translation that is in another language, has inconsistent parts, or differs in
    meaning when translated back into English.
    """
    if reason := find_unfit_parts(
        state["translated"],
        language_of_translation(runtime.context),
        len(state["item"]["short_paraphrases"]),
    ):
        return reject(state, TRANSLATED, reason)
    prompt = runtime.context.prompt("translate_back").fill(text=state["translated"]["fact"])
    back = write_text(runtime.context.author, prompt, 96)
    item = state["item"]
    lost = next(
        (name for name in (item["subject"], item["object"]) if not names(back.text, name)), ""
    )
    if lost:
        update = reject(
            state, BACK, f"translated back, the statement lacks '{lost}': {back.text[:80]}"
        )
    else:
        update = {}
    return {**(update or accept(TRANSLATED, BACK)), "usage": back.usage}


def find_unfit_parts(translated: Mapping[str, Any], language: str, paraphrases: int = 0) -> str:
    """Return the reason why the fields of a translation are inconsistent; empty if they are not.

    Args:
        translated: the translated fields.
        language: target language.
        paraphrases: required number of translated paraphrases.
    """
    fact, query, target, old = (
        str(translated[name]) for name in ("fact", "query", "object", "old")
    )
    beginnings = [query, *translated["paraphrases"]]
    drafts = [AuthoredDraft(text, "", "", language=language) for text in (fact, *beginnings)]
    if reason := next(
        filter(None, (find(draft) for draft in drafts for find in _OF_EACH_PART)), ""
    ):
        return reason
    if len(translated["paraphrases"]) < paraphrases:
        return "a beginning is missing"
    if not names(fact, translated["subject"]) or not names_exactly(fact, target):
        return "the statement does not have its subject and its end as they are translated"
    if any(names_exactly(text, target) for text in beginnings):
        return "a beginning has the end already"
    if not fold_text(fact).startswith(fold_text(query).rstrip(" .…:：")):
        return "the statement does not begin with its beginning"
    return (
        "both ends are the same" if names_exactly(old, target) or names_exactly(target, old) else ""
    )


_OF_EACH_PART = (find_foreign_language, find_instruction)
