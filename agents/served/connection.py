"""Exchanges of JSON with a model's server, within the bounds of every provider's."""

from http import HTTPStatus
from typing import Any, ClassVar

import httpx
from langchain_core.messages import AIMessage

from emend.agents.parsing.messages import count_tokens
from emend.agents.providers.http_client import BoundedExchanges

VERSIONED = "/v1"
"""Path of the endpoints that OpenAI's API has as well."""


class _Client(BoundedExchanges, httpx.Client):
    """An httpx client whose exchanges are bounded."""


class _TextClient(_Client):
    """The client for replies that may be plain text."""

    is_json: ClassVar[bool] = False


class ServerRefusal(Exception):  # noqa: N818  as the errors of provider's clients, which are known by their attributes
    """A reply with a status of 400 or more: `status_code`, `body` and `response` as clients of providers have them."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"{response.request.url.path}: {response.text[:1000]}")
        self.status_code, self.response = response.status_code, response
        try:
            self.body: Any = response.json()
        except (ValueError, RecursionError):
            self.body = response.text[:1000]


class Connection:
    """A server's address, and the client that asks it.

    Args:
        url: address of the API, with or without `/v1` at its end.
        key: sent as a bearer token; "" sends none.
        timeout: seconds without a byte of the reply after which a request is given up.
        seconds: limit of one exchange.
        max_bytes: limit of a reply.
    """

    def __init__(self, url: str, key: str, timeout: float, seconds: float, max_bytes: int) -> None:
        self.root = url.rstrip("/").removesuffix(VERSIONED)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        bounds: dict[str, Any] = {"timeout": timeout, "limits": limits, "headers": headers}
        self._client = _Client(seconds, max_bytes, **bounds)
        self._text_client = _TextClient(seconds, max_bytes, **bounds)

    def get(self, path: str) -> Any:
        """Return the JSON at a path below the server's root.

        Raises:
            ServerRefusal: the server refuses.
        """
        return _content(self._client.get(self.root + path))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Return the JSON reply to a request.

        Raises:
            ServerRefusal: the server refuses.
        """
        return _content(self._client.post(self.root + path, json=body))

    def command(self, path: str, body: dict[str, Any]) -> str:
        """Return the reply to a command, which may be plain text.

        Raises:
            ServerRefusal: the server refuses.
        """
        response = self._text_client.post(self.root + path, json=body)
        if response.is_success:
            return response.text
        refusal = ServerRefusal(response)
        if refusal.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:  # vLLM's for an adapter of too large a rank
            refusal.status_code = HTTPStatus.BAD_REQUEST
        raise refusal


def _content(response: httpx.Response) -> Any:
    if not response.is_success:
        raise ServerRefusal(response)
    return response.json()


def reply_message(content: Any, text: str = "") -> AIMessage:
    """Return a message that carries a server's reply as `additional_kwargs["reply"]`, with its token counts."""
    usage = content.get("usage") if isinstance(content, dict) else None
    sizes = [usage.get(name) if isinstance(usage, dict) else None for name in ("prompt_tokens", "completion_tokens")]
    read, written = (size if isinstance(size, int) and size >= 0 else 0 for size in sizes)
    return AIMessage(
        text,
        additional_kwargs={"reply": content},
        usage_metadata=count_tokens(read, written),
    )
