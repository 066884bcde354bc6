"""A run of the command line with its table and costs, and Ctrl-C during one: the first waits for calls in progress."""

import os
import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from emend.evals.cli.options import flag_of
from emend.evals.cli.output import INTERRUPTED, print_rich, print_text
from emend.evals.config.run_config import OF_THE_CALL, RunConfig
from emend.evals.log.manifest import MANIFEST, Manifest
from emend.memory.errors import BadData, BudgetReached

if TYPE_CHECKING:
    from emend.evals.api.result import RunResult


@contextmanager
def interruptible(folder: Path, command: str = "") -> Iterator[None]:
    """Turn an interruption of a run into a message that says how to resume it, and into an exit code.

    The first one waits for calls in progress; a second one ends the process, because a reply may take minutes.

    Args:
        folder: of the run.
        command: what resumes it, in the place of `emend resume`.

    Raises:
        typer.Exit: the run was interrupted.
        BudgetReached: the original error, with the folder added to its message.
    """
    is_interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        if is_interrupted:
            remedy = _how_to_resume(folder, command)
            _write_error(f"\ninterrupted at once: calls in progress will be repeated. {remedy}")
            os._exit(INTERRUPTED)  # sys.exit would wait for the threads that wait for replies
        is_interrupted = True
        _write_error("\nending: waiting for calls in progress; interrupt again to abandon them.")
        raise KeyboardInterrupt

    previous = signal.getsignal(signal.SIGINT)
    # Another handler stays, and so does a background job's ignored signal; only the main thread may set a handler.
    ours = previous is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        print_text(f"\ninterrupted: {_how_to_resume(folder, command)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except BudgetReached as error:
        raise BudgetReached(f"{error} The run is in {folder}.") from error
    finally:
        if ours:
            signal.signal(signal.SIGINT, previous)


def _how_to_resume(folder: Path, command: str) -> str:
    from emend.evals.cli.trust import trusted_names_of

    if not (folder / MANIFEST).exists():
        return "nothing was started."
    if command:
        return f"finished units are kept. Continue with {command}."
    again: list[str] = []
    with suppress(BadData):
        config = Manifest.read(folder).config
        again = [word for name in trusted_names_of(config) for word in ("--trust", name)]
        named = {name: getattr(config, name) for name in OF_THE_CALL}
        changed = {name: value for name, value in named.items() if value != RunConfig.model_fields[name].default}
        again += [word for name, value in changed.items() for word in (flag_of(name), str(value))]
    return f"finished units are kept. Continue with: emend resume {shlex.join([str(folder), *again])}"


def _write_error(message: str) -> None:
    """Write to stderr from a signal handler, where the stream may be in the middle of a line of its own."""
    os.write(2, f"{message}\n".encode(errors="replace"))


def run_and_report(config: RunConfig, folder: Path, mirror: str | None = None) -> "RunResult":
    """Run, and print the table and the API costs."""
    from emend.evals.api.run import run_config
    from emend.evals.log.manifest import changed_fields
    from emend.evals.run.results import spent_lines
    from emend.evals.show.report.metrics import render

    if changed := changed_fields(config, folder):
        print_text(f"this call's values hold: {changed}", err=True)
    with interruptible(folder):
        result = run_config(config, folder, mirror=mirror)
    summary = result.summary
    assert summary is not None
    print_rich(lambda console: console.print(render(result.report, console)))
    for line in spent_lines(folder, summary.spent):
        print_text(line)
    if summary.skipped and not summary.finished and not summary.failed:
        print_text("Nothing was left to do: every unit was finished before.")
    return result
