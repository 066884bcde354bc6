"""What the commands of the command line share: options, and how rows are printed."""

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from emend.memory.errors import BadSettings

Json = Annotated[bool, typer.Option("--json", help='One JSON object {"rows": [...]} and nothing else.')]
Checkpoints = Annotated[
    str | None,
    typer.Option(
        help="Numbers of edits (10,50,every:100,end,none) at which --mode sequential asks all earlier cases again; "
        "end by default."
    ),
]

HeldOut = Annotated[
    str | None,
    typer.Option(
        "--held-out",
        metavar="FILE",
        help="A text a line, whose perplexity is taken under edits of weights; none for none; default as usual.",
    ),
]

Set = Annotated[
    list[str] | None, typer.Option("--set", help="editor.key=value, model.key=value, or editor=@FILE of TOML.")
]


class Group:
    """Base of the frozen dataclasses whose fields are options that several commands have; see `grouped`."""


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer in which every parameter of a `Group` class stands as that class's options.

    The command itself is called with the group as one value. Names of options must differ between its groups.
    """
    groups: dict[str, type[Any]] = {}
    told: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and issubclass(kind, Group):
            groups[parameter.name] = kind
            told += _options(kind)
        else:
            told.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def taken_apart(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    taken_apart.__signature__ = inspect.Signature(told)  # type: ignore[attr-defined]
    taken_apart.__annotations__ = {one.name: one.annotation for one in told}
    return taken_apart


def _options(kind: type[Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name]
        )


def print_rows(rows: list[dict[str, Any]], **more: list[dict[str, Any]]) -> None:
    """The rows as one JSON object, with more lists beside them where a command has such."""
    typer.echo(json.dumps({"rows": rows} | more, ensure_ascii=True, indent=1))


def pair(text: str, option: str) -> tuple[str, str]:
    """`key=value` in two.

    Raises:
        BadSettings: it is none.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        example = "rag.k=3" if option == "--set" else "split=seen"
        raise BadSettings(f"{option} '{text}' is no key=value: write for example {option} {example}.")
    return key, value


@contextmanager
def local_model(spec: str, settings: dict[str, Any]) -> Iterator[Any]:
    """Lends a chat model whose weights are here, and closes it afterwards.

    Raises:
        BadSettings: its weights are elsewhere.
    """
    from emend.agents.llm import load_model

    model: Any = load_model(spec, **settings)
    if not hasattr(model, "lm"):
        raise BadSettings(f"model '{spec}' has no weights here: use tiny or hf:FOLDER.")
    try:
        yield model
    finally:
        model.close()


def overrides_of(texts: list[str]) -> dict[str, dict[str, Any]]:
    """`ft.steps=10` as {"ft": {"steps": 10}}; a value that is no JSON is a string; `ft=@FILE` reads a TOML file.

    Raises:
        BadSettings: a text is neither.
        MissingData: there is no such file.
    """
    out: dict[str, dict[str, Any]] = {}
    for text in texts:
        key, value = pair(text, "--set")
        editor, dot, name = key.rpartition(".")
        if value.startswith("@") and not dot:
            from emend.editors.hyperparameters import read_settings

            out.setdefault(key, {}).update(read_settings(Path(value[1:]).expanduser()))
            continue
        if not dot or not editor:
            raise BadSettings(f"--set '{text}' names no editor: write editor.key=value, for example --set rag.k=3.")
        try:
            out.setdefault(editor, {})[name] = json.loads(value)
        except ValueError:
            out.setdefault(editor, {})[name] = value
    return out
