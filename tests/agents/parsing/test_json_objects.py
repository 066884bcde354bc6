"""JSON objects in replies."""

import json

import pytest

from emend.agents.parsing.json_objects import json_objects, scan_objects


@pytest.mark.parametrize(
    "reply",
    [
        '{"reason": "Dunn is 40.\nSorrel is 90.", "verdict": "yes"}',
        '```json\n{\n  "reason": "Dunn is 40.\n\n\tSorrel is 90.",\n  "verdict": "yes"\n}\n```',
    ],
)
def test_a_text_may_have_lines(reply: str) -> None:
    (value,) = json_objects(reply)
    assert value["verdict"] == "yes" and "\n" in value["reason"]


def test_braces_without_end_are_one_broken_object() -> None:
    text = 'x {"a": 1} {y} ' + '{"a": [' * 50_000
    first, second = scan_objects(text, json.JSONDecoder())
    assert first.value == {"a": 1} and second.value is None
    assert json_objects(text) == []
