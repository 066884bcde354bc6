"""Fields of records are the same from a table as from the lines."""

from pathlib import Path

import pytest

from emend.evals.case import Record
from emend.evals.log import run_table, table_parts
from emend.evals.log.lines import RECORDS
from emend.evals.log.record_fields import read_fields
from emend.memory.errors import BadData
from tests.evals.made import record

NAMES = [name for name in Record.model_fields if name not in ("usage", "edit_cost")]
ODD = 'It\'s "odd"\n\u2028\0🙂, 東京\\'


@pytest.fixture(params=[1, 2**40], ids=["from the table", "from the lines"], autouse=True)
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(table_parts, "LARGE", request.param)
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))


def records() -> list[Record]:
    values = {"a": 0.1 + 0.2, "b": 5e-324, ODD: -1.7976931348623157e308, "d": 1 / 3, "e": 0.0}
    return [
        record("1", values=values, unscored={"f": ODD}, gold=(ODD, ""), prompt=ODD, log_probs=(-0.1, -1e-17)),
        record("2", editor=ODD, kind="paraphrase", answer="", reply=None, tags={"n": 1, "x": 1.0, "y": True, ODD: ODD}),
        record("3", checkpoint=2, repeat=1, excluded="why", is_cut_off=True, target_tokens=(3, 4)),
        record("4", setting="other", rival=ODD, passage="p", retrieved=("a", "b"), path=("x",), seconds=1e-9),
    ]


def written(folder: Path, lines: list[Record]) -> Path:
    (folder / RECORDS).write_text("".join(line.model_dump_json() + "\n" for line in lines), encoding="utf-8")
    return folder


def test_all_fields_are_those_of_the_records(tmp_path) -> None:
    folder = written(tmp_path, records())
    for checkpoint, expected in ((0, [0, 1, 3]), (2, [2]), (3, []), (None, [0, 1, 2, 3])):
        found = [[getattr(each, name) for name in NAMES] for each in read_fields(folder, NAMES, checkpoint)]
        assert repr(found) == repr([[getattr(records()[place], name) for name in NAMES] for place in expected])


@pytest.mark.slow
def test_records_are_chosen_by_the_values_of_fields(tmp_path) -> None:
    folder = written(tmp_path, records())

    def cases(**chosen) -> list[str]:
        return [each.case for each in read_fields(folder, ["case"], **chosen)]

    assert cases() == cases(kind=()) == ["1", "2", "4"]
    assert cases(kind=["paraphrase"]) == cases(editor={ODD}) == ["2"]
    assert cases(kind=["efficacy"], setting=["other"]) == ["4"]
    assert cases(kind=["none"]) == []


def test_records_come_in_the_order_of_their_lines(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(run_table, "STRETCH", 2_000)  # each of many parts has a few of them
    cases = [str(number * 7919 % 101) for number in range(100)]
    folder = written(tmp_path, [record(case, prompt=case) for case in cases])
    assert [each.prompt for each in read_fields(folder, ["prompt", "values"])] == cases


def test_a_unit_that_is_not_complete_is_left_out(tmp_path) -> None:
    whole = [record("1", unit="u", of=2, probe=probe) for probe in "ab"]
    folder = written(tmp_path, [*whole, record("2", of=2)])
    assert [each.probe for each in read_fields(folder, ["probe"])] == ["a", "b"]


def test_a_damaged_record_is_refused_with_file_and_line(tmp_path) -> None:
    folder = written(tmp_path, records())
    content = (folder / RECORDS).read_bytes()
    (folder / RECORDS).write_bytes(content.replace(b'"values":{}', b'"values":[]', 1))
    with pytest.raises(BadData, match=r"records.jsonl, line 2.*values"):
        list(read_fields(folder, ["case"]))
    (folder / RECORDS).unlink()
    with pytest.raises(BadData, match="emend resume"):
        list(read_fields(folder, ["case"]))


def test_texts_that_are_long_for_the_memory_of_a_query_are_read(tmp_path, monkeypatch) -> None:
    texts = [f"{number} " * 20_000 for number in range(1000, 1200)]
    folder = written(tmp_path, [record(text[:4], prompt=text) for text in texts])
    assert len(list(read_fields(folder, ["case"]))) == 200
    monkeypatch.setitem(run_table.OPTIONS, "memory_limit", "64MB")
    assert [each.prompt for each in read_fields(folder, ["prompt", "values"])] == texts
