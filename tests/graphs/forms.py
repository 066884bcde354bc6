"""Every editor that is a graph, in every form, with the node that makes each call of an answer to a cloze."""

import re
from typing import Any

FORMS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("rag", {}, ["respond"]),
    ("ike", {}, ["respond"]),
    ("serac", {}, ["respond"]),
    ("input_aug", {}, ["respond"]),
    ("input_aug", {"chain": True}, ["think"]),
    ("cot", {"form": "thoughts"}, ["think"]),
    ("cot", {"form": "steps"}, ["think", "respond"]),
    ("crag", {}, ["respond"]),
    ("crag", {"evaluator": "model", "k": 1}, ["evaluate", "respond"]),
    ("crag", {"evaluator": "model", "k": 1, "strips": "fixed_num"}, ["evaluate", "refine", "respond"]),
    (
        "crag",
        {"evaluator": "model", "k": 1, "upper": 1.0, "lower": 0.95, "search": "tests.graphs.forms:elsewhere"},
        ["evaluate", "search", "respond"],
    ),
    ("mello", {"form": "text"}, ["decompose", "decompose"]),
    ("mello", {"form": "lines"}, ["decompose", "check", "respond"]),
    ("mello", {"form": "structured"}, ["decompose", "check", "decompose"]),
    ("kg_walk", {"form": "text"}, []),  # an edit answers its own question
    ("agent", {}, ["plan", "plan"]),
]
"""A name, settings, and the nodes in the order of the calls."""
EDITORS = tuple(dict.fromkeys(name for name, _, _ in FORMS))
PROSE_IS_USABLE = {("agent", "plan"), ("cot", "think"), ("input_aug", "think"), ("mello", "decompose", "lines")}
"""Nodes where prose is no fault of form: an answer, thoughts, or a line of a walk. It is in every `respond`."""


def elsewhere(query: str) -> list[str]:
    """A wider search that knows the toy benchmark's new capitals, without any edit."""
    return [f"{query} New-{number}." for number in re.findall(r"\bLand(\d+)", query)]
