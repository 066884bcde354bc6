"""JSON objects in replies."""

import pytest

from emend.agents.parsing.messages import json_objects


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
