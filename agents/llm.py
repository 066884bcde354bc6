"""Loading of LangChain chat models by `provider:name`: the embedded one, a local folder, or a
provider's API.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from emend.agents.scoring import is_local
from emend.agents.weight_differences import difference_remedy
from emend.memory.errors import BadSettings, ModelError, problem_of
from emend.memory.registry import Registry, nearest

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.agents.providers.policy import CallPolicy


Loader = Callable[..., "BaseChatModel"]
# Loaders, called with the text after the colon and the settings; plug-ins may add providers.
MODELS: Registry[Loader] = Registry(
    kind="model",
    group="emend.models",
    interfaces=(("invoke", "bind_tools", "_generate"),),
    beside=__file__,
)
# Providers whose models run on this machine.
LOCAL = ("tiny", "hf", "smollm2", "qwen2.5-coder-0.5b", "gemma3-270m")
# Providers whose models are called by a client of LangChain.
CLIENTS = ("openai", "anthropic", "langchain")
LM_SETTINGS = ("dtype", "device", "device_map", "batch_tokens", "keep_mb", "deterministic")
CHAT_SETTINGS = (
    "max_new_tokens",
    "stop_at",
    "chat",
    "gather",
    "score_apart",
    "template",
    "thought_tokens",
)
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
# Providers by the prefix of their models' names, for hints.
FAMILIES = {
    "gpt-": "openai",
    "chatgpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
}
# LangChain's providers by other common names.
LANGCHAIN = {
    "azure": "azure_openai", "bedrock": "bedrock_converse", "gemini": "google_genai",
    "google": "google_genai",
    "grok": "xai", "mistral": "mistralai", "vertex": "google_vertexai",
    "vertex_ai": "google_vertexai", "watsonx": "ibm",
}  # fmt: skip
# The list of providers in LangChain's error about an unknown one.
SUPPORTED = re.compile(r"providers are: (.*)", re.DOTALL)
HUB_FILES = ["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja"]


def is_local_spec(spec: str) -> bool:
    """Return whether a model runs on this machine, by its name."""
    return spec.partition(":")[0] in LOCAL


def load_model(spec: str, policy: "CallPolicy | None" = None, **settings: Any) -> "BaseChatModel":
    """Load a model by name: a local model on its device, with no thread started, or a
    `ProviderChatModel`.

    The server of a served model is asked for its models and for log-probabilities.

    Args:
        spec: `tiny`, `hf:FOLDER-OR-ID`, `openai:NAME[@URL]`, `anthropic:NAME[@URL]`,
            `vllm:NAME@URL`, `sglang:NAME@URL`, `completions:NAME@URL`, `langchain:PROVIDER:NAME`, a
            plug-in's `provider:name`, or `module:attribute`: a LangChain chat model, or a class or
            function that makes one from the settings.
        policy: retries, limits, budget and cached replies; shared by all models with the same
            policy.
        settings: local models take `dtype`, `device`, `device_map`, `batch_tokens`, `keep_mb`,
            `deterministic`, `max_new_tokens`, `stop_at`, `chat`, `gather`, `score_apart`,
            `template`, `thought_tokens`; served models take those of `agents.served.settings`;
            other models take those of their LangChain class (`temperature` is 0 by default; None
            sends none).

    Raises:
        BadSettings: unknown provider or setting, or a missing key.
        MissingExtra: the provider's package is not installed.
        ModelError: the model cannot be loaded.
    """
    from emend.agents.providers.environment import named_problems

    check_model_settings(spec, settings)
    provider, _, name = spec.partition(":")
    with named_problems() if provider not in LOCAL else nullcontext():
        if name and provider not in MODELS.names():
            model = _load_user_model(spec, settings)
        else:
            check_spec(spec)
            model = MODELS.load(provider)(name, **settings)
    if is_local(model):  # local models need no policy
        return model
    if hasattr(model, "under_policy"):
        return model.under_policy(spec, policy, settings)  # type: ignore[no-any-return]
    from emend.agents.providers.chat_model import ProviderChatModel

    return ProviderChatModel.wrap(model, spec, policy, settings)


def check_spec(spec: str) -> None:
    """Reject an invalid model name; `load_model` checks everything else.

    Raises:
        BadSettings: unknown provider, or a repository that holds only weight differences.
    """
    provider, _, name = spec.partition(":")
    if provider == "hf" and (remedy := difference_remedy(name)):
        raise BadSettings(f"model '{spec}' {remedy}.")
    if name or provider in MODELS.names():
        return
    hint = (
        f"did you mean {full}?" if (full := _full_spec(spec)) else nearest(provider, MODELS.names())
    )
    advice = "" if full else " A model of your own is named module:attribute."
    raise BadSettings(f"unknown model '{spec}': {hint}{advice}")


def _full_spec(name: str) -> str:
    """Return the probable spec for a name without a provider or in another tool's form; "" if
    unclear.
    """
    provider, slash, rest = name.partition("/")
    if name.endswith(".py"):
        return (
            f"{name.removesuffix('.py').rpartition('/')[2]}:ATTRIBUTE, a class or function in "
            "that file"
        )
    # as LiteLLM has it
    if slash and rest and (provider in LANGCHAIN or provider == "ollama") and provider != "google":
        return _langchain_spec(provider, rest)
    if slash and rest:
        if provider in MODELS.names():
            return f"{provider}:{rest}"
        if HUB_ID.fullmatch(name):
            return f"hf:{name}"
        return ""
    return next(
        (f"{provider}:{name}" for start, provider in FAMILIES.items() if name.startswith(start)), ""
    )


def _langchain_spec(provider: str, name: str) -> str:
    """Return the spec of a model whose provider has a LangChain class; "" for any other."""
    provider = LANGCHAIN.get(provider.lower(), provider.lower()).replace("-", "_")
    return f"langchain:{provider}:{name}" if provider in provider_names() else ""


@cache
def provider_names() -> tuple[str, ...]:
    """Return the names of LangChain's providers, from its error about an unknown one."""
    from langchain.chat_models import init_chat_model

    try:
        init_chat_model("none", model_provider="none")
    except ValueError as error:
        supported = SUPPORTED.search(str(error))
        return tuple(name.strip() for name in supported[1].split(",")) if supported else ()
    return ()


def fingerprint(model: "BaseChatModel", spec: str) -> str:
    """Return the model's identity in records: a digest of local weights, or else the spec."""
    return str(getattr(model, "fingerprint", spec))


def load_tiny(name: str = "", **settings: Any) -> "BaseChatModel":
    """Load the embedded model, by default on the CPU: it is too small for a GPU to help.

    Replies share batches, which does not change them. Each call is scored separately, so that an
    interrupted and resumed run gives the same numbers to the last digit.
    """
    from emend.agents.tiny import model_folder

    if name:
        raise BadSettings(f"model 'tiny:{name}': the embedded model has no variants; write tiny.")
    return _local(model_folder(), "tiny", {"device": "cpu", "score_apart": True} | settings)


def load_hf(name: str, **settings: Any) -> "BaseChatModel":
    """Load a causal language model from a folder, or from the Hugging Face hub by its id."""
    if not name:
        raise BadSettings(
            "model 'hf:' names no folder: write hf:FOLDER, or hf:OWNER/NAME for the "
            "Hugging Face hub."
        )
    return _local(hub_folder(name, HUB_FILES), name, settings)


def _load_user_model(spec: str, settings: dict[str, Any]) -> "BaseChatModel":
    """Return the model at `module:attribute`, or the one that the class or function there
    creates.
    """
    from langchain_core.language_models import BaseChatModel

    try:
        attribute: Any = MODELS.load(spec)
    except BadSettings as error:
        if error.__cause__ is None:
            raise
        full = _langchain_spec(*spec.split(":", 1))
        known = f"write {full}." if full else nearest(spec.partition(":")[0], MODELS.names())
        raise BadSettings(
            f"unknown model '{spec}': {known} As module:attribute, one of your own, it cannot be "
            f"loaded: {error.__cause__}."
        ) from error
    is_instance = isinstance(attribute, BaseChatModel)
    if is_instance and settings:
        raise BadSettings(
            f"model '{spec}' is an instance, and takes no settings (got "
            f"{', '.join(sorted(settings))}): name its class, or a function that makes it."
        )
    with MODELS.plugin_errors(spec):
        model = attribute if is_instance else attribute(**settings)
    if not isinstance(model, BaseChatModel):
        raise BadSettings(
            f"model '{spec}' gives {model!r:.60}, which is not a LangChain chat model "
            "(BaseChatModel): see docs/how-to/extend.md."
        )
    return model


def check_model_settings(spec: str, settings: Mapping[str, Any]) -> None:
    """Reject settings that are known to be wrong before a model is loaded.

    Raises:
        BadSettings: a local model has no such setting, or a client of an API would retry calls
            itself.
    """
    if is_local_spec(spec):
        check_local_settings(spec, settings)
    elif spec.partition(":")[0] in CLIENTS:
        from emend.agents.api_models import refuse_own_retries

        refuse_own_retries(spec.partition("@")[0], settings)


def check_local_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a local model as their types.

    Args:
        name: name of the model for messages.
        settings: settings by name; values may be text.

    Raises:
        BadSettings: a setting is unknown, or a value has the wrong type.
    """
    known = [*LM_SETTINGS, *CHAT_SETTINGS]
    for setting in settings:
        if setting not in known:
            raise BadSettings(
                f"unknown setting '{setting}' of model '{name}': {nearest(setting, known)}"
            )
    from emend.agents.local.causal_lm import CausalLM
    from emend.agents.local.chat_model import LocalChatModel

    kinds: dict[str, Any] = get_type_hints(CausalLM.__init__) | get_type_hints(LocalChatModel)
    return {key: _typed(key, value, kinds[key], name) for key, value in settings.items()}


def _local(folder: Path, name: str, settings: dict[str, Any]) -> "BaseChatModel":
    options = check_local_settings(name, settings)
    from emend.agents.local.causal_lm import CausalLM
    from emend.agents.local.chat_model import LocalChatModel

    lm = CausalLM(folder, **{key: options[key] for key in LM_SETTINGS if key in options})
    return LocalChatModel(
        lm=lm, model_name=name, **{key: options[key] for key in CHAT_SETTINGS if key in options}
    )


def _typed(setting: str, value: Any, kind: Any, name: str) -> Any:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        wrong = problem_of(error.errors()[0])
        raise BadSettings(
            f"setting '{setting}' of model '{name}': {wrong}, got {value!r}."
        ) from error


def hub_folder(name: str, patterns: list[str], role: str = "model") -> Path:
    """Return a local folder, or the folder of a hub repository in the local cache; cached files
    need no network.

    Args:
        name: a folder, or an id of the Hugging Face hub.
        patterns: patterns of the files to download.
        role: description of the folder, for the error message.

    Raises:
        ModelError: the folder does not exist and cannot be downloaded from the hub.
    """
    folder = Path(name).expanduser()
    if folder.exists() or not HUB_ID.fullmatch(name):
        return folder
    from huggingface_hub import snapshot_download

    from emend.agents.providers.environment import network_problem

    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:  # noqa: BLE001
        # network, permissions, unknown id: the caller needs no distinction
        if problem := network_problem():
            raise BadSettings(problem) from error
        spec = f"hf:{name}" if role == "model" else name
        raise ModelError(
            f"{role} '{spec}' is neither a folder nor available from the Hugging Face hub "
            f"({type(error).__name__}): check the name, the network, or give a folder."
        ) from error
