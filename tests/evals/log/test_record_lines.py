"""The fast parser gives the fields that the record has, or refuses a line with the same error."""

import json

import pytest

from emend.evals.case import Record
from emend.evals.log.records import parse_fields, parse_head, parse_record
from emend.memory.errors import BadData

RECORD = Record(
    unit="u",
    of=2,
    case="c",
    probe="p",
    kind="rewrite",
    editor="rag",
    model="m",
    setting="plain",
    mode="single",
    prompt="é 🙂",
    gold=("a", "b"),
    values={"em": 1.0},
    unscored={"f1": "why"},
    tags={"hops": 2, "new": True, "share": 0.5, "name": "x"},
    log_probs=(-1.0, -2),
    path=("ask",),
)
VALUES = [
    *("null", "true", "1", "1.5", "-3", '"1"', '""', "[]", "{}", "NaN", "Infinity", "1e999", "tru", ""),
    *("9" * 30, "9" * 60, "9" * 5000, "[" * 250 + "]" * 250),
    *('"\\ud800"', '"\\ud83d\\ude42"', '"\\u0000"', '"\x01"', '["a", 1]', '{"x": 1}', '{"input_tokens": -1}'),
    *('{"em": null}', '{"em": true}', '{"em": "1"}', '{"em": NaN, "f1": 1}'),
]
NAMES = ("unit", "of", "gold", "answer", "values", "unscored", "usage", "seconds", "edit_cost", "tags", "log_probs")
WHOLE = RECORD.model_dump_json()


def lines():
    fields = json.loads(WHOLE)
    for name in (*NAMES, "further", "kept", "standing"):
        for value in VALUES:
            parts = [f'"{key}": {json.dumps(part)}' for key, part in fields.items() if key != name]
            yield ("{" + ", ".join([*parts, f'"{name}": {value}']) + "}\n").encode()
    yield from (WHOLE.replace(f'"{name}"', '"none"', 1).encode() for name in fields)
    yield from (WHOLE.encode() + end for end in (b"x", b"\xff", b"\0", b","))
    yield WHOLE.replace("why", "\0").encode()
    yield WHOLE.encode().replace(b"why", b"\xff")
    yield b"[" * 100_000 + b"\n"
    yield from (b"\n", b"[]\n", b"null\n", b"\xef\xbb\xbf{}\n", WHOLE.encode("utf-16"))


def outcome(parse, line):
    try:
        record = parse(line, "f, line 3")
    except BadData as error:
        return str(error)
    return [repr(getattr(record, name)) for name in Record.model_fields]


def test_fast_and_slow_parsers_agree_on_any_line():
    outcomes = [(outcome(parse_fields, line), outcome(parse_record, line), line) for line in lines()]
    assert not [line for fast, slow, line in outcomes if fast != slow]
    refused = sum(isinstance(slow, str) for _, slow, _ in outcomes)
    assert 300 < refused < len(outcomes) - 40  # both kinds are tried


def test_sound_lines_are_read_by_the_fast_parser_alone():
    assert not isinstance(parse_fields(WHOLE.encode(), "x"), Record)


def test_a_block_names_the_damaged_line():
    sound = WHOLE.encode() + b"\n"
    with pytest.raises(BadData, match=r"f, line 12, field values\.em: "):
        parse_fields.block([sound, sound, sound.replace(b'"em":1.0', b'"em":[]')], "f", 10)
    odd = sound.replace(b'"em":1.0', b'"em":NaN')
    assert [record.values for record in parse_fields.block([sound, odd], "f", 1)] == [{"em": 1.0}, {}]


@pytest.mark.parametrize("line", [b'{"unit":"","of":1}', b'{"unit":"u","of":0}', b'{"unit":"u"}'])
def test_a_head_without_a_unit_or_number_is_refused(line):
    with pytest.raises(BadData, match="f, line 1, field "):
        parse_head(line, "f, line 1")
