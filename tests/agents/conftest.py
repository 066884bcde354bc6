"""Small random models, made once, and the trained stand-in where it is at hand."""

import os
from pathlib import Path

import pytest

from tests.fakes import tiny_random_lm
from tests.shared_models import SharedModels


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A function from architecture (and more) to the folder of a small random model."""
    made = {}

    def make(architecture="llama", **more):
        key = (architecture, *sorted(more.items()))
        if key not in made:
            made[key] = tiny_random_lm(architecture, tmp_path_factory.mktemp("models"), **more)
        return made[key]

    return make


@pytest.fixture(scope="session")
def shared_models():
    """What `lms` gives."""
    return SharedModels()


@pytest.fixture(autouse=True)
def leaves_shared_models_as_they_were(shared_models):
    """Else what fails is a later test, and only where the two happen to run in one process."""
    yield
    shared_models.check()


@pytest.fixture(scope="session")
def lms(folders, shared_models):
    """A function from architecture (and more) to a small random `CausalLM`, the same for all tests."""
    from emend.agents.local.causal_lm import CausalLM

    def make(architecture="llama", **more):
        key = (architecture, *sorted(more.items()))
        return shared_models.get(key, lambda: CausalLM(folders(architecture, **more), device="cpu"))

    return make


@pytest.fixture(scope="session")
def stand_in() -> Path:
    """The folder of a trained model with the embedded one's architecture and prompt forms, about another world."""
    shared = Path(os.environ.get("EMEND_SHARED", Path(__file__).parents[3] / "shared"))
    folder = shared / "experiments/tinyworld/model"
    if not folder.is_dir():
        pytest.skip(f"no stand-in model at {folder}; EMEND_SHARED names another folder")
    return folder
