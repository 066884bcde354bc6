"""The command line, called as a shell calls it, in this process."""

import sys

from emend.evals.cli import main


def emend(*words: str) -> str | int | None:
    """What `emend WORDS` ends with; its exit code where it has one, else 0."""
    before, sys.argv = sys.argv, ["emend", *words]
    try:
        main()
    except SystemExit as end:
        return end.code
    finally:
        sys.argv = before
    return 0
