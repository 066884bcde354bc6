"""Small local models: random ones of several architectures, and the trained stand-in where it is at hand."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.shared_models import SharedModels


@pytest.fixture(scope="session")
def shared_models():
    """What `random_model` and `stand_in` give."""
    models = SharedModels()
    yield models
    for model in models:
        model.close()


@pytest.fixture(autouse=True)
def leaves_shared_models_as_they_were(shared_models):
    """Else what fails is a later test, and only where the two happen to run in one process."""
    yield
    shared_models.check()


@pytest.fixture(scope="session")
def random_folder(tmp_path_factory):
    """A function from a model type, perhaps "TYPE tied", to the folder of a random model; each is made once."""
    from tests.fakes import tiny_random_lm

    made: dict[str, Path] = {}

    def make(architecture: str = "llama") -> Path:
        if architecture not in made:
            kind, _, tied = architecture.partition(" ")
            more: dict[str, Any] = {"tie_word_embeddings": True} if tied else {}
            made[architecture] = tiny_random_lm(kind, tmp_path_factory.mktemp("models"), window=96, **more)
        return made[architecture]

    return make


@pytest.fixture(scope="session")
def random_model(random_folder, shared_models):
    """A function from a model type, perhaps "TYPE tied", to a random local chat model, the same for all tests."""
    return lambda architecture="llama": shared_models.get(architecture, lambda: read(random_folder(architecture), 4))


@pytest.fixture
def own_model(random_folder):
    """A random local chat model that the test may leave changed."""
    model = read(random_folder(), 4)
    yield model
    model.close()


@pytest.fixture(scope="session")
def stand_in(shared_models):
    """A trained model of the embedded one's architecture and prompt forms, about a world of its own."""
    shared = Path(os.environ.get("EMEND_SHARED", Path(__file__).parents[3] / "shared"))
    folder = shared / "experiments/tinyworld/model"
    if not folder.is_dir():
        pytest.skip(f"no stand-in model at {folder}; EMEND_SHARED names another folder")
    return shared_models.get("stand-in", lambda: read(folder, 8))


def read(folder: Path, max_new_tokens: int) -> Any:
    """The chat model of a folder, on the processor."""
    from emend.agents.llm import load_model

    return load_model(f"hf:{folder}", device="cpu", max_new_tokens=max_new_tokens)
