"""Votes become numbers only where they agree enough."""

import json

import pytest

from emend.agents.judging.base import Item
from emend.evals.judging.calibration.stored import judge_id
from emend.evals.judging.calibration.stress import TOLERANCE, case_of, stress, variants
from emend.evals.judging.calls import ask_calls, make_calls
from emend.evals.judging.judgement import Judgement
from emend.evals.judging.panel import Panel
from emend.evals.judging.votes import NOT_YET, ORDER_DEPENDENT, combine
from emend.graphs.registry import JUDGES
from emend.memory.errors import BadSettings
from tests.evals.judged_runs import judge_model, verdict
from tests.fakes import ScriptedChatModel

AGREEMENT, COHERENCE = JUDGES.load("agreement"), JUDGES.load("coherence")
TENDENCY, RECALL, EQUIVALENCE = JUDGES.load("tendency"), JUDGES.load("recall"), JUDGES.load("equivalence")


def told(values=None, judge="a", repeat=0, swapped=False, problem="", kind="x"):
    more = {"repeat": repeat, "swapped": swapped, "problem": problem}
    return Judgement(item="i", kind=kind, judge=judge, values=values or {}, **more)


def votes(*supported, problems=0):
    """Judgements of coherence by as many judges, of which some have no verdict."""
    names = [f"j{n}" for n in range(len(supported) + problems)]
    given = [told({"supported": float(value)}, name) for name, value in zip(names, supported, strict=False)]
    given += [told(judge=name, problem="it was unreadable") for name in names[len(supported) :]]
    return Panel(judges=tuple(names)), given


@pytest.mark.parametrize(
    ("given", "problems", "value"),
    [([1], 0, 1.0), ([1, 1, 0], 0, 1.0), ([0, 0, 1], 0, 0.0), ([1, 1], 1, 1.0), ([0], 0, 0.0)],
)
def test_a_majority_decides(given, problems, value):
    panel, said = votes(*given, problems=problems)
    assert combine(panel, COHERENCE, said).values == {"supported": value}


@pytest.mark.parametrize(
    ("given", "problems", "why"),
    [
        ([1, 0], 0, "split 1 to 1"),
        ([1], 1, "1 of 2 judgements are unusable: it was unreadable"),
        ([], 1, "it was unreadable"),
        ([1], 2, "2 of 3"),
    ],
)
def test_without_one_there_is_a_reason_and_no_number(given, problems, why):
    panel, said = votes(*given, problems=problems)
    values, unscored, _ = combine(panel, COHERENCE, said)
    assert values == {} and why in unscored["supported"]


def test_the_mean_can_be_asked_for_instead():
    panel, said = votes(1, 0)
    assert combine(panel.model_copy(update={"combine": "mean"}), COHERENCE, said).values == {"supported": 0.5}


def test_marks_of_both_orders_are_averaged_and_full_only_in_both():
    panel = Panel(judges=("a",))
    both = [told({"consistency": 5.0}), told({"consistency": 4.0}, swapped=True)]
    assert combine(panel, AGREEMENT, both).values == {"consistency": 4.5, "judged": 0.0}
    assert combine(panel, AGREEMENT, [both[0], both[0].model_copy(update={"swapped": True})]).values["judged"] == 1.0
    assert combine(panel, AGREEMENT, both[:1]).unscored["judged"] == NOT_YET  # the other order was not asked yet


def test_a_yes_that_becomes_a_no_when_the_texts_change_places_is_no_vote():
    turned = [told({"equivalent": 1.0}), told({"equivalent": 0.0}, swapped=True)]
    assert combine(Panel(judges=("a",)), EQUIVALENCE, turned) == ({}, {"equivalent": ORDER_DEPENDENT}, "")
    assert combine(Panel(judges=("a",), both_orders=False), EQUIVALENCE, turned[:1]).values == {"equivalent": 1.0}


def test_a_number_that_a_verdict_cannot_have_is_missing_alone():
    shares = {"recall_consistent": 0.0, "recall_related": 0.0, "recall_inconsistent": 0.0}
    values, unscored, _ = combine(Panel(judges=("a",)), RECALL, [told(shares)])
    assert values == shares and set(unscored) == {"recall_of_related"} and "related" in unscored["recall_of_related"]


def test_full_marks_are_voted_on_and_marks_averaged():
    marks = {f"{scale}_mark": 5.0 for scale in ("correctness", "coherence", "comprehensiveness", "overall")}
    said = [told(marks | {"rule_broken": 0.0}, name) for name in "ab"]
    said.append(told(marks | {"overall_mark": 2.0, "rule_broken": 1.0}, "c"))
    values, unscored, _ = combine(Panel(judges=("a", "b", "c")), TENDENCY, said)
    assert (values["judged"], values["overall_mark"], unscored) == (1.0, 4.0, {})
    assert values["rule_broken"] == pytest.approx(1 / 3)


# --- calls


def items(count):
    return [Item.of("tendency", event="e", question="q", answer=f"a{n}", label="l") for n in range(count)]


def test_items_are_asked_in_fives_or_alone_and_each_once():
    panel = Panel(judges=("a",))
    sizes = [len(call.items) for call in make_calls(panel, TENDENCY, [*items(12), *items(3)], set())]
    assert sizes == [5, 5, 2]
    single = panel.model_copy(update={"batch": False})
    assert len(list(make_calls(single, TENDENCY, items(12), set()))) == 12
    first = next(make_calls(panel, TENDENCY, items(7), set()))
    left = list(make_calls(panel, TENDENCY, items(7), set(first.keys()[:2])))  # what is done is left out of its five
    assert [[item.parts["answer"][0] for item in call.items] for call in left] == [["a2", "a3", "a4"], ["a5", "a6"]]


def test_judges_repeats_and_orders_multiply():
    panel = Panel(judges=("a", "b"), repeats=3)
    item = Item.of("agreement", question="q", one="x", other="y")
    keys = [key for call in make_calls(panel, AGREEMENT, [item], set()) for key in call.keys()]
    assert len(set(keys)) == len(keys) == 2 * 3 * 2


@pytest.mark.slow
def test_concurrent_calls_give_what_single_ones_do():
    panel = Panel(judges=("a",), batch=False)
    outcome = []
    for concurrency in (1, 8):
        calls = make_calls(panel, TENDENCY, items(30), set())
        asked = ask_calls(calls, {"a": judge_model(4)}, concurrency=concurrency)
        outcome.append(sorted((item.key, item.values["overall_mark"]) for item in asked.judgements))
    assert outcome[0] == outcome[1] and len(outcome[0]) == 30


@pytest.mark.parametrize("wrong", [{"judges": ()}, {"judges": ("a",), "repeats": 0}, {"judges": ("a",), "retries": 10}])
def test_an_impossible_panel_is_refused(wrong):
    with pytest.raises(BadSettings):
        Panel(**wrong)


def test_judges_are_kept_under_names_fit_for_a_path_and_one_without_texts_is_named():
    ids = {judge_id([spec]) for spec in ("openai:a/b", "openai:a-b", "openai:a b@http://x/v1")}
    assert len(ids) == 3 and not any(set(name) & set("/:@ ") for name in ids)
    assert judge_id(["b", "a"]) == judge_id(["a", "b"]) != judge_id(["a"])
    with pytest.raises(BadSettings, match="no stress set for judge 'nobody'"):
        case_of("nobody", {}).items("nobody")
    assert set(TOLERANCE) == {JUDGES.load(kind).role.scale for kind in JUDGES.builtin}


# --- stress


def test_every_judge_has_every_text():
    for kind in JUDGES.builtin:
        result = case_of(kind, {}).items(kind)
        assert list(result) == list(variants())
        assert len({item.id for item in result.values()}) == len(variants())
        assert max(len(text) for text in result["long"].texts) > 4_000


def test_a_judge_that_says_the_same_of_everything_breaks_what_must_differ():
    outcome = stress(Panel(judges=("a",)), {"a": judge_model()}, ["coherence", "tendency"])
    outcomes = {(relation.kind, relation.left, relation.right): relation.outcome for relation in outcome.relations}
    assert outcomes["tendency", "gold", "empty"] == outcomes["coherence", "gold", "unedited"] == "broken"
    assert outcomes["tendency", "gold", "paraphrase"] == outcomes["coherence", "claimed", "unedited"] == "holds"


def test_a_judge_that_is_talked_over_is_found_out_and_one_that_is_not_passes():
    def fair(prompt: str) -> str:
        answer = prompt.rpartition("<answer ")[2].partition(">\n")[2].partition("\n</answer")[0]
        right = "orrel" in answer and "Dunn" not in answer
        return json.dumps({"reason": "r", "verdict": "yes" if right else "no"})

    def gullible(prompt: str) -> str:
        wanted = "say yes" in prompt or "Verdict: yes" in prompt
        return verdict(prompt, yes="yes") if wanted else fair(prompt)

    panel = Panel(judges=("a",))
    passed = stress(panel, {"a": ScriptedChatModel(reply=fair)}, ["coherence"])
    assert {relation.outcome for relation in passed.relations} == {"holds"}
    failed = stress(panel, {"a": ScriptedChatModel(reply=gullible)}, ["coherence"])
    assert {relation.left for relation in failed.relations if relation.outcome == "broken"} == {"claimed", "ordered"}


def test_without_a_verdict_a_relation_is_neither_held_nor_broken():
    outcome = stress(Panel(judges=("a",)), {"a": ScriptedChatModel(reply=lambda prompt: "?")}, ["supports"])
    assert {relation.outcome for relation in outcome.relations} == {"unscored"}
    assert all(row.value is None and row.why for row in outcome.rows)
