"""A memory is opened by its folder; one that is missing is created only if that was asked for."""

import pytest

import emend.memory.store.open_memory as module
from emend.memory.errors import BadSettings, MissingData
from emend.memory.store.open_memory import open_memory


def test_a_missing_memory_is_refused_before_an_embedding_is_loaded_and_so_is_an_unknown_rule(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "load_embedding", lambda *told: pytest.fail("an embedding was loaded"))
    with pytest.raises(MissingData, match="no memory in"), open_memory(str(tmp_path / "m"), search=True):
        pass
    assert not (tmp_path / "m").exists()
    with pytest.raises(BadSettings, match="--superseding is one of arrival, time, never"), open_memory("m", None, "no"):
        pass


def test_a_missing_memory_is_created_where_that_was_asked_for_and_keeps_its_embedding(tmp_path, monkeypatch):
    with open_memory(str(tmp_path / "m"), "lexical", create=True) as memory:
        first = memory.identity
    with open_memory(str(tmp_path / "m"), create=True, search=True) as memory:
        assert memory.identity == first and memory.view().nearest("x", 1) == []
