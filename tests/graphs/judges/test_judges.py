"""The judge graphs on scripted judges: right verdicts are read, and what cannot be read is asked for again."""

import json
from typing import Any

import pytest

from emend.agents.judging.base import Item
from emend.graphs.judges.graph import AGAIN, ItemVerdict
from emend.graphs.registry import JUDGES
from emend.memory.errors import BadSettings
from tests.fakes import ScriptedChatModel
from tests.graphs.judge_items import ATOMS, FIVE, GOOD_MARKS, LABELS, SHARES, YES, said

# --- verdicts


@pytest.mark.parametrize(
    ("kind", "replies", "values"),
    [
        ("coherence", [YES], {"supported": 1.0}),
        ("coherence", [YES | {"verdict": "No"}], {"supported": 0.0}),
        ("equivalence", [YES], {"equivalent": 1.0}),
        ("supports", [YES | {"verdict": "no"}], {"conveyed": 0.0}),
        ("agreement", [FIVE], {"consistency": 5.0}),
        ("recall", [ATOMS, LABELS], SHARES),
    ],
)
def test_a_verdict_in_the_schema_becomes_numbers(kind, replies, values):
    told, model = said(kind, *replies)
    assert (told.values, told.problem) == (values, "")
    assert told.usage.calls == len(model.calls) == len(replies)


@pytest.mark.parametrize(
    "reply",
    [
        f"```json\n{json.dumps(YES)}\n```",
        f"Here is my verdict:\n\n{json.dumps(YES)}\n\nI hope this helps.",
        f"<think>no, or yes?</think>\n{json.dumps(YES)}",
        f"{json.dumps(YES)}\n{json.dumps(YES)}",
        json.dumps(YES, indent=4),
        "Dunn is 40 and Sorrel is 90, so it follows.\nVerdict: yes",
        "It follows.\n\n**Verdict: Yes.**",
        "verdict: yes",
    ],
)
def test_a_verdict_is_found_in_what_stands_around_it(reply):
    assert said("coherence", reply)[0].values == {"supported": 1.0}


@pytest.mark.parametrize(
    ("kind", "reply", "values"),
    [
        ("agreement", "Much the same.\nConsistency: 4", {"consistency": 4.0}),
        ("agreement", "**Consistency: 2**", {"consistency": 2.0}),
        ("equivalence", "Other names of one town.\nVerdict: yes", {"equivalent": 1.0}),
        ("supports", "verdict = no.", {"conveyed": 0.0}),
    ],
)
def test_a_verdict_in_plain_words_becomes_its_number(kind, reply, values):
    assert said(kind, reply)[0].values == values


def test_the_reason_comes_before_the_verdict_in_every_form_that_a_judge_is_given():
    for kind, first in (("coherence", "verdict"), ("agreement", "consistency"), ("tendency", "correctness")):
        prompt = said(kind, "no JSON")[1].calls[0]
        form = prompt[prompt.rindex("Reply with one JSON object") :]
        assert form.index('"reason"') < form.index(f'"{first}"')


def test_the_published_rule_is_enforced_and_its_breach_is_counted():
    kept, _ = said("tendency", GOOD_MARKS)
    assert (kept.values["overall_mark"], kept.values["rule_broken"]) == (4.0, 0.0)
    broken, _ = said("tendency", GOOD_MARKS | {"correctness": 3, "overall": 5})
    assert (broken.values["overall_mark"], broken.values["rule_broken"]) == (3.0, 1.0)
    edge, _ = said("tendency", GOOD_MARKS | {"correctness": 3, "overall": 3})
    assert edge.values["rule_broken"] == 0.0


def test_marks_in_the_papers_own_line_are_read_and_a_chain_without_facts_has_no_recall():
    told, _ = said("tendency", "Fine.\nI. Accuracy: 5; Coherence: 4; Comprehensive: 3; Overall: 4")
    assert [told.values[f"{scale}_mark"] for scale in ("correctness", "comprehensiveness", "overall")] == [5, 3, 4]
    told, model = said("recall", {"facts": []})
    assert (told.values, told.problem, len(model.calls)) == ({}, "the thoughts state no fact", 1)


def test_without_a_related_fact_the_share_of_the_related_is_not_there():
    labels = {"facts": [fact | {"label": "unrelated"} for fact in LABELS["facts"]]}
    assert said("recall", ATOMS, labels)[0].values == {
        "recall_consistent": 0.0,
        "recall_related": 0.0,
        "recall_inconsistent": 0.0,
    }


# --- asking again


def test_an_unreadable_reply_is_asked_for_again_with_what_was_wrong_up_to_a_limit():
    told, model = said("coherence", "Perhaps.", YES, retries=1)
    assert told.values == {"supported": 1.0} and told.usage.calls == 2
    assert "Perhaps." in model.calls[1] and AGAIN[:20] in model.calls[1]
    told, model = said("coherence", "One.", "Two.", "Three.", "Four.", retries=2)
    assert (told.values, told.reply, len(model.calls)) == ({}, "Three.", 3)
    assert told.problem
    told, model = said("recall", "?", ATOMS, "?", LABELS, retries=1)
    assert told.values["recall_consistent"] == 0.5 and len(model.calls) == 4
    with pytest.raises(BadSettings, match="retries is 10"):
        said("coherence", YES, retries=10)


# --- batches


def batch(*replies: Any, retries: int = 0, count: int = 3) -> tuple[list[ItemVerdict], ScriptedChatModel]:
    left = iter([reply if isinstance(reply, str) else json.dumps(reply) for reply in replies])
    model = ScriptedChatModel(reply=lambda prompt: next(left))
    items = [Item.of("tendency", event="e", question="q", answer=f"a{n}", label="l") for n in range(count)]
    return JUDGES.load("tendency").judge(items, model, retries=retries), model


def numbered(*numbers: int, **more: Any) -> dict[str, Any]:
    return {"marks": [GOOD_MARKS | {"number": number, "coherence": min(number, 5)} | more for number in numbers]}


def test_a_batch_is_read_by_number_and_what_was_read_is_kept_when_asked_again():
    told, model = batch(numbered(3, 1, 2))
    assert [one.values["coherence_mark"] for one in told] == [1, 2, 3]
    assert sum(one.usage.calls for one in told) == len(model.calls) == 1
    told, _ = batch(numbered(1, 2), numbered(2, 3), retries=1)
    assert [one.values.get("coherence_mark") for one in told] == [1, 2, 3]


@pytest.mark.parametrize(
    ("given", "unscored"), [((1, 3), [1]), ((1, 2, 2, 3), [1]), ((1, 2, 3, 4), [0, 1, 2]), ((), [0, 1, 2])]
)
def test_what_a_batch_leaves_out_or_rates_twice_is_unscored_and_nothing_shifts(given, unscored):
    told, _ = batch(numbered(*given))
    assert [place for place, one in enumerate(told) if one.problem] == unscored
    for place, one in enumerate(told):
        assert one.problem or one.values["coherence_mark"] == place + 1


def test_a_batch_in_the_papers_lines_is_read_item_by_item():
    lines = [
        f"{n}. Accuracy: 5; Coherence: {c}; Comprehensive: 5; Overall: 5" for n, c in (("I", 1), ("II", 2), ("III", 3))
    ]
    told, _ = batch("\n".join(lines))
    assert [one.values["coherence_mark"] for one in told] == [1, 2, 3]
