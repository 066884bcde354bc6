"""What Ctrl-C does to a run: at first the calls under way are waited for, since they are paid; the second time not."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer

from emend.evals.log.manifest import MANIFEST
from emend.memory.errors import BudgetReached

INTERRUPTED = 130
"""Exit code of a command that was ended from the keyboard, as shells have it."""


@contextmanager
def interruptible(folder: Path) -> Iterator[None]:
    """Around a run into that folder: an interruption is told, with the way to go on, and is an exit code.

    Raises:
        typer.Exit: it was interrupted.
        BudgetReached: as it came, with the folder named.
    """
    kept = signal.getsignal(signal.SIGINT)
    # Somebody else's handler stays, and so does a background job's deafness; only the main thread may set one.
    ours = kept is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, _Heard(folder))
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\ninterrupted: {_left(folder)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except BudgetReached as error:
        raise BudgetReached(f"{error} The run is in {folder}.") from error
    finally:
        if ours:
            signal.signal(signal.SIGINT, kept)


class _Heard:
    """Interrupts the first time, and ends the process the second: a provider may take minutes for a reply."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.before = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.before:
            _say(f"\ninterrupted at once: what was under way is asked again. {_left(self.folder)}")
            os._exit(INTERRUPTED)  # threads that wait for a reply would be waited for
        self.before = True
        _say("\nending: what is under way is waited for; interrupt once more to leave it.")
        raise KeyboardInterrupt


def _left(folder: Path) -> str:
    begun = f"finished units are kept. Go on with: emend resume {folder}"
    return begun if (folder / MANIFEST).exists() else "nothing was begun."


def _say(told: str) -> None:
    """From within a signal handler, where the stream may be in the middle of a line of its own."""
    os.write(2, f"{told}\n".encode(errors="replace"))
