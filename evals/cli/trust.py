"""The code and the servers that a run's configuration names, and the files from which the code would be imported."""

import ipaddress
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from emend.agents.llm import MODELS
from emend.editors.registry import EDITORS
from emend.evals.config.run_config import MODEL, RunConfig
from emend.evals.data.benchmarks.fact_formats import is_fact_file
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.memory.errors import BadSettings
from emend.memory.retrieval.registry import RETRIEVERS

PLAIN_SETTINGS = frozenset(
    {"temperature", "top_p", "seed", "max_tokens", "max_output_tokens", "timeout", "stop", "deadline", "reply_mb"}
)
"""Settings of `langchain:` models that need no trust; others may name a host without a scheme, or code."""
_NAME = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
_URL = re.compile(r"https?://[^\s'\",)}]+", re.IGNORECASE)


def check_trust(config: RunConfig, trusted: tuple[str, ...], command: str) -> None:
    """Check that every `module:attribute` and every server of a configuration that a file holds is trusted.

    Servers are trusted where they are this machine: any other would get the user's key.

    Raises:
        BadSettings: one is not, or a trusted name is not in the configuration.
    """
    named = trusted_names_of(config)
    if lacking := [name for name in named if name not in trusted]:
        listed = ", ".join(name if is_url(name) else f"{name} from {source_file(name)}" for name in lacking)
        again = " ".join(f"--trust {name}" for name in named)
        raise BadSettings(
            "the run folder names code that would be run, or servers that would get your prompts, edits or key: "
            f"{listed}. Look at it; to go on with it: {command} {again}"
        )
    settings = str(config.overrides)
    if unknown := [name for name in trusted if name not in named and name not in settings]:
        raise BadSettings(f"--trust {unknown[0]}: the run does not name it; it names {', '.join(named) or 'none'}.")


def trusted_names_of(config: RunConfig) -> list[str]:
    """List the code of one's own, and the servers elsewhere, that a configuration names."""
    return list(dict.fromkeys([*_own_names(config), *_servers(config)]))


def is_url(name: str) -> bool:
    """Return True for the address of a server, False for code."""
    return _URL.match(name) is not None


def source_file(name: str) -> str:
    """The file that importing `module:attribute` would run, spec without importing anything."""
    places: list[str] | None = None
    origin = None
    parts = name.partition(":")[0].split(".")
    for count in range(1, len(parts) + 1):
        module = ".".join(parts[:count])
        try:
            spec = next((each for finder in sys.meta_path if (each := finder.find_spec(module, places))), None)
        except KeyError:  # a folder without __init__.py inside another one, which is not imported
            places = [
                folder for place in places or () if os.path.isdir(folder := os.path.join(place, parts[count - 1]))
            ]
            continue
        except (ImportError, AttributeError, TypeError, ValueError, OSError):
            spec = None
        if spec is None:
            return "no file (not found)"
        places, origin = spec.submodule_search_locations, spec.origin
    return str(origin or next(iter(places or ()), "a namespace"))


def _servers(config: RunConfig) -> Iterator[str]:
    named = f"{config.model} {config.embedding} {config.retriever} {config.overrides}"
    for url in _URL.findall(named):
        try:
            host = urlsplit(url).hostname or ""
            local = host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:  # a host by name, or none
            local = False
        if not local:
            yield url


def _own_names(config: RunConfig) -> Iterator[str]:
    provider, colon, _ = config.model.partition(":")
    if colon and provider not in MODELS.names():
        yield config.model
    if provider == "langchain" and not PLAIN_SETTINGS.issuperset(config.overrides.get(MODEL, {})):
        yield config.model
    yield from (name for name in config.editors if ":" in name and not EDITORS.installed(name))
    if ":" in config.benchmark and not (is_fact_file(config.benchmark) or BENCHMARKS.installed(config.benchmark)):
        yield config.benchmark
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
