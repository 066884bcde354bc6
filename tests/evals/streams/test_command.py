"""The commands `emend stream new`, `run` and `check`."""

import json
from pathlib import Path
from typing import Any

import pytest

from emend.evals.streams.turn import Turn, read_stream
from tests.evals.cli.conftest import emend, shell  # noqa: F401
from tests.evals.streams.streams import READER, generated, stream_file

pytestmark = pytest.mark.usefixtures("emend")


@pytest.mark.slow
def test_a_stream_is_made_checked_and_asked(emend: Any, tmp_path: Path):  # noqa: F811
    made = emend("stream", "new", "facts.jsonl", "--turns", "60", "--injections", "2", "--difficulty", "hard")
    assert (made.code, "emend stream check" in made.out) == (0, True)
    turns = [item for item in read_stream(tmp_path / "facts.jsonl") if isinstance(item, Turn)]
    assert len(turns) == 62
    checks = emend("stream", "check", "facts.jsonl", "--json").rows
    assert [check["failed"] for check in checks] == [0, 0, 0, 0]
    words = (
        "stream",
        "run",
        "facts.jsonl",
        "--system",
        "oracle",
        "--system",
        "empty",
        "--model",
        READER,
        "--out",
        "run",
    )
    output = emend(*words, "--budget", "500")
    assert (output.code, "oracle" in output.out) == (0, True)
    rows = json.loads(emend("report", "run", "--json").out)["rows"]
    assert {(row["editor"], row["mean"]) for row in rows if row["metric"] == "answerable"} == {
        ("oracle", 100),
        ("empty", 0),
    }
    again = emend(*words, "--budget", "500")
    assert (again.code, "already finished" in again.out) == (0, True)


@pytest.mark.slow
def test_a_check_names_questions_whose_gold_is_wrong(emend: Any, tmp_path: Path):  # noqa: F811
    items = generated()
    place = next(place for place, item in enumerate(items) if not isinstance(item, Turn) and item.gold)
    items[place] = items[place].model_copy(update={"gold": ("Nowhere",)})
    stream_file(tmp_path, items)
    output = emend("stream", "check", "stream.jsonl")
    assert (output.code, "Nowhere" in output.out) == (0, True)
    assert emend("stream", "check", "stream.jsonl", "--json").rows[0]["failed"] == 1


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("new", "stream.jsonl"), "new file"),
        (("run", "none.jsonl", "--out", "run"), "emend stream new"),
        (("run", "stream.jsonl", "--out", "run", "--system", "oracl"), "oracle"),
        (("check", "none.jsonl"), "emend stream new"),
        (("new", "x.jsonl", "--facts", "none.csv"), "none.csv"),
    ],
)
def test_bad_input_is_an_error_with_the_remedy(emend: Any, tmp_path: Path, words: tuple[str, ...], remedy: str):  # noqa: F811
    stream_file(tmp_path)
    output = emend("stream", *words)
    assert output.code == 2
    assert remedy in output.err
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("words", [("--turns", "1"), ("--updates", "1.5"), ("--budget", "0")])
def test_impossible_numbers_are_refused(emend: Any, words: tuple[str, ...]):  # noqa: F811
    command = ("run", "x", "--out", "y") if words[0] == "--budget" else ("new", "x.jsonl")
    assert emend("stream", *command, *words).code == 2


@pytest.mark.slow
def test_a_dry_run_prints_calls_and_asks_nobody(emend: Any, tmp_path: Path):  # noqa: F811
    stream_file(tmp_path, generated(turns=40))
    words = ("--system", "grep", "--system", "empty", "--model", "openai:none", "--embedding", "lexical", "--dry-run")
    output = emend("stream", "run", "stream.jsonl", *words)
    assert (output.code, "grep: " in output.out, "places" in output.out) == (0, True, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stream.jsonl"]


@pytest.mark.slow
def test_answers_are_analysed_by_hops_and_age(emend: Any, tmp_path: Path):  # noqa: F811
    stream_file(tmp_path, generated(turns=80))
    words = ("--system", "oracle", "--system", "empty", "--model", READER, "--out", "run")
    assert emend("stream", "run", "stream.jsonl", *words).code == 0
    rows = emend("analyse", "run", "memory", "--json").rows
    assert {row["panel"] for row in rows} == {"number of facts needed", "turns since the last needed fact"}
    assert {(row["series"], row["mean"]) for row in rows} == {("oracle", 100), ("empty", 0)}
    assert {"1", "2", "fewer than 10", "fewer than 100"} <= {row["label"] for row in rows}
