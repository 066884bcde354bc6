"""The command line starts fast, reports errors in one line, and prints JSON on request."""

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from emend.memory.distribution import installed_version
from tests.evals.command_line import python
from tests.evals.toy_runs import RUN
from tests.evals.toys import BENCHMARK
from tests.evals.traced_runs import smooth_run
from tests.paths import DATA

HEAVY = ("torch", "transformers", "chromadb", "langgraph", "langchain", "langchain_core", "numpy", "pydantic")
MODEL_LIBRARIES = (
    "torch", "transformers", "sentence_transformers", "chromadb", "langgraph", "langchain_core", "langsmith", "openai",
    "anthropic", "httpx", "requests", "tenacity", "scipy", "sklearn", "pandas", "matplotlib",
)  # fmt: skip


@pytest.mark.slow
def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from emend.evals.cli.main import main\n"
        "sys.argv = ['emend', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print('HEAVY', [name for name in sys.argv[1:0] + {list(HEAVY)} if name in sys.modules])"
    )
    out, err = python(code).communicate(timeout=600)
    assert "demo" in out and "doctor" in out, err
    assert out.splitlines()[-1] == "HEAVY []"


def test_a_command_ends_without_a_search_of_all_memory_for_garbage() -> None:
    code = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print('FROZEN', gc.get_freeze_count() > 0))\n"  # runs after what `main` registers
        "from emend.evals.cli.main import main\n"
        "sys.argv = ['emend', '--version']\n"
        "main()"
    )
    out, err = python(code).communicate(timeout=600)
    assert out.splitlines()[-1] == "FROZEN True", err


@pytest.mark.slow
def test_no_commands_help_imports_a_graph_or_array_library() -> None:
    code = (
        "import sys; from emend.evals.cli.main import COMMANDS, main\n"
        "for name in COMMANDS.names():\n"
        "    sys.argv = ['emend', name, '--help']\n"
        "    try: main()\n    except SystemExit: pass\n"
        f"print('HEAVY', [name for name in {list(HEAVY[:-1])} if name in sys.modules])"
    )
    out, err = python(code).communicate(timeout=600)
    assert "Show a case step by step" in out, err
    assert out.splitlines()[-1] == "HEAVY []"


@pytest.mark.slow
def test_help_takes_less_than_half_a_second() -> None:
    """Of processor time, so that a busy machine does not fail it."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def seconds() -> float:
        before = spent()
        subprocess.run([sys.executable, "-m", "emend.evals.cli.main", "--help"], check=True, capture_output=True)
        return spent() - before

    assert min(seconds() for _ in range(3)) < 0.5


@pytest.mark.slow
def test_listing_and_reading_a_run_imports_neither_a_model_library_nor_langchain(tmp_path: Path) -> None:
    commands = [
        ["list"],
        *(["list", kind] for kind in ("editors", "benchmarks", "scorers", "judges", "models", "graphs")),
    ]
    run = str(smooth_run(tmp_path / "run"))
    commands += [["list", "runs", str(tmp_path)]]
    commands += [["trace", run, "1"], ["trace", run, "1", "--json"], ["trace", run]]
    commands += [["query", run, "select count(*) from records"], ["report", run]]
    commands += [["analyse", run, "retrieval"], ["compare", run]]
    code = (
        "import sys; from emend.evals.cli.main import main\n"
        f"for command in {commands}:\n"
        "    sys.argv = ['emend', *command]\n"
        "    try: main()\n    except SystemExit as end: assert not end.code, command\n"
        "    heavy = {name.partition('.')[0] for name in sys.modules}.intersection(\n"
        f"        {MODEL_LIBRARIES} if command in {commands[-5:]!r} else {(*MODEL_LIBRARIES, 'numpy')})\n"
        "    heavy -= {'scipy'} if command[0] in ('report', 'analyse', 'compare') else set()\n"  # of intervals
        "    print('HEAVY', command[0], sorted(heavy))"
    )
    out, err = python(code).communicate(timeout=600)
    heavy = [line for line in out.splitlines() if line.startswith("HEAVY")]
    assert heavy == [f"HEAVY {command[0]} []" for command in commands], err


@pytest.mark.slow
def test_retrieval_with_a_lexical_embedding_imports_no_model_library() -> None:
    words = ["retrieval", "--benchmark", "chats", "--data", str(DATA / "chats"), "--embedding", "lexical"]
    code = (
        f"import sys; from emend.evals.cli.main import main; sys.argv = {['emend', *words]}\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "print('HEAVY', {'torch', 'transformers', 'sentence_transformers'}.intersection(sys.modules))"
    )
    out, err = python(code).communicate(timeout=600)
    assert out.splitlines()[-1] == "HEAVY set()", err


@pytest.mark.slow
def test_a_run_over_an_api_with_a_lexical_embedding_imports_no_model_library(tmp_path: Path) -> None:
    words = ["run", "--benchmark", "tinyworld", "--editor", "rag", "--limit", "1", "--embedding", "lexical"]
    words += ["--model", "openai:any@http://127.0.0.1:9/v1", "--fail-on-error", "false", "--out", str(tmp_path / "run")]
    code = (
        f"import sys; from emend.evals.cli.main import main; sys.argv = {['emend', *words]}\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print('HEAVY', [name for name in {list(MODEL_LIBRARIES)} if name in sys.modules])"
    )
    out, err = python(code).communicate(timeout=600)
    heavy = out.splitlines()[-1]
    assert (tmp_path / "run" / "manifest.json").exists(), err
    assert heavy.startswith("HEAVY") and "torch" not in heavy and "transformers" not in heavy


@pytest.mark.slow
def test_a_dry_run_over_an_api_with_a_lexical_embedding_imports_no_model_library() -> None:
    words = ["run", "--benchmark", "tinyworld", "--editor", "rag", "--limit", "1", "--embedding", "lexical"]
    words += ["--model", "openai:any@http://127.0.0.1:9/v1", "--dry-run"]
    code = (
        f"import sys; from emend.evals.cli.main import main; sys.argv = {['emend', *words]}\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "print('HEAVY', {'torch', 'transformers', 'sentence_transformers'}.intersection(sys.modules))"
    )
    out, err = python(code).communicate(timeout=600)
    assert "in all: " in out, err
    assert out.splitlines()[-1] == "HEAVY set()", err


@pytest.mark.slow
def test_listing_runs_imports_no_scorer_and_no_reader_of_docstrings(tmp_path: Path) -> None:
    smooth_run(tmp_path / "run")
    code = (
        f"import sys; from emend.evals.cli.main import main; sys.argv = {['emend', 'list', 'runs', str(tmp_path)]}\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "unused = [name for name in sys.modules if name.startswith(('emend.evals.metrics', 'docstring_parser'))]\n"
        "print('UNUSED', unused)"
    )
    out, err = python(code).communicate(timeout=600)
    assert out.splitlines()[-1] == "UNUSED []", err


@pytest.mark.slow
def test_completion_knows_commands_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for typed, word, expected in (("emend tr", 1, "trace"), ("emend report --so", 2, "--sort")):
        variables = {"_EMEND_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(word)}
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            out, err = python(
                "import sys; sys.argv = ['emend']; from emend.evals.cli.main import main; main()"
            ).communicate(timeout=600)
        assert out.split() in ([expected], [expected, "train"]), err


@pytest.mark.slow
def test_messages_of_imported_libraries_are_silenced() -> None:
    """In a process of its own, for a library speaks when it is imported first; `model_load` has a quick test."""
    code = "import sys; from emend.evals.cli.main import main; sys.argv = ['emend', *sys.argv[1:]]; main()"
    out, err = python(code, "prepare", "encoder", "--benchmark", "elkenn", "--out", "x").communicate(timeout=600)
    assert (out, err) == ("", "error: unknown benchmark 'elkenn': did you mean 'elken'?\n")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("editors", "ike"),
        ("benchmarks", "docter"),
        ("systems", "bm25_newest"),
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


def test_list_without_a_kind_names_the_kinds_and_settings_name_type_and_default(emend: Any) -> None:
    kinds = [row["name"] for row in emend("list", "--json").rows]
    assert kinds == [
        "editors",
        "benchmarks",
        "retrievers",
        "scorers",
        "judges",
        "models",
        "graphs",
        "constructions",
        "systems",
        "settings",
        "runs",
    ]
    rows = emend("list", "settings", "ft", "--json").rows
    assert {row.get("part", row.get("editor")) for row in rows} == {"ft"}
    shown = emend("list", "settings", "ft").out
    assert all(row.get("setting", row.get("preset")) in shown for row in rows)
    (preset,) = (row for row in rows if row.get("preset") == "gpt2-1600")
    assert preset["verified"].startswith("not verified on a model of this family")


def test_the_version_is_printed_and_doctor_asks_the_model_that_is_named(emend: Any) -> None:
    assert emend("--version").out.strip() == installed_version()
    output = emend("doctor", "--model", "scripted")
    assert output.code == 0 and "What is the capital of France? Blue" in " ".join(output.out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "--benchmark", "docterr", "--editor", "rag"), "unknown benchmark 'docterr': did you mean 'docter'?"),
        (("run", "--benchmark", BENCHMARK, "--editor", "ragg"), "unknown editor 'ragg': did you mean 'rag'?"),
        (("run", "--benchmark", BENCHMARK, "--editor", "rag,ike"), "repeat --editor, as in --editor rag --editor ike"),
        (("list", "settings", "ragg"), "no editor, benchmark or model 'ragg': did you mean 'rag'?"),
        ((*RUN, "--setting", "plane"), "no setting 'plane': did you mean 'plain'?"),
        ((*RUN, "--retriever", "bm52"), "unknown retriever 'bm52': did you mean 'bm25'?"),
        ((*RUN, "--mode", "singel"), "unknown mode 'singel': did you mean 'single'?"),
        ((*RUN, "--set", "k=3"), "--set 'k=3' has no editor"),
        ((*RUN, "--benchmark-option", "cases"), "--benchmark-option 'cases' is not key=value"),
        ((*RUN, "--benchmark-option", "cases=1", "--benchmark-option", "cases=2"), "cases is given twice"),
        (("run", "--benchmark", BENCHMARK, "--editor", "unedited", "--model", "tinny"), "unknown model 'tinny'"),
        (("list", "editor"), "cannot list 'editor': did you mean 'editors'?"),
        (("list", "rag"), "cannot list 'rag': it belongs to editors; its settings: emend list settings rag."),
        (("report", "nowhere"), "the run folder 'nowhere' does not exist"),
        (("resume", "nowhere"), "the run folder 'nowhere' does not exist"),
        (("trace", "nowhere", "1"), "the run folder 'nowhere' does not exist"),
        (("demo", "--edits", "0"), "limit is 0"),
        ((*RUN, "--setting", "y" * 90_000), "yyy [...] "),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(emend: Any, words: tuple[str, ...], message: str) -> None:
    output = emend(*words)
    assert output.code == 2
    assert output.err.startswith("error: ") and len(output.err.splitlines()) == 1 and len(output.err) < 6_000
    assert message in output.err
    assert output.out == ""
    assert not any(Path().glob("runs/*")), "an empty run folder was left behind"


def test_doctor_names_keys_without_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from emend.evals.cli.commands import doctor

    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    rows = list(doctor._installed())
    status = {check: status for _, check, status, *_ in rows}
    assert status["OPENAI_API_KEY"] == "ok" and status["ANTHROPIC_API_KEY"] == "absent"
    assert "secret" not in str(rows)


def test_doctor_says_when_a_model_does_not_answer(emend: Any) -> None:
    output = emend("doctor", "--model", "hf:/nowhere", "--json")
    assert output.code == 1
    (model,) = [row for row in output.rows if row["section"] == "model"]
    assert model["status"] == "broken" and "/nowhere" in model["detail"]
    assert {"versions", "extras", "keys", "devices", "data"} <= {row["section"] for row in output.rows}


@pytest.mark.parametrize("kind", ["scope", "encoder"])
def test_training_refuses_a_folder_with_content(emend: Any, kind: str) -> None:
    Path("file").write_text("x", encoding="utf-8")
    Path("full").mkdir()
    Path("full/records.jsonl").write_text("x", encoding="utf-8")
    for out, file in (("file", "is not a folder"), ("full", "is not empty")):
        output = emend("prepare", kind, "--benchmark", "tinyworld", "--limit", "2", "--out", out)
        assert output.code == 2 and file in output.err
    assert [path.name for path in Path("full").iterdir()] == ["records.jsonl"]
