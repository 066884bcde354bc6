"""Name, version and install command of the distribution that `emend` is installed from.

The name `emend` on the package index belongs to another project, so the distribution is called
`emend-eval`; the import name and the command are still `emend`.
"""

from functools import cache
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "emend-eval"


@cache
def installed_version() -> str:
    """Return the installed version, or `0+unknown` for a checkout that is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0+unknown"


def install_command(*extras: str) -> str:
    """Return the pip command that installs these extras.

    >>> install_command("minilm", "lora")
    "pip install 'emend-eval[minilm,lora]'"
    """
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'"
