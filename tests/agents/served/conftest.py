from collections.abc import Iterator

import pytest

from emend.agents.llm import load_tiny
from emend.agents.local.chat_model import LocalChatModel


@pytest.fixture(scope="session")
def tiny() -> Iterator[LocalChatModel]:
    """The embedded model, asked in this process."""
    model = load_tiny()
    assert isinstance(model, LocalChatModel)
    yield model
    model.close()
