"""Entry point of the command line; a command's module is imported only when it is invoked."""

import atexit
import gc
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

from emend.evals.cli.output import INTERRUPTED, SafeFormatter, end_at_signal, print_text
from emend.memory.distribution import installed_version
from emend.memory.errors import BadSettings, EmendError, problem_of
from emend.memory.registry import Registry, trust_typed

# Panel of old names, which are hidden in the help; the summary of such a row is the new call.
OLD_NAMES = "Old names"
# Panels of `emend --help` in their order; commands of other packages come last.
PANELS = ("Evaluate", "Results", "Components", "Edits and memory", "Setup")
# Old name that messages still use, since it is descriptive.
RESUME = "resume"
# Maximum length of an error in characters.
LONGEST_ERROR = 5_000
# Commands by name, with the panel of the help as a third field of their rows.
COMMANDS: Registry[Any] = Registry(kind="command", group="emend.commands", beside=__file__)


class CommandSummary(NamedTuple):
    """Name, panel and summary of a command in `emend --help`."""

    name: str
    panel: str
    summary: str


def command_summaries() -> list[CommandSummary]:
    """Return the commands in the order of the help, without importing any of them."""
    rows = {name: row for name, row in COMMANDS.builtin.items() if row[2] != OLD_NAMES}
    listed = [CommandSummary(name, row[2], row[1]) for name, row in rows.items()]
    listed.sort(key=lambda command: PANELS.index(command.panel))
    for name, point in COMMANDS.plugins.items():
        package = point.dist.name if point.dist else point.value
        listed.append(CommandSummary(name, "Other packages", f"A command of {package}."))
    return listed


def old_names() -> dict[str, str]:
    """Return the new call by old name, as used by older commands and scripts."""
    return {name: row[1] for name, row in COMMANDS.builtin.items() if row[2] == OLD_NAMES}


@cache
def load_command(name: str) -> Any:
    """Return the click command of that name, and import its module."""
    command = COMMANDS.load(name)
    if not isinstance(command, typer.Typer):
        single = typer.Typer(add_completion=False)
        single.command(name)(command)
        command = single
    app = copy(command)
    app.registered_commands = [_trusting(each) for each in command.registered_commands]
    return _with_plain_types(_without_completion(typer.main.get_command(app)))


def _without_completion(command: Any) -> Any:
    """Return the command without the options that install completion, which only `emend` has."""
    command.params = [
        option
        for option in command.params
        if option.name not in ("install_completion", "show_completion")
    ]
    return command


def _trusting(command: CommandInfo) -> CommandInfo:
    """Return the command with a callback that allows importing names typed by the user.

    Paths and names in files are not trusted; they need `--trust`.
    """
    call, command = command.callback, copy(command)
    assert call is not None

    @wraps(call)
    def trust_and_call(**values: Any) -> None:
        trust_typed([value for name, value in values.items() if name != "trust"])
        call(**values)

    command.callback = trust_and_call
    return command


def _with_plain_types(command: Any) -> Any:
    """Return the command with a help that shows no Python types.

    Flags have no value, and the names of arguments say what they are.
    """
    for parameter in (*command.params, command.get_help_option(typer.Context(command))):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = _no_type
    for each in getattr(command, "commands", {}).values():
        _with_plain_types(each)
    return command


def _no_type(ctx: typer.Context) -> None:
    """Show no type beside the name of an argument."""


def _say_plainly(error: typer.BadParameter) -> None:
    """Replace the message on a value of the wrong type by one that tells what to write."""
    from pydantic import ValidationError

    if isinstance(error.__cause__, ValidationError):
        first = error.__cause__.errors()[0]
        error.message = f"{problem_of(first)}, got {first['input']!r:.60}."


class LazyGroup(TyperGroup):
    """Command group that lists stubs, and loads a command only when it is invoked.

    `--help` therefore imports no command.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, panel, summary in command_summaries():
            self.add_command(TyperCommand(name, help=summary, rich_help_panel=panel))
        for name, new_call in old_names().items():
            self.add_command(TyperCommand(name, help=f"{new_call}.", hidden=True))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with Typer's own options, which it adds after the group is made."""
        _with_plain_types(self)
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the name, the loaded command, and the remaining arguments."""
        for word in args:
            if "\0" in word or word.encode(errors="ignore").decode() != word:
                raise BadSettings(
                    f"{word[:60]!a} has a NUL character, or is not UTF-8: give such "
                    "a text in a file."
                )
        name, stub, rest = super().resolve_command(ctx, args)
        if name in old_names() and name != RESUME and not ctx.resilient_parsing:
            print_text(f"note: emend {name} is now {old_names()[name]}", err=True)
        return name, stub and load_command(stub.name or ""), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with one-line errors for paths that the system refuses.

        Raises:
            BadSettings: a file cannot be used.
            BadParameter: an option's value is of another type.
        """
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            _say_plainly(error)
            raise
        except BrokenPipeError:
            raise
        except RecursionError as error:
            raise BadSettings(
                "a file is nested too deeply to be read: correct or remove it."
            ) from error
        except OSError as error:
            name = "a file"
            if error.filename:
                name = f"'{str(error.filename)[:200]}'"
            raise BadSettings(
                f"cannot use {name}: {error.strerror or error}. Name another, or make room."
            ) from error


app = typer.Typer(name="emend", cls=LazyGroup, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(requested: bool) -> None:
    if requested:
        print_text(installed_version())
        raise typer.Exit


@app.callback()
def emend(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Edit what a language model knows, and evaluate the result."""


def _shortened(message: str) -> str:
    """Return a message without the middle if it is too long, as it may quote a file's value."""
    if len(message) <= LONGEST_ERROR:
        return message
    return f"{message[: LONGEST_ERROR - 1_000]} [...] {message[-1_000:]}"


def run_command_line() -> None:
    """Run the command line; an `EmendError` becomes one line on stderr and exit code 2."""
    # otherwise waiting threads occupy the cores
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # bitsandbytes, which sentence encoders import, would import torch's compiler (2 seconds of CPU)
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    # Chroma imports jsonschema, which takes two seconds to build a grammar of web addresses from
    # this module if Jupyter's or CycloneDX's tools have installed it. Chroma's schemas contain no
    # address.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    # other packages import it, and it warns about 4-bit kernels
    logging.getLogger("bitsandbytes").setLevel("ERROR")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(SafeFormatter())
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if os.getcwd() not in sys.path:
        # lets module:attribute find the user's files; installed packages come first
        sys.path.append(os.getcwd())
    # avoids a garbage collection at exit, which takes seconds after a run
    atexit.register(gc.freeze)
    previous = signal.signal(signal.SIGTERM, end_at_signal)  # schedulers send SIGTERM first
    try:
        app()
    except EmendError as error:
        print_text("error: " + _shortened(" ".join(str(error).split())), err=True)
        sys.exit(2)
    except MemoryError:
        print_text(
            "error: there is not enough memory: use smaller files, or a machine with more.",
            err=True,
        )
        sys.exit(2)
    finally:
        signal.signal(signal.SIGTERM, previous)


def main() -> None:
    """Run the command line as its own process.

    After an interruption the process exits without waiting for threads.
    """
    try:
        run_command_line()
    except SystemExit as end:
        if end.code != INTERRUPTED:
            raise
        # Python would wait for threads that train or generate, and another signal would abort the
        # process.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(INTERRUPTED)
    except KeyboardInterrupt:  # before a command began
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
