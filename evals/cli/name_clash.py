"""Check that the import and the command `emend` are Emend's: another project's distribution has the same names."""

import importlib
import shutil
import sysconfig
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from emend.memory.distribution import DISTRIBUTION

NAME = "emend"
"""The name of the import, of the command, and of another project's distribution."""
ENTRY_POINT = "emend.evals.cli.main:main"
LARGEST_SCRIPT = 2**20
REINSTALL = f"pip install --force-reinstall --no-deps {DISTRIBUTION}"


def import_clash() -> str:
    """Return why `import emend` is not, or may not stay, this package, with the remedy; empty where it is."""
    other = "another project's distribution `emend`"
    if _other_is_installed():
        return f"{other} is installed into the same folder: pip uninstall {NAME}, then {REINSTALL}"
    package = importlib.import_module(NAME)
    if "load_run" in getattr(package, "__all__", ()):
        return ""
    file = getattr(package, "__file__", None)
    if file is None:
        return f"emend/__init__.py is missing, as after the removal of {other}: {REINSTALL}"
    return f"'{file}' is another package: rename it, or leave its folder out of PYTHONPATH"


def _other_is_installed() -> bool:
    try:
        points = distribution(NAME).entry_points
    except PackageNotFoundError:
        return False
    # A checkout that was installed before the distribution was renamed has our own entry point under this name.
    return any(point.group == "console_scripts" and point.value != ENTRY_POINT for point in points)


def command_path() -> Path | None:
    """Return the file that the command `emend` runs; None if there is none on PATH."""
    path = shutil.which(NAME)
    return Path(path) if path else None


def command_clash(path: Path) -> str:
    """Return why this file is not Emend's command, with the remedy; empty if it is."""
    with path.open("rb") as file:
        if ENTRY_POINT.partition(":")[0].encode() in file.read(LARGEST_SCRIPT):
            return ""
    scripts = Path(sysconfig.get_path("scripts"))
    if path.parent == scripts:
        return f"'{path}' is another project's command: {REINSTALL}"
    return f"'{path}' is another project's command: put {scripts} before it on PATH, or write python -m emend"
