"""Every command over folders and files of strangers that name code: none imports it, and none is left out."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from emend.evals.cli.main import COMMANDS, load_command
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.log.manifest import MANIFEST
from emend.evals.papers.reproduce.execute import outcome_of
from emend.evals.papers.reproduce.recipe import Recipe, RecipeRun
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.store.chroma import ChromaMemory
from emend.memory.store.jsonl import edit_from
from tests.evals import command_line
from tests.evals.judged_runs import JUDGE, elken_run, judge_model
from tests.evals.made import record, write_run
from tests.paths import DATA

CODE = "gift.evil:x"
"""What every file of the gift names wherever a name can stand."""
EVIL = 'open("PWNED", "a").write("code ran")\ndef x(*words, **more): open("CALLED", "a")\n'
ONLY = ("--only", "method=IKE (all)", "--only", "data=MQuAKE-CF", "--only", "setting=struct")
TABLE = ("akew:2", "--model", "tiny", "--limit", "1", "--data", str(DATA / "akew"), *ONLY)
TOY = ("--benchmark", "tinyworld", "--limit", "1", "--editor", "rag", "--out")
SCOPE = ("--set", "serac.scope=gift/classifier")

DELTA = {"fingerprint": {"architecture": CODE}, "edits": [], "cost": {}, "versions": {}, "sha256": "0"}

CALLS: dict[str, tuple[tuple[str, ...], ...]] = {
    "demo": (("--edits", "1", "--editor", "rag", "--out", "gift/run"),),
    "run": ((*TOY, "gift/run"), (*TOY, "new", "--editor", "serac", *SCOPE)),
    "resume": (
        ("gift/run",),
        ("gift/run", "--workers", "processes:2"),
        ("gift/judged/scorings/gifted",),
        ("gift/judged/scorings/gifted", "--concurrency", "2"),
    ),
    "merge": (("gift/run", "gift/run", "--out", "merged"), ("gift/share", "--partial", "--out", "merged")),
    "reproduce": (
        (*TABLE, "--out", "gift/table", "--dry-run"),
        (*TABLE, "--out", "gift/table", "--report"),
        (*TABLE, "--out", "gift/named", "--dry-run"),
        (*TABLE, "--out", "gift/named", "--judge", "tiny"),
        (*TABLE, "--out", "gift/table", "--judge", "tiny"),
        ("--list",),
    ),
    "sweep": ((*TOY, "gift/table", "--yes"), (*TOY, "gift/table", "--dry-run"), (*TOY, "gift/table", "--report")),
    "build akew": (("--from", "gift/facts.jsonl", "--model", "tiny", "--out", "gift/built"),),
    "build wikiupdate": (("--from", "gift/facts.jsonl", "--model", "tiny", "--out", "gift/built"),),
    "build questions": (("--from", "gift", "--model", "tiny", "--out", "gift/built"),),
    "build facts": (("--from", "gift", "--model", "tiny", "--out", "gift/built"),),
    "build chains": (("--from", "gift/facts.jsonl", "--relations", "gift/cases.toml", "--out", "gift/built"),),
    "build docter": (("--from", "gift/facts.jsonl", "--model", "tiny", "--out", "gift/built"),),
    "build elken": (("--from", "gift/facts.jsonl", "--relations", "gift/cases.toml", "--out", "gift/built"),),
    "build tendencies": (("--from", "gift/cases.toml", "--model", "tiny", "--out", "gift/built"),),
    "build recoe": (("--from", "gift/facts.jsonl", "--documents", "gift", "--out", "gift/built"),),
    "build fresh": (("--from", "gift/facts.jsonl", "--model", "hf:gift/model", "--out", "gift/built"),),
    "prepare covariance": (("--model", "hf:gift/model", "--out", "gift/covariance"),),
    "prepare tune": (("ft", "--model", "hf:gift/model", "--benchmark", "tinyworld", "--out", "gift/tuned.toml"),),
    "prepare scope": (("--benchmark", "tinyworld", "--limit", "2", "--embedding", "gift/encoder", "--out", "scope"),),
    "prepare encoder": (
        ("--benchmark", "tinyworld", "--limit", "2", "--embedding", "gift/encoder", "--out", "encoder"),
    ),
    "judge run": (("gift/run", "--judge", "tiny", "--force"),),
    "judge calibrate": (("gift/labels.jsonl", "--judge", "tiny"),),
    "judge stress": (("--cases", "gift/cases.toml", "--judge", "tiny"),),
    "judge annotate": (
        ("gift/run", "--study", "elken", "--out", "sheets"),
        ("gift/run", "--study", "gift/study.toml", "--out", "sheets"),
    ),
    "judge agreement": (("gift/sheets",),),
    "judge settle": (("gift/run", "gift/labels.jsonl"),),
    "judge correct": (("gift/run",), ("gift/run", "1", "--to", "right"), ("gift/run", "--table", "gift/facts.jsonl")),
    "judge leniency": (("gift/run", "--judge", "tiny", "--size", "1"),),
    "stream new": (("new.jsonl", "--facts", "gift/facts.jsonl"),),
    "stream run": (("gift/facts.jsonl", "--out", "gift/run"),),
    "stream check": (("gift/facts.jsonl",),),
    "report": (("gift/run",), ("gift/run", "--json"), ("gift/run", "--against", "elken:2")),
    "gate": (("gift/run", "--min-efficacy", "1"),),
    "view": (("gift/run", "--single", "page.html"), ("gift", "--export", "pages")),
    "trace": (("gift/run",), ("gift/run", "1"), ("gift/run", "--mermaid"), ("gift/run", "--wrong")),
    "compare": (("gift/run", "gift/run"), ("gift/run",)),
    "query": (("gift/run",), ("gift/run", "from records")),
    "analyse": (("gift/run",), ("gift/run", "tendency"), ("gift/run", "triples", "--triples", "gift/labels.jsonl")),
    "papers": (("akew:2",),),
    "retrieval": (("--benchmark", "tinyworld", "--limit", "1", "--embedding", "gift/encoder"),),
    "extract": (("--benchmark", "akew", "--data", "gift/facts.jsonl", "--out", "gift/labels.jsonl"),),
    "train scope": (("--benchmark", "tinyworld", "--limit", "2", "--embedding", "gift/encoder", "--out", "scope"),),
    "train encoder": (("--benchmark", "tinyworld", "--limit", "2", "--embedding", "gift/encoder", "--out", "encoder"),),
    "tune": (("ft", "--model", "hf:gift/model", "--benchmark", "tinyworld", "--out", "gift/tuned.toml"),),
    "covariance": (("--model", "hf:gift/model", "--out", "gift/covariance"),),
    "memory add": (("gift/edits.jsonl", "--memory", "gift/memory"),),
    "memory import": (("gift/edits.jsonl", "--memory", "gift/memory"),),
    "memory export": (("-", "--memory", "gift/memory"),),
    "memory search": (("capital", "--memory", "gift/memory"),),
    "memory show": (("--subject", "a", "--relation", "b", "--memory", "gift/memory"),),
    "memory stats": (("--memory", "gift/memory"),),
    "memory withdraw": (("x", "--memory", "gift/memory"),),
    "mcp": (("--memory", "gift/memory", "--relations", "gift/cases.toml"),),
    "ask": (("Where?", "--memory", "gift/memory"), ("Where?", "--memory", "gift/memory", "--editor", "serac", *SCOPE)),
    "edit": (
        ("--model", "tiny", "--apply", "gift/delta", "--save-model", "saved"),
        ("--revert", "gift/model"),
        ("--model", "tiny", "--method", "ft", "--edits", "gift/edits.jsonl", "--out", "delta"),
    ),
    "data list": ((),),
    "data pull": (("gift",),),
    "data check": (("gift/facts.jsonl",), ("gift",)),
    "data stats": (("akew", "--data", "gift"),),
    "data chats": (("gift/labels.jsonl", "--questions", "gift/facts.jsonl", "--out", "chats"),),
    "data schema": ((),),
    "data new": (("gift/labels.jsonl",),),
    "model get": (("gguf:gift/model/config.json",),),
    "model list": ((),),
    "list": (("runs", "gift"),),
    "graph": (("rag",),),
    "doctor": (("--model", "hf:gift/model"),),
}
"""Words for each command, after its name."""


def command_names() -> list[str]:
    """All commands, as they are typed."""
    groups = {name: getattr(load_command(name), "commands", {}) for name in COMMANDS.names()}
    return [f"{name} {sub}".strip() for name, subs in groups.items() for sub in (subs or ("",))]


def _rename(file: Path, **fields: Any) -> None:
    """Change fields of a JSON object, those of its field `config` where it has one."""
    content = json.loads(file.read_text(encoding="utf-8"))
    content |= {"config": content["config"] | fields} if "config" in content else fields
    file.write_text(json.dumps(content), encoding="utf-8")


def _write(folder: Path, files: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def _write_finished_runs(folder: Path, recipe: Recipe) -> None:
    """Finished runs that hold a recipe's and one of code: in a folder with any name, and in one with the run's own."""
    for number, each in enumerate(recipe.runs):
        editors = (*each.config.editors, CODE)
        records = [record("1", editor, setting=name) for name in each.config.settings for editor in editors]
        free = {"workers": "ray:gift.evil", "cache": "gift/cache", "memory_server": "http://127.0.0.1:9"}
        fields = each.config.model_dump(exclude={"editors", "settings", "benchmark", "model", *free})
        own = RecipeRun(config=each.config.model_copy(update={"editors": editors})).name
        for run in (folder / "table" / f"zz{number}", folder / "named" / own):
            write_run(run, records, each.config.benchmark, model=each.config.model, **fields | free)
            assert outcome_of(run).is_finished


class _NamedEmbedding(LexicalEmbedding):
    """An embedding whose identity, which a memory stores, is code."""

    def __init__(self) -> None:
        super().__init__()
        self.identity = CODE


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of everything that Emend reads, from a stranger."""
    folder = tmp_path_factory.mktemp("given") / "gift"
    _write_run(elken_run(folder / "run"))
    _write_scoring(folder / "run", folder / "judged")
    shutil.copytree(folder / "run", folder / "share")
    _rename(folder / "share" / MANIFEST, share="1/2")
    manifest = json.loads((folder / "share" / MANIFEST).read_text(encoding="utf-8"))
    part = {"number": 1, "of": 2, "together": 1, "units": 3}
    _write(folder / "share", {MANIFEST: manifest | {"share": part}})
    plan = folder.parent / "plan.yaml"
    assert not command_line.emend("reproduce", *TABLE, "--out", str(folder), "--dry-run", "--save-recipe", str(plan))
    _write_finished_runs(folder, Recipe.read(plan, {}))
    label = json.dumps({"kind": CODE, "case": "1", "item": {"question": "?"}, "label": 1}) + "\n"
    case = f'[[case]]\nkind = "{CODE}"\nvaries = "answer"\nparts = {{}}\nvariants = {{gold = "a", unedited = "b"}}\n'
    _write(folder, {"evil.py": EVIL, "labels.jsonl": label, "facts.jsonl": label, "cases.toml": case})
    study = f'[[study]]\nname = "s"\njudge = "{CODE}"\n'
    _write(folder, {"edits.jsonl": {"document": "A text."}, "study.toml": study})
    _write(folder / "sheets", {"key.json": {"study": {"judge": CODE}, "runs": [], "seed": 0, "items": []}})
    _write(folder / "delta", {"manifest.json": {"method": CODE, "model": CODE} | DELTA})
    _write_models(folder)
    with ChromaMemory(str(folder / "memory"), _NamedEmbedding(), None, True) as opened:
        opened.add([edit_from({"document": "The capital of Vouna is Meburg."})])
    return folder


def _write_run(folder: Path) -> None:
    """A run with a scoring, whose files name code."""
    score_run(folder, Panel(judges=(JUDGE,)), ("tendency",), models={JUDGE: judge_model()})
    names = dict.fromkeys(("model", "retriever", "embedding"), CODE)
    _rename(folder / MANIFEST, editors=["unedited", CODE], memory_server="http://127.0.0.1:9", **names)
    (scoring,) = (folder / "scorings").glob("*/scoring.json")
    _rename(scoring, kinds=["tendency", CODE], prompts={"tendency": "1", CODE: "1"}, own_judges={})


def _write_scoring(run: Path, folder: Path) -> None:
    """A run with a scoring whose judges, criteria and settings are code."""
    shutil.copytree(run, folder)
    (scoring,) = (folder / "scorings").glob("*/scoring.json")
    scoring.parent.rename(folder / "scorings" / "gifted")
    names = {"id": "gifted", "kinds": ["tendency", CODE], "prompts": {"tendency": "1", CODE: "1"}}
    panel = {"judges": [JUDGE, CODE], "second": [f"{CODE}y"]}
    calling = {"settings": {"scope": CODE}, "limits": {"cache": "gift/cache"}}
    _rename(folder / "scorings" / "gifted" / "scoring.json", **names, panel=panel, calling=calling)


def _write_models(folder: Path) -> None:
    """Folders of a model, an encoder and a classifier, which name code as other tools' do."""
    auto = {"AutoModelForCausalLM": "evil.x", "AutoConfig": "evil.x", "AutoTokenizer": "evil.x"}
    _write(folder / "model", {"config.json": {"model_type": "evil", "auto_map": auto}, "evil.py": EVIL})
    modules = [{"idx": 0, "name": "0", "path": "", "type": "gift.evil.x"}]
    _write(folder / "encoder", {"modules.json": modules, "config.json": {"auto_map": auto}, "evil.py": EVIL})
    form, weights = "embedding", {"weights": np.ones(6, dtype=np.float32)}
    _write(folder / "classifier", {"scope.json": {"form": form, "threshold": 0, "embedding": CODE, "encoder": CODE}})
    save_file(weights, folder / "classifier" / "scope.safetensors")


@pytest.fixture
def gift(given: Path, emend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it in the working folder, from which its code could be imported."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    for name in ("evil", "gift", "gift.evil"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return Path(shutil.copytree(given, tmp_path / "gift"))


def imported(gift: Path) -> set[str]:
    """What of the gift's code was imported (which also leaves a file, whatever becomes of the module) or called."""
    traces = {name for name in ("PWNED", "CALLED") if (gift.parent / name).exists()}
    return traces | {name for name in sys.modules if name.partition(".")[0] in ("gift", "evil")}


@pytest.mark.slow
@pytest.mark.parametrize("name", command_names())
def test_no_command_imports_what_files_name(name: str, gift: Path, emend: Any) -> None:
    assert name in CALLS, f"say in CALLS how emend {name} is called over files of strangers"
    for words in CALLS[name]:
        output = emend(*name.split(), *words)
        assert "Traceback" not in output.err and "Usage:" not in output.err, output.err
        assert output.code in (0, 1, 2), output
        assert not imported(gift), words


@pytest.mark.slow
def test_the_walk_sees_what_is_imported(gift: Path, emend: Any) -> None:
    emend("resume", "gift/run", "--trust", CODE)
    assert imported(gift) == {"PWNED", "gift", "gift.evil"}
