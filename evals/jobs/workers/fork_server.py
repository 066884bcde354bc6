"""A fork server that imports the libraries once and forks each worker."""

import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.connection import Connection


def serve(descriptor: int, modules: Iterable[str]) -> None:
    """Import modules, then start a worker for each pair of pipes from the driver, until the driver
    ends.

    The first pipe belongs to the worker. The worker's process id and its return code, as in Popen,
    are written to the second.
    """
    # ignored in workers too: schedulers send the signal to all processes, but the driver ends the
    # workers
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # as in cli.main, where the reason is given
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    for module in modules:
        with suppress(Exception):  # the worker reports missing modules
            importlib.import_module(module)
    gc.freeze()  # memory that is not written to stays shared
    reader, writer = os.pipe()  # the system writes to it when a worker has ended
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer)
    statuses: dict[int, Connection] = {}
    with socket.socket(fileno=descriptor) as control:
        while True:
            ready, _, _ = select.select([descriptor, reader], [], [])
            if reader in ready:
                os.read(reader, 4096)
                _report(statuses)
            if descriptor in ready:
                _, pipes, _, _ = socket.recv_fds(control, 1, 2)
                if not pipes:  # the driver has ended
                    return
                status = Connection(pipes[1], readable=False)
                if (process := os.fork()) == 0:
                    others = [pipe.fileno() for pipe in (status, *statuses.values())]
                    _become_worker(pipes[0], [*others, descriptor, reader, writer])
                os.close(pipes[0])
                statuses[process] = status
                with suppress(OSError):
                    status.send(process)


def _report(statuses: dict[int, Connection]) -> None:
    """Report the return codes of ended workers."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            process, status = ended
            with suppress(OSError), statuses.pop(process) as pipe:
                pipe.send(os.waitstatus_to_exitcode(status))


def _become_worker(pipe: int, others: Iterable[int]) -> None:
    """Run a worker in this process until it ends."""
    from emend.evals.jobs.workers.processes import work

    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in others:
            os.close(descriptor)
        work(pipe)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
