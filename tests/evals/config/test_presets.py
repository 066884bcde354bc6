"""Presets are taken apart into the fields of a configuration, under what is given besides."""

from pathlib import Path
from typing import Any

import pytest

from emend.editors.hyperparameters import build_settings
from emend.editors.registry import EDITORS
from emend.evals.config.presets import presets
from emend.evals.config.run_config import RunConfig
from emend.evals.config.run_file import RunPlan, read_run_file
from emend.evals.show.settings import list_presets
from emend.memory.errors import BadSettings, MissingData


def config(*editors: str, **fields: Any) -> RunConfig:
    return RunConfig.model_validate({"benchmark": "tinyworld", "editors": editors or ("ike",)} | fields)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "mquake" / "prompts" / "MeLLo-prompt.txt"
    file.parent.mkdir(parents=True)
    file.write_text("Question: Who?\n")
    monkeypatch.setenv("EMEND_DATA", str(tmp_path))
    return file


def test_a_preset_becomes_the_options_and_settings_that_it_stands_for(data: Path) -> None:
    plain = config(retriever="dense", embedding="minilm", prompt_template="new_fact", overrides={
        "ike": {"k": 1, "demonstrations": 32, "original": True, "nearest": "edit", "rows": 0}
    })  # fmt: skip
    assert config(preset="paper") == plain and plain.preset is None
    mello = config("mello", "unedited", preset="paper")
    assert (mello.retriever, mello.embedding) == ("dense", "facebook/contriever-msmarco")
    assert mello.overrides["mello"] == {"k": 1, "form": "text", "hops": 4, "demonstrations": str(data)}


def test_what_is_given_comes_first_and_a_config_file_may_name_a_preset(tmp_path: Path) -> None:
    given = config(preset="paper", embedding="lexical", overrides={"ike": {"demonstrations": 8}, "model": {"x": 1}})
    assert (given.embedding, given.retriever, given.overrides["ike"]["demonstrations"]) == ("lexical", "dense", 8)
    assert given.overrides["ike"]["k"] == 1 and given.overrides["model"] == {"x": 1}
    file = tmp_path / "run.yaml"
    file.write_text("benchmark: tinyworld\neditors: [ike]\npreset: paper\noverrides: {ike: {k: 2}}\n")
    plan = RunPlan.of(read_run_file(file), {"embedding": "lexical"})
    assert (plan.configs[0].embedding, plan.configs[0].overrides["ike"]["k"]) == ("lexical", 2)
    plan.write(tmp_path / "saved.yaml")
    assert RunPlan.of(read_run_file(tmp_path / "saved.yaml"), {}).configs == plan.configs


@pytest.mark.parametrize(
    ("editors", "fields", "says"),
    [
        (("ike",), {"preset": "papr"}, "unknown --preset 'papr': did you mean 'paper'"),
        (("rag",), {"preset": "best"}, "--preset best applies to the editors mello, ike: name one"),
        (("mello", "ike"), {"preset": "paper"}, "--embedding facebook/contriever-msmarco and, for ike, minilm"),
    ],
)
def test_a_preset_that_fits_nothing_is_refused(editors: tuple[str, ...], fields: dict[str, Any], says: str) -> None:
    with pytest.raises(BadSettings, match=says):
        config(*editors, **fields)
    assert config("mello", "ike", preset="paper", embedding="minilm").embedding == "minilm"


def test_a_missing_file_of_a_preset_is_named_unless_another_is_given(data: Path) -> None:
    data.unlink()
    with pytest.raises(MissingData, match=r"emend data pull mquake, or give --set mello.demonstrations=FILE"):
        config("mello", preset="paper")
    assert config("mello", preset="paper", overrides={"mello": {"demonstrations": "d.txt"}})


def test_every_preset_has_settings_that_its_editor_takes_and_is_listed() -> None:
    for name, rows in presets().items():
        for editor, row in rows.items():
            kind: Any = EDITORS.load(editor)
            assert build_settings(kind.schema, row.settings, editor)
            assert set(row.run) <= set(RunConfig.model_fields)
            (listed,) = [each for each in list_presets(editor) if each.preset == f"--preset {name}"]
            assert listed.values == row.run | row.settings
