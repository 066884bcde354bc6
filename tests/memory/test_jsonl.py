"""Edits as lines of JSON: short forms, the whole of an edit, and what is wrong by file and line."""

import json

import pytest

from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData
from emend.memory.jsonl import lines_of, read_edits


def test_short_forms_are_edits():
    told = read_edits(
        [
            '{"subject": "Veld", "relation": "mayor", "object": "Mira", "time": "2026-05", "subject_id": "Q1"}\n',
            "\n",
            '{"subject": "Veld", "relation": "mayor", "object": "Mira", "prompt": "The mayor of {} is"}',
            '{"document": "城市 one.", "language": "zh"}',
            '{"event": "A flood.", "time": "2026-05-31"}',
        ],
        "x",
    )
    triplet = Triplet(subject="Veld", relation="mayor", object="Mira")
    first = Edit(
        form="triplet",
        text="Veld mayor Mira",
        subject="Veld",
        target_new="Mira",
        triplets=(triplet.model_copy(update={"subject_id": "Q1"}),),
        time="2026-05",
    )
    assert told == [
        first,
        Edit.from_triplet(triplet, "The mayor of {} is"),
        Edit(form="document", text="城市 one.", language="zh"),
        Edit(form="event", text="A flood.", time="2026-05-31"),
    ]


def test_what_is_written_is_read_back_the_same():
    triplets = tuple(Triplet(subject="a", relation="b", object=name, object_id="Q2") for name in "cd")
    edits = [
        Edit(
            form="triplets", text="kept\u2028apart\n", triplets=triplets, question="who?", target_true="e", time="2020"
        ),
        Edit(form="document", text="d", id="own"),
        Edit(form="facts", text="f", language="fr"),
    ]
    lines = list(lines_of(edits))
    assert read_edits(lines, "x") == edits
    assert all(json.loads(line)["id"] for line in lines)


@pytest.mark.parametrize(
    "line, problem",
    [
        ("{torn", "no JSON"),
        ("[1]", r"no JSON object but \[1\]"),
        ("{}", "no fields: this is no edit"),
        ('{"fact": "x"}', "fields 'fact': this is no edit"),
        ('{"subject": "a", "object": "b"}', "field 'relation' is missing"),
        ('{"subject": "a", "relation": " ", "object": "b"}', "field 'relation' is missing or blank"),
        ('{"subject": "a", "relation": "r", "object": 3}', "field 'object' is not a text but 3"),
        ('{"subject": "a", "relation": "r", "object": "b", "prompt": 3}', "field 'prompt'"),
        ('{"subject": "a", "relation": "r", "object": "b", "prompt": "of a"}', "prompt 'of a' has no {}"),
        ('{"subject": "a", "relation": "r", "object": "b", "triplets": []}', "field 'triplets' has no place"),
        ('{"form": "triplet", "text": "", "triplets": [{"subject": "a", "relation": "r", "object": "b"}]}', "is blank"),
        ('{"form": "rule", "text": "x"}', "seen 'rule'"),
        ('{"document": 3}', "field 'document' is not a text but 3"),
        ('{"document": " "}', "the text is blank"),
        ('{"document": "x", "date": "2026"}', "field 'date': Extra inputs are not permitted"),
        ('{"document": "x", "time": "last May"}', "time 'last May' is not ISO 8601"),
        ('{"event": "x"}', "field 'time' is missing"),
        ('{"form": "rumour", "text": "x"}', "field 'form'"),
        ('{"form": "document"}', "field 'text': Field required"),
    ],
)
def test_a_line_that_says_no_edit_is_named(line, problem):
    with pytest.raises(BadData, match=f"^facts.jsonl, line 2(:|, field).*{problem}|^facts.jsonl, line 2, {problem}"):
        read_edits(['{"document": "fine"}', line], "facts.jsonl")


@pytest.mark.parametrize(
    "line",
    [
        '{"document": "A", "text": "B"}',
        '{"event": "A", "time": "2026", "text": "B"}',
        '{"subject": "S", "relation": "r", "object": "o", "prompt": {}}',
        '{"subject": "S", "relation": "r", "object": "o", "prompt": ["{}"]}',
    ],
)
def test_what_would_be_dropped_or_cannot_be_read_is_refused(line):
    with pytest.raises(BadData, match="x, line 1: field '(text|prompt)'"):
        read_edits([line], "x")


def test_a_triplet_may_have_prompt_and_text():
    line = '{"subject": "S", "relation": "r", "object": "o", "prompt": "{} is", "text": "S is o, they say."}'
    (edit,) = read_edits([line], "x")
    assert (edit.prompt, edit.text, edit.target_new) == ("{} is", "S is o, they say.", "o")
