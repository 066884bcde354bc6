"""Runs, scorings and a memory that many tests look at."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_checkout():
    """No question to git before every run; test_manifest asks for itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emend.evals.evaluate.prepare.git_state", lambda: None)
        yield


@pytest.fixture
def memory(tmp_path):
    """The folder of a memory in which the capital of Vouna is Meburg."""
    from emend.memory.edit import Edit, Triplet
    from emend.memory.embeddings.embed import LexicalEmbedding
    from emend.memory.store.chroma import ChromaMemory

    fact = Triplet(subject="Vouna", relation="capital", object="Meburg")
    with ChromaMemory(tmp_path / "memory", LexicalEmbedding()) as opened:
        opened.add([Edit.from_triplet(fact, "The capital of {} is")])
    return tmp_path / "memory"


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def smooth(tmp_path_factory):
    """The folder of a run without faults, which no test may change."""
    from tests.evals.traced_runs import smooth_run

    return smooth_run(tmp_path_factory.mktemp("runs") / "smooth")


@pytest.fixture(scope="session")
def rough(tmp_path_factory):
    """The folder of a run against a provider that failed now and then, which no test may change."""
    pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")
    from tests.evals.traced_runs import rough_run

    return rough_run(tmp_path_factory.mktemp("runs") / "rough")


@pytest.fixture(scope="session")
def judgeable(tmp_path_factory):
    """The folders of runs that await a judge, by benchmark, which no test may change."""
    from tests.evals.judged_runs import elken_run, recoe_run

    home = tmp_path_factory.mktemp("runs")
    return {"elken": elken_run(home / "elken"), "recoe": recoe_run(home / "recoe")}


@pytest.fixture
def elken(judgeable, tmp_path):
    """A copy of the run of ELKEN that awaits a judge."""
    return Path(shutil.copytree(judgeable["elken"], tmp_path / "elken"))


@pytest.fixture
def recoe(judgeable, tmp_path):
    """A copy of the run of ReCoE that awaits a judge."""
    return Path(shutil.copytree(judgeable["recoe"], tmp_path / "recoe"))
