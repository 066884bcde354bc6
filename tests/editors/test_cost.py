"""The measurement of time, memory and tokens."""

import time
from mmap import PAGESIZE, mmap

import pytest
import torch

from emend.editors.base import NO_COST, EditCost, EditorContext, cost_of
from emend.editors.conformance import CAPITAL
from emend.editors.cost import Meter, add_tokens, count_tokens
from emend.editors.parametric.rome import Rome
from emend.memory.process_memory import highest_memory


def test_tokens_of_forward_passes_are_counted_without_padding(random_model):
    lm = random_model().lm
    ids = torch.tensor([[5, 6, 7], [5, 6, 0]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    with torch.no_grad(), count_tokens(lm) as counter:
        lm.model(input_ids=ids, attention_mask=mask)
        assert counter.tokens == 5
        lm.model(ids)
        assert counter.tokens == 5 + 6
        lm.model(inputs_embeds=lm.model.get_input_embeddings()(ids))
        assert counter.cost == EditCost(tokens=5 + 6 + 6)
        counter.tokens += 10
    with torch.no_grad():
        lm.model(ids)
    assert counter.cost.tokens == 27


def test_a_mask_over_pairs_of_places_is_no_count_of_tokens(random_model):
    lm = random_model().lm
    ids = torch.tensor([[5, 6, 7], [5, 6, 8]])
    causal = torch.ones(3, 3, dtype=torch.bool).tril().expand(2, 1, 3, 3)
    with torch.no_grad(), count_tokens(lm) as counter:
        lm.model(input_ids=ids, attention_mask=causal)
    assert counter.tokens == ids.numel()


def test_partial_passes_are_added_to_the_active_counter_alone(random_model):
    add_tokens(100)
    with count_tokens(random_model().lm) as counter:
        add_tokens(7)
    add_tokens(100)
    assert counter.tokens == 7


def test_a_search_for_values_counts_its_passes(random_model):
    settings = {"layers": [0], "v_num_grad_steps": 3, "prefixes": ["So. "], "covariance": "identity"}
    editor = Rome(EditorContext(model=random_model(), settings=settings))
    with editor.edit([CAPITAL]) as answerer:
        length = len(editor.lm.encode(CAPITAL.cloze))
        assert cost_of(answerer).tokens > 3 * length


def test_wall_clock_and_processor_time_are_distinguished():
    with Meter(alone=False) as waited:
        time.sleep(0.05)
    assert waited.seconds >= 0.05 > 0.04 > waited.cpu_seconds
    with Meter(alone=True) as worked:
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass
    assert worked.cpu_seconds >= 0.05


def test_memory_is_how_far_it_rose_and_the_highest_is_not_forgotten():
    with Meter(alone=True) as meter:
        with mmap(-1, 64 * 2**20) as held:  # of the system's own: what malloc has left over would be no rise
            for page in range(0, len(held), PAGESIZE):
                held[page] = 1
    if meter.peak_bytes is None:
        pytest.skip("this system does not tell how much memory a process held")
    assert 60 * 2**20 < meter.peak_bytes < 200 * 2**20
    highest = highest_memory()
    with Meter(alone=True) as small:
        pass
    assert small.peak_bytes is not None and small.peak_bytes < 2**20
    assert highest is not None and (highest_memory() or 0) >= highest


def test_a_cost_is_what_the_editor_tells_with_what_was_measured():
    with Meter(alone=False) as meter:
        pass
    cost = meter.cost(3, EditCost(tokens=7))
    assert (cost.edits, cost.tokens, cost.peak_bytes) == (3, 7, None)
    assert meter.cost(0, NO_COST).tokens == 0
