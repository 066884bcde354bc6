"""Runs commands of one revision's `emend` in one process, which imports its packages once.

Each line of standard input is a JSON object with `folder` and `words`; each line of standard output one with `code`,
`out` and `err`.
"""

import io
import json
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from typing import Any


def emend_of(entry: str) -> Callable[[], Any]:
    """The function that runs a command line and returns, from the entry point `module:function`."""
    module_name, function = entry.split(":")
    module = import_module(module_name)
    command: Callable[[], Any] = getattr(module, "run_command_line", None) or getattr(module, function)
    return command


def call(emend: Callable[[], Any], folder: str, words: list[str]) -> dict[str, Any]:
    """The exit code and the output of a command in a folder."""
    os.chdir(folder)
    sys.argv = ["emend", *words]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            emend()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception as error:  # what a command raises is an outcome to compare
            code = 1
            print(f"{type(error).__name__}: {error}", file=err)
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def main() -> None:
    """Serve until standard input ends; nothing but answers goes to the real standard output."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    emend = emend_of(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        answers.write(json.dumps(call(emend, request["folder"], request["words"])) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
