"""Replies in batches: each as it would be by itself, and none computed longer or oftener than it must be."""

import pytest
import torch

from emend.agents.local.causal_lm import CausalLM
from tests.fakes import SIZES
from tests.params import QUICK_ARCHITECTURES, mostly_slow


def rows_made(lm, monkeypatch):
    """How many rows each batch of replies has, as they are made."""
    made: list[int] = []
    plain = lm._generator._together

    def counted(rows, *more):
        made.append(len(rows))
        return plain(rows, *more)

    monkeypatch.setattr(lm._generator, "_together", counted)
    return made


def test_a_reply_does_not_depend_on_its_batch_where_two_tokens_are_all_but_equally_likely(random_folder, monkeypatch):
    """The output layer has every row twice, all but equal, so that padding alone would choose between twins."""
    lm = CausalLM(random_folder("llama"), device="cpu")
    prompts = [f"{'Rome ' * (1 + 7 * place % 11)}is" for place in range(12)]
    with torch.no_grad():
        head = lm.model.get_output_embeddings().weight
        half = len(head) // 2
        head[half : 2 * half] = head[:half] * (1 + 2e-7 * torch.randn(half, 1, generator=torch.manual_seed(3)))
    alone = [lm.generate([prompt], 12, stop=())[0] for prompt in prompts]
    made = rows_made(lm, monkeypatch)
    assert lm.generate(prompts, 12, stop=()) == alone
    assert made == [12] + [1] * 12


def test_a_clear_reply_is_generated_once(random_lm, monkeypatch):
    lm = random_lm()
    prompts = ["The capital of France is", "Rome is"]
    alone = [lm.generate([prompt], 5)[0] for prompt in prompts]
    made = rows_made(lm, monkeypatch)
    assert lm.generate(prompts, 5) == alone and made == [2]


def test_in_half_precision_a_batch_is_never_repeated(random_folder, monkeypatch):
    """There tokens come close so often that nothing would be left of a batch."""
    lm = CausalLM(random_folder("llama"), device="cpu", dtype="bfloat16")
    made = rows_made(lm, monkeypatch)
    lm.generate(["The capital of France is", "Rome is", "Karo"], 12, stop=())
    assert made == [3]


@pytest.mark.parametrize("architecture", mostly_slow(SIZES, *QUICK_ARCHITECTURES))
def test_rows_that_leave_their_batch_say_what_they_say_by_themselves(random_lm, architecture, monkeypatch):
    """Replies of unequal length after prompts of unequal length, ended by a text, by the end token or by the limit."""
    lm = random_lm(architecture)
    words = ("Karo", "Paris", "and", "the capital", "12 of", "said:")
    prompts = [f"{'The author of ' * (place % 4)}The Silent River is {word}" for place, word in enumerate(words)]
    by_library = lm._generator._generate
    lines: list[int] = []

    def counted(rows, *more):
        lines.append(len(rows))
        return by_library(rows, *more)

    monkeypatch.setattr(lm._generator, "_generate", counted)
    together = lm.generate(prompts, 10, ("e", "a"))
    assert set(lines) <= {1}  # only what is made again by itself
    assert together == [lm.generate([prompt], 10, ("e", "a"))[0] for prompt in prompts]
    assert len({told.output_tokens for told in together}) > 1


def test_a_model_without_continuation_uses_generate_of_transformers(random_lm, monkeypatch):
    """A hook may look at whole rows, and rows beyond what a model is steady for go by the longest one."""
    lm = random_lm()
    prompts = ["The capital of France is", "Rome is", "Karo Benn wrote"]
    alone = [lm.generate([prompt], 6)[0] for prompt in prompts]
    monkeypatch.setattr("emend.agents.local.generation.decode", None)
    handle = lm.model.register_forward_hook(lambda *told: None)
    assert lm.generate(prompts, 6) == alone
    handle.remove()
    monkeypatch.setattr(lm.likelihood, "steady", 8)
    assert lm.generate(prompts, 6) == alone
