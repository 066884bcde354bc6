"""Values of a state are shown whole: messages once, judged passages with their numbers, ids left out."""

import pytest

from emend.evals.show.report.traces.values import brief, entry_texts, is_conversation

CALL = {"name": "search_memory", "args": {"query": "Land0"}, "id": "1"}


@pytest.mark.parametrize(
    ("entry", "aside", "text"),
    [
        ({"type": "ai", "data": {"content": "", "tool_calls": [CALL]}}, "ai", 'search_memory({"query": "Land0"})'),
        ({"type": "human", "data": {"content": "Who?"}}, "human", "Who?"),
        (
            {"entry_id": "7.000", "text": "The capital of Land0 is New-0.", "relevance": 0.73211, "used": True},
            "relevance 0.7321  used true",
            "The capital of Land0 is New-0.",
        ),
        (
            {"kind": "copy", "fact": "The capital of Land0 is New-0.", "prompt": "The capital of Land0 is"},
            "kind copy",
            "fact: The capital of Land0 is New-0.\nprompt: The capital of Land0 is",
        ),
        (
            {"entity": "Land0", "fact": "The capital of Land0 is New-0.", "answer": "New-0"},
            "entity Land0  answer New-0",
            "fact: The capital of Land0 is New-0.",
        ),
        ({"type": "ai", "data": {"content": "", "tool_calls": [3]}}, "ai", ""),
    ],
)
def test_an_entry_has_short_values_beside_its_texts(entry, aside, text):
    assert entry_texts(entry) == (aside, text)


def test_a_conversation_is_recognised_and_thresholds_are_short():
    assert is_conversation({"messages": [{"type": "ai", "data": {}}]})
    assert not is_conversation({"messages": ["hello"]}) and not is_conversation({"messages": []})
    assert brief({"upper": 0.10000000000000009, "lower": -0.5}) == "upper 0.1  lower -0.5" and brief([1]) == "[1]"
