"""The command line as `python -m emend`, for where the command `emend` on PATH is another
program.
"""

import os


def main() -> None:
    """Run the command line; an interruption while its modules are imported has no traceback."""
    try:
        from emend.evals.cli.main import main as run

        run()
    except KeyboardInterrupt:
        os._exit(130)  # as at any other interruption


if __name__ == "__main__":
    main()
