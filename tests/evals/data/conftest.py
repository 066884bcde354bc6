"""The server that files are fetched from."""

from types import SimpleNamespace

import pytest


@pytest.fixture
def origin():
    """A server on this machine for the time of a test."""
    from tests.evals.data.origin import serving

    with serving() as server:
        yield server


@pytest.fixture(autouse=True)
def no_pause_between_attempts(monkeypatch):
    """Retry at once: pooch waits a second longer before each further attempt."""
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda seconds: None))
