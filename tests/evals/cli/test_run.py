"""`emend run` and the commands on its folder: output, files, interruption and resumption."""

import json
import os
import shlex
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from emend.evals.cli.interrupts import interruptible
from emend.evals.config.run_config import OLD_NAMES
from emend.evals.log.lines import RECORDS
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines, read_records
from tests.evals.command_line import python
from tests.evals.toy_runs import RUN, TRUST, go
from tests.evals.toys import EDITOR


def test_a_run_shows_its_table_and_the_next_commands(emend: Any, tmp_path: Path) -> None:
    output = emend(*RUN, "--editor", "unedited", "--out", "out", "--limit", "3", "--mode", "all")
    assert output.code == 0, output.err
    assert "ES" in output.out and "100.0^" in output.out
    assert "emend trace out 1" in output.out
    assert "6/6 units" in output.err
    rows = emend("report", "out", "--json").rows
    fields = "editor setting mode metric mean n unscored low high judge protocol form as_wrong cut_off headline"
    assert list(rows[0]) == fields.split()
    assert {(r["editor"], r["mean"]) for r in rows if r["metric"] == "ES"} == {(EDITOR, 100.0), ("unedited", 0.0)}
    again = emend("resume", "out", *TRUST)
    assert again.code == 0 and "Nothing to do" in again.out


def test_a_limit_says_that_it_draws_a_sample_and_by_which_seed(emend: Any, tmp_path: Path) -> None:
    lines = [f"Who runs town {number}?,Mayor {number}" for number in range(5)]
    (tmp_path / "facts.csv").write_text("\n".join(["question,answer", *lines]))
    words = ("run", "--benchmark", "facts.csv", "--editor", "rag", "--embedding", "lexical", "--seed", "7")
    sampled = "a random sample with seed 7"
    assert sampled in emend(*words, "--limit", "2", "--dry-run").out
    assert f"2 cases ({sampled})" in emend(*words, "--limit", "2", "--out", "two").out
    assert sampled not in emend(*words, "--limit", "9", "--dry-run").out
    assert "5 cases, 5 records" in emend(*words, "--limit", "9", "--out", "all").out
    assert "2 cases (" in emend("report", "two", "all").out
    assert "random sample" in " ".join(emend("run", "--help").out.split())


def test_own_facts_are_run_with_editors_that_fit_the_model_where_none_is_named(emend: Any, tmp_path: Path) -> None:
    (tmp_path / "facts.csv").write_text("question,answer\nWhat is the capital of Vouna?,Orm\n")
    words = ("run", "--benchmark", "facts.csv", "--embedding", "lexical", "--dry-run")
    local = emend(*words)
    assert local.code == 0 and "unedited, in_context, rag, ike" in local.err and "--editor" in local.err
    assert "facts, ike: 1 unit" in local.out
    remote = emend(*words, "--model", "openai:m@http://127.0.0.1:9/v1")
    assert "unedited, in_context, rag, cot" in remote.err
    assert "choose others" not in emend(*words, "--editor", "rag").err
    assert "--editor is missing" in emend("run", "--benchmark", "tinyworld", "--dry-run").err


def test_limits_and_prices_may_change_when_a_run_is_resumed(emend: Any, tmp_path: Path) -> None:
    emend(*RUN, "--editor", "unedited", "--out", "out", "--limit", "1")
    output = emend("resume", "out", *TRUST, "--prices", "nowhere.toml")
    assert output.code == 2 and "nowhere.toml" in output.err
    for option in ("--rpm", "--tpm", "--cache", "--max-cost", "--max-calls"):
        output = emend("resume", "out", *TRUST, option, "5")
        assert "No such option" not in output.err, option


THEIRS = {"cache": "theirs", "prices": "theirs.toml", "memory_server": "http://127.0.0.1:9", "workers": "ray:theirs"}


def test_what_is_typed_holds_and_a_folder_decides_no_files_servers_or_workers(emend: Any, tmp_path: Path) -> None:
    emend(*RUN, "--out", "out", "--limit", "1", "--concurrency", "3")
    manifest = json.loads(Path("out/manifest.json").read_text(encoding="utf-8"))
    manifest["config"] |= THEIRS
    Path("out/manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    kept = emend("resume", "out", *TRUST)
    assert kept.code == 0 and "cache none (stored: theirs)" in kept.err and "workers auto (stored: ray" in kept.err
    assert "prices none" in kept.err and "memory_server none" in kept.err and "(stored: 3)" not in kept.err
    for words in (("resume", "out", *TRUST), (*RUN, "--out", "out", "--limit", "1")):
        assert "concurrency 2 (stored: 3)" in emend(*words, "--concurrency", "2").err


def test_an_interrupted_run_s_hint_has_what_a_folder_does_not_decide(tmp_path: Path, capsys: Any) -> None:
    go(tmp_path / "a run")
    manifest = json.loads((tmp_path / "a run" / "manifest.json").read_text(encoding="utf-8"))
    manifest["config"] |= THEIRS
    (tmp_path / "a run" / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(typer.Exit), interruptible(tmp_path / "a run"):
        raise KeyboardInterrupt
    words = shlex.split(capsys.readouterr().err.partition("Continue with: ")[2])
    assert words[:3] == ["emend", "resume", str(tmp_path / "a run")] and words[3:7:2] == ["--trust", "--trust"]
    options = dict(zip(words[7::2], words[8::2], strict=True))
    typed = {"--cache": "theirs", "--prices": "theirs.toml", "--memory": "http://127.0.0.1:9"}
    assert options == typed | {"--workers": "ray:theirs"}


def test_units_that_fail_again_are_not_nothing_left_to_do(emend: Any, tmp_path: Path) -> None:
    failing = ("--set", "model.fail_on=Land0", "--fail-on-error", "false")
    first = emend(*RUN, "--out", "out", *failing)
    again = emend("resume", "out", *TRUST)
    assert "1 unit failed" in first.out and "1 unit failed" in again.out
    assert "Nothing to do" not in again.out


def test_with_several_settings_the_overview_names_a_case_by_its_id(emend: Any, tmp_path: Path) -> None:
    emend(*RUN, "--out", "out", "--limit", "2", "--setting", "plain", "--setting", "loud")
    (hint,) = [line for line in emend("trace", "out").out.splitlines() if line.startswith("Trace of one of them")]
    case = hint.split("emend trace out ")[1].split()[0]
    shown = next(line for line in read_lines(Path("out"), "cases.jsonl") if line["case"].startswith(case))
    assert len(case) > 2 and shown["setting"] == "plain"  # the first that was named
    wrong = emend("trace", "out", "zz")
    assert wrong.code == 2 and "a number from 1 to 2" in wrong.err


def test_the_default_folder_is_named_after_benchmark_and_time(emend: Any, tmp_path: Path) -> None:
    assert "1 case (a random sample with seed 0), " in " ".join(emend(*RUN, "--limit", "1").out.split())
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("tests-evals-toys-ToyBenchmark-20")


def test_options_and_settings_are_read(emend: Any) -> None:
    output = emend(
        *RUN, "--out", "o", "--benchmark-option", "cases=2", "--set", f"{EDITOR}.k=3", "--set", f"{EDITOR}.name=a=b",
        "--set", "model.fail_on=nothing", "--setting", "loud", "--fail-on-error", "2", "--seed", "7",
    )  # fmt: skip
    assert output.code == 0, output.err
    config = Manifest.read(Path("o")).config
    assert config.overrides == {EDITOR: {"k": 3, "name": "a=b"}, "model": {"fail_on": "nothing"}}
    assert (config.benchmark_options, config.settings, config.seed) == ({"cases": "2"}, ("loud",), 7)
    assert emend("report", "o", "--json").rows[0]["n"] == 2


def test_a_run_is_traced_drawn_and_not_done_again_with_another_configuration(emend: Any) -> None:
    emend(*RUN, "--out", "o", "--limit", "2")
    output = emend("trace", "o", "2", "--kind", "efficacy")
    assert "The capital of Land1 is New-1." in output.out and "retrieve" in output.out
    (row,) = emend("trace", "o", "2", "--kind", "efficacy", "--json").rows
    assert row["number"] == 2 and row["steps"][0]["node"] == "retrieve"
    assert emend("report", "o", "--svg", "table.svg").code == 0
    assert Path("table.svg").read_text().startswith("<svg")
    output = emend(*RUN, "--out", "o", "--limit", "3")
    assert output.code == 2 and "limit: was 2, now 3" in output.err


def test_a_run_with_earlier_names_of_settings_is_reported_traced_and_resumed(emend: Any) -> None:
    emend(*RUN, "--out", "o", "--limit", "2", "--mode", "sequential", "--benchmark-option", "cases=4")
    data = json.loads(Path("o/manifest.json").read_text(encoding="utf-8"))
    data["config"] |= {old: data["config"].pop(new) for old, new in OLD_NAMES.items()}
    Path("o/manifest.json").write_text(json.dumps(data), encoding="utf-8")
    assert emend("report", "o").code == emend("trace", "o", "1").code == 0
    assert "Nothing to do" in emend("resume", "o", *TRUST).out
    config = Manifest.read(Path("o")).config
    assert (config.repeats, config.reevaluate_at, config.benchmark_options) == (1, "end", {"cases": "4"})


@pytest.mark.slow
def test_ctrl_c_keeps_finished_units_and_names_the_resume_command(tmp_path: Path) -> None:
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # a background job ignores it
    code = heard + "from tests.evals.toys import enlist; enlist(); from emend.evals.cli.main import main; main()"
    words = (*RUN[:-1], "scripted:20", "--benchmark-option", "cases=400")
    child = python(code, *words, "--out", str(tmp_path / "o"))
    records = tmp_path / "o" / RECORDS
    while not (records.exists() and records.stat().st_size):
        assert child.poll() is None, child.communicate()[1]
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=600)
    assert child.returncode == 130
    assert f"interrupted: finished units are kept. Continue with: emend resume {tmp_path / 'o'} --trust " in err
    assert "Traceback" not in err
    result = list(read_records(tmp_path / "o"))
    assert result and len(result) < 800
    assert records.read_bytes().count(b"\n") == len(result)


def test_emend_data_is_looked_in_first(emend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from emend.evals.evaluate.resources import data_folder

    (tmp_path / "all" / "docter").mkdir(parents=True)
    assert data_folder("docter", None) is None
    monkeypatch.setenv("EMEND_DATA", str(tmp_path / "all"))
    assert data_folder("docter", None) == tmp_path / "all" / "docter"
    assert data_folder("docter", "elsewhere") == Path("elsewhere")


@pytest.mark.parametrize(
    ("begun", "said"), [(False, "nothing was started"), (True, "Continue with: emend resume ended")]
)
def test_a_terminated_run_names_the_resume_command(
    emend: Any, monkeypatch: pytest.MonkeyPatch, begun: bool, said: str
) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def ending(config: Any, folder: Path, *_: Any, **__: Any) -> None:
        if begun:
            folder.mkdir()
            (folder / "manifest.json").write_text("{}", encoding="utf-8")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    monkeypatch.setattr("emend.evals.evaluate.run.run", ending)
    output = emend(*RUN, "--out", "ended")
    assert output.code == 130 and said in output.err
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--editor", "json:dumps"), "editor 'json:dumps' cannot be created or used (TypeError"),
        (("--editor", "rag", "--benchmark", "json:dumps"), "benchmark 'json:dumps' cannot be created or used"),
        (("--editor", "rag", "--retriever", "bm25(tokens=foo)"), "foo"),
        (("--editor", "rag", "--embedding", "./nowhere"), "embedding folder './nowhere' does not exist"),
        (
            ("--editor", "rome", "--setting", "document", "--set", "rome.covariance=identity"),
            "the edits of setting 'document' have no subject",
        ),
    ],
)
def test_a_run_that_cannot_start_leaves_no_folder(emend: Any, words: tuple[str, ...], told: str) -> None:
    if "--benchmark" not in words:
        words = ("--benchmark", "tinyworld", *words)
    output = emend("run", *words, "--limit", "1", "--out", "refused")
    assert output.code == 2 and told in output.err and not Path("refused").exists()


def test_a_file_with_two_models_is_run_with_what_is_given(emend: Any, tmp_path: Path) -> None:
    words = (*RUN, "--limit", "3", "--save-config", "run.yaml", "--out", "x")
    estimate = emend(*words, "--dry-run")
    assert not estimate.code and "3 units" in estimate.out and "not called in a dry run" in estimate.out
    assert not (tmp_path / "x").exists() and not (tmp_path / "runs").exists()
    done = emend("run", "run.yaml", "--model", "scripted", "--model", "scripted:1", "--limit", "2")
    assert not done.code and done.out.count("scripted:1")
    for name in ("scripted", "scripted-1"):
        manifest = Manifest.read(tmp_path / "x" / name)
        assert (manifest.config.limit, manifest.config.model.replace(":", "-")) == (2, name)
    assert "Nothing to do" in emend("run", "run.yaml", "--out", "x/scripted", "--limit", "2").out
    assert (
        "--junit accepts one model"
        in emend(
            "run",
            "run.yaml",
            "--model",
            "scripted",
            "--model",
            "scripted:1",
            "--junit",
            "j.xml",
            "--require",
            "x:EM>=0",
        ).err
    )
