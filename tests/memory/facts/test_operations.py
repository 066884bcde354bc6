"""Operations as a model calls them: what it may leave out, and what its arguments say."""

import json
from typing import Any

import pytest

from emend.memory.facts.fact import Provenance
from emend.memory.facts.fact_memory import FactMemory
from emend.memory.facts.operations import OPERATIONS

BY_NAME = {operation.name: operation for operation in OPERATIONS}


def call(memory: FactMemory, name: str, **arguments: Any) -> Any:
    operation = BY_NAME[name]
    checked = operation.schema(shared=False).model_validate(arguments)
    return json.loads(operation.call(memory, checked, Provenance(user="ann")))


@pytest.mark.parametrize("left_out", [{}, {"valid_to": None}, {"valid_to": "null"}, {"valid_to": ""}])
def test_an_optional_argument_counts_and_may_be_left_out_in_every_way(tmp_path, left_out):
    with FactMemory(tmp_path) as memory:
        call(memory, "remember", subject="Ann", relation="city", object="Oslo", valid_from="2019-05-01", **left_out)
        (fact,) = call(memory, "history", subject="Ann", relation="city")["results"]
        assert fact["valid_from"] == "2019-05-01" and "valid_to" not in fact
        assert call(memory, "lookup", subject="Ann", relation="city", at="2020")["facts"]
        assert "facts" not in call(memory, "lookup", subject="Ann", relation="city", at="2018")


def test_null_for_what_is_needed_is_refused():
    with pytest.raises(ValueError, match="object"):
        BY_NAME["remember"].arguments.model_validate({"subject": "Ann", "relation": "city", "object": None})
