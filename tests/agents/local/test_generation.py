"""Replies in batches that others join: each as it would be alone, and none computed longer than it must be."""

import pytest
import torch

from emend.agents.local import generation
from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.generation import RunningReplies
from emend.agents.local.replies import Generated
from tests.fakes import SIZES
from tests.params import QUICK_ARCHITECTURES, mostly_slow


@pytest.fixture
def repeated(monkeypatch):
    """The requests whose replies are generated again alone."""
    requests = []
    plain = RunningReplies._alone

    def counted(self, request):
        requests.append(request)
        return plain(self, request)

    monkeypatch.setattr(RunningReplies, "_alone", counted)
    return requests


def without_caching(folder, **settings):
    return CausalLM(folder, device="cpu", keep_mb=0, **settings)


def joining(lm, requests, waves):
    """Replies of requests that join in waves, by the number of steps before them."""
    done, left = {}, dict(enumerate(requests))
    with lm.replies() as running:
        step = 0
        while left or running.count:
            for place in [place for place in left if waves[place] <= step]:
                running.add(place, lm.request(*left.pop(place)))
            done.update(running.step())
            step += 1
    return [done[place] for place in range(len(requests))]


@pytest.mark.slow
def test_a_reply_does_not_depend_on_its_batch_where_two_tokens_are_all_but_equally_likely(random_folder, repeated):
    """The output layer has every row twice, all but equal, so that padding alone would choose between twins."""
    lm = CausalLM(random_folder("llama"), device="cpu")
    prompts = [f"{'Rome ' * (1 + 7 * place % 11)}is" for place in range(12)]
    with torch.no_grad():
        head = lm.model.get_output_embeddings().weight
        half = len(head) // 2
        head[half : 2 * half] = head[:half] * (1 + 2e-7 * torch.randn(half, 1, generator=torch.manual_seed(3)))
    alone = [lm.generate([prompt], 12, stop=())[0] for prompt in prompts]
    repeated.clear()
    assert lm.generate(prompts, 12, stop=()) == alone
    assert len(repeated) == 12
    assert joining(lm, [(prompt, 12, ()) for prompt in prompts], [place % 5 for place in range(12)]) == alone


def test_a_clear_reply_is_generated_once(random_lm, repeated):
    lm = random_lm()
    prompts = ["The capital of France is", "Rome is"]
    alone = [lm.generate([prompt], 5)[0] for prompt in prompts]
    assert lm.generate(prompts, 5) == alone and not repeated


def test_half_precision_that_is_not_deterministic_repeats_no_batch(random_folder, repeated):
    """There tokens come close so often that nothing would be left of a batch."""
    lm = CausalLM(random_folder("llama"), device="cpu", dtype="bfloat16", deterministic=False)
    lm.generate(["The capital of France is", "Rome is", "Karo"], 12, stop=())
    assert not repeated


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow(SIZES, *QUICK_ARCHITECTURES))
@pytest.mark.parametrize("keep_mb", [0, 64])
def test_rows_that_join_and_leave_a_batch_get_the_reply_that_they_get_alone(random_folder, architecture, keep_mb):
    """Replies of unequal length after prompts of unequal length, ended by a text, by the end token or by the limit."""
    lm = CausalLM(random_folder(architecture), device="cpu", keep_mb=keep_mb)
    words = ("Karo", "Paris", "and", "the capital", "12 of", "said:")
    prompts = [f"{'The author of ' * (place % 4)}The Silent River is {word}" for place, word in enumerate(words)]
    requests = [(prompt, 4 + 3 * place, ("e", "a")[: place % 3]) for place, prompt in enumerate(prompts)]
    plain = without_caching(random_folder(architecture))
    alone = [plain.generate([prompt], limit, stop)[0] for prompt, limit, stop in requests]
    assert joining(lm, requests, [0] * 6) == alone
    assert joining(lm, requests, [0, 1, 1, 4, 9, 30]) == alone
    assert joining(lm, requests, [5, 0, 3, 0, 9, 2]) == alone
    assert len({reply.output_tokens for reply in alone}) > 2


def test_requests_wait_while_the_positions_are_taken(random_folder, monkeypatch):
    lm = without_caching(random_folder())
    prompts = ["The capital of France is", "Rome is", "Karo Benn wrote", "Paris is"]
    alone = [lm.generate([prompt], 6, ())[0] for prompt in prompts]
    width = max(lm.request(prompt, 6, ()).width for prompt in prompts)
    monkeypatch.setattr(lm._generator, "positions", lambda: 2 * width)
    with lm.replies() as running:
        for place, prompt in enumerate(prompts):
            running.add(place, lm.request(prompt, 6, ()))
        done: dict[int, Generated] = {}
        most = 0
        while running.count:
            done |= dict(running.step())
            most = max(most, len(running._batch.rows))
    assert [done[place] for place in range(4)] == alone and most == 2


def test_positions_go_by_free_memory_and_are_halved_where_it_runs_out(random_folder, monkeypatch):
    lm = without_caching(random_folder(), batch_tokens=100)
    usual = lm._generator.positions()
    assert usual == 100 * generation.REPLY_BATCHES["cpu"]
    config = lm.model.config
    size = 2 * 4 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    monkeypatch.setattr(generation, "free_bytes", lambda model: 1000 * size / generation.MEMORY_PART + 1)
    assert lm._generator.positions() == 1000
    monkeypatch.setattr(generation, "free_bytes", lambda model: 0)
    assert lm._generator.positions() == 100

    def fail(*args, **kwargs):
        raise torch.OutOfMemoryError

    monkeypatch.setattr("emend.agents.local.decoding.Decoder.feed", fail)
    with pytest.raises(torch.OutOfMemoryError):
        lm.generate(["Rome is"], 6)
    assert lm._generator.positions() == 50


def test_a_model_without_continuation_uses_generate_of_transformers(random_lm, monkeypatch):
    """A hook may look at whole rows, and rows beyond what a model is steady for go by the longest one."""
    lm = random_lm()
    prompts = ["The capital of France is", "Rome is", "Karo Benn wrote"]
    alone = [lm.generate([prompt], 6)[0] for prompt in prompts]
    monkeypatch.setattr("emend.agents.local.decoding.Decoder.read", None)
    handle = lm.model.register_forward_hook(lambda *args: None)
    assert lm.generate(prompts, 6) == alone
    handle.remove()
    monkeypatch.setattr(lm.likelihood, "steady", 8)
    assert lm.generate(prompts, 6) == alone
