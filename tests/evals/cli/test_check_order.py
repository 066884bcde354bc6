"""Order of checks: what was typed wrong comes before what is missing, and before data and models."""

import pytest

MODEL = """
from pathlib import Path

def load(**settings):
    Path("loaded").touch()
    raise RuntimeError("the model was loaded")
"""
BENCHMARK = """
from pathlib import Path
from emend.evals.case import Case, Metric
from emend.memory.edit import Edit
from emend.memory.probe import Probe

class Rows:
    settings = ("triplet",)
    mode, wording, passages = "single", "new_fact", ()

    def __init__(self, folder, options):
        self.name, self.provenance = "rows", {}

    def cases(self, setting, limit=None, seed=0):
        Path("read").touch()
        raise RuntimeError("the data were read")
        yield

    def demonstrations(self, setting, seed=0):
        return ()

    def metrics(self):
        return [Metric(name="efficacy", kinds=("efficacy",), value="exact")]
"""


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """A model and a benchmark that leave a file when they are loaded and read."""
    (tmp_path / "own_parts.py").write_text(MODEL + BENCHMARK)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--set", "rag.kk=3", "unknown setting 'kk' of editor 'rag': did you mean 'k'"),
        ("--set", "rag.k=x", "setting 'k' of editor 'rag': it must be a whole number"),
        ("--set", "mello.form=jason", "setting 'form' of editor 'mello'"),
        ("--set", "rome.layrs=3", "unknown setting 'layrs' of editor 'rome': did you mean 'layers'"),
        ("--set", "rome.layers=x", "setting 'layers' of editor 'rome': it must be a list"),
        ("--protocol", "contans", "unknown protocol 'contans': did you mean 'contains'"),
        ("--require", "rag:efficasy>=1", "no metric 'efficasy': did you mean 'efficacy'"),
        ("--require", "rg:efficacy>=1", "no editor 'rg': did you mean 'rag'"),
        ("--retriever", "defalt", "unknown retriever 'defalt': did you mean 'default'"),
        ("--prompts", "none.toml", "none.toml"),
        ("--prompt-template", "newfact", "did you mean 'new_fact'"),
        ("--ability", "biult_in", "did you mean 'built_in'"),
        ("--embedding", "minilmm", "unknown embedding 'minilmm': did you mean 'minilm'"),
    ],
)
def test_a_wrong_setting_or_name_is_found_before_data_are_read_and_the_model_is_loaded(
    option, value, message, emend, parts
):
    editors = ("--editor", "rag", "--editor", "mello", "--editor", "rome")
    wrong = emend("run", "--benchmark", "own_parts:Rows", "--model", "own_parts:load", *editors, option, value)
    assert wrong.code == 2 and message in wrong.err
    assert not (parts / "loaded").exists() and not (parts / "read").exists()


def test_a_wrong_setting_in_a_file_is_found_before_the_model_is_loaded(emend, parts):
    lines = ["benchmark: own_parts:Rows", "model: own_parts:load", "editors: [rag]", "overrides: {rag: {k: 0}}"]
    (parts / "run.yaml").write_text("\n".join(lines))
    wrong = emend("run", "run.yaml")
    assert "setting 'k' of editor 'rag': it must be 1 or more, got 0" in wrong.err
    assert not (parts / "loaded").exists() and not (parts / "read").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--benchmark", "mine.cvs"), "'mine.cvs' is neither a file nor a known benchmark"),
        (("--benchmark", "mine.csv"), "the file 'mine.csv' does not exist"),
        (("--benchmark", "tinywrld"), "unknown benchmark 'tinywrld': did you mean 'tinyworld'"),
        (("--benchmark", "tinyworld", "--mode", "sngle"), "unknown mode 'sngle': did you mean 'single'"),
        (("--benchmark", "tinyworld", "--protocol", "exct"), "unknown protocol 'exct': did you mean 'exact'"),
        (("--editor", "rg"), "unknown editor 'rg': did you mean 'rag'"),
        (("--model", "tny"), "unknown model 'tny': did you mean 'tiny'"),
        (("--benchmark", "tinyworld"), "--editor is missing"),
        (("--editor", "rag"), "--benchmark is missing"),
    ],
)
def test_what_is_wrong_is_named_before_what_is_missing(options, message, emend):
    refused = emend("run", *options)
    assert refused.code == 2 and refused.err.startswith(f"error: {message}"), refused.err


def test_a_wrong_setting_is_named_before_a_missing_covariance(emend, random_folder):
    options = ("--benchmark", "tinyworld", "--model", f"hf:{random_folder()}", "--editor", "rome")
    assert "missing covariances" in emend("run", *options).err
    for wrong, message in (
        (("--set", "model.dtyp=float16"), "did you mean 'dtype'"),
        (("--set", "rome.layers=[99]"), "layer 99 does not exist"),
        (("--require", "rome:efficasy>=1"), "no metric 'efficasy'"),
    ):
        assert message in emend("run", *options, *wrong).err


def test_every_model_is_looked_for_before_the_first_is_run(emend):
    refused = emend("run", "--benchmark", "tinyworld", "--editor", "rag", "--model", "tiny", "--model", "hf:./nowhere")
    assert refused.code == 2 and "model folder nowhere is not a folder" in refused.err
    assert "units" not in refused.err


def test_a_folder_that_is_not_a_benchmark_is_called_a_folder(emend, tmp_path):
    (tmp_path / "docs").mkdir()
    assert "is a folder, but not one that emend build made" in emend("run", "--benchmark", "./docs").err


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--kind", "equivalance"), "did you mean 'equivalence'"), (("--editor", "rga"), "did you mean 'rag'")],
)
def test_a_wrong_kind_or_editor_is_found_before_the_judge_is_loaded(words, message, emend, parts):
    emend("run", "--benchmark", "tinyworld", "--model", "tiny", "--editor", "rag", "--limit", "1", "--out", "out")
    wrong = emend("judge", "run", "out", "--judge", "own_parts:load", *words)
    assert wrong.code == 2 and message in wrong.err and not (parts / "loaded").exists()
