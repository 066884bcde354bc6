"""Loading of LangChain chat models by `provider:name`: the embedded one, a local folder, or a provider's API."""

import importlib.util
import math
import os
import re
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints
from urllib.parse import urlsplit

from emend.agents.scoring import is_local
from emend.agents.weight_differences import difference_remedy
from emend.memory.distribution import install_command
from emend.memory.errors import BadSettings, MissingExtra, ModelError
from emend.memory.registry import Registry, nearest

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.agents.providers.policy import CallPolicy

Loader = Callable[..., "BaseChatModel"]

FETCHED = "emend.agents.gguf.catalogue:"
SERVED = "emend.agents.served.load:"
MODELS: Registry[Loader] = Registry(
    kind="model",
    group="emend.models",
    interfaces=(("invoke", "bind_tools", "_generate"),),
    builtin={
        "tiny": ("emend.agents.llm:load_tiny", "the embedded model: no key, no download, knows an invented world"),
        "hf": ("emend.agents.llm:load_hf", "hf:FOLDER-OR-ID, a local causal language model, which also scores"),
        "smollm2": (FETCHED + "load_smollm2", "SmolLM2-135M-Instruct, after: emend model get smollm2"),
        "qwen2.5-coder-0.5b": (
            FETCHED + "load_qwen",
            "Qwen2.5-Coder-0.5B-Instruct, after: emend model get qwen2.5-coder-0.5b",
        ),
        "gemma3-270m": (FETCHED + "load_gemma", "Gemma 3 270M, a base model, after: emend model get gemma3-270m"),
        "openai": ("emend.agents.llm:load_openai", "openai:NAME, or openai:NAME@URL for any compatible server"),
        "anthropic": (
            "emend.agents.llm:load_anthropic",
            "anthropic:NAME, or anthropic:NAME@URL, through Anthropic's API",
        ),
        "langchain": (
            "emend.agents.langchain_models:load_langchain",
            "langchain:PROVIDER:NAME, any provider of LangChain's init_chat_model, such as google_genai",
        ),
        "vllm": (SERVED + "load_vllm", "vllm:NAME@URL, a model on a vLLM server, which also scores"),
        "sglang": (SERVED + "load_sglang", "sglang:NAME@URL, a model on an SGLang server, which also scores"),
        "completions": (
            SERVED + "load_completions",
            "completions:NAME@URL, any server with OpenAI's completions, which scores where it echoes prompts",
        ),
    },
)
"""Loaders, which take the text after the colon and settings; plug-ins may add providers."""

LOCAL = ("tiny", "hf", "smollm2", "qwen2.5-coder-0.5b", "gemma3-270m")
"""Providers whose models run on this machine."""
SECONDS_A_REPLY = 120
"""Seconds without a byte of the reply after which a request is given up."""
API_DEFAULTS: dict[str, Any] = {"temperature": 0, "timeout": SECONDS_A_REPLY}
"""Settings of models behind an API that Emend gives where the user gives none."""
DEFAULT_BOUNDS = {"deadline": 600.0, "reply_mb": 8.0}
"""Settings of models behind an API: seconds of a whole call with its retries, and megabytes of a reply."""
LM_SETTINGS = ("dtype", "device", "device_map", "batch_tokens", "keep_mb", "deterministic")
CHAT_SETTINGS = ("max_new_tokens", "stop_at", "chat", "gather", "score_apart")
ENDPOINT = re.compile(r"/(chat/completions|completions|responses|messages)/*$", re.I)
"""Path that clients add to an address themselves."""
ADDRESS = re.compile(r"@(?=https?://)", re.I)
"""Start of the address of a model's server."""
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
FAMILIES = {
    "gpt-": "openai",
    "chatgpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
}
"""Providers by the beginning of their models' names, for hints."""
LANGCHAIN = {
    "azure": "azure_openai", "bedrock": "bedrock_converse", "gemini": "google_genai", "google": "google_genai",
    "grok": "xai", "mistral": "mistralai", "vertex": "google_vertexai",
    "vertex_ai": "google_vertexai", "watsonx": "ibm",
}  # fmt: skip
"""Providers of LangChain by other names that people and tools have for them."""
SUPPORTED = re.compile(r"providers are: (.*)", re.DOTALL)
"""LangChain's list of its providers, in its error about one that it does not know."""
HUB_FILES = ["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja"]


def is_local_spec(spec: str) -> bool:
    """True if the model of that name runs on this machine."""
    return spec.partition(":")[0] in LOCAL


def load_model(spec: str, policy: "CallPolicy | None" = None, **settings: Any) -> "BaseChatModel":
    """Return the model of that name: a local one on its device, with no thread started, or a `ProviderChatModel`.

    A served model is a `ProviderChatModel` whose server was asked what it serves and whether it scores.

    Args:
        spec: `tiny`, `hf:FOLDER-OR-ID`, `openai:NAME[@URL]`, `anthropic:NAME[@URL]`, `vllm:NAME@URL`,
            `sglang:NAME@URL`, `completions:NAME@URL`, `langchain:PROVIDER:NAME`, a plug-in's `provider:name`, or
            `module:attribute`: a LangChain chat model, or a class or function that makes one from the settings.
        policy: how providers are asked; models that share one share its limits, budget and kept replies.
        settings: local models take `dtype`, `device`, `device_map`, `batch_tokens`, `keep_mb`, `deterministic`,
            `max_new_tokens`, `stop_at`, `chat`, `gather`, `score_apart`; served ones those of
            `agents.served.settings`; the others what their LangChain class takes (`temperature=None` sends none; 0 by
            default).

    Raises:
        BadSettings: unknown provider or setting, or a missing key.
        MissingExtra: the provider's package is not installed.
        ModelError: the model cannot be loaded.
    """
    from emend.agents.providers.environment import named_problems

    provider, _, name = spec.partition(":")
    with named_problems() if provider not in LOCAL else nullcontext():
        if name and provider not in MODELS.names():
            model = _load_user_model(spec, settings)
        else:
            check_spec(spec)
            model = MODELS.load(provider)(name, **settings)
    if is_local(model):  # nothing to wait for or to pay
        return model
    if hasattr(model, "under_policy"):
        return model.under_policy(spec, policy, settings)  # type: ignore[no-any-return]
    from emend.agents.providers.chat_model import ProviderChatModel

    return ProviderChatModel.wrap(model, spec, policy, settings)


def check_spec(spec: str) -> None:
    """Refuse a name that no model can have; `load_model` says what else may be wrong.

    Raises:
        BadSettings: unknown provider, or a repository that holds a difference to a model.
    """
    provider, _, name = spec.partition(":")
    if provider == "hf" and (remedy := difference_remedy(name)):
        raise BadSettings(f"model '{spec}' {remedy}.")
    if name or provider in MODELS.names():
        return
    hint = f"did you mean {full}?" if (full := _full_spec(spec)) else nearest(provider, MODELS.names())
    advice = "" if full else " A model of your own is named module:attribute."
    raise BadSettings(f"unknown model '{spec}': {hint}{advice}")


def _full_spec(name: str) -> str:
    """Spec that a name without a provider, or in another tool's form, probably means; empty where that is unclear."""
    provider, slash, rest = name.partition("/")
    if name.endswith(".py"):
        return f"{name.removesuffix('.py').rpartition('/')[2]}:ATTRIBUTE, a class or function in that file"
    if slash and rest and (provider in LANGCHAIN or provider == "ollama") and provider != "google":  # as LiteLLM has it
        return _langchain_spec(provider, rest)
    if slash and rest:
        return f"{provider}:{rest}" if provider in MODELS.names() else f"hf:{name}" if HUB_ID.fullmatch(name) else ""
    return next((f"{provider}:{name}" for start, provider in FAMILIES.items() if name.startswith(start)), "")


def _langchain_spec(provider: str, name: str) -> str:
    """Spec of a model of a provider that LangChain has a class for; empty for any other."""
    provider = LANGCHAIN.get(provider.lower(), provider.lower()).replace("-", "_")
    return f"langchain:{provider}:{name}" if provider in provider_names() else ""


@cache
def provider_names() -> tuple[str, ...]:
    """Return the names of the providers that LangChain has a class for, from its error about another."""
    from langchain.chat_models import init_chat_model

    try:
        init_chat_model("none", model_provider="none")
    except ValueError as error:
        supported = SUPPORTED.search(str(error))
        return tuple(name.strip() for name in supported[1].split(",")) if supported else ()
    return ()


def fingerprint(model: "BaseChatModel", spec: str) -> str:
    """Return what identifies the model in records: a digest of local weights, else the spec."""
    return str(getattr(model, "fingerprint", spec))


def load_tiny(name: str = "", **settings: Any) -> "BaseChatModel":
    """Load the embedded model, by default on the CPU: it is too small for a GPU to help.

    Replies share batches, which does not change them; each call is scored by itself, so that a run and its resumption
    agree to the last digit.
    """
    from emend.agents.tiny import model_folder

    if name:
        raise BadSettings(f"model 'tiny:{name}': the embedded model has no variants; write tiny.")
    return _local(model_folder(), "tiny", {"device": "cpu", "score_apart": True} | settings)


def load_hf(name: str, **settings: Any) -> "BaseChatModel":
    """Load a causal language model from a folder, or from the Hugging Face hub by its id."""
    if not name:
        raise BadSettings("model 'hf:' names no folder: write hf:FOLDER, or hf:OWNER/NAME for the Hugging Face hub.")
    return _local(hub_folder(name, HUB_FILES), name, settings)


def load_openai(name: str, **settings: Any) -> "BaseChatModel":
    """Load a chat model of OpenAI, or of any compatible server."""
    return _api("openai", *_at_address("openai", name, settings))


def load_anthropic(name: str, **settings: Any) -> "BaseChatModel":
    """Load a chat model of Anthropic, or of a compatible server; replies have at most 4,096 tokens by default."""
    return _api("anthropic", *_at_address("anthropic", name, {"max_tokens": 4096} | settings))


def _load_user_model(spec: str, settings: dict[str, Any]) -> "BaseChatModel":
    """Model at `module:attribute`, or the one that the class or function there makes."""
    from langchain_core.language_models import BaseChatModel

    try:
        attribute: Any = MODELS.load(spec)
    except BadSettings as error:
        if error.__cause__ is None:
            raise
        full = _langchain_spec(*spec.split(":", 1))
        known = f"write {full}." if full else nearest(spec.partition(":")[0], MODELS.names())
        raise BadSettings(
            f"unknown model '{spec}': {known} As module:attribute, one of your own, it cannot be loaded: "
            f"{error.__cause__}."
        ) from error
    is_instance = isinstance(attribute, BaseChatModel)
    if is_instance and settings:
        raise BadSettings(
            f"model '{spec}' is an instance, and takes no settings (got {', '.join(sorted(settings))}): name its "
            "class, or a function that makes it."
        )
    with MODELS.plugin_errors(spec):
        model = attribute if is_instance else attribute(**settings)
    if not isinstance(model, BaseChatModel):
        raise BadSettings(
            f"model '{spec}' gives {model!r:.60}, which is no LangChain chat model (BaseChatModel): "
            "see docs/how-to/extend.md."
        )
    return model


def _at_address(provider: str, name: str, settings: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name of the model, and the settings with its address, if there is one."""
    key = f"{provider.upper()}_API_KEY"
    name, url = split_address(provider, name, key)
    if not url:
        return name, settings
    settings = settings | {"base_url": url}
    if key not in os.environ:  # the client requires one, most local servers do not
        settings = {"api_key": "none"} | settings
    return name, settings


def split_address(provider: str, name: str, key: str) -> tuple[str, str]:
    """Return name and address of a model, after the last @ that has one, since names may hold an @; "" without one.

    Args:
        provider: for messages.
        name: the text after the provider.
        key: environment variable for the server's key.

    Raises:
        BadSettings: an @ without an address, or an address with a password or a query.
    """
    matches = list(ADDRESS.finditer(name))
    if not matches and "@" not in name:
        return name, ""
    at = matches[-1].start() if matches else name.rindex("@")
    name, url = name[:at], name[at + 1 :]
    parts = urlsplit(url)
    if not matches or not parts.hostname:
        bare = name.partition("@")[0]
        excerpt = "" if "@" in name else f", got '{url}'"  # else it may be a password
        raise BadSettings(
            f"model '{provider}:{bare}' has an @ and no address after it{excerpt}: write "
            f"{provider}:NAME@http://HOST/v1, with http:// or https:// (is the variable set that holds it?)."
        )
    if "@" in parts.netloc or parts.query:
        raise BadSettings(
            f"the address of model '{provider}:{name}' has {'a password' if '@' in parts.netloc else 'a query'}, "
            f"which a run would write down: leave it out, and set the key as {key}."
        )
    url = ENDPOINT.sub("", url)
    # Anthropic's client adds the version too.
    return name, url.rstrip("/").removesuffix("/v1") if provider.endswith("anthropic") else url


def _api(provider: str, name: str, settings: dict[str, Any]) -> "BaseChatModel":
    key = f"{provider.upper()}_API_KEY"
    if not name:
        raise BadSettings(f"model '{provider}:' names no model: write {provider}:NAME.")
    if importlib.util.find_spec(f"langchain_{provider}") is None:
        raise MissingExtra(f"model '{provider}:{name}' needs a package: {install_command(provider)}.")
    if not os.environ.get(key) and not settings.get("api_key"):
        raise BadSettings(f"model '{provider}:{name}' needs a key, and {key} is not set: export {key}=...")
    from langchain.chat_models import init_chat_model

    from emend.agents.providers.environment import clean_key
    from emend.agents.providers.http_client import bound_exchanges

    if settings.get("max_retries"):
        raise BadSettings("model.max_retries: Emend retries itself, with its own waits; leave the setting out.")
    api_key = settings.get("api_key") or os.environ[key]
    if isinstance(api_key, str):
        settings = settings | {"api_key": clean_key(api_key, "model.api_key" if settings.get("api_key") else key)}
    # Servers compatible with OpenAI count the tokens of a stream only on request.
    counting = {"stream_usage": True} if provider == "openai" and settings.get("streaming") else {}
    seconds, megabytes = (parse_bound(name, settings.get(name, DEFAULT_BOUNDS[name])) for name in DEFAULT_BOUNDS)
    options = API_DEFAULTS | {"max_retries": 0} | counting | settings
    options = {name: value for name, value in options.items() if value is not None and name not in DEFAULT_BOUNDS}
    try:
        with warnings.catch_warnings(action="ignore"):  # about unknown settings, which are refused below
            model: BaseChatModel = init_chat_model(name, model_provider=provider, **options)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise BadSettings(
            f"model '{provider}:{name}' refuses its settings ({', '.join(sorted(options))}): {reason}"
        ) from error
    _refuse_unknown(model, f"{provider}:{name}", options)
    if "http_client" not in settings:
        bound_exchanges(model, provider, seconds=seconds, max_bytes=int(megabytes * 1e6))
    return model


def parse_bound(setting: str, value: Any) -> float:
    """Return the value of a bound, as a number.

    Raises:
        BadSettings: it is none above 0.
    """
    if isinstance(value, (int, float)) and 0 < value < math.inf:
        return float(value)
    raise BadSettings(f"model.{setting} is {value!r}: give a number above 0.")


def _refuse_unknown(model: "BaseChatModel", name: str, options: dict[str, Any]) -> None:
    """Refuse settings that a client would pass on unread, so that every call failed."""
    passed_on = set(getattr(model, "model_kwargs", None) or {}) - set(options.get("model_kwargs") or {})
    for setting in sorted(passed_on & set(options)):
        known = sorted(type(model).model_fields)
        place = "extra_body" if "extra_body" in known else "model_kwargs"
        raise BadSettings(
            f"unknown setting '{setting}' of model '{name}': {nearest(setting, known)} A parameter of the server's own "
            f'goes into model.{place}={{"{setting}": ...}}.'
        )


def _local(folder: Path, name: str, settings: dict[str, Any]) -> "BaseChatModel":
    known = [*LM_SETTINGS, *CHAT_SETTINGS]
    for setting in settings:
        if setting not in known:
            raise BadSettings(f"unknown setting '{setting}' of model '{name}': {nearest(setting, known)}")
    from emend.agents.local.causal_lm import CausalLM
    from emend.agents.local.chat_model import LocalChatModel

    kinds: dict[str, Any] = get_type_hints(CausalLM.__init__) | get_type_hints(LocalChatModel)
    options = {key: _typed(key, value, kinds[key], name) for key, value in settings.items()}
    lm = CausalLM(folder, **{key: options[key] for key in LM_SETTINGS if key in options})
    return LocalChatModel(lm=lm, model_name=name, **{key: options[key] for key in CHAT_SETTINGS if key in options})


def _typed(setting: str, value: Any, kind: Any, name: str) -> Any:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        wrong = error.errors()[0]["msg"]
        raise BadSettings(f"setting '{setting}' of model '{name}': {wrong}, got {value!r}.") from error


def hub_folder(name: str, patterns: list[str], role: str = "model") -> Path:
    """Return the folder of that name, or that of the hub's files in the local cache; present ones need no network.

    Args:
        name: a folder, or an id of the Hugging Face hub.
        patterns: of the files to download.
        role: what it is, for the error.

    Raises:
        ModelError: there is no such folder, and the hub does not give it.
    """
    folder = Path(name).expanduser()
    if folder.exists() or not HUB_ID.fullmatch(name):
        return folder
    from huggingface_hub import snapshot_download

    from emend.agents.providers.environment import network_problem

    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:  # noqa: BLE001  network, permissions, no such id: all mean the same to the caller
        if problem := network_problem():
            raise BadSettings(problem) from error
        spec = f"hf:{name}" if role == "model" else name
        raise ModelError(
            f"{role} '{spec}' is neither a folder nor available from the Hugging Face hub ({type(error).__name__}): "
            "check the name, the network, or give a folder."
        ) from error
