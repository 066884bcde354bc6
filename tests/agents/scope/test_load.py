"""A folder with a scope classifier is data: code that it names runs only where the user names it too."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from emend.agents.scope.base import SETTINGS, WEIGHTS
from emend.agents.scope.load import load_scope
from emend.memory.errors import BadSettings
from emend.memory.registry import trust_typed

CODE = """
import pathlib
pathlib.Path(__file__).with_name("ran").touch()

from emend.memory.embeddings.embed import LexicalEmbedding
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "code_of_a_stranger.py").write_text(CODE)
    save_file({"weights": np.zeros(9, np.float32)}, tmp_path / WEIGHTS)
    settings = {
        "form": "embedding",
        "threshold": 0.5,
        "encoder": "another",
        "embedding": "code_of_a_stranger:LexicalEmbedding",
    }
    (tmp_path / SETTINGS).write_text(json.dumps(settings))
    return tmp_path


def test_an_embedding_that_a_classifier_names_is_not_imported_unless_the_user_names_it(folder):
    with pytest.raises(BadSettings, match="embedding 'code_of_a_stranger:Lex.*--trust"):
        load_scope(folder)
    assert not (folder / "ran").exists()
    trust_typed("code_of_a_stranger:LexicalEmbedding")
    with pytest.raises(BadSettings, match="was trained with another"):
        load_scope(folder)
