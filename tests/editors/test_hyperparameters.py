from dataclasses import dataclass, fields
from typing import Annotated, Any

import pytest
from pydantic import Field

from emend.editors.hyperparameters import SHIPPED, build_settings, read_settings, shipped_settings, shipped_tables
from emend.editors.parametric.alphaedit import AlphaEditSettings
from emend.editors.parametric.finetune import FineTuningSettings
from emend.editors.parametric.locate_then_edit import LocateThenEditSettings
from emend.editors.parametric.lora import LoraSettings
from emend.editors.parametric.memit import MemitSettings
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
    with pytest.raises(BadSettings, match="unknown setting 'step' of editor 'toy': did you mean 'steps'"):
        build_settings(Some, {"layers": [1], "step": 3}, "toy")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "'layers' of editor 'toy': Field required"),
        ({"layers": [1], "rate": 0}, "'rate'.*greater than 0.*seen: 0"),
        ({"layers": [1], "steps": "many"}, "'steps'.*seen: 'many'"),
        ({"layers": [1], "steps": 2.5}, "'steps'.*seen: 2.5"),
        ({"layers": "last"}, "'layers'"),
    ],
)
def test_a_missing_or_impossible_value_is_refused_by_name(values, told):
    with pytest.raises(BadSettings, match=told):
        build_settings(Some, values, "toy")


def test_the_most_specific_table_overlays_the_default():
    default = shipped_settings("ft", ["nobody-has-this"])
    tiny = shipped_settings("ft", ["llama-160", "llama"])
    assert tiny["lr"] != default["lr"]
    assert tiny["batch_tokens"] == default["batch_tokens"]


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
    }
    for family in read_settings(path):
        built = build_settings(schemas[path.stem], shipped_settings(path.stem, [family]), path.stem)
        assert isinstance(built, schemas[path.stem])


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_table_says_on_which_model_it_was_verified(path):
    for family, values in shipped_tables(path.stem).items():
        assert values["verified"].startswith(("verified on ", "not verified on ")), family


def test_the_published_presets_are_those_of_the_papers_code():
    """ROME's of github.com/kmeng01/rome, fine-tuning's layers of EasyEdit."""
    for method in ("rome", "r_rome"):
        medium, large, other = (shipped_settings(method, [name]) for name in ("gpt2-1024", "gpt2-1280", "llama"))
        assert (medium["layers"], medium["clamp_norm_factor"], medium["context_openers"]) == ([8], 3.0, [""])
        assert (large["clamp_norm_factor"], large["context_openers"]) == (4.0, [""])
        assert "context_openers" not in other
    assert shipped_settings("ft", ["mistral-4096", "mistral"])["layers"] == [21]
    assert shipped_settings("ft", ["qwen2-3584", "qwen2"])["layers"] == [27]


def test_the_default_table_names_every_setting_that_has_no_default():
    optional = {"architecture"}
    named = shipped_settings("ft", ()).keys()
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
