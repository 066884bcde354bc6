"""Runs started from the command line: handling of Ctrl-C, and printed results and costs."""

import os
import shlex
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from emend.evals.cli.options import flag_of
from emend.evals.cli.output import INTERRUPTED, end_at_signal, print_rich, print_text
from emend.evals.config.run_config import OF_THE_CALL, RunConfig
from emend.evals.log.manifest import Manifest
from emend.memory.errors import BadData, EmendError

if TYPE_CHECKING:
    from emend.evals.api.result import RunResult
    from emend.evals.jobs.job import Job


@contextmanager
def interruptible(folder: Path, command: str = "") -> Iterator[None]:
    """Context that turns an interruption of a run into an exit code and a message on resuming.

    The first interruption waits for calls in progress. A second one ends the process, because a
    reply may take minutes.

    Args:
        folder: the run folder.
        command: command that resumes the run, instead of `emend resume`.

    Raises:
        typer.Exit: the run was interrupted.
    """
    is_interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        if is_interrupted:
            remedy = _how_to_resume(folder, command)
            _write_error(f"\ninterrupted immediately: calls in progress will be repeated. {remedy}")
            os._exit(INTERRUPTED)  # sys.exit would wait for threads that wait for replies
        is_interrupted = True
        _write_error("\nstopping: waiting for calls in progress; interrupt again to abandon them.")
        raise KeyboardInterrupt

    # Handlers set by others stay in place, and so do ignored signals of background jobs. Only the
    # main thread may set a handler.
    is_main = threading.current_thread() is threading.main_thread()
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: end_at_signal}
    replaced = {
        number: handler
        for number, handler in usual.items()
        if is_main and signal.getsignal(number) is handler
    }
    for number in replaced:
        signal.signal(number, interrupt)
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        # Python and extension modules turn an interrupted import into errors of many types
        is_consequence = is_interrupted and not isinstance(error, EmendError)
        if not is_consequence and not _is_interruption(error):
            raise
        print_text(f"\ninterrupted: {_how_to_resume(folder, command)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)


def _is_interruption(error: BaseException) -> bool:
    """Return whether an error is an interruption or was caused by one."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    # an error that several threads raise may be among its own causes
    while following is not None and following not in chain:
        chain.append(following)
        following = following.__cause__ or following.__context__
    return any(isinstance(each, KeyboardInterrupt) for each in chain)


def _how_to_resume(folder: Path, command: str) -> str:
    from emend.evals.cli.job_folders import is_job_folder, read_job_folder

    if not is_job_folder(folder):
        return "nothing was started."
    if command:
        return f"finished units are kept. Continue with {command}."
    again: list[str] = []
    with suppress(BadData):
        started = read_job_folder(folder)
        again = [word for name in started.names.names for word in ("--trust", name)]
        config = Manifest.read(folder).config
        named = {name: getattr(config, name) for name in OF_THE_CALL}
        changed = {
            name: value
            for name, value in named.items()
            if value != RunConfig.model_fields[name].default
        }
        again += [word for name, value in changed.items() for word in (flag_of(name), str(value))]
    return (
        f"finished units are kept. Continue with: emend resume {shlex.join([str(folder), *again])}"
    )


def _write_error(message: str) -> None:
    """Write to stderr from a signal handler, where the stream may be in the middle of a line."""
    os.write(2, f"{message}\n".encode(errors="replace"))


def resume_job(name: str, folder: Path, options: Mapping[str, Any]) -> None:
    """Finish the run of a job other than an evaluation of edits, and print its results.

    The output has the job's counts, the API costs and the next command.

    Args:
        name: name of the job.
        folder: folder of the job's run.
        options: options of the call.

    Raises:
        BadSettings: no installed package has such a job, or it does not take an option.
    """
    from emend.evals.jobs.registry import load_job
    from emend.evals.jobs.results import spent_lines
    from emend.evals.jobs.runner import run_job
    from emend.evals.show.report.progress import progress_on

    load = load_job(name)
    jobs: list[Job] = []

    def load_with_options(folder: Path) -> "Job":
        jobs.append(load(folder, options))
        return jobs[0]

    with interruptible(folder):
        summary = run_job(load_with_options, folder, progress_on())
    print_text(
        f"{summary.skipped + summary.finished} of {summary.units} units finished, "
        f"{summary.failed} failed"
    )
    for line in spent_lines(folder, summary.spent, jobs[0].read_manifest):
        print_text(line)
    print_text(f"Next: {jobs[0].next_command(folder)}")


def run_and_report(config: RunConfig, folder: Path, require: Sequence[str] = ()) -> "RunResult":
    """Run a configuration, checking thresholds' names first, and print table and API costs."""
    from emend.evals.api.run import run_config
    from emend.evals.log.manifest import changed_fields

    if changed := changed_fields(config, folder):
        print_text(f"values of this command are used: {changed}", err=True)
    with interruptible(folder):
        result = run_config(config, folder, require=require)
    print_result(result)
    return result


def print_result(result: "RunResult") -> None:
    """Print the table of a run and the API costs of the call that made or continued it."""
    from emend.evals.jobs.results import spent_lines
    from emend.evals.show.report.metrics import render

    summary = result.summary
    assert summary is not None
    print_rich(lambda console: console.print(render(result.report, console)))
    for line in spent_lines(result.folder, summary.spent):
        print_text(line)
    if summary.skipped and not summary.finished and not summary.failed:
        print_text("Nothing to do: all units were already finished.")
