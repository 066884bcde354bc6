"""The server of tests and a client of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from emend.evals.construction.wikidata.query import WikiClient
from tests.evals.construction.wikidata.wiki_server import WikiServer, serving


@pytest.fixture
def server() -> Iterator[WikiServer]:
    """A server on this machine for the time of a test."""
    with serving() as wiki:
        yield wiki


@pytest.fixture
def pauses() -> list[float]:
    """The seconds that the client waited instead of sleeping."""
    return []


@pytest.fixture
def client(server: WikiServer, pauses: list[float], tmp_path: Path) -> Iterator[WikiClient]:
    """A client of the server that does not sleep."""
    with WikiClient("me@example.org", tmp_path / "cache", server.servers, sleep=pauses.append) as wiki:
        yield wiki
