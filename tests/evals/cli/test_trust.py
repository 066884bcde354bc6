"""Run folders of strangers: reading one imports nothing that it names, and resuming one only what is named again."""

import importlib.abc
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from emend.evals.case import Metric
from emend.evals.cli.trust import check_trust, names_of_run
from emend.evals.config.run_config import RunConfig
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.log.manifest import MANIFEST
from emend.memory.errors import BadSettings
from emend.memory.registry import load_attribute, trust_names, trust_typed
from tests.evals.judged_runs import JUDGE, elken_run, judge_model
from tests.evals.toy_runs import TRUST, go
from tests.evals.toys import BENCHMARK, EDITOR
from tests.paths import ROOT

TERSE = "tests.evals.judged_runs:TERSE"
ROOMS = ("memory", "agents", "graphs", "editors", "evals")
EVIL = 'open("PWNED", "a").write("code ran")\n'
READING = (
    ("report", "gift"),
    ("report", "gift", "--json"),
    ("trace", "gift"),
    ("trace", "gift", "1"),
    ("trace", "gift", "1", "--md"),
    ("trace", "gift", "--mermaid"),
    ("compare", "gift", "gift"),
    ("compare", "gift"),
    ("analyse", "gift"),
    ("analyse", "gift", "tendency"),
    ("analyse", "gift", "retrieval", "--json"),
)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a scoring by a judge that is built in and by a user's."""
    folder = elken_run(tmp_path_factory.mktemp("runs") / "elken")
    score_run(folder, Panel(judges=(JUDGE,)), ("tendency", TERSE), models={JUDGE: judge_model()})
    return folder


@pytest.fixture(autouse=True)
def imported_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test's own folder be searched for the modules."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("evil", "gift", "gift.evil"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def gift(scored: Path, tmp_path: Path, **changes: Any) -> Path:
    """The run as it came from a stranger, with code in it, and its scoring or manifest changed."""
    folder = tmp_path / "gift"
    for path in sorted(scored.rglob("*")):
        target = folder / path.relative_to(scored)
        if path.is_dir():
            target.mkdir(parents=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    (folder / "evil.py").write_text(EVIL)
    (file,) = (path for path in (folder / "scorings").glob("*/scoring.json"))
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | changes.get("scoring", {})))
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["config"] |= changes.get("config", {})
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


class _ImportRecorder(importlib.abc.MetaPathFinder):
    """Notes the names of all modules that are imported."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> None:
        self.names.add(fullname)


@pytest.fixture
def imports() -> Iterator[_ImportRecorder]:
    recorder = _ImportRecorder()
    sys.meta_path.insert(0, recorder)
    yield recorder
    sys.meta_path.remove(recorder)


def _installed(file: Path, places: Sequence[Path]) -> bool:
    return "site-packages" in file.parts or any(map(file.is_relative_to, places))


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_no_reading_command_imports_what_a_run_folder_names(
    scored: Path, tmp_path: Path, emend: Any, imports: _ImportRecorder, words: tuple[str, ...]
) -> None:
    kinds = {"kinds": ["tendency", "gift.evil:x"], "prompts": {"tendency": "1", "gift.evil:x": "1"}, "own_judges": {}}
    names = {"editors": ["unedited", "gift.evil:x"], "model": "gift.evil:x", "retriever": "gift.evil:x"}
    gift(scored, tmp_path, scoring=kinds, config=names | {"embedding": "gift.evil:x"})
    output = emend(*words)
    assert not (tmp_path / "PWNED").exists() and "Traceback" not in output.err
    assert output.code == 0 or output.err.startswith("error: "), output.err
    places = [Path(sys.base_prefix), *(ROOT / room for room in ROOMS)]
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in imports.names}
    foreign = {name for name, file in files.items() if file and not _installed(Path(file).resolve(), places)}
    assert foreign == set() and not {"gift", "evil", "tests"} & {name.partition(".")[0] for name in imports.names}


def test_triplets_are_not_analysed_with_a_benchmark_that_the_folder_names(
    scored: Path, tmp_path: Path, emend: Any
) -> None:
    gift(scored, tmp_path, config={"benchmark": "gift.evil:x"})
    output = emend("analyse", "gift", "triples", "--triples", "none.jsonl")
    assert output.code == 2 and not (tmp_path / "PWNED").exists()


@pytest.mark.slow
def test_a_users_judge_shows_its_stored_numbers_without_its_code(
    scored: Path, tmp_path: Path, emend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = gift(scored, tmp_path)
    monkeypatch.setitem(sys.modules, "tests.evals.judged_runs", None)  # importing it again would be an error
    rows = emend("report", folder, "--json").rows
    shorts = [row for row in rows if TERSE in row.get("judge", "")]
    assert shorts and all(row["metric"] == "short" and row["n"] and row["mean"] is not None for row in shorts)
    assert TERSE in emend("trace", folder, "1").out or "terse" in emend("trace", folder, "1").out


def test_a_scoring_without_stored_numbers_says_so(scored: Path, tmp_path: Path, emend: Any) -> None:
    folder = gift(scored, tmp_path, scoring={"own_judges": {}})
    output = emend("report", folder)
    assert output.code == 0 and f"judge {TERSE} is not installed" in output.out


# --- resume


def stranger(tmp_path: Path, **config: Any) -> Path:
    """A folder whose manifest names these."""
    folder = tmp_path / "run"
    go(folder)
    (tmp_path / "evil.py").write_text(EVIL + "def model(**settings): open('CALLED', 'w')\n")
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["config"] |= config
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


SHELL = {"model": "subprocess:check_output", "overrides": {"model": {"args": "touch PWNED", "shell": True}}}


@pytest.mark.parametrize(
    "config",
    [
        SHELL,
        {"model": "evil:model"},
        {"editors": ["evil:x"]},
        {"benchmark": "evil:x"},
        {"retriever": "evil:x"},
        {"retriever": "evil:x(least=3)>threshold(least=1)"},
        {"embedding": "evil:x"},
        {"editors": ["crag"], "overrides": {"crag": {"search": "evil:x"}}},
    ],
    ids=str,
)
def test_resume_runs_nothing_that_is_not_named_again(tmp_path: Path, emend: Any, config: dict[str, Any]) -> None:
    output = emend("resume", stranger(tmp_path, **config), *TRUST)
    assert output.code == 2 and output.err.startswith("error: ") and "--trust" in output.err
    assert not (tmp_path / "PWNED").exists() and not (tmp_path / "CALLED").exists()


def test_the_refusal_names_the_files_and_the_command(tmp_path: Path, emend: Any) -> None:
    output = emend("resume", stranger(tmp_path, model="evil:model"))
    assert f"evil:model from {tmp_path / 'evil.py'}" in output.err
    assert f"--trust evil:model --trust {EDITOR} --trust {BENCHMARK}" in output.err
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize(
    ("config", "trust"), [(SHELL, "subprocess:check_output"), ({"model": "subprocess:Popen"}, "subprocess:Popen")]
)
def test_a_trusted_name_that_is_no_chat_model_is_not_called(
    tmp_path: Path, emend: Any, config: dict[str, Any], trust: str
) -> None:
    output = emend("resume", stranger(tmp_path, **SHELL | config), *TRUST, "--trust", trust)
    assert output.code == 2 and f"model '{trust}' cannot be used" in output.err
    assert f"importing {trust} from " in output.err and "subprocess.py" in output.err
    assert not (tmp_path / "PWNED").exists()


def test_a_trusted_function_is_called_only_if_its_result_is_annotated(tmp_path: Path, emend: Any) -> None:
    output = emend("resume", stranger(tmp_path, model="evil:model"), *TRUST, "--trust", "evil:model")
    assert output.code == 2 and "cannot be used" in output.err and not (tmp_path / "CALLED").exists()
    assert (tmp_path / "PWNED").exists()  # it was imported, as the user allowed


def test_a_run_with_code_of_ones_own_goes_on_when_exactly_its_names_are_given_again(tmp_path: Path, emend: Any) -> None:
    output = emend("resume", stranger(tmp_path), *TRUST, "--trust", "evil:model")
    assert output.code == 2 and "--trust evil:model: the run does not name it" in output.err
    output = emend("resume", stranger(tmp_path), *TRUST)
    assert output.code == 0 and "Nothing to do" in output.out
    assert f"importing {EDITOR} from " in output.err and "toys.py" in output.err


SERVER = "https://models.example/v1"


@pytest.mark.parametrize(
    "config",
    [{"model": f"openai:m@{SERVER}"}, {"model": "openai:m", "overrides": {"model": {"base_url": SERVER}}}],
    ids=["model", "setting"],
)
def test_resume_sends_no_key_to_a_server_that_is_not_named_again(
    tmp_path: Path, emend: Any, config: dict[str, Any]
) -> None:
    output = emend("resume", stranger(tmp_path, **config), *TRUST)
    assert output.code == 2 and f"--trust {SERVER}" in output.err


@pytest.mark.parametrize("server", ["http://127.0.0.1:9/v1", "http://[::1]:9/v1", "http://localhost:9/v1"])
def test_servers_of_this_machine_need_no_trust(server: str) -> None:
    config = RunConfig(benchmark="tinyworld", editors=("rag",), model=f"openai:m@{server}")
    check_trust(names_of_run(config), (), "emend resume x")


def test_labels_run_no_judge_that_the_user_does_not_name(tmp_path: Path, emend: Any) -> None:
    (tmp_path / "evil.py").write_text(EVIL)
    label = {"kind": "evil:judge", "case": "1", "item": {"question": "?"}, "label": 1}
    (tmp_path / "labels.jsonl").write_text(json.dumps(label) + "\n")
    output = emend("judge", "calibrate", "labels.jsonl", "--judge", "tiny")
    assert output.code == 2 and "--trust evil:judge" in output.err and not (tmp_path / "PWNED").exists()


def test_stress_cases_run_no_judge_that_the_user_does_not_name(tmp_path: Path, emend: Any) -> None:
    (tmp_path / "evil.py").write_text(EVIL)
    case = '[[case]]\nkind = "evil:judge"\nvaries = "answer"\nparts = {}\nvariants = {gold = "a", unedited = "b"}\n'
    (tmp_path / "cases.toml").write_text(case)
    output = emend("judge", "stress", "--cases", "cases.toml", "--judge", "tiny")
    assert output.code == 2 and "--trust evil:judge" in output.err and not (tmp_path / "PWNED").exists()


def test_nothing_is_trusted_by_default_and_a_typed_name_is_free() -> None:
    with pytest.raises(BadSettings, match="--trust json:loads"):
        load_attribute("json:loads", "model")
    trust_names(["json:dumps", "emend.evals.case:Metric"], checked=True)
    with pytest.raises(BadSettings, match="cannot be used"):
        load_attribute("json:dumps", "model", ("invoke",))
    assert load_attribute("emend.evals.case:Metric", "metric", ("model_copy",)) is Metric
    trust_typed(("json:dumps",))
    trust_names(["json:dumps"], checked=True)  # typed as well, it stays free
    assert load_attribute("json:dumps", "model", ("invoke",)) is json.dumps


@pytest.mark.parametrize(
    "values",
    ["json:loads", "focus>json:loads(least=3)", "crag.search=json:loads", {"crag": {"search": "json:loads"}},
     ["tiny", ("rag", "json:loads")], "retriever=dense,json:loads", 'x.y="json:loads"', "GPT-J (6B)=json:loads"],
    ids=str,
)  # fmt: skip
def test_a_name_is_seen_wherever_it_is_typed(values: Any) -> None:
    trust_typed(values)
    assert load_attribute("json:loads", "model") is json.loads


def test_a_folder_called_as_its_code_is_no_name(emend: Any, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(EVIL)
    (tmp_path / "evil:x").mkdir()
    settings = {"form": "embedding", "threshold": 0, "embedding": "evil:x", "encoder": "e"}
    (tmp_path / "evil:x" / "scope.json").write_text(json.dumps(settings))
    save_file({"weights": np.ones(9, dtype=np.float32)}, tmp_path / "evil:x" / "scope.safetensors")
    words = ("--benchmark", "tinyworld", "--limit", "1", "--editor", "serac", "--set", "serac.scope=evil:x")
    assert emend("run", *words, "--out", "out").code == 2 and not (tmp_path / "PWNED").exists()
    trust_typed("evil:x")
    with pytest.raises(BadSettings, match="--trust evil:x"):
        load_attribute("evil:x", "embedding")


def test_settings_of_any_providers_class_that_may_name_a_host_need_trust() -> None:
    spec = "langchain:google_genai:g"
    config = RunConfig(benchmark="tinyworld", editors=("rag",), model=spec, overrides={"model": {"temperature": 1}})
    check_trust(names_of_run(config), (), "emend resume x")
    hidden = config.model_copy(update={"overrides": {"model": {"client_options": {"api_endpoint": "evil.example"}}}})
    with pytest.raises(BadSettings, match=f"--trust {spec}"):
        check_trust(names_of_run(hidden), (), "emend resume x")
    check_trust(names_of_run(hidden), (spec,), "emend resume x")
