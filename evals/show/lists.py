"""Lists of what can be named on the command line: registries, settings with their meaning, and a graph's nodes."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import docstring_parser

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import Registry, nearest

if TYPE_CHECKING:
    from emend.graphs.execution import Graph
    from emend.memory.registry import Registry


KINDS = {
    "editors": ("emend.editors.registry:EDITORS", "Methods that edit a model's knowledge (--editor)."),
    "benchmarks": ("emend.evals.data.benchmarks.registry:BENCHMARKS", "Data sets with edits and probes (--benchmark)."),
    "systems": ("emend.evals.stream.system:SYSTEMS", "Memory systems that streams are asked of (--system)."),
    "retrievers": ("emend.memory.retrieval.registry:RETRIEVERS", "Strategies that search a memory (--retriever)."),
    "judges": ("emend.graphs.registry:JUDGES", "Criteria by which chat models judge answers (--kind)."),
    "models": ("emend.agents.llm:MODELS", "Where models come from (--model)."),
    "constructions": ("emend.graphs.registry:CONSTRUCTIONS", "Kinds of benchmarks that emend build makes."),
    "graphs": ("emend.graphs.registry:GRAPHS", "Graphs that emend graph draws."),
}
"""Place and summary of each registry; a registry is imported when it is listed."""


def registry_of(kind: str) -> Registry[Any]:
    """The registry of that kind, one of `KINDS`."""
    module, _, name = KINDS[kind][0].partition(":")
    return getattr(import_module(module), name)  # type: ignore[no-any-return]


START, END = "__start__", "__end__"


class GraphNode(FrozenModel):
    """A node, the first sentence of what it does, the nodes that may follow, and whether it chooses among them."""

    node: str
    does: str
    leads_to: tuple[str, ...]
    chooses: bool


def nodes_of(app: Any) -> list[GraphNode]:
    """The nodes of a compiled graph, in the order in which it was built."""
    graph = app.get_graph()
    edges: dict[str, list[Any]] = {}
    for edge in graph.edges:
        edges.setdefault(edge.source, []).append(edge)
    return [
        GraphNode(
            node=_plain(name),
            does=_summary(app, name),
            leads_to=tuple(_plain(edge.target) for edge in edges.get(name, ())),
            chooses=any(edge.conditional for edge in edges.get(name, ())),
        )
        for name in graph.nodes
        if name != END
    ]


def _plain(name: str) -> str:
    return {START: "start", END: "end"}.get(name, name)


def _summary(app: Any, name: str) -> str:
    """First line of the docstring of the node's function."""
    if name == START:
        return ""
    runnable = app.nodes[name].bound
    function = getattr(runnable, "func", None) or getattr(runnable, "afunc", None) or runnable
    return (inspect.getdoc(function) or "").partition("\n")[0]


def find_graph(name: str) -> "Graph":
    """The graph of that name, a judge's or an editor's, or the one at that `module:attribute`.

    Raises:
        BadSettings: the name is unknown, the part cannot be made, or it has no graph.
    """
    from emend.editors.registry import EDITORS
    from emend.graphs.registry import CONSTRUCTIONS, GRAPHS, JUDGES

    registries: tuple[Registry[Any], ...] = (JUDGES, GRAPHS, EDITORS, CONSTRUCTIONS)
    registry = next((each for each in registries if name in (*each.names(), *each.aliases)), GRAPHS)
    part = registry.load(name)
    with registry.plugin_errors(name):
        app = _graph_of(part)
    if app is None:
        raise BadSettings(
            f"{registry.kind} '{name}' has no graph (got {part!r:.60}): name a compiled LangGraph graph, a "
            "StateGraph, a function without arguments that makes one, a judge, or an editor with a compiled graph in "
            f"its attribute app. Known graphs: {', '.join(GRAPHS.names())}."
        )
    return app


def _graph_of(part: Any) -> "Graph | None":
    """The graph that a part is, has, makes, or names."""
    from emend.graphs.execution import graph_in
    from emend.graphs.registry import GRAPHS

    app, named = graph_in(part), getattr(part, "graph", None)
    if app is None and named not in GRAPHS.names() and callable(part):
        instance = _instance(part)
        app, named = graph_in(instance), dict(getattr(instance, "fingerprint", {})).get("graph")
    return GRAPHS.load(str(named))() if app is None and named in GRAPHS.names() else app


def _instance(factory: Any) -> object:
    """Result of a function that builds a graph, or of an editor, which gets a model that is never asked."""
    required = [each for each in inspect.signature(factory).parameters.values() if each.default is each.empty]
    if any(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in required):
        from langchain_core.language_models import FakeListChatModel

        from emend.editors.base import EditorContext

        return factory(EditorContext(FakeListChatModel(responses=[""])))
    return factory()


CLASSES = {"openai": "langchain_openai:ChatOpenAI", "anthropic": "langchain_anthropic:ChatAnthropic"}
"""LangChain's classes of the models behind an API, whose fields are their settings."""
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
    """As JSON has it; None where there is none, or where the model's own is used."""
    summary: str = ""
    """Meaning, with the unit of a number."""
    source: str
    """Where the default comes from."""


class PresetRow(FrozenModel):
    """Shipped values of an editor: for a model family, with the model that they were verified on, or a `--preset`."""

    editor: str
    preset: str
    verified: str
    values: dict[str, Any] = {}
    """Options of the run and settings of the editor that a `--preset` stands for."""


def list_settings(part: str | None = None) -> list[SettingRow]:
    """Settings of one editor, benchmark or model provider, or of all built-in ones.

    Raises:
        BadSettings: there is no such part.
    """
    sources = {"editors": _of_editor, "benchmarks": _of_benchmark, "models": _of_model}
    names = [(kind, name) for kind in sources for name in registry_of(kind).names()]
    chosen = [
        (kind, name)
        for kind, name in names
        if (name in registry_of(kind).builtin if part is None else name == part.partition(":")[0])
    ]
    if part is not None and not chosen:
        raise BadSettings(f"no editor, benchmark or model '{part}': {nearest(part, [name for _, name in names])}")
    return [row for kind, name in chosen for row in sources[kind](name)]


def list_presets(part: str | None = None) -> list[PresetRow]:
    """The shipped tables of settings of one editor or of all, and their set-ups under `--preset`."""
    from emend.editors.hyperparameters import VERIFIED, shipped_tables
    from emend.evals.config.presets import presets

    named = [
        PresetRow(editor=editor, preset=f"--preset {name}", verified=row.summary, values=row.run | row.settings)
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
    """Settings of an editor; the defaults of weight editors are those for a family without values of its own."""
    from emend.editors.hyperparameters import shipped_settings, shipped_tables

    schema: Any = getattr(registry_of("editors").load(name), "schema", None)
    shipped = shipped_settings(name) if shipped_tables(name) else {}
    summaries = _summaries(schema)
    for field in fields(schema) if schema else ():
        default = shipped.get(field.name, field.default)
        yield SettingRow(
            part=name,
            setting=field.name,
            type=_type_name(field.type),
            default=None if default is MISSING else default,
            summary=summaries.get(field.name, ""),
            source=f"{name}.toml" if field.name in shipped else schema.__name__,
        )


def _of_benchmark(name: str) -> Iterator[SettingRow]:
    """Options of a benchmark, given with --benchmark-option; the clauses of its documentation explain them."""
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
            part=name, setting=option, type=kind, default=default, summary=summary, source=benchmark.__name__
        )


def _of_model(name: str) -> Iterator[SettingRow]:
    """Settings of a local model, or those of Emend and of LangChain's class for a model behind an API."""
    from emend.agents.llm import LOCAL

    yield from _of_local_model(name) if name in LOCAL else _of_api_model(name) if name in CLASSES else ()


def _of_local_model(name: str) -> Iterator[SettingRow]:
    from emend.agents.llm import CHAT_SETTINGS, LM_SETTINGS
    from emend.agents.local.causal_lm import CausalLM
    from emend.agents.local.chat_model import LocalChatModel

    summaries = _summaries(CausalLM) | _summaries(LocalChatModel)
    kinds = get_type_hints(CausalLM.__init__) | get_type_hints(LocalChatModel)
    parameters = signature(CausalLM).parameters
    for setting in (*LM_SETTINGS, *CHAT_SETTINGS):
        source = CausalLM if setting in LM_SETTINGS else LocalChatModel
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

    from emend.agents.llm import API_DEFAULTS, DEFAULT_BOUNDS

    for setting, bound in DEFAULT_BOUNDS.items():
        summary = API_SUMMARIES[setting]
        yield SettingRow(part=name, setting=setting, type="float", default=bound, summary=summary, source="Emend")
    package, _, class_name = CLASSES[name].partition(":")
    if find_spec(package) is None:
        return
    chat_model = getattr(import_module(package), class_name)
    for setting, field in chat_model.model_fields.items():
        setting = field.alias or setting
        if setting in BaseChatModel.model_fields or setting in NOT_SET_BY_USERS or setting.endswith("client"):
            continue
        default = API_DEFAULTS.get(setting, None if field.is_required() else field.get_default())
        summary = " ".join((field.description or "").split("\n\n")[0].split())
        source = "Emend" if setting in API_DEFAULTS else class_name
        kind = _type_name(field.annotation)
        yield SettingRow(
            part=name, setting=setting, type=kind, default=_plain_default(default), summary=summary, source=source
        )


def _plain_default(default: Any) -> Any:
    return default if default is None or isinstance(default, (bool, int, float, str)) else None


def _summaries(schema: Any) -> dict[str, str]:
    """Meaning of each field of a class, from the docstrings of the class and its bases."""
    summaries: dict[str, str] = {}
    for base in reversed(schema.__mro__[:-1] if schema else ()):
        for parameter in docstring_parser.parse_from_object(base).params:
            summaries[parameter.arg_name] = " ".join((parameter.description or "").split())
    return summaries


def _type_name(kind: Any) -> str:
    """A type as users write its values: `int`, `float | None`, `scope | model`."""
    if get_origin(kind) is Annotated:
        return _type_name(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return f"list of {_type_name(get_args(kind)[0])}"
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__
    return str(kind).replace("typing.", "").replace("collections.abc.", "")
