"""JSON from damaged and hostile files: parsed, or refused in one line that names file and line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emend.memory.errors import BadData
from emend.memory.json_files import (
    DEPTH_LIMIT,
    DIGITS_LIMIT,
    parse_json,
    parse_lines,
    parse_object,
    read_json,
    replace_surrogates,
    unique_keys,
    value_lines,
)

BAD = {
    b"": "not valid JSON",
    b"{": "not valid JSON",
    b'{"a": 1} {"b": 2}': "not valid JSON .Extra data at column 10",
    b"[" * 100_000 + b"]" * 100_000: "nested more than",
    b"[" * DEPTH_LIMIT + b"[]" + b"]" * DEPTH_LIMIT: "nested more than",
    b'{"a": ' * 300 + b"1" + b"}" * 300: "nested more than",
    b"9" * 5000: "an integer of 5000 digits",
    b'{"of": -' + b"9" * (DIGITS_LIMIT + 1) + b"}": "an integer of",
    b'{"of": 1e999}': "the number 1e999 is too large",
    b"-1.5E+400": "too large",
    b'{"of": NaN}': "NaN is not valid JSON",
    b"[-Infinity]": "-Infinity is not valid JSON",
    '{"a": "é"}'.encode("utf-16"): "UTF-16",
    '{"a": 1}'.encode("utf-16-le"): "NUL bytes",
    b'{"a": "\xff"}': "byte 8, in line 1, is not UTF-8",
    b'{"a": "\xed\xa0\x80"}': "is not UTF-8",
    b"\0" * 100: "NUL bytes",
    b'{"a":\n "x", \n}': "at line 3, column 1",
}
OBJECTS = st.dictionaries(
    st.text(max_size=5), st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats() | st.text(max_size=20)
)


@pytest.mark.parametrize("content", BAD, ids=lambda content: str(content[:20]))
def test_what_is_no_json_is_refused_with_its_place(content):
    with pytest.raises(BadData, match=rf"^x, line 3: .*{BAD[content]}.*\.$"):
        parse_json(content, "x, line 3")


@pytest.mark.parametrize(
    "content, value",
    [
        (b'{"n": 12345678901234567890123}', {"n": 12345678901234567890123}),
        (b"[" * DEPTH_LIMIT + b"]" * DEPTH_LIMIT, None),
        (json.dumps([[], {}] * 500).encode(), [[], {}] * 500),
        (b"[" * 150 + b",".join([b"[]"] * 100) + b"]" * 150, None),
        (b'"99999999999999999999999999999999999999999999999"', "9" * 47),
        (b"1e-999", 0.0),
        ('{"a": 1}'.encode("utf-8-sig"), {"a": 1}),
        (b'"\\ud800 and \\ud83d\\ude42 and \\udc00x"', "\ufffd and 🙂 and \ufffdx"),
        (b'{"\\udfff": ["\\uDAAA"]}', {"\ufffd": ["\ufffd"]}),
        ('"\\u00e9\u2028"', "é\u2028"),
    ],
)
def test_odd_json_is_parsed(content, value):
    parsed = parse_json(content, "x")
    assert parsed == value or value is None


def test_constants_are_read_where_python_wrote_them_and_a_file_of_one_value_too(tmp_path):
    assert parse_json(b"[Infinity, -Infinity]", "x", constants=True) == [float("inf"), float("-inf")]
    assert parse_object('{"a": NaN}', "x").keys() == {"a"}
    (tmp_path / "m.json").write_bytes(b'{"a":\n [1]}')
    assert read_json(tmp_path / "m.json") == {"a": [1]}
    (tmp_path / "m.json").write_bytes(b'{"a":\n [1}')
    with pytest.raises(BadData, match=r"m.json: not valid JSON .* at line 2, column 4"):
        read_json(tmp_path / "m.json")


@pytest.mark.parametrize("content", ["[]", "1", '"text"', "null"])
def test_a_line_without_an_object_is_refused(content):
    with pytest.raises(BadData, match="x: an object in braces is expected"):
        parse_object(content, "x")


def test_lines_have_their_places_and_a_torn_last_one_is_skipped(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": "\xc3\xa9"}\n{"torn": tr')
    assert list(parse_lines(path)) == [(1, 0, 9, {"a": 1}), (2, 9, 21, {"b": "é"})]
    assert list(parse_lines(tmp_path / "none.jsonl")) == []


def test_values_of_lines_have_their_places_and_blank_lines_are_skipped():
    lines = value_lines('{"a": "\u2028"}\n\n 2\r\n[', "f.jsonl")
    assert [next(lines), next(lines)] == [("f.jsonl, line 1", {"a": "\u2028"}), ("f.jsonl, line 3", 2)]
    with pytest.raises(BadData, match=r"f\.jsonl, line 4: not valid JSON"):
        next(lines)
    with pytest.raises(BadData, match="'a' occurs twice"):
        list(value_lines('{"a": 1, "a": 2}', "f.jsonl", unique_keys))


def test_a_damaged_line_is_an_error_or_skipped_and_passed_on(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"a": 1}\n[]\n\n{"b": 1e999}\n{"c": 3}\n')
    with pytest.raises(BadData, match=r"events.jsonl, line 2: an object"):
        list(parse_lines(path))
    errors: list[BadData] = []
    lines = list(parse_lines(path, errors.append))
    assert [line.number for line in lines] == [1, 5] and len(errors) == 3
    assert [str(error).partition(": ")[0].rpartition(", ")[2] for error in errors] == ["line 2", "line 3", "line 4"]


@st.composite
def damaged(draw):
    """Lines of JSON with cuts, changed bytes, inserted bytes and hostile lines."""
    lines = [json.dumps(each).encode() for each in draw(st.lists(OBJECTS, max_size=5))]
    lines += draw(st.lists(st.sampled_from(sorted(BAD)) | st.binary(max_size=20), max_size=3))
    content = bytearray(
        b"\n".join(draw(st.permutations(lines))) + draw(st.sampled_from([b"", b"\n", b"\r\n", b"\n\n"]))
    )
    for place, byte in draw(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4)):
        if place < len(content):
            content[place] = byte
    return bytes(content[: draw(st.integers(0, len(content)))]) if draw(st.booleans()) else bytes(content)


@pytest.mark.slow
@given(damaged())
def test_any_file_gives_objects_or_an_error_with_file_and_line(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzzed.jsonl"
    path.write_bytes(content)
    errors: list[BadData] = []
    objects = list(parse_lines(path, errors.append))
    assert len(objects) + len(errors) == content.count(b"\n")
    for line in objects:
        assert isinstance(line.fields, dict) and content[line.offset : line.end].count(b"\n") == 1
        json.dumps(line.fields, ensure_ascii=False).encode()  # nothing in it fails later
    assert all(str(error).startswith(f"{path}, line ") for error in errors)
    if not errors:
        assert repr(list(parse_lines(path))) == repr(objects)
        return
    with pytest.raises(BadData) as caught:
        list(parse_lines(path))
    assert str(caught.value) == str(errors[0])


@settings(max_examples=40)
@given(st.binary(max_size=60) | st.text(max_size=40))
def test_any_content_is_parsed_or_refused(content):
    try:
        json.dumps(parse_json(content, "x"), ensure_ascii=False).encode()
    except BadData as error:
        assert str(error).startswith("x: ")


@given(st.text(alphabet=st.characters(codec=None)))
def test_a_text_without_surrogates_can_be_written(text):
    whole = replace_surrogates(text)
    assert whole.encode() and replace_surrogates(whole) == whole if text else whole == ""


def test_a_key_that_stands_twice_is_refused_where_that_is_asked_for():
    twice = '{"subject": "Norway", "inner": [{"a": 1, "a": 2}]}'
    assert parse_json(twice, "x")["inner"] == [{"a": 2}]
    with pytest.raises(BadData, match="x: the key 'a' occurs twice"):
        parse_json(twice, "x", pairs=unique_keys)
