"""Verification of a composed question's facts against retrieved paragraphs (ReCoE, appendix A.4):
contradicted facts reject the question or are corrected.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.runtime import Runtime

from emend.agents.roles.author import write_text
from emend.graphs.construction.pipeline import (
    ConstructionContext,
    ConstructionState,
    accept,
    reject,
)
from emend.memory.probe import Usage

VERIFIED = "verified"
# Names of the prompts.
CONSISTENT, CORRECT = "consistent", "corrected_fact"
# Maximum number of new tokens of a local judge's correction.
TOKENS = 96
# Subject, predicate and value of a sentence.
Statement = Sequence[str]


def verify_facts(state: ConstructionState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the judge whether the retrieved paragraphs are consistent with each fact; drop the
    question if they contradict one.
    """
    usage = Usage()
    for fact, paragraphs in state["item"].get("evidence", {}).items():
        reason, spent = _contradiction(runtime.context, fact, paragraphs)
        usage = usage.plus(spent)
        if reason:
            return {**reject(state, VERIFIED, reason), "usage": usage}
    return {**accept(VERIFIED), "usage": usage}


def correct_facts(
    state: ConstructionState, runtime: Runtime[ConstructionContext]
) -> dict[str, Any]:
    """Let the judge rewrite each fact that retrieved paragraphs contradict; the facts that others
    take its value from follow.
    """
    item, usage, corrections = state["item"], Usage(), dict[str, Statement]()
    for fact, paragraphs in item.get("evidence", {}).items():
        reason, spent = _contradiction(runtime.context, fact, paragraphs)
        usage = usage.plus(spent)
        if not reason:
            continue
        if reason != _refusal(fact):
            return {**reject(state, VERIFIED, reason), "usage": usage}
        prompt = runtime.context.prompt(CORRECT).fill(fact=fact, paragraphs=_listed(paragraphs))
        written = write_text(runtime.context.judge, prompt, TOKENS)
        usage = usage.plus(written.usage)
        statement = read_correction(item["statements"][fact], written.text)
        if statement is None:
            problem = f"a correction changes more, or nothing: {written.text[:80]}"
            return {**reject(state, VERIFIED, problem), "usage": usage}
        corrections[fact] = statement
    corrected = correct_item(item, corrections)
    if is_unaltered(item, corrected):
        problem = "the paragraphs say what was to be counterfactual"
        return {**reject(state, VERIFIED, problem), "usage": usage}
    texts = {fact: sentence_of(statement) for fact, statement in corrections.items()}
    return {**accept(VERIFIED), "item": corrected, "corrections": texts, "usage": usage}


def read_correction(statement: Statement, text: str) -> Statement | None:
    """Parse the corrected statement from a rewritten sentence; return None if it is unchanged or
    has another subject or predicate.
    """
    subject, predicate, value = statement
    sentence = " ".join(text.split()).strip("\"'“”")
    head = f"{subject} {predicate} "
    changed = sentence.removeprefix(head).removesuffix(".").strip()
    if not sentence.startswith(head) or changed in ("", value):
        return None
    return [subject, predicate, changed]


def correct_item(item: Mapping[str, Any], corrections: Mapping[str, Statement]) -> dict[str, Any]:
    """Return the item with corrected facts, also in its row.

    A counterfactual fact with the value of a corrected fact gets the corrected value.

    Args:
        item: item with `statements` by sentence, and `value_of`, which maps counterfactual
            sentences to the facts whose values they have.
        corrections: corrected statements by sentence of the original fact.
    """
    if not corrections:
        return dict(item)
    statements, texts = item["statements"], dict[str, str]()
    for fact, statement in corrections.items():
        texts |= _renamed(statements[fact], statement)
    for sentence, fact in item["value_of"].items():
        if fact in corrections:
            subject, predicate, _ = statements[sentence]
            texts |= _renamed(statements[sentence], [subject, predicate, corrections[fact][2]])
    names = ("facts", "counterfactual_facts", "row")
    return {**item, **{name: _replaced(item[name], texts) for name in names}}


def is_unaltered(item: Mapping[str, Any], corrected: Mapping[str, Any]) -> bool:
    """Return whether the correction makes an altered fact equal to its counterfactual fact."""
    before = zip(item["facts"], item["counterfactual_facts"], strict=True)
    after = zip(corrected["facts"], corrected["counterfactual_facts"], strict=True)
    return any(
        fact != counterfactual and new == new_counterfactual
        for (fact, counterfactual), (new, new_counterfactual) in zip(before, after, strict=True)
    )


def sentence_of(statement: Statement) -> str:
    """Return a statement as a sentence."""
    return f"{' '.join(statement)}."


def triple_of(statement: Statement) -> str:
    """Return a statement as a triple in the format of ReCoE's files."""
    return f"({'; '.join(statement)})"


def _renamed(old: Statement, new: Statement) -> dict[str, str]:
    return {sentence_of(old): sentence_of(new), triple_of(old): triple_of(new)}


def _replaced(value: Any, texts: Mapping[str, str]) -> Any:
    """Return a JSON value with all its texts replaced according to a mapping."""
    if isinstance(value, str):
        return texts.get(value, value)
    if isinstance(value, Mapping):
        return {name: _replaced(inner, texts) for name, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, texts) for inner in value]
    return value


def _contradiction(
    context: ConstructionContext, fact: str, paragraphs: Sequence[str]
) -> tuple[str, Usage]:
    """Return why paragraphs contradict a fact, empty if they do not, and the usage."""
    return context.ask_judge(CONSISTENT, _refusal(fact), fact=fact, paragraphs=_listed(paragraphs))


def _refusal(fact: str) -> str:
    return f"retrieved paragraphs contradict '{fact}'"


def _listed(paragraphs: Sequence[str]) -> str:
    return "\n".join(f"- {paragraph}" for paragraph in paragraphs)
