"""Edits as lines of JSON: short forms, the whole of an edit, and what is wrong by file and line."""

import json
import tomllib

import pytest

from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData
from emend.memory.store.jsonl import dump_lines, read_edits, read_text
from tests.paths import DATA


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
    with_id = triplet.model_copy(update={"subject_id": "Q1"})
    first = Edit.from_triplet(with_id, "The mayor of {} is", time="2026-05")
    assert first.text == "The mayor of Veld is Mira."
    assert told == [
        first,
        Edit.from_triplet(triplet, "The mayor of {} is"),
        Edit(form="document", text="城市 one.", language="zh"),
        Edit(form="event", text="A flood.", time="2026-05-31"),
    ]


def test_written_edits_are_read_back_unchanged():
    triplets = tuple(Triplet(subject="a", relation="b", object=name, object_id="Q2") for name in "cd")
    edits = [
        Edit(
            form="triplets", text="kept\u2028apart\n", triplets=triplets, question="who?", target_true="e", time="2020"
        ),
        Edit(form="document", text="d", id="own"),
        Edit(form="facts", text="f", language="fr"),
    ]
    lines = list(dump_lines(edits))
    assert read_edits(lines, "x") == edits
    assert all(json.loads(line)["id"] for line in lines)


BROKEN = tomllib.loads((DATA / "retrieval/no_edits.toml").read_text("utf-8"))["lines"]


@pytest.mark.parametrize("line, problem", BROKEN)
def test_a_line_without_an_edit_is_named(line, problem):
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
def test_contradicting_or_unparsable_fields_are_refused(line):
    with pytest.raises(BadData, match="x, line 1: field '(text|prompt)'"):
        read_edits([line], "x")


def test_a_triplet_may_have_prompt_and_text():
    line = '{"subject": "S", "relation": "r", "object": "o", "prompt": "{} is", "text": "S is o, they say."}'
    (edit,) = read_edits([line], "x")
    assert (edit.prompt, edit.text, edit.target_new) == ("{} is", "S is o, they say.", "o")


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_of_objects_is_read_as_if_they_were_lines(indent):
    told = [{"document": "a\u2028b"}, {"subject": "S", "relation": "r", "object": "o"}]
    lines = [json.dumps(one) for one in told]
    assert read_text("\n" + json.dumps(told, indent=indent) + "\n", "x") == read_edits(lines, "x")
    assert read_text("\n".join(lines), "x") == read_edits(lines, "x") and read_text("[]", "x") == []


@pytest.mark.parametrize(
    "text, problem",
    [
        ('[{"document": "x"}, 3]', "x, item 2: expected a JSON object, got 3: write one of"),
        ('[{"document": "x"}, {"subject": "a"}]', "x, item 2: field 'relation' is missing"),
        ('[{"document": "x", "date": 1}]', "x, item 1, field 'date'"),
        ('[{"document": "x", "document": "y"}]', "x: field 'document' occurs twice"),
        (
            '[\n{"document": "x"},\n{"docu',
            r"x begins like a JSON array, '\[\\n\{\"document.*but is not one .*correct it",
        ),
        ('[{"document": "x"}]\n[{"document": "y"}]', r'x, line 1: expected a JSON object, got \[\{"document": "x"\}\]'),
        ('[{"document": "x"}] and more', r"x, line 1: not valid JSON \(Extra data"),
    ],
)
def test_an_item_of_an_array_that_is_no_edit_is_named(text, problem):
    with pytest.raises(BadData, match=f"^{problem}"):
        read_text(text, "x")
