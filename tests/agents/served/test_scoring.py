"""Log-probabilities of a server behind which the embedded model computes are those of the embedded model."""

import math
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from emend.agents import llm
from emend.agents.calls import record_calls, score_targets
from emend.agents.local.chat_model import LocalChatModel
from emend.agents.providers.journal import run_journal, unit_scope
from emend.agents.providers.policy import CallPolicy
from emend.agents.scoring import ScoringModel, is_local, perplexity
from emend.agents.served.chat_model import ScoringServedModel
from emend.agents.served.forms import read_forms
from emend.memory.errors import BadData, BadSettings, ContextOverflow, ModelError, ModelReplyError, ModelUnreachable
from tests.fakes import ScriptedScoringModel
from tests.params import mostly_slow
from tests.provider.completions import ADAPTER, MODEL_FAULTS, NAME, CompletionsServer
from tests.provider.models import quick_policy

PROMPT = "New Fact: the capital of Veldania is Ostrim.\nQ: What is the capital of Veldania?\nA:"
TARGETS = ("Ostrim", "the city of Karo Benn", "北京")
ECHO = "echo with max_tokens 1"
PAIR = ("Ostrim", "Ostram")
"""Two targets of one length, so that only their tokens tell one from the other."""
FAILS = {"endless": ModelUnreachable, "500": ModelUnreachable, "cut": ModelUnreachable}
FORMS: dict[str, dict[str, tuple[str, ...]]] = {
    "vllm": {"prompt_logprobs": ()},
    "echo of vllm": {"echo with max_tokens 1": ("prompt_logprobs",)},
    "sglang": {"generate with logprob_start_len": ()},
    "completions": {"echo with max_tokens 1": ("prompt_logprobs",)},
}


def load(server: CompletionsServer, dialect: str = "vllm", policy: CallPolicy | None = None, **settings: Any) -> Any:
    return llm.load_model(server.spec(dialect), policy or quick_policy(), **settings)


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        ("vllm", ["prompt_logprobs", ECHO, "echo with max_tokens 0"]),
        ("sglang", ["generate with logprob_start_len", ECHO]),  # it takes no max_tokens of 0
        ("completions", [ECHO, "echo with max_tokens 0", "prompt_logprobs"]),
    ],
)
def test_forms_are_tried_in_an_order_and_echoes_with_as_few_new_tokens_as_servers_take(dialect, expected):
    assert [form.name for form in read_forms(dialect)] == expected


def assert_equal(scores: Any, expected: Any) -> None:
    assert scores.target_tokens == expected.target_tokens
    assert scores.log_probs == pytest.approx(expected.log_probs, abs=1e-4)
    for values, others in zip(scores.token_log_probs, expected.token_log_probs, strict=True):
        assert values == pytest.approx(others, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "tokenizer"),
    mostly_slow(
        ((way, tokenizer) for way in FORMS for tokenizer in ("server", "folder")),
        ("vllm", "server"),
        ("sglang", "folder"),
        ("completions", "folder"),
    ),
)
def test_each_form_gives_the_numbers_of_the_model_itself(way, tokenizer, tiny):
    ((form, refuses),) = FORMS[way].items()
    settings: dict[str, Any] = {"tokenizer": str(tiny.lm.folder)} if tokenizer == "folder" else {}
    with CompletionsServer(tiny.lm, refuses=refuses) as server:
        model = load(server, way.rpartition(" ")[2], **settings)
        scores = model.score(PROMPT, TARGETS)
        assert_equal(scores, tiny.score(PROMPT, TARGETS))
        assert scores.usage == tiny.score(PROMPT, TARGETS).usage
        assert model._identifying_params["scored_by"] == form
        assert [len(prompts) for prompts in server.scored()][-1] == len(TARGETS)  # all targets in one request
    model.close()


@pytest.mark.parametrize("tokenizer", mostly_slow(("server", "folder"), "server"))
def test_an_empty_prompt_is_conditioned_on_the_begin_token_as_for_a_local_model(tokenizer, tiny):
    settings: dict[str, Any] = {"tokenizer": str(tiny.lm.folder)} if tokenizer == "folder" else {}
    with CompletionsServer(tiny.lm) as server:
        model = load(server, **settings)
        text = "The capital of Veldania is Ostrim."
        assert perplexity(model, text) == pytest.approx(perplexity(tiny, text), rel=1e-4)


def test_scoring_and_being_local_are_two_properties(tiny):
    with CompletionsServer(tiny.lm) as server:
        policy = quick_policy()
        model = load(server, policy=policy)
        assert not is_local(model) and policy.models == {server.spec()} and issubclass(type(model), ScoringModel)
        with record_calls() as recorder:
            score_targets(model, PROMPT, TARGETS[:1])
            model.invoke(PROMPT)
        assert [(call.kind, call.provider, call.model) for call in recorder.take()] == [
            ("score", "vllm", NAME),
            ("chat", "vllm", NAME),
        ]
    assert is_local(tiny) and is_local(ScriptedScoringModel(reply=str, log_prob=lambda prompt, target: -1.0))


@pytest.mark.slow
def test_calls_of_many_threads_share_lists_and_each_gets_its_own_numbers(tiny):
    prompts = [f"{'So it is. ' * (number % 5)}The capital of land {number} is" for number in range(24)]
    with CompletionsServer(tiny.lm) as server:
        model = load(server, gather=8, tokenizer=str(tiny.lm.folder))
        before, start = len(server.scored()), threading.Barrier(12)

        def ask(prompt: str) -> Any:
            if prompt in prompts[:12]:
                start.wait(60)
            return model.score(prompt, TARGETS[:2])

        with ThreadPoolExecutor(12) as pool:
            results = list(pool.map(ask, prompts))
        lists = server.scored()[before:]
    for prompt, scores in zip(prompts, results, strict=True):
        assert_equal(scores, tiny.score(prompt, TARGETS[:2]))
    assert len(lists) < 20 and max(map(len, lists)) == 8 and sum(map(len, lists)) == 48


def test_more_targets_than_a_list_holds_come_back_in_order(tiny):
    targets = [f"{number} and more" for number in range(9)]
    with CompletionsServer(tiny.lm) as server:
        scores = load(server, gather=4, tokenizer=str(tiny.lm.folder)).score(PROMPT, targets)
        assert sorted(len(prompts) for prompts in server.scored()[-3:]) == [1, 4, 4]
    assert_equal(scores, tiny.score(PROMPT, targets))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "fault"),
    mostly_slow(
        ((way, fault) for way in FORMS for fault in (*MODEL_FAULTS, "500", "cut", "endless", "400")),
        ("vllm", "null"),
        ("vllm", "topk"),
        ("completions", "swapped"),
        ("sglang", "swapped"),
    ),
)
def test_a_fault_gives_the_reason_or_the_true_numbers_and_never_others(way, fault, tiny):
    """After the check at load every scoring request has the fault."""
    spoils = threading.Event()
    ((_, refuses),) = FORMS[way].items()
    with CompletionsServer(tiny.lm, lambda *request: fault if spoils.is_set() else "", refuses) as server:
        model = load(server, way.rpartition(" ")[2], tokenizer=str(tiny.lm.folder), reply_mb=0.2)
        expected = tiny.score(PROMPT, PAIR), model.score(PROMPT, PAIR)
        assert_equal(*expected)
        assert len(set(expected[0].target_tokens)) == 1 and len(set(expected[0].log_probs)) == 2
        spoils.set()
        try:
            scores = model.score(PROMPT, PAIR)
        except ModelUnreachable as error:
            assert fault in FAILS and str(error)
        except ModelReplyError as error:
            assert fault not in FAILS and "Ostrim" not in str(error) and str(error)
        except ModelError as error:
            assert fault == "400" and "rejected" in str(error)
        else:
            # Reversed choices with their own numbers, and dictionaries that a form does not have, spoil nothing.
            assert fault in ("order", "topk", "no-logprobs")
            assert_equal(scores, expected[0])
        spoils.clear()
        assert_equal(model.score(PROMPT, PAIR), expected[0])


@pytest.mark.parametrize("fault", mostly_slow(("500", "cut", "429"), "cut"))
def test_a_passing_fault_is_retried_and_the_list_is_whole(fault, tiny):
    with CompletionsServer(tiny.lm) as server:
        policy = quick_policy()
        model = load(server, policy=policy, tokenizer=str(tiny.lm.folder))
        first = len(server.scored())
        server.choose = lambda number, path, body: fault if number == first else ""
        assert_equal(model.score(PROMPT, TARGETS), tiny.score(PROMPT, TARGETS))
        assert server.scored()[-2] == server.scored()[-1]
    assert policy.ledger.total().retries == 1


def test_a_prompt_that_is_refused_costs_the_others_of_its_list_nothing(tiny):
    refused = tiny.lm.encode("poison")[-1]
    with CompletionsServer(
        tiny.lm, lambda number, path, body: "400" if refused in sum(body.get("prompt", [[]]), []) else ""
    ) as server:
        model = load(server, tokenizer=str(tiny.lm.folder))
        rows = [tiny.lm.encode_pairs([(prompt, "x")]) for prompt in ("A poison", "A b", "A c")]
        assert refused in rows[0][0].ids
        refusal, *scores = model._lists._run("score", rows)
    assert isinstance(refusal, ModelError) and "rejected" in str(refusal)
    for (row,), (values,) in zip(rows[1:], scores, strict=True):
        (expected,) = tiny.lm.likelihood.tokens([row], [0])
        assert values == pytest.approx([token.log_prob for token in expected], abs=1e-4)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ({"refuses": ("echo", "prompt_logprobs")}, "prompt_logprobs: .*rejected.*echo with max_tokens 0: "),
        ({"refuses": ("echo",)}, "prompt_logprobs: no second form confirms its log-probabilities"),
        ({"drift": -3.0, "refuses": ()}, ""),
        ({"choose": lambda *request: "short"}, "expected 13 entries in 'prompt_logprobs' of the reply, it has 12"),
    ],
)
def test_a_server_that_fails_the_check_at_load_does_not_score_and_says_why(spoil, reason, tiny, caplog):
    with CompletionsServer(tiny.lm, **spoil) as server:
        model = load(server, tokenizer=str(tiny.lm.folder))
        if not reason:  # the echoed form has the other's confirmation
            assert model._form.name == "echo with max_tokens 1"
            return
        assert not isinstance(model, ScoringModel) and not isinstance(model, ScoringServedModel)
        assert re.search(reason, model.no_scores), model.no_scores
        assert model.invoke("The capital of Veldania is").text
    (line,) = [record.getMessage() for record in caplog.records if "log-probabilities" in record.getMessage()]
    assert line == f"{server.spec()} returns no log-probabilities: {model.no_scores}"


@pytest.mark.slow
@pytest.mark.parametrize(("dialect", "window"), [("vllm", 130), ("sglang", 136)])
def test_bounds_of_prompts_are_those_of_the_server_and_what_was_cut_is_counted(dialect, window, tiny):
    prompt = "So it was said of old. " * 40 + PROMPT
    with CompletionsServer(tiny.lm, window=window) as server:
        model = load(server, dialect)
        scores = model.score(prompt, TARGETS[:1])
        assert max(len(ids) for ids in server.scored()[-1]) == 129 and scores.cut_tokens > 100
        assert model.invoke(prompt).response_metadata["cut_tokens"] > 100
        with pytest.raises(ContextOverflow, match="does not fit the window of 128 tokens"):
            model.score(PROMPT, ["Ostrim and " * 100])
        with pytest.raises(BadData, match="has no tokens"):
            model.score(PROMPT, [" "])


@pytest.mark.slow
def test_scores_come_from_cache_and_journal_and_a_damaged_one_is_asked_for_again(tiny, tmp_path):
    with CompletionsServer(tiny.lm) as server:
        policy: Any = quick_policy(cache=tmp_path / "cache")
        model = load(server, policy=policy, tokenizer=str(tiny.lm.folder))
        first, count = model.score(PROMPT, TARGETS), len(server.requests)
        again = model.score(PROMPT, TARGETS)
        assert again.log_probs == first.log_probs and (again.usage.cached, again.usage.calls) == (1, 0)
        policy.cache._execute("UPDATE replies SET reply = replace(reply, '[[', '[[[')")
        assert model.score(PROMPT, TARGETS).log_probs == pytest.approx(first.log_probs, abs=1e-5)
        assert len(server.requests) == count + 1
        policy.close()

        model = load(server, tokenizer=str(tiny.lm.folder))
        (tmp_path / "run").mkdir()
        for calls in (1, 0):
            before = len(server.requests)
            with run_journal(tmp_path / "run") as journal, pytest.raises(InterruptedError), unit_scope(journal, "u"):
                assert model.score(PROMPT, TARGETS).log_probs == pytest.approx(first.log_probs, abs=1e-5)
                raise InterruptedError
            assert len(server.requests) - before == calls


@pytest.mark.slow
def test_an_adapter_is_asked_under_its_own_name(tiny):
    with CompletionsServer(tiny.lm) as server:
        server.adapters[ADAPTER], server.models[ADAPTER] = "/adapters/one", tiny.lm.model
        for name, dialect in ((ADAPTER, "vllm"), (f"{NAME}+{ADAPTER}", "vllm"), (ADAPTER, "sglang")):
            model: Any = llm.load_model(server.spec(dialect, name), quick_policy())
            assert_equal(model.score(PROMPT, TARGETS[:1]), tiny.score(PROMPT, TARGETS[:1]))
            body = server.requests[-1][1]
            assert (body.get("lora_path") or body["model"]) == ADAPTER == model.model_name
            assert model.invoke(PROMPT).text == tiny.invoke(PROMPT).text
            assert server.requests[-1][1].get("lora_path") == (ADAPTER if dialect == "sglang" else None)
            assert model.fingerprint.startswith(f"{ADAPTER} ({dialect} ") and NAME in model.fingerprint
        for name, says in ((f"other+{ADAPTER}", "has no 'other'"), (f"{NAME}+other", "has no 'other'")):
            with pytest.raises(BadSettings, match=says):
                llm.load_model(server.spec(name=name), quick_policy())


def test_what_identifies_the_served_model_is_in_its_fingerprint(tiny):
    with CompletionsServer(tiny.lm, window=512) as server:
        assert load(server).fingerprint == "tiny (vllm 0.33.0, /weights/tiny, 512 tokens)"
        assert load(server, "sglang").fingerprint == "tiny (sglang 0.5.23, /weights/tiny, float32, 506 tokens)"
        server.dialect = "vllm"
        sent = load(server, extra_body={"top_k": 1})._identifying_params
    assert sent == {
        "model": NAME, "temperature": 0.0, "top_k": 1, "max_tokens": 32, "max_new_tokens": 32, "stop_at": ("\n",),
        "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
        "tokenizer": "", "chat": False, "scored_by": "prompt_logprobs",
    }  # fmt: skip


def test_a_key_is_sent_and_hidden_and_a_wrong_one_ends_the_load(tiny, monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "sk-planted-0123456789")
    with CompletionsServer(tiny.lm) as server:
        model = load(server)
        assert server.headers[-1]["authorization"] == "Bearer sk-planted-0123456789"
        server.choose = lambda *request: "401"
        with pytest.raises(ModelError) as error:
            model.score(PROMPT, TARGETS)
    assert type(error.value).__name__ == "KeyRefused" and "planted" not in repr(error.value)


@pytest.mark.parametrize(
    ("spec", "settings", "says"),
    [
        ("vllm:{name}", {}, "needs a name and an address: write vllm:NAME@http://HOST:PORT/v1"),
        ("vllm:@{url}", {}, "needs a name and an address"),
        ("vllm:tinny@{url}", {}, "its server has no 'tinny': did you mean 'tiny'"),
        ("vllm:{name}@{url}", {"max_tokens": 3}, "unknown setting 'max_tokens'.*did you mean 'max_new_tokens'"),
        ("vllm:{name}@{url}", {"gather": 0}, "setting 'gather' of model 'vllm:tiny': .*got 0"),
        ("vllm:{name}@{url}", {"chat": True}, "has no chat template; name a tokenizer that has one"),
    ],
)
def test_a_wrong_name_or_setting_is_refused_by_name(spec, settings, says, tiny):
    with CompletionsServer(tiny.lm) as server, pytest.raises(BadSettings, match=says):
        llm.load_model(spec.format(name=NAME, url=server.address), quick_policy(), **settings)


def test_a_server_that_is_not_there_is_named(tiny):
    with pytest.raises(ModelUnreachable, match="vllm:tiny@http://127.0.0.1:9/v1: the provider does not answer"):
        llm.load_model("vllm:tiny@http://127.0.0.1:9/v1", quick_policy())


def test_scores_are_finite_numbers_of_the_given_tokens_alone(tiny):
    """Numbers of an empty list of targets cost nothing."""
    with CompletionsServer(tiny.lm) as server:
        model = load(server)
        count = len(server.requests)
        assert model.score(PROMPT, []).log_probs == () and len(server.requests) == count
        assert all(map(math.isfinite, model.score(PROMPT, TARGETS).log_probs))
    assert isinstance(tiny, LocalChatModel)
