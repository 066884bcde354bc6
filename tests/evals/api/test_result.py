import pytest

import emend
from emend.memory.errors import BadData, BadSettings
from tests.evals.made import record, write_run
from tests.evals.toys import ScriptedModel, ToyBenchmark, ToyEditor

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api") / "run"
    return emend.run(ToyBenchmark, ["unedited", ToyEditor], ScriptedModel(), out=folder, progress=False)


EDITOR = "tests.evals.toys:ToyEditor"


def test_a_table_is_text_html_and_rich(result):
    table = result.table()
    assert "EM" in str(table) and "100" in str(table) and str(table) == repr(table)
    html = result._repr_html_()
    assert html.startswith("<pre") and "EM" in html


def test_metrics_are_tidy_rows_with_n_unscored_and_interval(result):
    frame = result.to_pandas()
    expected = {"editor", "setting", "mode", "metric", "mean", "low", "high", "n", "unscored"}
    assert expected <= set(frame.columns)
    row = frame[(frame.editor == EDITOR) & (frame.metric == "EM")].iloc[0]
    assert (row["mean"], row.n, row.unscored) == (100.0, 6, 0) and row.low <= row["mean"] <= row.high


def test_records_are_one_row_per_probe_with_a_column_per_score(result):
    frame = result.to_pandas("records")
    assert len(frame) == len(result.records()) == 24
    assert frame[frame.editor == EDITOR]["values.em"].dropna().mean() == 1.0
    assert len(result.records(EDITOR)) == 12
    assert len(result.records(EDITOR.upper())) == 12, "no other editor has this name in either case"
    with pytest.raises(BadSettings, match=f"no editor '{EDITOR}x': did you mean '{EDITOR}'"):
        result.records(f"{EDITOR}x")
    with pytest.raises(BadSettings, match="did you mean 'records'"):
        result.to_pandas("recrods")


def test_a_trace_has_steps_and_shows_itself(result):
    trace = result.trace(1, editor=EDITOR)
    assert [step["node"] for step in trace.steps[:2]] == ["retrieve", "respond"]
    assert {step["editor"] for step in trace.steps} == {EDITOR}
    assert "hit 1" in str(trace) and trace.to_markdown().startswith("#")
    with pytest.raises(BadSettings, match="99"):
        result.trace(99)


@pytest.mark.slow
def test_two_editors_and_two_runs_are_compared(result, tmp_path):
    comparison = result.compare("unedited", EDITOR)
    row = comparison.to_pandas().query("metric == 'EM' and kind == ''").iloc[0]
    assert (row.mean_a, row.mean_b, row.n) == (0.0, 1.0, 6)
    assert "EM" in str(comparison)
    again = emend.run(ToyBenchmark, ToyEditor, ScriptedModel(), out=tmp_path / "x", progress=False)
    assert not result.compare(again).to_pandas()["difference"].any()


def test_a_run_is_loaded_from_its_folder(result, tmp_path):
    loaded = emend.load_run(str(result.folder))
    assert loaded.summary is None and loaded.report == result.report and EDITOR in repr(loaded)
    with pytest.raises(BadData):
        emend.load_run(tmp_path)


@pytest.mark.slow
def test_a_result_is_asked_in_sql_and_written_as_parquet(tmp_path):
    result = emend.load_run(
        write_run(tmp_path / "run", [record("1", values={"em": 1.0}), record("2", values={"em": 0.0})])
    )
    assert result.query("SELECT avg(value) AS mean FROM scores WHERE name = 'em'") == [{"mean": 0.5}]
    result.to_parquet(tmp_path / "scores.parquet", "scores")
    assert (tmp_path / "scores.parquet").read_bytes().startswith(b"PAR1")
    with pytest.raises(BadSettings, match="records"):
        result.to_parquet(tmp_path / "scores.parquet", "nothing")
    with pytest.raises(BadSettings, match=".parquet"):
        result.to_parquet(tmp_path / "scores.csv")
