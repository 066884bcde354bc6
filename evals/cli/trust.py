"""Code and servers that a stored run or scoring names, and the files that they would import."""

import ipaddress
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from emend.agents.llm import MODELS
from emend.editors.registry import EDITORS
from emend.evals.config.overrides import MODEL
from emend.evals.config.run_config import RunConfig
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.declared.benchmark import DeclaredBenchmark
from emend.evals.data.declared.description import is_declared
from emend.evals.data.facts.fact_formats import is_fact_file
from emend.evals.metrics.protocols import is_foreign
from emend.memory.errors import BadSettings
from emend.memory.retrieval.registry import RETRIEVERS

if TYPE_CHECKING:
    from emend.evals.judging.scorings.manifest import Scoring

# Settings of `langchain:` models that need no trust; others may contain code or a host without a
# scheme.
PLAIN_SETTINGS = frozenset(
    {
        "temperature",
        "top_p",
        "seed",
        "max_tokens",
        "max_output_tokens",
        "timeout",
        "stop",
        "deadline",
        "reply_mb",
    }
)
_NAME = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
_URL = re.compile(r"https?://[^\s'\",)}]+", re.IGNORECASE)


class StoredNames(NamedTuple):
    """Names in a file that need the user's trust, and settings that may contain further names."""

    names: Sequence[str]
    settings: str


def names_of_run(config: RunConfig) -> StoredNames:
    """Return the custom code and remote servers that a configuration names."""
    servers = _servers(f"{config.model} {config.embedding} {config.retriever} {config.overrides}")
    names = dict.fromkeys([*_own_names(config), *servers])
    return StoredNames(list(names), str(config.overrides))


def names_of_scoring(scoring: "Scoring") -> StoredNames:
    """Return the custom code and remote servers that a scoring names."""
    from emend.graphs.registry import JUDGES

    models = (*scoring.panel.judges, *scoring.panel.second)
    settings = scoring.calling.settings
    code = [name for model in models for name in _model_names(model, settings)]
    code += [kind for kind in scoring.kinds if ":" in kind and not JUDGES.installed(kind)]
    names = dict.fromkeys([*code, *_servers(f"{models} {settings}")])
    return StoredNames(list(names), str(settings))


def check_trust(stored: StoredNames, trusted: tuple[str, ...], command: str) -> None:
    """Check that the user trusts every `module:attribute` and server that a file names.

    Servers on this machine are trusted; any other would get the user's key.

    Raises:
        BadSettings: a name is not trusted, or a trusted name is not in the file.
    """
    named = stored.names
    if lacking := [name for name in named if name not in trusted]:
        listed = ", ".join(
            name if is_url(name) else f"{name} from {source_file(name)}" for name in lacking
        )
        again = " ".join(f"--trust {name}" for name in named)
        raise BadSettings(
            "the run folder names code that would be run, or servers that would receive your "
            f"prompts, edits or key: {listed}. Check it; to allow it: {command} {again}"
        )
    unknown = [name for name in trusted if name not in named and name not in stored.settings]
    if unknown:
        raise BadSettings(
            f"--trust {unknown[0]}: the run does not name it; it names "
            f"{', '.join(named) or 'none'}."
        )


def is_url(name: str) -> bool:
    """Return True for the address of a server, False for code."""
    return _URL.match(name) is not None


def source_file(name: str) -> str:
    """Return the file that importing `module:attribute` would run, without importing it."""
    places: list[str] | None = None
    origin = None
    parts = name.partition(":")[0].split(".")
    for count in range(1, len(parts) + 1):
        module = ".".join(parts[:count])
        try:
            spec = next(
                (each for finder in sys.meta_path if (each := finder.find_spec(module, places))),
                None,
            )
        except KeyError:  # a folder without __init__.py in a folder that is not imported yet
            places = [
                folder
                for place in places or ()
                if os.path.isdir(folder := os.path.join(place, parts[count - 1]))
            ]
            continue
        except (ImportError, AttributeError, TypeError, ValueError, OSError):
            spec = None
        if spec is None:
            return "no file (not found)"
        places, origin = spec.submodule_search_locations, spec.origin
    return str(origin or next(iter(places or ()), "a namespace"))


def _servers(text: str) -> Iterator[str]:
    for url in _URL.findall(text):
        try:
            host = urlsplit(url).hostname or ""
            local = host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:  # a named host, or none
            local = False
        if not local:
            yield url


def _model_names(model: str, settings: Mapping[str, Any]) -> Iterator[str]:
    provider, colon, _ = model.partition(":")
    if colon and provider not in MODELS.names():
        yield model
    if provider == "langchain" and not PLAIN_SETTINGS.issuperset(settings):
        yield model


def _own_names(config: RunConfig) -> Iterator[str]:
    yield from _model_names(config.model, config.overrides.get(MODEL, {}))
    yield from (name for name in config.editors if ":" in name and not EDITORS.installed(name))
    if ":" in config.benchmark and not (
        is_fact_file(config.benchmark) or BENCHMARKS.installed(config.benchmark)
    ):
        yield config.benchmark
    if is_declared(config.benchmark):
        yield from DeclaredBenchmark(config.benchmark).foreign_scorers
    yield from (name for name in config.protocols if ":" in name and is_foreign(name))
    yield from (name for name in _NAME.findall(config.retriever) if not RETRIEVERS.installed(name))
    if ":" in config.embedding and not Path(config.embedding).exists():
        yield config.embedding
    search = config.overrides.get("crag", {}).get("search")
    if isinstance(search, str) and ":" in search and not Path(search).is_dir():
        yield search
    yield from (name for name in config.ability if name.endswith((".yaml", ".yml")))
    tools = config.overrides.get("agent", {}).get("tools")
    if isinstance(tools, str) and tools:
        yield tools
