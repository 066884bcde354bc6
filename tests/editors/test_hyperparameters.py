from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from pydantic import Field

from emend.editors.hyperparameters import (
    SHIPPED,
    build_settings,
    covariance_editors,
    covariance_layers,
    layers_by_depth,
    read_settings,
    search_space,
    shipped_settings,
    shipped_tables,
)
from emend.editors.parametric.alphaedit import AlphaEditSettings
from emend.editors.parametric.documents.anyedit import AnyEditSettings
from emend.editors.parametric.documents.unke import UnkeSettings
from emend.editors.parametric.emmet import EmmetSettings
from emend.editors.parametric.finetune import FineTuningSettings
from emend.editors.parametric.lifelong.grace import GraceSettings
from emend.editors.parametric.lifelong.wise import WiseSettings
from emend.editors.parametric.locate_then_edit import LocateThenEditSettings
from emend.editors.parametric.lora import LoraSettings
from emend.editors.parametric.memit import MemitSettings
from emend.editors.parametric.ultraedit import UltraEditSettings
from emend.memory.errors import BadSettings, MissingData


@dataclass(frozen=True)
class Some:
    layers: tuple[int, ...]
    rate: Annotated[float, Field(gt=0)] = 0.5
    steps: int = 3


@dataclass(frozen=True)
class Bounded:
    bound: float | None = None


def test_lists_become_tuples_whole_numbers_fractions_and_text_what_the_field_says():
    made = build_settings(Some, {"layers": [1, 2], "rate": 1}, "toy")
    assert made == Some((1, 2), 1.0) and isinstance(made.rate, float)
    assert build_settings(Some, {"layers": (0,), "rate": "1e-3", "steps": "7"}, "toy") == Some((0,), 1e-3, 7)


@pytest.mark.parametrize("value", ["nan", "inf", float("inf")])
def test_a_value_that_is_not_finite_is_refused_in_any_notation(value):
    with pytest.raises(BadSettings, match=r"'(rate|bound)' of editor 'toy'"):
        build_settings(Some, {"layers": [1], "rate": value}, "toy")
    with pytest.raises(BadSettings, match="'bound' of editor 'toy' is not finite"):
        build_settings(Bounded, {"bound": value}, "toy")


def test_a_folder_as_settings_file_and_an_unknown_key_are_refused(tmp_path):
    with pytest.raises(BadSettings, match=f"settings file '{tmp_path}' cannot be read"):
        read_settings(tmp_path)
    (tmp_path / "deep.toml").write_text("x = " + "[" * 9_000)
    with pytest.raises(BadSettings, match=r"deep\.toml' is not TOML"):
        read_settings(tmp_path / "deep.toml")
    with pytest.raises(BadSettings, match="unknown setting 'step' of editor 'toy': did you mean 'steps'"):
        build_settings(Some, {"layers": [1], "step": 3}, "toy")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "'layers' of editor 'toy': it is missing"),
        ({"layers": [1], "rate": 0}, "'rate'.*more than 0.*got 0"),
        ({"layers": [1], "steps": "many"}, "'steps'.*got 'many'"),
        ({"layers": [1], "steps": 2.5}, "'steps'.*got 2.5"),
        ({"layers": "last"}, "'layers'"),
    ],
)
def test_a_missing_or_impossible_value_is_refused_by_name(values, told):
    with pytest.raises(BadSettings, match=told):
        build_settings(Some, values, "toy")


def test_the_most_specific_table_overlays_the_default():
    default = shipped_settings("ft", model_of("opt", 64, 12))
    tiny = shipped_settings("ft", model_of("llama", 160, 5))
    assert tiny["lr"] != default["lr"]
    assert tiny["batch_tokens"] == default["batch_tokens"]


def model_of(kind: str, width: int, layers: int) -> Any:
    """The configuration of a model of that architecture, width and number of layers."""
    config = SimpleNamespace(model_type=kind, hidden_size=width, num_hidden_layers=layers)
    config.get_text_config = lambda: config
    return config


def config_for(table: str) -> Any:
    """The configuration of a model that gets this table."""
    kind, _, width = table.partition("-")
    return model_of(kind, int(width or 64), 32)


@pytest.mark.parametrize(
    ("kind", "width", "number", "rome", "memit"),
    [
        ("llama", 4096, 32, [5], [4, 5, 6, 7, 8]),
        ("llama", 2048, 16, [3], [2, 3, 4]),
        ("llama", 3072, 28, [5], [4, 5, 6, 7, 8]),
        ("llama", 5120, 40, [6], [6, 7, 8, 9, 10]),
        ("mistral", 4096, 32, [5], [4, 5, 6, 7, 8]),
        ("qwen2", 3584, 28, [5], [4, 5, 6, 7, 8]),
        ("qwen2", 896, 24, [4], [3, 4, 5, 6, 7]),
        ("qwen3", 2560, 36, [6], [6, 7, 8, 9, 10]),
        ("gemma", 2048, 18, [3], [2, 3, 4, 5]),
        ("gemma2", 2304, 26, [4], [7]),
        ("gemma3_text", 640, 18, [3], [5]),
        ("olmo2", 4096, 32, [5], [8]),
        ("phi", 2560, 32, [5], [4, 5, 6, 7, 8]),
        ("phi3", 3072, 32, [5], [4, 5, 6, 7, 8]),
        ("gpt2", 768, 12, [4], [3, 4]),
        ("gpt2", 1600, 48, [17], [13, 14, 15, 16, 17]),
        ("gptj", 4096, 28, [5], [3, 4, 5, 6, 7, 8]),
        ("unheard-of", 64, 2, [0], [0, 1]),
    ],
)
def test_layers_stand_at_the_published_share_of_depth_and_only_one_before_a_norm(kind, width, number, rome, memit):
    config = model_of(kind, width, number)
    assert shipped_settings("rome", config)["layers"] == rome
    assert shipped_settings("memit", config)["layers"] == memit
    assert {*rome, *memit} <= set(covariance_layers(config))


def test_layers_that_count_from_the_end_or_are_a_model_s_own_stay():
    assert layers_by_depth([-1], 32, 12) == [-1]
    assert shipped_settings("memit", model_of("llama", 160, 5))["layers"] == [0, 1]


def test_what_is_searched_are_settings_of_the_editor_and_no_table_of_a_model():
    for editor in covariance_editors():
        assert {*search_space(editor)} - {"depth"} <= {*shipped_settings(editor)}
        assert "search" not in shipped_tables(editor)
    assert covariance_editors() == ["alphaedit", "emmet", "memit", "r_rome", "rome"]


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_table_gives_valid_settings(path):
    adapters, subject = LoraSettings, LocateThenEditSettings
    schemas: dict[str, Any] = {
        "ft": FineTuningSettings,
        "lora": adapters,
        "qlora": adapters,
        "rome": subject,
        "r_rome": subject,
        "memit": MemitSettings,
        "alphaedit": AlphaEditSettings,
        "emmet": EmmetSettings,
        "ultraedit": UltraEditSettings,
        "grace": GraceSettings,
        "wise": WiseSettings,
        "unke": UnkeSettings,
        "anyedit": AnyEditSettings,
    }
    for family in shipped_tables(path.stem):
        built = build_settings(schemas[path.stem], shipped_settings(path.stem, config_for(family)), path.stem)
        assert isinstance(built, schemas[path.stem])


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_table_says_on_which_model_it_was_verified(path):
    for family, values in shipped_tables(path.stem).items():
        assert values["verified"].startswith(("verified on ", "not verified on ")), family


def test_the_published_presets_are_those_of_the_papers_code():
    """ROME's of github.com/kmeng01/rome, fine-tuning's layers of EasyEdit."""
    for method in ("rome", "r_rome"):
        medium, large, other = (
            shipped_settings(method, model_of(*which))
            for which in (("gpt2", 1024, 24), ("gpt2", 1280, 36), ("llama", 4096, 32))
        )
        assert (medium["layers"], medium["clamp_norm_factor"], medium["context_openers"]) == ([8], 3.0, [""])
        assert (large["clamp_norm_factor"], large["context_openers"]) == (4.0, [""])
        assert "context_openers" not in other
    assert shipped_settings("ft", model_of("mistral", 4096, 32))["layers"] == [21]
    assert shipped_settings("ft", model_of("qwen2", 3584, 28))["layers"] == [27]
    assert shipped_settings("ft", model_of("qwen2", 896, 24))["layers"] == [15]
    assert shipped_settings("ft", model_of("qwen2", 2048, 36))["layers"] == [24]  # by the depth of the default


def test_the_default_table_names_every_setting_that_has_no_default():
    optional = {"architecture"}
    named = shipped_settings("ft").keys()
    assert named == {field.name for field in fields(FineTuningSettings)} - optional


def test_a_file_of_ones_own_is_read_and_a_bad_one_named(tmp_path):
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text("layers = [3]\nrate = 5e-1\n", encoding="utf-8")
    bad.write_text("layers = [3\n", encoding="utf-8")
    assert read_settings(good) == {"layers": [3], "rate": 0.5}
    with pytest.raises(BadSettings, match=r"bad\.toml' is not TOML"):
        read_settings(bad)
    with pytest.raises(MissingData, match=r"none\.toml"):
        read_settings(tmp_path / "none.toml")
