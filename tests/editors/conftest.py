"""Small local models: random ones of several architectures, and the trained stand-in where it is at hand."""

import os
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def random_model(tmp_path_factory):
    """A function from a model type, perhaps "TYPE tied", to a random local chat model; each is made once."""
    from emend.agents.llm import load_model
    from tests.fakes import tiny_random_lm

    made: dict[str, Any] = {}

    def make(architecture: str = "llama"):
        if architecture not in made:
            kind, _, tied = architecture.partition(" ")
            more: dict[str, Any] = {"tie_word_embeddings": True} if tied else {}
            folder = tiny_random_lm(kind, tmp_path_factory.mktemp("models"), window=96, **more)
            made[architecture] = load_model(f"hf:{folder}", device="cpu", max_new_tokens=4)
        return made[architecture]

    yield make
    for model in made.values():
        model.close()


@pytest.fixture(scope="session")
def stand_in():
    """A trained model of the embedded one's architecture and prompt forms, about a world of its own."""
    from emend.agents.llm import load_model

    shared = Path(os.environ.get("EMEND_SHARED", Path(__file__).parents[3] / "shared"))
    folder = shared / "experiments/tinyworld/model"
    if not folder.is_dir():
        pytest.skip(f"no stand-in model at {folder}; EMEND_SHARED names another folder")
    model: Any = load_model(f"hf:{folder}", device="cpu", max_new_tokens=8)
    yield model
    model.close()
