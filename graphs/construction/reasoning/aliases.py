"""Answer aliases written by a model (ReCoE, appendix A.7), in addition to those of the table."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langgraph.runtime import Runtime

from emend.agents.roles.author import write_text
from emend.graphs.construction.debate import vote_key
from emend.graphs.construction.pipeline import ConstructionContext, ConstructionState

# Name of the prompt.
ALIASES = "answer_aliases"
# Maximum number of new tokens of a local author's aliases.
TOKENS = 96
# Maximum number of aliases per answer; longer lists contain other things.
MOST = 8
# Scheme without aliases, as in the published file, since its answers are lists of names.
WITHOUT = "sorting"
_LINE = re.compile(r"^\W*(first|second)\W*:(.*)$", re.IGNORECASE | re.MULTILINE)


def name_aliases(state: ConstructionState, runtime: Runtime[ConstructionContext]) -> dict[str, Any]:
    """Ask the author for aliases of both answers, unless these are lists."""
    item = state["item"]
    if item.get("scheme") == WITHOUT:
        return {"aliases": {}}
    answers = [item["answer"], item["counterfactual_answer"]]
    prompt = runtime.context.prompt(ALIASES).fill(
        question=item["text"], answer=answers[0], counterfactual=answers[1]
    )
    written = write_text(runtime.context.author, prompt, TOKENS)
    texts = {"first": "", "second": ""}
    if not written.is_refused:
        texts |= {hit[1].lower(): hit[2] for hit in _LINE.finditer(written.text)}
    proposed = [_names(text) for text in texts.values()]
    first = choose_aliases(proposed[0], answers[0], [answers[1], *proposed[1]])
    second = choose_aliases(proposed[1], answers[1], [answers[0], *proposed[0]])
    return {
        "aliases": {"answer_alias": first, "counterfactual_answer_alias": second},
        "usage": written.usage,
    }


def choose_aliases(names: Iterable[str], answer: str, others: Iterable[str]) -> list[str]:
    """Return the names that are neither a spelling of the answer nor a name of the other answer.

    Args:
        names: names proposed for the answer.
        answer: the answer.
        others: the other answer and the names proposed for it.
    """
    names_used = {vote_key(answer), *(vote_key(other) for other in others), ""}
    chosen = list[str]()
    for name in names:
        key = vote_key(name)
        if key not in names_used:
            names_used.add(key)
            chosen.append(name)
    return chosen[:MOST]


def add_aliases(row: Mapping[str, Any], aliases: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the row with further aliases appended to its own."""
    present = {name: row.get(name, []) for name in aliases}
    merged = {
        name: list(dict.fromkeys([*present[name], *further])) for name, further in aliases.items()
    }
    return {**row, **merged}


def _names(text: str) -> list[str]:
    return [name.strip().strip("\"'“”.") for name in text.split(";")]
