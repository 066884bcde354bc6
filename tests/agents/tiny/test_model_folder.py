import hashlib

import pytest

from emend.agents.tiny import SUMS, model_folder, seal
from emend.memory.errors import ModelError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "config.json").write_bytes(b"{}")
    sums = [
        f"{hashlib.sha256((tmp_path / n).read_bytes()).hexdigest()}  {n}\n"
        for n in ("config.json", "model.safetensors")
    ]
    (tmp_path / SUMS).write_text("".join(sums))
    return tmp_path


def test_a_complete_folder_is_returned_and_other_weights_or_an_emptied_list_of_sums_refused(folder):
    assert model_folder(folder) == folder
    (folder / "model.safetensors").write_bytes(b"Weights")
    with pytest.raises(ModelError, match="is not the published one.*model.safetensors has sha256"):
        model_folder(folder)
    (folder / SUMS).write_text("")
    with pytest.raises(ModelError, match="lists no weights"):
        model_folder(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", SUMS])
def test_missing_file_is_named_with_the_remedy(folder, name):
    (folder / name).unlink()
    with pytest.raises(ModelError, match=f"{name} is missing; install Emend again"):
        model_folder(folder)


def test_a_sealed_folder_is_complete(folder):
    (folder / "tokenizer.json").write_bytes(b"[]")
    (folder / "checkpoint.pt").write_bytes(b"not shipped")
    seal(folder)
    assert model_folder(folder) == folder
    assert "checkpoint" not in (folder / SUMS).read_text()
