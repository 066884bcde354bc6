"""Every node alone, with a dict."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from emend.editors.base import Demonstration
from emend.graphs import ike, rag
from emend.graphs.execution import as_json
from emend.graphs.ike import IkeContext, IkeState, Pool
from emend.graphs.rag import RagContext, RagState
from emend.graphs.respond import RespondContext, RespondState, respond
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadSettings, ModelError, ModelReplyError, ReplyCutOff
from emend.memory.probe import Probe, Usage
from emend.memory.retrieval.base import Entry, Hit
from tests.fakes import ScriptedChatModel, ScriptedScoringModel

CAPITAL = Probe(kind="efficacy", prompt="The capital of Veldania is", gold=("Ostrim",), subject="Veldania")
FACT = "The capital of Veldania is Ostrim."


class Fixed:
    """A retriever that finds what it is told to, and keeps what it was asked."""

    def __init__(self, *texts):
        self.texts, self.asked = texts, []

    def search(self, query, k):
        self.asked.append((query, k))
        entries = [Entry(id=f"e{i}", edit_id=f"edit{i}", text=text) for i, text in enumerate(self.texts)]
        return [Hit(entry=entry, score=1.0 - i) for i, entry in enumerate(entries)][:k]


def runtime(context) -> Any:
    return SimpleNamespace(context=context)


def state(probe=CAPITAL, **more) -> Any:
    return {"probe": probe, **more}


def scripted(reply="Ostrim."):
    return ScriptedChatModel(reply=lambda prompt: reply)


def scoring():
    return ScriptedScoringModel(reply=lambda prompt: "Ostrim", log_prob=lambda prompt, target: -float(len(target)))


def speak(model, prompt, **more):
    told: Any = {"prompt": prompt, **more}
    return respond(told, runtime(RespondContext(model)))


def check(update, schema):
    """Unknown keys would be dropped silently, and the trace keeps nothing but JSON."""
    assert update.keys() <= schema.__annotations__.keys()
    traced = {name: as_json(value) for name, value in update.items()}
    assert json.loads(json.dumps(traced)) == traced
    return update


def demonstration(kind, place, subject=None, prompt=None):
    fact = f"The {['river', 'anthem', 'capital'][place % 3]} of {subject or f'Land{place}'} is Thing{place}"
    return Demonstration(kind=kind, fact=f"{fact}.", prompt=prompt or fact.rpartition(" ")[0], target=f"Thing{place}")


POOL = [demonstration(kind, place) for place in range(40) for kind in ("copy", "update", "retain")]


def ike_context(**more):
    given: dict[str, Any] = {"pool": Pool(POOL), "demonstrations": 6} | more
    return IkeContext(scripted(), Fixed(FACT), **given)


def demonstrate(probe=CAPITAL, hits=({"text": FACT},), **more):
    return check(ike.demonstrate(state(probe, hits=list(hits)), runtime(ike_context(**more))), IkeState)[
        "demonstrations"
    ]


def test_ikes_demonstrations_are_those_nearest_to_the_edit_if_it_is_to_be_so():
    triplet = Triplet(subject="Land7", relation="anthem", object="Ode")
    edit = Edit.from_triplet(triplet, "The anthem of {} is")
    hits = ({"text": edit.text, "edit_id": edit.id},)
    probes = [CAPITAL.model_copy(update={"id": name, "prompt": name, "query": name}) for name in ("river", "capital")]
    by_probe, by_edit = (
        [demonstrate(probe, hits, nearest_to=nearest_to) for probe in probes] for nearest_to in ({}, {edit.id: edit})
    )
    assert by_probe[0] != by_probe[1] and by_edit[0] == by_edit[1]
    assert "Land7" in by_edit[0][-1]["fact"]


def test_retrieve_asks_for_k_entries_by_what_the_probe_asks():
    retriever = Fixed(FACT, "other", "third")
    probe = CAPITAL.model_copy(update={"query": "capital Veldania"})
    update = rag.retrieve(state(probe), runtime(RagContext(scripted(), retriever, k=2)))
    assert retriever.asked == [("capital Veldania", 2)]
    assert check(update, RagState)["hits"] == [
        {"entry_id": "e0", "edit_id": "edit0", "text": FACT, "score": 1.0},
        {"entry_id": "e1", "edit_id": "edit1", "text": "other", "score": 0.0},
    ]
    assert rag.retrieve(state(), runtime(RagContext(scripted(), Fixed()))) == {"hits": []}


@pytest.mark.parametrize(
    ("wording", "prompt"),
    [
        ("new_fact", f"New Fact: {FACT}\nNew Fact: Two.\nPrompt: The capital of Veldania is"),
        (
            "based_on_facts",
            f"Here are some new facts: {FACT} Two. Based on the facts above, The capital of Veldania is",
        ),
    ],
)
def test_compose_writes_the_exact_prompt(wording, prompt):
    told = state(hits=[{"text": FACT}, {"text": "Two."}])
    update = rag.compose(told, runtime(RagContext(scripted(), Fixed(), wording=wording)))
    assert check(update, RagState) == {"prompt": prompt}


def test_compose_without_hits_is_the_probe_alone_and_too_many_hits_are_cut():
    assert rag.compose(state(hits=[]), runtime(RagContext(scripted(), Fixed()))) == {"prompt": CAPITAL.prompt}
    with pytest.raises(BadSettings, match="did you mean 'new_fact'"):
        rag.compose(state(hits=[]), runtime(RagContext(scripted(), Fixed(), wording="new_fakt")))
    found = [Hit(entry=Entry(id=str(n), edit_id=str(n), text=f"Fact {n}."), score=-n) for n in range(5)]
    assert [hit["entry_id"] for hit in rag.as_hits(found, 2)] == ["0", "1"]


def test_respond_generates_without_targets_up_to_a_limit_of_the_models_own():
    model = scripted("Ostrim. And so on")
    update = check(respond({"prompt": "Where?"}, runtime(RespondContext(model))), RespondState)
    assert model.calls == ["Where?"]
    assert update == {
        "reply": "Ostrim. And so on",
        "usage": Usage(input_tokens=1, output_tokens=4, calls=1),
        "cut_tokens": 0,
    }
    model = scripted()
    assert speak(model, "Where?", reading="whole")["reply"] == speak(model, "Where?")["reply"]


def test_respond_scores_targets_under_the_same_prompt_and_invents_no_probabilities():
    model = scoring()
    update = respond({"prompt": "Where?", "targets": ["Ostrim", "Rome"]}, runtime(RespondContext(model)))
    assert model.scored == [("Where?", ("Ostrim", "Rome"))] and not model.calls
    assert check(update, RespondState)["log_probs"] == [-6.0, -4.0]
    assert "reply" not in update and update["usage"].calls == 1
    with pytest.raises(ModelError, match="ScriptedChatModel returns no probabilities, but 1 targets"):
        speak(scripted(), "Where?", targets=["Ostrim"])


def test_respond_counts_a_call_whose_usage_was_not_told():
    class Silent(ScriptedChatModel):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            result = super()._generate(messages)
            message: Any = result.generations[0].message
            message.usage_metadata, message.response_metadata = None, {"cut_tokens": 7}
            return result

    update = speak(Silent(reply=lambda prompt: "x"), "Where?")
    assert update["usage"] == Usage(calls=1, untold=1) and update["cut_tokens"] == 7


class Limited(ScriptedChatModel):
    """Has a limit of new tokens, and keeps what it was asked with."""

    max_new_tokens: int = 20
    asked: list[dict[str, Any]] = []

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.asked.append({"stop": stop, **kwargs})
        return super()._generate(messages)


@pytest.mark.parametrize("reading", ["thoughts", "whole"])
def test_a_reply_of_several_lines_has_room_and_ends_before_the_next_question(reading):
    model = Limited(reply=lambda prompt: "x")
    respond({"prompt": "Where?", "reading": reading}, runtime(RespondContext(model)))
    respond({"prompt": "Where?"}, runtime(RespondContext(model)))
    assert model.asked == [{"stop": ["\nQuestion:"], "max_new_tokens": 160}, {"stop": None}]
    respond({"prompt": "Where?", "reading": "whole", "new_tokens": 100}, runtime(RespondContext(model)))
    assert model.asked[-1]["max_new_tokens"] == 100


def test_a_whole_reply_to_a_labelled_question_ends_before_the_next_label():
    model = Limited(reply=lambda prompt: "x")
    for reading in ("whole", "thoughts"):
        respond({"prompt": "Q: Where?\nA:", "reading": reading}, runtime(RespondContext(model)))
    assert [asked["stop"] for asked in model.asked] == [["\nQuestion:", "\nQ:"], ["\nQuestion:"]]


@pytest.mark.parametrize(
    ("count", "shares"),
    [(0, (0, 0, 0)), (1, (0, 0, 1)), (3, (0, 1, 2)), (6, (1, 2, 3)), (8, (1, 3, 4)), (32, (4, 12, 16))],
)
def test_the_published_ratio_is_scaled_to_any_count(count, shares):
    made = ike.shares(count)
    assert (made["copy"], made["update"], made["retain"]) == shares and made.total() == count


def test_demonstrations_come_in_the_published_ratio_or_give_way_to_other_kinds():
    kinds = [shown["kind"] for shown in demonstrate(demonstrations=32)]
    assert [kinds.count(kind) for kind in ("copy", "update", "retain")] == [4, 12, 16]
    only = Pool([one for one in POOL if one.kind == "copy"])
    shown = demonstrate(pool=only, demonstrations=6)
    assert len(shown) == 6 and {one["kind"] for one in shown} == {"copy"}
    assert demonstrate(pool=Pool(())) == demonstrate(hits=()) == []


def test_each_example_is_of_another_fact_while_facts_last():
    shown = demonstrate(demonstrations=32)
    assert len({one["fact"] for one in shown}) == 32
    two = Pool([demonstration(kind, place) for place in (2, 5) for kind in ("copy", "update", "retain")])
    again = demonstrate(pool=two, demonstrations=6)
    assert len(again) == 6 and [len({one["fact"] for one in again[at:]}) for at in (0, 4)] == [2, 2]


def test_each_kinds_nearest_comes_last_and_all_are_about_what_is_asked():
    shown = demonstrate(demonstrations=6)
    assert all("capital" in one["fact"] for one in shown)
    near = Pool([*POOL, demonstration("retain", 2, subject="Veldaniaz")])
    assert demonstrate(pool=near, demonstrations=1)[-1]["fact"].startswith("The capital of Veldaniaz") is False
    probe = CAPITAL.model_copy(update={"subject": ""})
    last = [one for one in demonstrate(probe, pool=near, demonstrations=6) if one["kind"] == "retain"][-1]
    assert last["fact"].startswith("The capital of Veldaniaz")


def test_the_order_depends_on_seed_and_probe_alone():
    def order(**more):
        return [one["kind"] for one in demonstrate(**more)]

    assert order(demonstrations=32) == order(demonstrations=32)
    assert order(demonstrations=32) != order(demonstrations=32, seed=1)
    assert order(demonstrations=32) != order(demonstrations=32, probe=CAPITAL.model_copy(update={"id": "another"}))


def test_nothing_that_tells_the_answer_is_shown():
    leaks = [
        Demonstration(kind="copy", fact=FACT, prompt="Another prompt", target="Ostrim"),
        Demonstration(kind="retain", fact="A fact", prompt=CAPITAL.prompt, target="Ostrim"),
        Demonstration(kind="update", fact="A note on Veldania.", prompt="Its capital is", target="Ostrim"),
        Demonstration(kind="update", fact="A fact", prompt="The seat of Veldania is", target="Ostrim"),
        Demonstration(kind="copy", fact="The capital city here is Ostrim.", prompt="The capital is", target="Ostrim"),
    ]
    standing = frozenset([FACT, "The capital city here is Ostrim."])
    shown = demonstrate(pool=Pool([*POOL, *leaks]), demonstrations=125, applied=standing)
    assert len(shown) == len(POOL) and all(one["target"] != "Ostrim" for one in shown)


def test_ike_shows_examples_before_fact_and_probe():
    shown = [
        {"kind": "copy", "fact": "F1.", "prompt": "P1", "style": "cloze", "target": "T1"},
        {"kind": "retain", "fact": "F2.", "prompt": "P2?", "style": "question", "target": "T2"},
    ]
    told, asked = state(hits=[{"text": FACT}], demonstrations=shown), f"New Fact: {FACT}\nPrompt: {CAPITAL.prompt}"
    plain = check(ike.compose(told, runtime(replace(ike_context(), model=scoring()))), IkeState)
    assert plain["prompt"] == f"New Fact: F1.\nPrompt: P1 T1\n\nNew Fact: F2.\nQ: P2?\nA: T2\n\n{asked}"
    turns = check(ike.compose(told, runtime(ike_context())), IkeState)["turns"]
    assert [(turn["role"], turn["content"]) for turn in turns] == [
        ("user", "New Fact: F1.\nPrompt: P1"),
        ("assistant", "T1"),
        ("user", "New Fact: F2.\nP2?"),
        ("assistant", "T2"),
        ("user", asked),
    ]


@pytest.mark.parametrize(
    ("second", "fallback", "answer"), [("Ostrim.", "asked again", "Ostrim"), (" ", "last sentence", "It is Ostrim.")]
)
def test_a_chat_model_whose_thoughts_have_no_answer_is_asked_for_it_once_more(second, fallback, answer):
    script = iter(["Veldania moved it. It is Ostrim.", second])
    model = ScriptedChatModel(reply=lambda prompt: next(script))
    update = respond({"prompt": "Question: Where?", "reading": "thoughts"}, runtime(RespondContext(model)))
    assert update["reply"].endswith(f"\nAnswer: {answer}") and update["fallback"] == fallback
    assert len(model.calls) == 2 == update["usage"].calls


@pytest.mark.parametrize(
    ("reply", "finish", "error"),
    [
        ("<think>\nIt may be", "length", ReplyCutOff),
        ("<think>\nIt may be</think>\n", "stop", ModelReplyError),
        ("It may be</think>", "stop", ModelReplyError),
    ],
)
def test_thoughts_alone_are_no_empty_answer(reply, finish, error):
    class Thinking(ScriptedChatModel):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            message = AIMessage(reply, response_metadata={"finish_reason": finish})
            return ChatResult(generations=[ChatGeneration(message=message)])

    with pytest.raises(error) as caught:
        speak(Thinking(reply=lambda prompt: ""), "Where?")
    assert caught.value.reply == reply
    assert speak(scripted(), "Where?")["reply"]


def test_half_a_surrogate_pair_in_a_text_is_replaced_with_a_warning(caplog):
    (hit,) = check(rag.retrieve(state(), runtime(RagContext(scripted(), Fixed("Ostrim\ud800!")))), RagState)["hits"]
    assert hit["text"] == "Ostrim\ufffd!" and hit["text"].encode()
    assert "half surrogate pairs are replaced by U+FFFD in the text 'Ostrim" in caplog.text
