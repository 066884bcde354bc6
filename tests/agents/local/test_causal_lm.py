import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emend.agents.local.causal_lm import SAMPLE, CausalLM
from emend.agents.local.likelihood import Likelihood
from emend.memory.errors import BadData, BadSettings, ContextOverflow
from tests.fakes import SIZES
from tests.params import QUICK_ARCHITECTURES, mostly_slow

ARCHITECTURES = ["llama", "gpt2", "gpt_neox", "qwen2"]
PAIRS = [
    ("The capital of France is", "Paris"),
    ("The capital of France is", "Rome"),
    ("Q: Who wrote The Silent River?\nA:", "Karo Benn"),
    ("said ", "12"),
    ("", "Paris is"),
    ("北京 is the capital of", "China, and 345 don't agree"),
]
words = st.text(alphabet="aePn .1京\n", min_size=0, max_size=25)
targets = st.text(alphabet="aeRn .2é", min_size=1, max_size=8).filter(str.strip)


def log_prob_by_hand(lm, prompt, target):
    """One unpadded row, all logits of the model itself, summed from the first token that the prompt alone lacks."""
    gap = "" if not prompt or prompt[-1].isspace() or target[0].isspace() else " "
    alone, whole = (lm.tokenizer(text)["input_ids"] for text in (prompt, prompt + gap + target))
    if lm.tokenizer.bos_token_id is None:
        alone, whole = ([lm.tokenizer.eos_token_id] + ids if prompt == "" else ids for ids in (alone, whole))
    start = next((n for n, (a, b) in enumerate(zip(alone, whole, strict=False)) if a != b), min(len(alone), len(whole)))
    if start == 0:
        whole, start = [lm.tokenizer.eos_token_id, *whole], 1
    with torch.no_grad():
        table = torch.log_softmax(lm.model(torch.tensor([whole])).logits[0].double(), -1)
    return sum(float(table[place - 1, whole[place]]) for place in range(start, len(whole)))


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("architecture", mostly_slow(SIZES, *QUICK_ARCHITECTURES))
def test_log_probs_are_those_of_the_plain_model(random_lm, architecture, padding):
    lm = random_lm(architecture)
    told = [scored.log_prob for scored in lm.log_probs(PAIRS, padding)]
    assert told == pytest.approx([log_prob_by_hand(lm, *pair) for pair in PAIRS], abs=1e-4)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_log_probs_are_those_of_the_plain_model_with_sentencepiece_like_tokens(random_lm, architecture):
    lm = random_lm(architecture, pieces="metaspace")
    told = [scored.log_prob for scored in lm.log_probs(PAIRS)]
    assert told == pytest.approx([log_prob_by_hand(lm, *pair) for pair in PAIRS], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("architecture", mostly_slow(ARCHITECTURES, *QUICK_ARCHITECTURES))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(words, targets), min_size=1, max_size=8))
def test_batched_equals_one_at_a_time(random_lm, architecture, padding, pairs):
    lm = random_lm(architecture)
    alone = [lm.log_probs([pair], padding)[0] for pair in pairs]
    for one, other in zip(alone, lm.log_probs(pairs, padding), strict=True):
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)
        assert one[1:4] == other[1:4]


def test_several_small_batches_equal_one_large(random_folder, random_lm):
    small = CausalLM(random_folder(), device="cpu", batch_tokens=30)
    told = [scored.log_prob for scored in small.log_probs(PAIRS)]
    assert told == pytest.approx([scored.log_prob for scored in random_lm().log_probs(PAIRS)], abs=1e-4)
    assert small.generate([p for p, _ in PAIRS], 5) == random_lm().generate([p for p, _ in PAIRS], 5)


def test_probabilities_of_all_next_tokens_sum_to_one(random_lm):
    """With the space already said, each one-character target is one token of the byte vocabulary."""
    lm = random_lm()
    alphabet = [chr(code) for code in range(33, 127)]
    told = lm.log_probs(
        [("said ", letter) for letter in alphabet if lm.encode(f"said {letter}")[:-1] == lm.encode("said ")]
    )
    assert 0.1 < sum(math.exp(scored.log_prob) for scored in told) <= 1


def test_head_is_separated_where_its_scaling_is_known(random_lm):
    assert all(random_lm(architecture).likelihood.head is not None for architecture in ARCHITECTURES)
    capped = random_lm("gemma2")
    assert capped.likelihood.head is not None, "Gemma 2 caps its logits after the output layer"
    assert capped.likelihood.head is not capped.model.get_output_embeddings()


def test_a_head_with_an_unknown_function_is_not_separated(random_lm, monkeypatch):
    lm = random_lm("gemma2")
    monkeypatch.setattr(lm.model.config, "final_logit_softcapping", 31.0)
    monkeypatch.setattr(lm.model.config, "logit_scale", 0.5, raising=False)
    assert Likelihood(lm.model, 0, 256, lm.encode(SAMPLE), lm.model.dtype).head is None


def test_begin_token_is_added_once(random_lm):
    lm = random_lm("llama")
    assert lm.encode("The capital")[0] == lm.tokenizer.bos_token_id
    assert lm.encode("<s>The capital") == lm.encode("The capital")
    assert lm.tokenizer.bos_token_id not in lm.encode("The capital")[1:]


def test_target_begins_where_the_tokens_of_the_prompt_end(random_lm):
    lm = random_lm("gpt2")
    pair = lm.encode_pair("The capital is", "Paris")
    assert lm.tokenizer.decode(pair.ids[: pair.start]) == "The capital is"
    assert lm.tokenizer.decode(pair.ids[pair.start :]) == " Paris"


def test_target_that_merges_with_the_end_of_the_prompt_is_scored_whole(random_lm):
    lm = random_lm("gpt2")
    pair = lm.encode_pair("capital of ", "France")  # the space at the end belongs to " France"
    assert lm.tokenizer.decode(pair.ids[pair.start :]) == " France"


def test_blank_target_is_refused(random_lm):
    with pytest.raises(BadData, match="no tokens"):
        random_lm().log_probs([("The capital is", " ")])


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_long_prompt_is_cut_on_the_left_after_the_begin_token(random_lm, architecture):
    lm = random_lm(architecture)
    long = "Karo Benn wrote The Silent River. " * 20 + "The capital of France is"
    pair = lm.encode_pair(long, "Paris")
    assert len(pair.ids) - 1 == lm.window
    lead = lm._encoder.special.lead
    assert pair.ids[: len(lead)] == lead
    assert lm.tokenizer.decode(pair.ids).endswith("The capital of France is Paris")
    assert pair.cut == len(lm.encode(long + " Paris")) - len(pair.ids)
    scored, short = lm.log_probs([(long, "Paris"), ("The capital of France is", "Paris")])
    assert (scored.cut_tokens, short.cut_tokens) == (pair.cut, 0)
    assert math.isfinite(scored.log_prob)


def test_generation_leaves_room_for_the_new_tokens(random_lm):
    lm = random_lm()
    long = "Karo Benn wrote The Silent River. " * 20
    told = lm.generate([long, "The"], 5)
    assert told[0].input_tokens == lm.window - 5
    assert told[0].cut_tokens == len(lm.encode(long)) - (lm.window - 5)
    assert told[1].cut_tokens == 0


def test_target_longer_than_the_window_is_refused(random_lm):
    with pytest.raises(ContextOverflow, match="does not fit the window of 64"):
        random_lm().log_probs([("The capital is", "Paris and Rome " * 40)])


@pytest.mark.parametrize("limit", [0, 64, 1000])
def test_impossible_number_of_new_tokens_is_refused(random_lm, limit):
    with pytest.raises(BadSettings, match=f"max_new_tokens is {limit}: give 1 to 63"):
        random_lm().generate(["The"], limit)


def greedy_by_hand(lm, prompt, limit):
    ids = list(lm.encode(prompt))
    size = len(ids)
    while len(ids) < size + limit:
        with torch.no_grad():
            ids.append(int(lm.model(torch.tensor([ids])).logits[0, -1].argmax()))
        if ids[-1] == lm.tokenizer.eos_token_id:
            break
    return ids[size:]


@pytest.mark.parametrize("architecture", mostly_slow(ARCHITECTURES, *QUICK_ARCHITECTURES))
def test_generation_is_greedy_and_does_not_depend_on_the_batch(random_lm, architecture):
    lm = random_lm(architecture)
    prompts = [prompt for prompt, _ in PAIRS]
    told = lm.generate(prompts, 8, stop=())
    for prompt, one in zip(prompts, told, strict=True):
        by_hand = greedy_by_hand(lm, prompt, 8)
        assert one.text == lm.tokenizer.decode(by_hand, skip_special_tokens=True).lstrip()
        assert one.output_tokens == len(by_hand)
        assert one.finished == (by_hand[-1] == lm.tokenizer.eos_token_id)


def test_generation_ignores_a_stored_repetition_penalty(random_lm, tmp_path):
    from transformers import GenerationConfig

    lm = random_lm()
    lm.model.save_pretrained(tmp_path)
    lm.tokenizer.save_pretrained(tmp_path)
    GenerationConfig(repetition_penalty=5.0, do_sample=True, temperature=3.0, eos_token_id=1).save_pretrained(tmp_path)
    prompts = [prompt for prompt, _ in PAIRS]
    assert CausalLM(tmp_path, device="cpu").generate(prompts, 12) == lm.generate(prompts, 12)


def test_generation_ends_before_a_stop_text_and_counts_up_to_it(random_lm):
    lm = random_lm("gpt2")
    free = lm.generate(["The capital of Italy is"], 12, stop=())[0]
    stop = free.text[3:5]
    told = lm.generate(["The capital of Italy is"], 12, stop=(stop,))[0]
    assert told.text == free.text[: free.text.index(stop)]
    assert told.output_tokens < free.output_tokens
    assert told.finished


def test_lock_is_held_while_the_weights_are_used(random_lm):
    import threading

    lm, done = random_lm(), threading.Event()

    def ask():
        lm.log_probs(PAIRS)
        done.set()

    with lm.lock:
        other = threading.Thread(target=ask)
        other.start()
        assert lm.generate(["The"], 2), "the holder itself may ask"
        assert not done.wait(0.1)
    other.join(60)
    assert done.is_set()


def test_no_gradients_are_kept_and_weights_stay(random_lm):
    lm = random_lm()
    before = {name: weight.clone() for name, weight in lm.model.named_parameters()}
    lm.log_probs(PAIRS)
    lm.generate(["The"], 3)
    assert all(
        weight.grad is None and torch.equal(weight, before[name]) for name, weight in lm.model.named_parameters()
    )


def test_trained_model_recalls_its_world(trained_folder):
    lm = CausalLM(trained_folder, device="cpu")
    prompts = ["Q: What is the industry of Darion?\nA:", "Q: Who is the founder of Norlaex?\nA:"]
    assert [told.text for told in lm.generate(prompts, 8)] == ["banking", "Tamrey Rilunman"]
    right, wrong = lm.log_probs([(prompts[0], "banking"), (prompts[0], "shipping")])
    assert right.log_prob > -0.1 > -3 > wrong.log_prob


def test_fact_in_the_context_overrides_the_trained_models_knowledge(trained_folder):
    lm = CausalLM(trained_folder, device="cpu")
    prompt = "New Fact: The industry of Darion is mining.\nQ: What is the industry of Darion?\nA:"
    right, wrong = lm.log_probs([(prompt, "mining"), (prompt, "banking")])
    assert lm.generate([prompt], 8)[0].text == "mining"
    assert right.log_prob > wrong.log_prob
