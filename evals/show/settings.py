"""Settings of editors, benchmarks and models, with types, defaults and descriptions."""

import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import docstring_parser

from emend.evals.show.lists import registry_of
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

# LangChain's classes for API models; their fields are the settings of the models.
CLASSES = {
    "openai": "langchain_openai:ChatOpenAI",
    "anthropic": "langchain_anthropic:ChatAnthropic",
}
CLAUSE_END = re.compile(r"(?<=[;.]) ")
NOT_SET_BY_USERS = ("api_key", "base_url", "max_retries", "model", "callbacks", "model_name")
API_SUMMARIES = {
    "deadline": "Seconds of a whole call with its retries.",
    "reply_mb": "Largest reply, in megabytes.",
}


class SettingRow(FrozenModel):
    """A setting of an editor, a model or a benchmark."""

    part: str
    setting: str
    type: str
    default: Any
    """Default as JSON value; None if there is none, or if the API decides."""
    summary: str = ""
    """Description, with the unit of numbers."""
    source: str
    """Name of the class or file that defines the default."""


class PresetRow(FrozenModel):
    """Shipped settings of an editor, for a model family or a `--preset`.

    `verified` names the model on which the settings were verified.
    """

    editor: str
    preset: str
    verified: str
    values: dict[str, Any] = {}
    """Run options and editor settings that the `--preset` sets."""


def list_settings(part: str | None = None) -> list[SettingRow]:
    """Return the settings of one editor, benchmark or model provider, or of all built-in ones.

    Raises:
        BadSettings: `part` is unknown.
    """
    sources = {"editors": _of_editor, "benchmarks": _of_benchmark, "models": _of_model}
    names = [(kind, name) for kind in sources for name in registry_of(kind).names()]
    if part is None:
        chosen = [(kind, name) for kind, name in names if name in registry_of(kind).builtin]
    else:
        chosen = [(kind, name) for kind, name in names if name == part.partition(":")[0]]
    if part is not None and not chosen:
        raise BadSettings(
            f"no editor, benchmark or model '{part}': {nearest(part, [name for _, name in names])}"
        )
    return [row for kind, name in chosen for row in sources[kind](name)]


def list_presets(part: str | None = None) -> list[PresetRow]:
    """Return the shipped presets (`--preset`) and tables of settings of one or all editors."""
    from emend.editors.hyperparameters import VERIFIED, shipped_tables
    from emend.evals.config.presets import presets

    named = [
        PresetRow(
            editor=editor,
            preset=f"--preset {name}",
            verified=row.summary,
            values=row.run | row.settings,
        )
        for name, rows in presets().items()
        for editor, row in rows.items()
        if part in (None, editor)
    ]
    return named + [
        PresetRow(editor=editor, preset=preset, verified=values[VERIFIED])
        for editor in registry_of("editors").builtin
        if part in (None, editor)
        for preset, values in shipped_tables(editor).items()
    ]


def _of_editor(name: str) -> Iterator[SettingRow]:
    """Yield the settings of an editor.

    The defaults of weight editors are those for model families without a table of their own.
    """
    from emend.editors.hyperparameters import shipped_settings, shipped_tables

    schema: Any = getattr(registry_of("editors").load(name), "schema", None)
    shipped = {}
    if shipped_tables(name):
        shipped = shipped_settings(name)
    summaries = _summaries(schema)
    if schema is None:
        return
    for field in fields(schema):
        default = shipped.get(field.name, field.default)
        if default is MISSING:
            default = None
        source = schema.__name__
        if field.name in shipped:
            source = f"{name}.toml"
        yield SettingRow(
            part=name,
            setting=field.name,
            type=_type_name(field.type),
            default=default,
            summary=summaries.get(field.name, ""),
            source=source,
        )


def _of_benchmark(name: str) -> Iterator[SettingRow]:
    """Yield the options of a benchmark, given with --benchmark-option.

    The summaries are clauses of the benchmark's docstring.
    """
    benchmark: Any = registry_of("benchmarks").load(name)
    defaults = getattr(benchmark, "defaults", {})
    clauses = CLAUSE_END.split(" ".join((benchmark.__doc__ or "").split()))
    for option, default in defaults.items():
        values = getattr(benchmark, "values", {}).get(option, ())
        summary = next(
            (
                clause.removeprefix("Option ")
                for clause in clauses
                if re.search(rf"^(Options?:? )?`{option}[`=]", clause)
            ),
            "",
        )
        kind = " | ".join(map(str, values)) or "str"
        yield SettingRow(
            part=name,
            setting=option,
            type=kind,
            default=default,
            summary=summary,
            source=benchmark.__name__,
        )


def _of_model(name: str) -> Iterator[SettingRow]:
    """Yield the settings of a local model, or of Emend and LangChain's class for an API model."""
    from emend.agents.llm import LOCAL

    if name in LOCAL:
        yield from _of_local_model(name)
    elif name in CLASSES:
        yield from _of_api_model(name)


def _of_local_model(name: str) -> Iterator[SettingRow]:
    from emend.agents.llm import CHAT_SETTINGS, LM_SETTINGS
    from emend.agents.local.causal_lm import CausalLM
    from emend.agents.local.chat_model import LocalChatModel

    summaries = _summaries(CausalLM) | _summaries(LocalChatModel)
    kinds = get_type_hints(CausalLM.__init__) | get_type_hints(LocalChatModel)
    parameters = signature(CausalLM).parameters
    for setting in (*LM_SETTINGS, *CHAT_SETTINGS):
        source: type = LocalChatModel
        if setting in LM_SETTINGS:
            source = CausalLM
        field = parameters.get(setting) or LocalChatModel.model_fields[setting]
        yield SettingRow(
            part=name,
            setting=setting,
            type=_type_name(kinds[setting]),
            default=field.default,
            summary=summaries.get(setting, ""),
            source=source.__name__,
        )


def _of_api_model(name: str) -> Iterator[SettingRow]:
    from langchain_core.language_models import BaseChatModel

    from emend.agents.api_models import API_DEFAULTS, DEFAULT_BOUNDS

    for setting, bound in DEFAULT_BOUNDS.items():
        summary = API_SUMMARIES[setting]
        yield SettingRow(
            part=name, setting=setting, type="float", default=bound, summary=summary, source="Emend"
        )
    package, _, class_name = CLASSES[name].partition(":")
    if find_spec(package) is None:
        return
    chat_model = getattr(import_module(package), class_name)
    for setting, field in chat_model.model_fields.items():
        setting = field.alias or setting
        if (
            setting in BaseChatModel.model_fields
            or setting in NOT_SET_BY_USERS
            or setting.endswith("client")
        ):
            continue
        default = API_DEFAULTS.get(setting, None if field.is_required() else field.get_default())
        summary = " ".join((field.description or "").split("\n\n")[0].split())
        if setting in API_DEFAULTS:
            source = "Emend"
        else:
            source = class_name
        kind = _type_name(field.annotation)
        yield SettingRow(
            part=name,
            setting=setting,
            type=kind,
            default=_plain_default(default),
            summary=summary,
            source=source,
        )


def _plain_default(default: Any) -> Any:
    if default is None or isinstance(default, (bool, int, float, str)):
        return default
    return None


def _summaries(schema: Any) -> dict[str, str]:
    """Return the description of each field of a class, from its own and its bases' docstrings."""
    summaries: dict[str, str] = {}
    if schema is None:
        return {}
    for base in reversed(schema.__mro__[:-1]):
        for parameter in docstring_parser.parse_from_object(base).params:
            summaries[parameter.arg_name] = " ".join((parameter.description or "").split())
    return summaries


def _type_name(kind: Any) -> str:
    """Format a type for users: `int`, `float | None`, `scope | model`."""
    if get_origin(kind) is Annotated:
        return _type_name(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return f"list of {_type_name(get_args(kind)[0])}"
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__
    return str(kind).replace("typing.", "").replace("collections.abc.", "")
