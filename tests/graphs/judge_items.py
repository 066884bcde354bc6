"""One item for each judge, a right reply to every question about it, and what those replies come to."""

import json
from typing import Any

from emend.agents.judging.base import Item
from emend.graphs.judges.graph import ItemVerdict, Judge
from emend.graphs.registry import JUDGES
from tests.fakes import ScriptedChatModel

TENDENCY = Item.of("tendency", event="A clinic opens.", question="Sales?", answer="They rise.", label="Rise")
AGREEMENT = Item.of("agreement", question="Tides?", one="They stay.", other="No change.")
COHERENCE = Item.of("coherence", question="Deeper?", thoughts="Dunn is 40. Sorrel is 90.", answer="Sorrel")
EQUIVALENCE = Item.of("equivalence", question="Who?", one="It is Brenn.", other="Halvard Brenn\nBrenn")
SUPPORTS = Item.of("supports", paragraph="Marn is Norwegian.", sentence="Marn lies in Norway.")
RECALL = Item.of("recall", thoughts="Kelp Light is on Marn. It is old.", reference=("Kelp Light stands on Marn.",))
NUGGETS = Item.of("nuggets", question="How many?", reply="52 sources.", rubric="1. States 52\n2. Names the library")
ORDER = Item.of("order", question="In which order?", events="1. Login\n2. Charts", rubric="1. Charts\n2. Login")
REMEMBERED = Item.of(
    "remembered", question="Where?", reply="In Halden.", reference="Halden", criterion="The reference is the answer."
)
ALL = (TENDENCY, AGREEMENT, COHERENCE, EQUIVALENCE, SUPPORTS, RECALL, NUGGETS, ORDER, REMEMBERED)
ITEMS = {item.kind: item for item in ALL}
GOOD_MARKS = {"reason": "r", "correctness": 5, "coherence": 4, "comprehensiveness": 3, "overall": 4}
YES = {"reason": "r", "verdict": "yes"}
FIVE = {"reason": "r", "consistency": 5}
ATOMS = {"facts": ["Kelp Light is on Marn", "Kelp Light is old"]}
LABELS = {
    "facts": [
        {"number": 1, "reason": "stated", "label": "consistent"},
        {"number": 2, "reason": "not said", "label": "unrelated"},
    ]
}
SCORES = {"statements": [{"number": 1, "reason": "said", "score": 1}, {"number": 2, "reason": "not", "score": 0.5}]}
MATCHES = {"events": [{"number": 1, "event": 2}, {"number": 2, "event": 1}]}
SHARES = {"recall_consistent": 0.5, "recall_related": 0.5, "recall_inconsistent": 0.0, "recall_of_related": 1.0}
REPLIES: dict[str, tuple[Any, ...]] = {
    "coherence": (YES,),
    "equivalence": (YES,),
    "supports": (YES,),
    "agreement": (FIVE,),
    "tendency": (GOOD_MARKS,),
    "recall": (ATOMS, LABELS),
    "nuggets": (SCORES,),
    "order": (MATCHES,),
    "remembered": (YES,),
}
"""By judge, what it says to its questions in their order."""


def said(kind: str, *replies: Any, item: Item | None = None, retries: int = 0) -> tuple[ItemVerdict, ScriptedChatModel]:
    """What the judge of that kind makes of these replies, the last of which comes again and again."""
    texts = [reply if isinstance(reply, str) else json.dumps(reply) for reply in replies]
    left = iter(texts)
    model = ScriptedChatModel(reply=lambda prompt: next(left, texts[-1]))
    judge: Judge = JUDGES.load(kind)
    (told,) = judge.judge([item or ITEMS[kind]], model, retries=retries)
    return told, model


def right(kind: str) -> dict[str, float]:
    """The numbers of the right replies."""
    return said(kind, *REPLIES[kind])[0].values
