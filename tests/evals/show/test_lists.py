"""Every setting is listed with its type, default and meaning."""

import pytest

from emend.editors.registry import EDITORS
from emend.evals.show.settings import list_presets, list_settings
from emend.memory.errors import BadSettings


@pytest.mark.slow
def test_all_settings_are_listed_with_their_meaning_and_an_unknown_part_is_named() -> None:
    rows = list_settings()
    api = ("openai", "anthropic")  # whose settings LangChain explains, or does not
    assert not [(row.part, row.setting) for row in rows if not row.summary and row.part not in api]
    assert {row.part for row in rows} >= {"rag", "rome", "docter", "tiny", "hf", *api}
    assert {preset.editor for preset in list_presets()} <= set(EDITORS.builtin)
    with pytest.raises(BadSettings, match="did you mean 'mello'"):
        list_settings("melo")


def test_a_row_has_type_default_and_source() -> None:
    rows = {row.setting: row for row in list_settings("crag")}
    assert rows["evaluator"].type == "scope | model" and rows["evaluator"].default == "scope"
    assert rows["k"].summary == "number of retrieved entries put before a probe." and rows["k"].source == "CragSettings"
    assert next(row for row in list_settings("rome") if row.setting == "v_lr").source == "rome.toml"
    assert [row.type for row in list_settings("elken") if row.setting == "split"] == ["test | train"]
    openai = {row.setting: row for row in list_settings("openai:gpt-x")}
    assert openai["deadline"].default == 600.0 and openai["temperature"].default == 0 and "api_key" not in openai
