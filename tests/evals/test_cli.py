"""The command line answers fast, in one line when something is wrong, and in JSON when asked."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from emend.evals import cli
from emend.evals.manifest import Manifest
from emend.evals.records import RECORDS, read_lines, read_records
from tests.evals.toys import BENCHMARK, EDITOR, enlist

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "transformers", "chromadb", "langgraph", "langchain", "langchain_core", "numpy", "pydantic")
RUN = ("run", "--benchmark", BENCHMARK, "--editor", EDITOR, "--model", "scripted")


class Told:
    """What a command wrote, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Of one JSON object with rows and nothing else."""
        told: dict[str, list[dict[str, Any]]] = json.loads(self.out)
        assert list(told) == ["rows"]
        return told["rows"]


@pytest.fixture
def emend(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Calls the command line in this process, in an empty folder."""
    enlist()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EMEND_DATA", raising=False)

    def call(*words: str | Path) -> Told:
        monkeypatch.setattr(sys, "argv", ["emend", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
            sys.exit(0)
        out, err = capsys.readouterr()
        return Told(int(ended.value.code or 0), out, err)

    return call


def python(code: str, *words: str, **more: Any) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from emend.evals.cli import main\n"
        "sys.argv = ['emend', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print('HEAVY', [name for name in sys.argv[1:0] + {list(HEAVY)} if name in sys.modules])"
    )
    out, err = python(code).communicate(timeout=60)
    assert "demo" in out and "doctor" in out, err
    assert out.splitlines()[-1] == "HEAVY []"


def test_help_takes_less_than_half_a_second() -> None:
    """Of processor time, so that a busy machine does not fail it."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def seconds() -> float:
        before = spent()
        subprocess.run([sys.executable, "-m", "emend.evals.cli", "--help"], check=True, capture_output=True)
        return spent() - before

    assert min(seconds() for _ in range(3)) < 0.5


def test_listing_imports_no_model_library() -> None:
    code = (
        "import sys; from emend.evals.cli import main\n"
        "for kind in ('editors', 'benchmarks', 'retrievers', 'judges', 'models', 'graphs'):\n"
        "    sys.argv = ['emend', 'list', kind]\n"
        "    try: main()\n    except SystemExit: pass\n"
        "print('HEAVY', [n for n in ('torch', 'transformers', 'chromadb', 'langgraph') if n in sys.modules])"
    )
    out, err = python(code).communicate(timeout=60)
    assert out.splitlines()[-1] == "HEAVY []", err


def test_libraries_that_speak_when_they_are_imported_are_not_heard() -> None:
    code = "import sys; from emend.evals.cli import main; sys.argv = ['emend', *sys.argv[1:]]; main()"
    out, err = python(code, "train", "encoder", "--benchmark", "elkenn", "--out", "x").communicate(timeout=60)
    assert (out, err) == ("", "error: unknown benchmark 'elkenn': did you mean 'elken'?\n")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("editors", "ike"),
        ("benchmarks", "docter"),
        ("retrievers", "bm25"),
        ("models", "tiny"),
        ("graphs", "rag"),
        ("judges", "tendency"),
    ],
)
def test_lists_have_name_and_summary(emend: Any, kind: str, name: str) -> None:
    rows = emend("list", kind, "--json").rows
    assert all(set(row) == {"name", "summary"} and row["summary"] for row in rows)
    assert [row["name"] for row in rows if row["name"] == name] == [name]
    shown = emend("list", kind)
    assert shown.code == 0 and name in shown.out


def test_a_run_shows_its_table_and_what_to_type_next(emend: Any, tmp_path: Path) -> None:
    told = emend(*RUN, "--editor", "unedited", "--out", "out", "--limit", "3", "--mode", "all")
    assert told.code == 0, told.err
    assert "ES" in told.out and "100.0*" in told.out
    assert "emend trace out 1" in told.out
    assert "6/6 units" in told.err
    rows = emend("report", "out", "--json").rows
    assert set(rows[0]) == {"editor", "setting", "mode", "metric", "mean", "n", "unscored", "low", "high", "judge"}
    assert {(r["editor"], r["mean"]) for r in rows if r["metric"] == "ES"} == {(EDITOR, 100.0), ("unedited", 0.0)}
    again = emend("resume", "out")
    assert again.code == 0 and "Nothing was left to do" in again.out


def test_limits_and_prices_may_change_when_a_run_goes_on(emend: Any, tmp_path: Path) -> None:
    emend(*RUN, "--editor", "unedited", "--out", "out", "--limit", "1")
    told = emend("resume", "out", "--prices", "nowhere.toml")
    assert told.code == 2 and "nowhere.toml" in told.err
    for option in ("--rpm", "--tpm", "--cache", "--max-cost", "--max-calls"):
        told = emend("resume", "out", option, "5")
        assert "No such option" not in told.err, option


def test_units_that_fail_again_are_not_nothing_left_to_do(emend: Any, tmp_path: Path) -> None:
    failing = ("--set", "model.fail_on=Land0", "--fail-on-error", "false")
    first = emend(*RUN, "--out", "out", *failing)
    again = emend("resume", "out")
    assert "units failed" in first.out and "units failed" in again.out
    assert "Nothing was left to do" not in again.out


def test_with_several_settings_the_overview_names_a_case_by_its_id(emend: Any, tmp_path: Path) -> None:
    emend(*RUN, "--out", "out", "--limit", "2", "--setting", "plain", "--setting", "loud")
    (hint,) = [line for line in emend("trace", "out").out.splitlines() if line.startswith("One of them")]
    case = hint.split("emend trace out ")[1].split()[0]
    shown = next(line for line in read_lines(Path("out"), "cases.jsonl") if line["case"].startswith(case))
    assert len(case) > 2 and shown["setting"] == "plain"  # the first that was named
    wrong = emend("trace", "out", "zz")
    assert wrong.code == 2 and "a number from 1 to 2" in wrong.err


def test_one_case_is_said_to_be_one(emend: Any, tmp_path: Path) -> None:
    assert "1 case, " in emend(*RUN, "--out", "out", "--limit", "1").out


def test_the_default_folder_is_named_after_benchmark_and_time(emend: Any, tmp_path: Path) -> None:
    emend(*RUN, "--limit", "1")
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("tests-evals-toys-ToyBenchmark-20")


def test_options_and_settings_are_read(emend: Any) -> None:
    told = emend(
        *RUN, "--out", "o", "--option", "cases=2", "--set", f"{EDITOR}.k=3", "--set", f"{EDITOR}.name=a=b",
        "--set", "model.fail_on=nothing", "--setting", "loud", "--fail-on-error", "2", "--seed", "7",
    )  # fmt: skip
    assert told.code == 0, told.err
    config = Manifest.read(Path("o")).config
    assert config.overrides == {EDITOR: {"k": 3, "name": "a=b"}, "model": {"fail_on": "nothing"}}
    assert (config.options, config.settings, config.seed) == ({"cases": "2"}, ("loud",), 7)
    assert emend("report", "o", "--json").rows[0]["n"] == 2


def test_trace_shows_a_case(emend: Any) -> None:
    emend(*RUN, "--out", "o", "--limit", "2")
    told = emend("trace", "o", "2", "--kind", "efficacy")
    assert "The capital of Land1 is New-1." in told.out and "retrieve" in told.out
    (row,) = emend("trace", "o", "2", "--kind", "efficacy", "--json").rows
    assert row["number"] == 2 and row["steps"][0]["node"] == "retrieve"


def test_report_draws_a_picture(emend: Any) -> None:
    emend(*RUN, "--out", "o", "--limit", "2")
    assert emend("report", "o", "--svg", "table.svg").code == 0
    assert Path("table.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "--benchmark", "docterr", "--editor", "rag"), "unknown benchmark 'docterr': did you mean 'docter'?"),
        (("run", "--benchmark", BENCHMARK, "--editor", "ragg"), "unknown editor 'ragg': did you mean 'rag'?"),
        ((*RUN, "--setting", "plane"), "no setting 'plane': did you mean 'plain'?"),
        ((*RUN, "--retriever", "bm52"), "unknown retriever 'bm52': did you mean 'bm25'?"),
        ((*RUN, "--mode", "singel"), "unknown mode 'singel': did you mean 'single'?"),
        ((*RUN, "--set", "k=3"), "--set 'k=3' names no editor"),
        ((*RUN, "--option", "cases"), "--option 'cases' is no key=value"),
        (("run", "--benchmark", BENCHMARK, "--editor", "unedited", "--model", "tinny"), "unknown model 'tinny'"),
        (("list", "editor"), "cannot list 'editor': did you mean 'editors'?"),
        (("report", "nowhere"), "'nowhere' is no run folder"),
        (("resume", "nowhere"), "'nowhere' is no run folder"),
        (("trace", "nowhere", "1"), "'nowhere' is no run folder"),
        (("demo", "--edits", "0"), "limit is 0"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(emend: Any, words: tuple[str, ...], message: str) -> None:
    told = emend(*words)
    assert told.code == 2
    assert told.err.startswith("error: ") and len(told.err.splitlines()) == 1
    assert message in told.err
    assert told.out == ""
    assert not any(Path().glob("runs/*")), "an empty run folder was left behind"


def test_a_changed_configuration_is_exit_code_2(emend: Any) -> None:
    emend(*RUN, "--out", "o", "--limit", "2")
    told = emend(*RUN, "--out", "o", "--limit", "3")
    assert told.code == 2 and "limit: was 2, now 3" in told.err


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path: Path) -> None:
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # a background job ignores it
    code = heard + "from tests.evals.toys import enlist; enlist(); from emend.evals.cli import main; main()"
    words = ("run", "--benchmark", BENCHMARK, "--editor", EDITOR, "--model", "scripted:20", "--option", "cases=400")
    child = python(code, *words, "--out", str(tmp_path / "o"))
    records = tmp_path / "o" / RECORDS
    for _ in range(600):
        if records.exists() and records.stat().st_size:
            break
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert f"interrupted: finished units are kept. Go on with: emend resume {tmp_path / 'o'}" in err
    assert "Traceback" not in err
    kept = list(read_records(tmp_path / "o"))
    assert kept and len(kept) < 800
    assert records.read_bytes().count(b"\n") == len(kept)


def test_emend_data_is_looked_in_first(emend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from emend.evals.manifest import RunConfig
    from emend.evals.parts import data_folder

    (tmp_path / "all" / "docter").mkdir(parents=True)
    config = RunConfig(benchmark="docter", editors=("rag",))
    assert data_folder(config) is None
    monkeypatch.setenv("EMEND_DATA", str(tmp_path / "all"))
    assert data_folder(config) == tmp_path / "all" / "docter"
    named = RunConfig(benchmark="docter", editors=("rag",), data="elsewhere")
    assert data_folder(named) == Path("elsewhere")


def test_doctor_names_keys_without_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from emend.evals import doctor

    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    found = {row.check: row for row in doctor._keys()}
    assert found["OPENAI_API_KEY"].status == "ok" and found["ANTHROPIC_API_KEY"].status == "absent"
    assert "secret" not in "".join(row.model_dump_json() for row in found.values())


def test_doctor_says_when_a_model_does_not_answer(emend: Any) -> None:
    told = emend("doctor", "--model", "hf:/nowhere", "--json")
    assert told.code == 1
    (model,) = [row for row in told.rows if row["section"] == "model"]
    assert model["status"] == "broken" and "/nowhere" in model["detail"]
    assert {"versions", "extras", "keys", "devices", "data"} <= {row["section"] for row in told.rows}


def test_doctor_asks_the_model_that_is_named(emend: Any) -> None:
    told = emend("doctor", "--model", "scripted")
    assert told.code == 0 and "What is the capital of France? Blue" in " ".join(told.out.split())


@pytest.mark.parametrize(("begun", "said"), [(False, "nothing was begun"), (True, "Go on with: emend resume ended")])
def test_a_run_that_is_told_to_end_says_how_it_goes_on(
    emend: Any, monkeypatch: pytest.MonkeyPatch, begun: bool, said: str
) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def ending(config: Any, folder: Path, *_: Any) -> None:
        if begun:
            folder.mkdir()
            (folder / "manifest.json").write_text("{}", encoding="utf-8")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    monkeypatch.setattr("emend.evals.run.run", ending)
    told = emend(*RUN, "--out", "ended")
    assert told.code == 130 and said in told.err
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--editor", "json:dumps"), "editor 'json:dumps' cannot be made or used (TypeError"),
        (("--editor", "rag", "--benchmark", "json:dumps"), "benchmark 'json:dumps' cannot be made or used"),
        (("--editor", "rag", "--retriever", "bm25(tokens=foo)"), "foo"),
        (("--editor", "rag", "--embedding", "./nowhere"), "embedding folder './nowhere' does not exist"),
        (("--editor", "rome", "--setting", "document"), "the edits of setting 'document' name none"),
    ],
)
def test_a_run_that_cannot_start_leaves_no_folder(emend: Any, words: tuple[str, ...], told: str) -> None:
    if "--benchmark" not in words:
        words = ("--benchmark", "tinyworld", *words)
    found = emend("run", *words, "--limit", "1", "--out", "refused")
    assert found.code == 2 and told in found.err and not Path("refused").exists()


@pytest.mark.parametrize("kind", ["scope", "encoder"])
def test_training_does_not_begin_where_something_lies(emend: Any, kind: str) -> None:
    Path("file").write_text("x", encoding="utf-8")
    Path("full").mkdir()
    Path("full/records.jsonl").write_text("x", encoding="utf-8")
    for out, told in (("file", "is a file"), ("full", "is not empty")):
        found = emend("train", kind, "--benchmark", "tinyworld", "--limit", "2", "--out", out)
        assert found.code == 2 and told in found.err
    assert [path.name for path in Path("full").iterdir()] == ["records.jsonl"]
