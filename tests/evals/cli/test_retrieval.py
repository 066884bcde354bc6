"""`emend retrieval`: table, plot, JSON, and errors of strategies."""

import json
import re

import pytest

from emend.memory.retrieval.base import Corpus, Hit
from tests.evals.toy_strategies import RIGHT, THIRD, Right
from tests.evals.toys import BENCHMARK
from tests.paths import DATA

HERE = "tests.evals.cli.test_retrieval"


@pytest.fixture
def emend(shell, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "160")
    return shell("retrieval", "--embedding", "lexical")


def test_json_has_a_row_per_strategy_and_kind(emend):
    code, out, _ = emend("--benchmark", BENCHMARK, "--strategy", "dense", "--strategy", "bm25", "--json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert [(row["kind"], row["strategy"]) for row in rows] == [
        ("efficacy", "dense"), ("efficacy", "bm25"), ("neighborhood", "dense"), ("neighborhood", "bm25"),
    ]  # fmt: skip
    for row in rows:
        assert list(row) == ["strategy", "kind", "n", "hit@1", "hit@5", "mrr", "low", "high", "ms"]
    assert rows[0]["hit@1"] == 1.0 and rows[2]["hit@1"] == 0.0


def test_the_table_says_what_the_rows_say(emend):
    code, out, _ = emend(
        "--benchmark", BENCHMARK, "--strategy", RIGHT, "--strategy", THIRD, "--benchmark-option", "cases=4"
    )
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert any(words[:4] == ["efficacy", RIGHT, "4", "100.0"] for words in lines)
    assert any(words[:3] == [THIRD, "4", "0.0"] and "0.333" in words for words in lines)
    assert "4 edits, 4 entries" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--benchmark", "doctor"], "did you mean 'docter'"),
        (["--benchmark", BENCHMARK, "--strategy", "bm52"], "did you mean 'bm25'"),
        (["--benchmark", BENCHMARK, "--setting", "laud"], "did you mean 'loud'"),
        (["--benchmark", "chats", "--data", str(DATA / "chats"), "--setting", "turn"], "did you mean 'turns'"),
        (["--benchmark", BENCHMARK, "--benchmark-option", "cases"], "not key=value"),
        (["--benchmark", BENCHMARK, "--keep", "0.9"], "--keep 0.9 needs --calibrate"),
        (["--benchmark", BENCHMARK, "--calibrate", "efficacy", "--keep", "2"], "keep=2.0: give a share"),
    ],
)
def test_a_wrong_name_is_one_line_and_exit_code_2(emend, words, told):
    code, out, err = emend(*words)
    assert (code, out) == (2, "")
    assert told in err and err.count("\n") == 1


def test_the_table_of_thresholds_is_shown(emend):
    code, out, _ = emend("--benchmark", BENCHMARK, "--calibrate", "efficacy", "--keep", "0.9")
    assert code == 0 and "thresholds that keep 90 %" in out
    assert any(line.split()[:2] == ["default", "lead"] for line in out.splitlines())


@pytest.mark.parametrize("name", ["hits.png", "hits.svg"])
def test_hits_are_drawn_for_several_settings(emend, tmp_path, name):
    pytest.importorskip("matplotlib", reason="pip install 'emend-eval[plot]'")
    code, out, _ = emend(
        "--benchmark", BENCHMARK, "--setting", "plain", "--setting", "loud",
        "--strategy", "dense", "--strategy", "bm25", "--plot", str(tmp_path / name),
    )  # fmt: skip
    drawn = (tmp_path / name).read_bytes()
    assert code == 0 and "plain" in out and "loud" in out
    assert drawn.startswith(b"\x89PNG") if name.endswith("png") else b"<svg" in drawn


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--plot", "hits.gif"], "must be .png or .svg"),
        (["--plot", "nowhere/hits.png"], "the folder 'nowhere' does not exist"),
        (["--setting", "plain", "--setting", "loud", "--json"], "use a single --setting"),
        (["--seed", "-1"], "'--seed'"),
    ],
)
def test_invalid_output_options_are_refused_before_measuring(emend, words, told):
    code, out, err = emend("--benchmark", BENCHMARK, *words)
    assert (code, out) == (2, "") and told in err


def test_at_80_columns_no_number_is_cut(emend, monkeypatch):
    long = "focus>hybrid>threshold(least=0.5,by=lead)"
    words = ["--benchmark", BENCHMARK, "--strategy", "dense", "--strategy", long, "--calibrate", "efficacy"]
    monkeypatch.setenv("COLUMNS", "80")
    _, narrow, _ = emend(*words)
    monkeypatch.setenv("COLUMNS", "200")
    _, wide, _ = emend(*words)
    assert "…" not in narrow and max(map(len, narrow.splitlines())) <= 80
    cells = [re.findall(r"-?\d+\.\d+", text.split("thresholds")[0]) for text in (narrow, wide)]
    assert len(cells[0]) == len(cells[1]) == 18


def test_json_has_the_requested_thresholds(emend):
    words = ("--benchmark", BENCHMARK, "--strategy", "dense", "--calibrate", "efficacy", "--json")
    data = json.loads(emend(*words)[1])
    assert [row["by"] for row in data["thresholds"]] == ["score", "lead"]
    assert all(isinstance(row["least"], float) for row in data["thresholds"])
    plain = json.loads(emend(*words[:2], "--json")[1])
    assert "thresholds" not in plain and {row["strategy"] for row in plain["rows"]} == {"default"}


class Boom:
    """A strategy that breaks."""

    def __init__(self, corpus: Corpus) -> None:
        pass

    def search(self, query: str, k: int) -> list[Hit]:
        raise KeyError("boom")


def none() -> None:
    """Takes no corpus."""


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        (f"{HERE}:Boom", f"strategy '{HERE}:Boom' fails on .*KeyError: 'boom'"),
        (f"{HERE}:none", f"retriever '{HERE}:none' does not accept a corpus"),
        ("default(dense=x)", "setting 'dense' of retriever 'default': .*number.*'x'"),
        ("default(dense=NaN)", "setting 'dense' of retriever 'default': .*finite"),
        ("bm25(k1=abc)", "setting 'k1' of retriever 'bm25': .*'abc'"),
    ],
)
def test_a_strategy_that_cannot_work_is_named(emend, strategy, told):
    code, _, err = emend("--benchmark", BENCHMARK, "--strategy", strategy)
    assert code == 2 and re.search(told, err) and "Traceback" not in err


class Named:
    """A strategy with a setting, and a name that only type checkers know."""

    def __init__(self, corpus: Corpus, wanted: "OnlyForTypeCheckers | None" = None, k1: float = 1.0) -> None:  # type: ignore[name-defined]  # noqa: F821
        self.inner = Right(corpus)

    def search(self, query: str, k: int) -> list[Hit]:
        return self.inner.search(query, k)


def test_a_plug_in_with_unresolvable_annotations_still_takes_settings(emend):
    code, out, err = emend("--benchmark", BENCHMARK, "--strategy", f"{HERE}:Named(k1=2.0)")
    assert code == 0 and "Traceback" not in err and "Named(k1=2.0)" in out
