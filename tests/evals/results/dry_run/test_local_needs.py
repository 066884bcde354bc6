"""Needs of a run on a local model, before it is loaded."""

from pathlib import Path

import pytest

from emend.agents.tiny import FOLDER as TINY
from emend.editors.numerics.covariance import collected_folders
from emend.evals.config.run_config import RunConfig
from emend.evals.results.dry_run import local_model
from emend.evals.results.dry_run.needs import need_lines


def lines(*editors: str, **changed: object) -> list[str]:
    fields = {"benchmark": "tinyworld", "editors": editors, "model": "tiny"}
    return list(need_lines(RunConfig.model_validate(fields | changed)))


def test_memory_is_that_of_the_weights_and_of_the_editor_that_takes_most() -> None:
    assert lines("rag") == ["memory: 0.0 GB of weights"]
    assert lines("rag", "rome", "ft")[0].endswith("GB with ft")


def test_editors_that_lack_a_covariance_are_named_with_their_layers_and_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import emend.editors.numerics.covariance as module

    monkeypatch.setattr(module, "cache_folder", lambda name: tmp_path / name)
    assert len(lines("rome", "memit")) == 1, "the embedded model's is collected when it is needed"
    collected = {"overrides": {name: {"covariance": "collected", "layers": [0, 1]} for name in ("rome", "memit")}}
    (missing,) = lines("rag", "rome", "memit", **collected)[1:]
    assert "rome: 0, 1; memit: 0, 1" in missing and missing.count("emend prepare covariance --model") == 1
    assert "--model tiny" in missing
    assert collected_folders("none", [0]) == []


@pytest.mark.parametrize(
    ("model", "missing"),
    [
        ("hf:nowhere", "the model's folder 'nowhere' does not exist"),
        ("hf:no-owner/no-model", "the model is not in the Hugging Face cache: a run downloads it first"),
    ],
)
def test_of_a_model_that_is_not_here_only_that_is_known(model: str, missing: str) -> None:
    assert lines("rome", model=model) == [f"missing: {missing}"]


def test_the_needs_of_a_fetched_model_are_those_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_model, "default_folder", lambda name: tmp_path / name)
    (missing,) = lines("rag", model="smollm2")
    assert missing.endswith("fetch it with: emend model get smollm2")
    (tmp_path / "smollm2").symlink_to(TINY)
    assert lines("rag", model="smollm2") == lines("rag")
