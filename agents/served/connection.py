"""JSON requests to a model server, with the same limits as for providers."""

from http import HTTPStatus
from typing import Any, ClassVar

import httpx
from langchain_core.messages import AIMessage

from emend.agents.parsing.messages import count_tokens
from emend.agents.providers.http_client import BoundedExchanges

# Path prefix of the OpenAI-compatible endpoints.
VERSIONED = "/v1"


class _Client(BoundedExchanges, httpx.Client):
    """An httpx client with limited exchanges."""


class _TextClient(_Client):
    """A client for replies that may be plain text."""

    is_json: ClassVar[bool] = False


# has the attributes of provider clients' errors, by which these are recognised
class ServerRefusal(Exception):  # noqa: N818
    """A reply with a status of 400 or more: `status_code`, `body` and `response` as clients of
    providers have them.
    """

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"{response.request.url.path}: {response.text[:1000]}")
        self.status_code, self.response = response.status_code, response
        try:
            self.body: Any = response.json()
        except (ValueError, RecursionError):
            self.body = response.text[:1000]


class Connection:
    """A server's address and its HTTP client.

    Args:
        url: address of the API, with or without a final `/v1`.
        key: API key, sent as a bearer token; "" sends none.
        timeout: timeout in seconds without a byte of the reply.
        seconds: time limit of one exchange, in seconds.
        max_bytes: size limit of a reply.
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
            ServerRefusal: the server returns an error status.
        """
        return _content(self._client.get(self.root + path))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Return the JSON reply to a request.

        Raises:
            ServerRefusal: the server returns an error status.
        """
        return _content(self._client.post(self.root + path, json=body))

    def command(self, path: str, body: dict[str, Any]) -> str:
        """Return the reply to a command, which may be plain text.

        Raises:
            ServerRefusal: the server returns an error status.
        """
        response = self._text_client.post(self.root + path, json=body)
        if response.is_success:
            return response.text
        refusal = ServerRefusal(response)
        # vLLM's reply to an adapter with a too large rank
        if refusal.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:
            refusal.status_code = HTTPStatus.BAD_REQUEST
        raise refusal


def _content(response: httpx.Response) -> Any:
    if not response.is_success:
        raise ServerRefusal(response)
    return response.json()


def reply_message(content: Any, text: str = "") -> AIMessage:
    """Return a message that carries a server's reply as `additional_kwargs["reply"]`, with its
    token counts.
    """
    usage = content.get("usage") if isinstance(content, dict) else None
    sizes = [
        usage.get(name) if isinstance(usage, dict) else None
        for name in ("prompt_tokens", "completion_tokens")
    ]
    read, written = (size if isinstance(size, int) and size >= 0 else 0 for size in sizes)
    return AIMessage(
        text,
        additional_kwargs={"reply": content},
        usage_metadata=count_tokens(read, written),
    )
