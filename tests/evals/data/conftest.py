"""The server that files are fetched from."""

import pytest


@pytest.fixture
def origin():
    """A server on this machine for the time of a test."""
    from tests.evals.data.origin import serving

    with serving() as server:
        yield server
