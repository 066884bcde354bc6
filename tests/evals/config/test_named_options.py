"""Options of the Python API that do not exist are answered with those that do."""

from typing import Any

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.named_options import COMMAND_LINE_NAMES, from_options
from emend.evals.config.run_config import RunConfig
from emend.evals.config.session_config import SessionConfig
from emend.memory.errors import BadSettings

RUN: dict[str, Any] = {"benchmark": "tinyworld", "editors": ("rag",)}


@pytest.mark.parametrize(("typed", "field"), [item for item in COMMAND_LINE_NAMES.items() if item[1] != "source"])
def test_a_name_of_the_command_line_is_answered_with_the_field(typed: str, field: str) -> None:
    assert field in RunConfig.model_fields
    with pytest.raises(BadSettings, match=f"no option '{typed}': did you mean '{field}'"):
        from_options(RunConfig, RUN | {typed: "x"})


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (RunConfig, RUN | {"limits": 3}, "no option 'limits': did you mean 'limit'"),
        (RunConfig, RUN | {"progres": True}, "did you mean 'progress'"),
        (RunConfig, RUN | {"limit": "three"}, "option 'limit' is 'three': it must be a whole number"),
        (RunConfig, {"editors": ("rag",)}, "option 'benchmark' is missing"),
        (BuildConfig, {"hopps": 3}, "did you mean 'hops'"),
        (SessionConfig, {"modell": "tiny"}, "did you mean 'model'"),
        (SessionConfig, {"memory": 3}, "option 'memory' is 3"),
    ],
)
def test_what_is_wrong_is_named_with_the_remedy(model: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSettings) as refused:
        from_options(model, options, "out", "progress")
    text = str(refused.value)
    assert message in text and "pydantic" not in text


def test_a_key_in_a_wrong_value_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-9f8e7d6c5b4a3210")
    with pytest.raises(BadSettings) as refused:
        from_options(RunConfig, RUN | {"rpm": "sk-secret-9f8e7d6c5b4a3210"})
    assert "option 'rpm' is " in str(refused.value) and "sk-secret" not in str(refused.value)
