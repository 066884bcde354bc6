import math
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from transformers import AutoTokenizer

from emend.agents.llm import load_model
from emend.agents.local.chat_model import LocalChatModel
from emend.agents.scoring import ScoringModel, perplexity
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.records import read_records
from emend.evals.results.aggregate.rows import report
from emend.memory.errors import BadData, BadSettings, ContextOverflow, ModelError

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture
def model(random_lm):
    made = LocalChatModel(lm=random_lm(), model_name="random", max_new_tokens=6)
    yield made
    made.close()


def test_it_is_a_scoring_model(model):
    assert isinstance(model, ScoringModel)


def test_reply_is_the_greedy_continuation_of_a_lone_message(model):
    message = model.invoke("The capital of France is")
    told = model.lm.generate(["The capital of France is"], 6, ("\n",))[0]
    assert message.text == told.text
    assert message.usage_metadata["input_tokens"] == len(model.lm.encode("The capital of France is"))
    assert message.usage_metadata["output_tokens"] == told.output_tokens
    assert message.response_metadata["model_name"] == "random"


def test_usage_is_seen_by_langchain(model):
    with get_usage_metadata_callback() as seen:
        model.invoke("The capital")
    assert seen.usage_metadata["random"]["input_tokens"] > 0


def test_cut_tokens_are_reported(model):
    long = "Karo Benn wrote The Silent River. " * 20
    cut = len(model.lm.encode(long)) - (model.lm.window - 6)
    assert model.invoke(long).response_metadata["cut_tokens"] == cut
    assert model.score(long, ["Paris"]).cut_tokens > 0
    assert model.invoke("The").response_metadata["cut_tokens"] == 0


def test_scores_are_those_of_the_model_and_count_the_prompt_once(model):
    scores = model.score("The capital of France is", ["Paris", "Rome"])
    told = model.lm.log_probs([("The capital of France is", target) for target in ("Paris", "Rome")])
    assert scores.log_probs == pytest.approx([one.log_prob for one in told], abs=1e-5)
    assert scores.usage.calls == 1
    assert scores.usage.input_tokens == told[0].prompt_tokens + sum(one.target_tokens for one in told)


def test_scores_hold_each_tokens_log_prob(model):
    scores = model.score("The capital of France is", ["Paris", "Karo Benn"])
    assert scores.target_tokens == tuple(len(logs) for logs in scores.token_log_probs)
    assert [sum(logs) for logs in scores.token_log_probs] == pytest.approx(scores.log_probs)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_perplexity_counts_every_token_of_a_text_once(random_lm, architecture):
    """The first token follows the begin token; GPT-2's tokenizer has none, so there it is the end token."""
    lm = random_lm(architecture)
    model = LocalChatModel(lm=lm)
    text = "The capital of France is Paris."
    ids = lm.tokenizer(text, add_special_tokens=False)["input_ids"]
    first = lm.tokenizer.eos_token_id if lm.tokenizer.bos_token_id is None else lm.tokenizer.bos_token_id
    with torch.no_grad():
        table = torch.log_softmax(lm.model(torch.tensor([[first, *ids]])).logits[0].double(), -1)
    mean = sum(float(table[place, token]) for place, token in enumerate(ids)) / len(ids)
    assert perplexity(model, text) == pytest.approx(math.exp(-mean), rel=1e-4)
    assert model.score("", [text]).target_tokens == (len(ids),)
    model.close()


def test_a_text_longer_than_the_window_has_no_perplexity(model):
    with pytest.raises(ContextOverflow, match="does not fit"):
        perplexity(model, "Karo Benn wrote The Silent River. " * 20)


def test_blank_target_is_refused(model):
    with pytest.raises(BadData, match="no tokens"):
        model.score("The capital is", ["Paris", ""])


def test_one_bad_call_among_many_fails_alone(model):
    """One target is longer than the window; the calls that share its batch are answered."""

    def ask(number):
        return model.score(f"The capital {number} is", ["Paris " * 80 if number == 7 else "Paris"]).log_probs[0]

    with ThreadPoolExecutor(12) as pool:
        futures = [pool.submit(ask, number) for number in range(12)]
    failed = [number for number, future in enumerate(futures) if future.exception()]
    assert failed == [7]
    assert isinstance(futures[7].exception(), ModelError)


@pytest.mark.slow
def test_concurrent_calls_share_batches_and_agree_with_lone_ones(model, monkeypatch):
    prompts = [f"The capital of {name} is" for name in ("France", "Italy", "China", "The Silent River")] * 4
    alone = [(model.invoke(p).text, model.score(p, ["Paris", "Rome"]).log_probs) for p in prompts]
    sizes = []
    for name in ("generate", "log_probs"):
        plain = getattr(model.lm, name)

        def counted(asked, *more, plain=plain):
            sizes.append(len(asked))
            time.sleep(0.01)
            return plain(asked, *more)

        monkeypatch.setattr(model.lm, name, counted)
    with ThreadPoolExecutor(16) as pool:
        both = list(pool.map(lambda p: (model.invoke(p).text, model.score(p, ["Paris", "Rome"]).log_probs), prompts))
    assert [text for text, _ in both] == [text for text, _ in alone]
    for (_, one), (_, other) in zip(both, alone, strict=True):
        assert one == pytest.approx(other, abs=1e-4)
    assert len(sizes) < 2 * len(prompts)


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"gather": 1}, {"score_apart": True}])
def test_scores_computed_separately_are_the_same_to_the_last_bit(random_lm, how):
    model = LocalChatModel(lm=random_lm(), **how)
    prompts = [f"{'Rome ' * length}is" for length in range(20)]
    alone = [model.score(p, ["Paris", "Karo Benn"]) for p in prompts]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda p: model.score(p, ["Paris", "Karo Benn"]), prompts)) == alone
    model.close()


def test_stop_and_limit_of_a_call_are_obeyed(model):
    free = model.invoke("The capital of Italy is", stop=[], max_new_tokens=12).text
    stopped = model.invoke("The capital of Italy is", stop=[free[2]], max_new_tokens=12).text
    assert stopped == free[: free.index(free[2])]
    assert model.invoke("The capital", max_tokens=2).usage_metadata["output_tokens"] <= 2


def test_unsupported_call_settings_are_refused(model):
    with pytest.raises(BadSettings, match="temperature"):
        model.invoke("The capital", temperature=1.0)


def seen_by(model, monkeypatch):
    """The prompts that reach the weights, each with its stop texts, as they come."""
    seen: list[tuple[str, tuple[str, ...]]] = []
    plain = model.lm.request

    def seeing(prompt, limit, stop):
        seen.append((prompt, stop))
        return plain(prompt, limit, stop)

    monkeypatch.setattr(model.lm, "request", seeing)
    return seen


@pytest.fixture
def instruct(random_folder, tmp_path):
    """A random model whose tokenizer has a chat template, saved and loaded as users' models are."""
    folder = tmp_path / "instruct"
    shutil.copytree(random_folder(), folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def loaded(folder, **settings):
    model = load_model(f"hf:{folder}", device="cpu", **settings)
    assert isinstance(model, LocalChatModel)
    return model


def test_an_instruct_model_gets_every_message_through_its_template_a_lone_one_too(instruct, monkeypatch):
    model = loaded(instruct, max_new_tokens=6, stop_at=("e",))
    sent = seen_by(model, monkeypatch)
    model.invoke([SystemMessage("Be short."), HumanMessage("Where?"), AIMessage("Here."), HumanMessage("Why?")])
    told = model.invoke("Where?")
    assert [text for text, _ in sent] == [
        "<s><system>Be short.\n<user>Where?\n<assistant>Here.\n<user>Why?\n<assistant>",
        "<s><user>Where?\n<assistant>",
    ]
    assert [stop for _, stop in sent] == [(), ()]  # a chat reply ends with the end token
    assert model.lm.encode(sent[1][0]).count(model.lm.tokenizer.bos_token_id) == 1
    assert told.text == model.lm.generate(["<s><user>Where?\n<assistant>"], 6, ())[0].text
    other = "{% for message in messages %}{{ message.content }}{% endfor %}"
    before = model._identifying_params["chat"]
    monkeypatch.setattr(model.lm.tokenizer, "chat_template", other)
    assert model._identifying_params["chat"] != before
    model.close()


def test_targets_are_scored_where_the_reply_would_stand(instruct):
    model = loaded(instruct)
    told = model.score("Where?", ["Paris", "Karo Benn"])
    plain = model.lm.log_probs([("<s><user>Where?\n<assistant>", target) for target in ("Paris", "Karo Benn")])
    assert told.log_probs == pytest.approx([one.log_prob for one in plain], abs=1e-5)
    alone = model.lm.log_probs([("", "The capital of France is Paris.")])[0]
    assert model.score("", ["The capital of France is Paris."]).log_probs[0] == pytest.approx(alone.log_prob, abs=1e-5)
    model.close()


def test_the_template_can_be_left_aside(instruct, random_lm, monkeypatch):
    model = loaded(instruct, chat=False)
    sent = seen_by(model, monkeypatch)
    model.invoke("Where?")
    model.invoke([SystemMessage("Be short."), HumanMessage("Where?")])
    assert sent == [("Where?", ("\n",)), ("Be short.\n\nWhere?", ())]
    assert "chat" not in model._identifying_params
    model.close()
    with pytest.raises(BadSettings, match="has no chat template"):
        LocalChatModel(lm=random_lm(), chat=True)


def test_a_base_model_gets_plain_text_and_a_chat_joined_by_blank_lines(model, monkeypatch):
    sent = seen_by(model, monkeypatch)
    model.invoke("Where?")
    model.invoke([SystemMessage("Be short."), HumanMessage("Where?")])
    assert sent == [("Where?", ("\n",)), ("Be short.\n\nWhere?", ())]


def test_weights_are_not_used_while_an_editor_holds_the_lock(model):
    with ThreadPoolExecutor(1) as pool:
        with model.lm.lock:
            call = pool.submit(model.score, "The capital is", ["Paris"])
            time.sleep(0.05)
            assert not call.done()
        assert call.result(timeout=60).log_probs


def test_closed_model_has_no_thread_and_refuses(random_lm):
    others = set(threading.enumerate())  # of models that other tests hold
    model = LocalChatModel(lm=random_lm())
    model.invoke("The capital")
    model.close()
    assert not [t for t in set(threading.enumerate()) - others if t.name.startswith("emend-batch")]
    with pytest.raises(ModelError, match="closed"):
        model.invoke("The capital")


def test_fingerprint_is_that_of_the_weights(model):
    assert model.fingerprint == model.lm.fingerprint
    assert model.fingerprint.endswith("/float32")


@pytest.mark.slow
@pytest.mark.parametrize(("form", "said"), [("chat", 1), (None, 0)])
def test_a_run_that_writes_weights_asks_in_plain_text_or_says_that_it_does_not(instruct, tmp_path, form, said):
    config = RunConfig(
        benchmark="tinyworld",
        editors=("unedited", "ft"),
        model=f"hf:{instruct}",
        embedding="lexical",
        limit=1,
        form=form,
        overrides={"ft": {"num_steps": 1}},
    )
    run(config, tmp_path / "run")
    assert sum("ft: edits are trained on plain text" in told for told in report(tmp_path / "run").choices) == said
    assert {record.form for record in read_records(tmp_path / "run")} == {form or "plain"}


@pytest.mark.parametrize("gather", [0, -1])
def test_an_impossible_batch_limit_is_refused(instruct, gather):
    with pytest.raises(BadSettings, match=rf"model.gather is {gather}: give at least 1"):
        loaded(instruct, gather=gather)


def test_its_plain_view_continues_text_on_the_same_worker(instruct, monkeypatch):
    model = loaded(instruct, max_new_tokens=4)
    plain = model.plain()
    sent = seen_by(model, monkeypatch)
    plain.invoke("Where?")
    assert [text for text, _ in sent] == ["Where?"] and plain.lm is model.lm
    assert plain.plain() is plain and not plain.chats and model.chats
    raw = model.lm.log_probs([("Where?", "Paris")])[0]
    assert plain.score("Where?", ["Paris"]).log_probs[0] == pytest.approx(raw.log_prob, abs=1e-5)
    assert "_batcher" in plain.__pydantic_private__ and plain._batcher is model._batcher
    model.close()


def test_a_score_counts_the_tokens_that_the_model_would_choose(instruct):
    model = loaded(instruct).plain()
    target = model.lm.generate(["The capital"], 3, ())[0]
    chosen = model.lm.log_probs([("The capital", target.text.strip())])[0]
    other = model.score("The capital", ["zq zq zq"])
    assert 0 <= chosen.greedy_tokens <= chosen.target_tokens and other.greedy_tokens[0] < other.target_tokens[0]
    model.close()


def test_a_score_names_the_most_probable_tokens_in_each_place(instruct):
    model = loaded(instruct).plain()
    prompt, target = "The capital", "zq zq zq"
    ids = torch.tensor([model.lm.encode_pair(prompt, target).ids])
    start = model.lm.encode_pair(prompt, target).start
    with torch.no_grad():
        best = model.lm.model(ids).logits[0, start - 1 : -1].topk(5).indices
    expected = torch.cat([ids[0, start:, None], best], dim=1).tolist()
    assert [list(place) for place in model.score(prompt, [target]).likely_tokens[0]] == expected
    model.close()
