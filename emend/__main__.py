"""The command line as `python -m emend`, for where the command `emend` on PATH is another
program.
"""

from emend.evals.cli.main import main

if __name__ == "__main__":
    main()
