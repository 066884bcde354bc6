"""Distances of Chroma's index become similarities."""

from types import SimpleNamespace

import numpy as np
import pytest

from emend.memory.edit import Edit
from emend.memory.errors import BadData
from emend.memory.store.collection import MemoryCollection
from emend.memory.store.rows import make_rows, metadata


@pytest.mark.parametrize(
    "identity, scores", [("minilm/256/abc", [1.0, 0.75, -1.0]), ("contriever/512/abc/dot", [4.0, 0.75, -1.5])]
)
def test_a_cosine_stays_between_its_bounds_and_a_dot_product_has_none(identity, scores):
    rows = [row for text in "abc" for row in make_rows(Edit(form="document", text=text))]
    page = {
        "ids": [[row.entry.id for row in rows]],
        "documents": [[row.entry.text for row in rows]],
        "metadatas": [[metadata(row) for row in rows]],
        "distances": [[-3.0, 0.25, 2.5]],
    }
    stored = SimpleNamespace(metadata={"embedding": identity}, query=lambda **asked: page)
    hits = MemoryCollection(stored, lambda: 10).nearest(np.zeros((1, 2), np.float32), 3)
    assert [hit.score for hit in hits] == scores


@pytest.mark.parametrize(
    "damaged", ["", "[]", "{", "[" * 5000, '{"form": "rumour"}', '{"form": "document", "more": 1}']
)
def test_a_damaged_stored_edit_is_named(damaged):
    (row,) = make_rows(Edit(id="x", form="document", text="a"))
    with pytest.raises(BadData, match="^stored edit 'x': "):
        _ = row._replace(edit_json=damaged).edit
