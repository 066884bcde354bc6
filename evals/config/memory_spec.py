"""Part of a configuration about the memory in which memory-based editors store and find edits."""

import re
from typing import NamedTuple

from emend.memory.errors import BadSettings
from emend.memory.redaction import hide_keys

# Address of a Chroma server; user and password are not allowed, since the manifest would contain
# them.
SERVER = re.compile(r"https?://(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?/?", re.ASCII)
# User and password in an address.
USER = re.compile(r"//.*@", re.S)


class MemorySpec(NamedTuple):
    """Memory of memory-based editors.

    Attributes:
        embedding: name of the encoder that embeds its texts.
        retriever: name of the retrieval strategy.
        server: address of a Chroma server; None keeps the memory in the run folder.
        prompt_template: template that joins retrieved texts and a question; None for the
            benchmark's.
        prompts: file of instructions to put before the template; empty for none.
    """

    embedding: str
    retriever: str
    server: str | None = None
    prompt_template: str | None = None
    prompts: str = ""

    @property
    def components(self) -> tuple[str, str]:
        """Names of the strategy and the encoder, either of which may be a plug-in's."""
        return self.retriever, self.embedding

    def check_server(self) -> None:
        """Check the address of the server, if there is one.

        Raises:
            BadSettings: the address is malformed.
        """
        if self.server is not None and not SERVER.fullmatch(self.server):
            address = hide_keys(USER.sub("//...@", self.server))
            raise BadSettings(
                f"--memory is '{address}': give a Chroma server, http://HOST:PORT, without user, "
                "password or path, or leave it out."
            )
