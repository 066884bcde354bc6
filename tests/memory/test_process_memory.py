"""Garbage is collected rarely during calls to providers, and as before afterwards."""

import gc

import pytest

from emend.memory.process_memory import NEW_OBJECTS, rare_collections


def test_garbage_is_collected_rarely_inside_a_block_and_as_before_after_an_error():
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="end"), rare_collections():
        assert gc.get_threshold() == (NEW_OBJECTS, *before[1:])
        raise ValueError("end")
    assert gc.get_threshold() == before
