"""Garbage is collected rarely during calls to providers, and as before afterwards."""

import gc

import pytest

from emend.memory.process_memory import NEW_OBJECTS, rare_collections


@pytest.fixture
def threshold(request):
    before = gc.get_threshold()
    gc.set_threshold(request.param, *before[1:])
    yield request.param
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("threshold", "inside"), [(700, NEW_OBJECTS), (900_000, 900_000), (0, 0)], indirect=["threshold"]
)
def test_garbage_is_collected_rarely_inside_a_block_and_as_before_after_an_error(threshold, inside):
    with pytest.raises(ValueError, match="end"), rare_collections():
        assert gc.get_threshold()[0] == inside
        raise ValueError("end")
    assert gc.get_threshold()[0] == threshold
