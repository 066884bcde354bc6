"""Origins of the benchmarks' files, as `sources.toml` lists them."""

import tomllib
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

RAW = "https://raw.githubusercontent.com"


def _inside(name: str) -> str:
    """Return a file's path below the data folder.

    Raises:
        ValueError: it would lie elsewhere.
    """
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name or str(path) != name:
        raise ValueError(f"'{name}' is no plain path below a folder")
    return name


Name = Annotated[str, AfterValidator(_inside)]


class Remote(FrozenModel):
    """File to fetch."""

    name: Name
    """Its place below the data folder, where the loader looks."""
    url: str
    licence: str
    repository: str = ""
    commit: str = ""
    """"" where the origin has no versions."""
    digest: str = ""
    """`sha256:HEX`, or `git-blob:HEX`, git's own id of the content; "" where neither is known."""
    size: int | None = None
    """In bytes, where it is known."""


class Made(FrozenModel):
    """File that is not published in the needed form, made from others of the table."""

    name: Name
    inputs: tuple[str, ...]
    maker: str
    """A key of `make.MAKERS`."""
    licence: str


class DataSource(FrozenModel):
    """All files of a benchmark; `notes` say what cannot be had, or what else must be known."""

    name: str
    remotes: tuple[Remote, ...]
    derived: tuple[Made, ...] = ()
    notes: tuple[str, ...] = ()


def _remote(entry: dict[str, Any], repositories: dict[str, dict[str, str]]) -> Remote:
    """Build a remote file of `sources.toml`: one of a repository at GitHub, or one with a URL of its own."""
    if "url" in entry:
        return Remote(**entry)
    repository = repositories[entry["repository"]]
    path, commit = entry["path"], entry.get("commit", repository["commit"])
    return Remote(
        **{"name": PurePosixPath(path).name, "licence": repository["licence"]}
        | {key: value for key, value in entry.items() if key in ("name", "digest", "size")},
        url=f"{RAW}/{repository['owner']}/{commit}/{path}",
        repository=f"github.com/{repository['owner']}",
        commit=commit,
    )


def _read_sources() -> dict[str, DataSource]:
    content = tomllib.loads(Path(__file__).with_name("sources.toml").read_text("utf-8"))
    return {
        name: DataSource(
            name=name, **source | {"remotes": [_remote(file, content["repositories"]) for file in source["remotes"]]}
        )
        for name, source in content["sources"].items()
    }


SOURCES: dict[str, DataSource] = _read_sources()


def source_of(name: str) -> DataSource:
    """The sources of a benchmark's files.

    Raises:
        BadSettings: there is no such benchmark, or it needs no files.
    """
    if name == "tinyworld":
        raise BadSettings("tinyworld needs no data: its world is made when it is used.")
    if name not in SOURCES:
        raise BadSettings(f"no data called '{name}': {nearest(name, list(SOURCES))}")
    return SOURCES[name]
