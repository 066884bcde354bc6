"""Facts of documents in lines: which lines are kept, and what a judge says of them."""

from typing import Any

import pytest

from emend.agents.roles.author import SHIPPED
from emend.graphs.construction.fact_lines import FactLine, build, find_sentence, read_line, sample
from emend.graphs.construction.pipeline import ConstructionContext
from emend.graphs.execution import run_graph
from tests.fakes import ScriptedChatModel

DOCUMENT = """\
Brisko is the longest river of Vaduria; surveyors measured 6,400 km from its spring to the sea.

Halmen is known for its ferries. It has a length of 4,880 km, and was named by Ana Rojo."""
GOOD = ("Brisko | length | 6,400 km", "Halmen | length | 4,880 km", "Brisko | country | Vaduria")


def made(*replies: str, verdict: str = "True", attempts: int = 1) -> dict[str, Any]:
    """The final state with an author who gives these replies in turn."""
    texts = iter(replies)
    author = ScriptedChatModel(reply=lambda prompt: next(texts))
    judge = ScriptedChatModel(reply=lambda prompt: verdict)
    state, _ = run_graph(build(), {"item": {"text": DOCUMENT}}, ConstructionContext(author, judge, attempts=attempts))
    return state


def rejecting(state: dict[str, Any]) -> list[str]:
    return [each["filter"] for each in state.get("rejections", [])]


def test_facts_have_the_sentence_that_names_their_object():
    state = made("\n".join(GOOD))
    facts = state["result"]["facts"]
    assert [(fact["subject"], fact["relation"], fact["object"]) for fact in facts] == [
        ("Brisko", "length", "6,400 km"),
        ("Halmen", "length", "4,880 km"),
        ("Brisko", "country", "Vaduria"),
    ]
    assert [fact["sentence"].split()[0] for fact in facts] == ["Brisko", "It", "Brisko"]
    assert rejecting(state) == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("readable", "Here are the facts:"),
        ("readable", "Brisko is 6,400 km long."),
        ("readable", "Brisko | 6,400 km"),
        ("readable", "Brisko | length | 6,400 km | long"),
        ("instruction", "Brisko | length, see https://example.org | 6,400 km"),
        ("markup", "[River] | length | 6,400 km"),
        ("subject", "Torvay | length | 6,400 km"),
        ("subject", "It | length | 4,880 km"),
        ("object", "Brisko | length | 6,500 km"),
        ("object", "Brisko | name | Brisko"),
        ("object", "Halmen | fame | known for its ferries. It has"),
        ("relation", "Halmen | was named by | Ana Rojo"),
        ("relation", "Halmen | named by | Ana Rojo"),
        ("relation", "Brisko | has | 6,400 km"),
        ("relation", "Brisko | length of Brisko | 6,400 km"),
        ("relation", "Brisko | length that surveyors once measured exactly | 6,400 km"),
        ("repeated", GOOD[0]),
    ],
)
def test_a_bad_line_is_dropped_by_the_filter_meant_for_it(name: str, line: str):
    assert rejecting(made("\n".join([GOOD[0], line]))) == [name]


def test_marks_of_lists_and_of_tables_are_no_part_of_a_fact():
    state = made("1. Brisko | length | 6,400 km\n- Halmen | length | 4,880 km.\n| **Brisko** | country | Vaduria |")
    assert len(state["result"]["facts"]) == 3 and rejecting(state) == []


def test_a_fact_that_the_judge_does_not_find_is_dropped():
    state = made(GOOD[0], verdict="False")
    assert "result" not in state and rejecting(state) == ["conveys"]


def test_the_author_is_asked_again_where_no_fact_is_left():
    state = made("I cannot say.", "Torvay | length | 1 km", GOOD[1], attempts=3)
    assert state["attempts"] == 3 and len(state["result"]["facts"]) == 1
    assert rejecting(state) == ["readable", "subject"]


def test_a_reply_without_any_line_is_a_rejection():
    assert rejecting(made("")) == ["any_fact"]


def test_the_sentence_with_the_subject_is_preferred():
    text = "In 1902 it rained. Brisko was measured in 1902."
    assert find_sentence(FactLine("Brisko", "year of measurement", "1902"), text) == "Brisko was measured in 1902."
    assert read_line("Brisko | length | ") is None


def test_the_reply_of_an_estimate_passes_all_filters():
    prompt = SHIPPED["fact_lines"].fill(document=DOCUMENT, language="English", count="12")
    assert len(made(sample(prompt.text))["result"]["facts"]) >= 2
