"""The embedded model's tokenizer, trained once for all tests here."""

from pathlib import Path

import pytest

from emend.agents.tiny.world import World
from scripts.tiny.tokens import train_tokenizer


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(World(), seed=7).save_pretrained(folder)
    return folder
