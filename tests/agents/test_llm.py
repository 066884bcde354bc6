import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from emend.agents import llm
from emend.agents.llm import MODELS, fingerprint
from emend.agents.scoring import ScoringModel
from emend.memory.errors import BadSettings, MissingExtra, ModelError
from emend.memory.registry import trust_typed

load_model: Any = llm.load_model  # what it returns has more than a chat model's attributes


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.slow
def test_nothing_heavy_is_imported_with_the_module():
    code = (
        "import sys, emend.agents.llm, emend.agents.roles.answer, emend.agents.scoring;"
        "print([m for m in ('torch', 'transformers', 'langchain', 'openai', 'anthropic') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_listing_has_name_and_summary():
    rows = {row["name"]: row["summary"] for row in MODELS.rows()}
    assert {"tiny", "hf", "openai", "anthropic"} <= set(rows)
    assert all(rows.values())


def test_folder_is_loaded_as_a_scoring_model(random_folder):
    model = load_model(
        f"hf:{random_folder()}", device="cpu", max_new_tokens=3, stop_at=(".",), gather=2, batch_tokens=99
    )
    assert (model.max_new_tokens, model.stop_at, model.gather, model.lm.batch_tokens) == (3, (".",), 2, 99)
    assert fingerprint(model, "spec") == model.lm.fingerprint
    assert isinstance(model, ScoringModel)


def test_unknown_setting_names_the_nearest(random_folder):
    with pytest.raises(BadSettings, match="unknown setting 'max_tokens'.*did you mean 'max_new_tokens'"):
        load_model(f"hf:{random_folder()}", max_tokens=3)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("max_new_tokens", "1k"),
        ("batch_tokens", "1k"),
        ("keep_mb", 1.5),
        ("dtype", 16),
        ("stop_at", ";"),
        ("gather", "x"),
    ],
)
def test_a_setting_of_a_wrong_type_is_refused_by_name(random_folder, setting, value):
    with pytest.raises(BadSettings, match=f"setting '{setting}' of model '.*got {value!r}"):
        load_model(f"hf:{random_folder()}", **{setting: value})


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("opnai:gpt", "did you mean 'openai'"),
        ("tinny", "did you mean 'tiny'"),
        ("antropic:x", "did you mean 'anthropic'"),
        ("gpt-4o", r"'gpt-4o': did you mean openai:gpt-4o\?"),
        ("openai/gpt-4o", r"'openai/gpt-4o': did you mean openai:gpt-4o\?"),
        ("claude-any", r"'claude-any': did you mean anthropic:claude-any\?"),
        ("owner/name", r"'owner/name': did you mean hf:owner/name\?"),
        *((spec, f"model '{spec}") for spec in ("hf:", "openai:", "anthropic:", "tiny:large")),
    ],
)
def test_a_spec_that_names_no_model_is_refused_with_the_nearest_that_does(spec, said):
    trust_typed(spec)
    with pytest.raises(BadSettings, match=said):
        load_model(spec)


@pytest.mark.parametrize("size", ["7b", "13b", "30b"])
def test_a_repository_that_holds_a_difference_is_refused_with_the_step_that_recovers_the_model(
    size, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadSettings, match=rf"allenai/tulu-{size}.*weight_diff.py recover.*<\|user\|>.*hf:FOLDER"):
        load_model(f"hf:allenai/tulu-{size}")
    Path(f"allenai/tulu-{size}").mkdir(parents=True)  # the recovered weights may have that name
    with pytest.raises(ModelError, match="has no config.json"):
        load_model(f"hf:allenai/tulu-{size}")


def test_a_missing_folder_and_a_hub_id_without_network_are_named(monkeypatch, tmp_path):
    import huggingface_hub

    def offline(name, **settings):
        raise ConnectionError(name)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(ModelError, match="neither a folder nor available from the Hugging Face hub"):
        load_model("hf:nobody/no-such-model")
    with pytest.raises(ModelError, match="nowhere is not a folder"):
        load_model(f"hf:{tmp_path / 'nowhere'}")


def test_hub_id_is_loaded_through_the_same_path(monkeypatch, random_folder):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **settings: str(random_folder()))
    assert load_model("hf:somebody/small", device="cpu").model_name == "somebody/small"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_missing_key_is_named(provider):
    with pytest.raises(BadSettings, match=f"{provider.upper()}_API_KEY is not set"):
        load_model(f"{provider}:some-model")


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_missing_package_names_the_extra(provider, monkeypatch):
    import importlib.util

    plain = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == f"langchain_{provider}" else plain(name, *more)
    )
    with pytest.raises(MissingExtra, match=rf"pip install 'emend-eval\[{provider}\]'"):
        load_model(f"{provider}:some-model")


def test_replies_of_providers_are_deterministic_bounded_and_not_retried_by_the_client(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k-secret")
    model = load_model("openai:gpt-4.1-mini")
    assert (model.model_name, model.inner.temperature, model.inner.max_retries) == ("gpt-4.1-mini", 0, 0)
    assert fingerprint(model, "openai:gpt-4.1-mini") == "openai:gpt-4.1-mini"
    assert load_model("openai:gpt-4.1-mini", temperature=None).inner.temperature is None
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-secret")
    model = load_model("anthropic:claude-sonnet-4-5")
    assert (model.inner.max_tokens, model.inner.temperature, model.inner.max_retries) == (4096, 0, 0)


@pytest.mark.parametrize("name", ["meta/llama", "org/m@v2"])
def test_compatible_server_needs_no_key_and_a_name_may_hold_an_at(name):
    model = load_model(f"openai:{name}@http://127.0.0.1:8000/v1")
    assert (model.model_name, model.inner.openai_api_base) == (name, "http://127.0.0.1:8000/v1")


@pytest.mark.parametrize(
    ("spec", "seen"),
    [
        ("openai:m@", "got ''"),
        ("anthropic:m@", "got ''"),
        ("openai:m@127.0.0.1:8000/v1", "got '127.0.0.1:8000/v1'"),
        ("openai:m@http://", "got 'http://'"),
        ("openai:m@http:///v1", "got 'http:///v1'"),
        ("openai:m@me:pw-pw@127.0.0.1:8000/v1", "no address after it: write"),
    ],
)
def test_an_invalid_address_is_refused_and_not_replaced_by_the_providers(spec, seen, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k-secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-secret")
    with pytest.raises(BadSettings, match="model '.*:m' has an @ but no address after it.*NAME@http://HOST") as caught:
        load_model(spec)
    assert seen in str(caught.value) and "pw-pw" not in str(caught.value)


@pytest.mark.parametrize("spec", ["openai:m@http://me:pw@127.0.0.1:8000/v1", "anthropic:m@https://me@127.0.0.1"])
def test_address_with_a_password_is_refused_without_showing_it(spec):
    with pytest.raises(BadSettings, match="has a password") as caught:
        load_model(spec)
    assert "me" not in str(caught.value).split("password")[0].split()


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("spec", ["openai:m@http://me:pw@h/v1", "anthropic:m", "langchain:openai:m"])
def test_a_second_layer_of_retries_is_refused_with_the_setting_that_limits_a_call(spec, number):
    with pytest.raises(BadSettings, match="Emend retries calls itself.*'deadline'") as caught:
        load_model(spec, max_retries=number)
    assert f"of model '{spec.partition('@')[0]}'" in str(caught.value)


def test_a_wrong_setting_of_a_fetched_model_names_the_model_and_not_its_folder():
    with pytest.raises(BadSettings, match="unknown setting 'temprature' of model 'smollm2'"):
        load_model("smollm2", temprature=3)


def test_settings_of_a_wrong_type_are_refused_without_the_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k-secret")
    with pytest.raises(BadSettings, match="rejects its settings") as caught:
        load_model("openai:gpt-4.1-mini", temperature="hot", api_key="k-secret")
    assert "k-secret" not in str(caught.value)


PREFIXES = {
    "ollama:llama3": "langchain:ollama:llama3",
    "azure_openai:m": "langchain:azure_openai:m",
    "azure:m": "langchain:azure_openai:m",
    "google_genai:m": "langchain:google_genai:m",
    "google-genai:m": "langchain:google_genai:m",
    "gemini:m": "langchain:google_genai:m",
    "groq:m": "langchain:groq:m",
    "Mistral:m": "langchain:mistralai:m",
    "bedrock:m": "langchain:bedrock_converse:m",
    "ollama/llama3": "langchain:ollama:llama3",
    "google/gemma-3-270m": "hf:google/gemma-3-270m",
}


@pytest.mark.parametrize("spec", PREFIXES)
def test_a_provider_of_langchain_is_named_with_its_prefix(spec):
    trust_typed(spec)
    with pytest.raises(BadSettings, match=PREFIXES[spec]):
        load_model(spec)
