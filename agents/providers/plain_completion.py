"""Plain chat completions with OpenAI's client, bypassing its slow request and reply models.

A request uses the package's headers, address, HTTP client and errors. Anything but a plain
completion goes through the package.
"""

import inspect
import json
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatResult

# Arguments that OpenAI's client does not send unchanged.
BY_CLIENT = {"response_format", "extra_headers", "extra_query", "extra_body", "timeout"}
PATH = "/chat/completions"
# Attributes of OpenAI's client that affect more than the body of a request.
UNUSUAL = (
    "_api_key_provider",
    "_workload_identity_auth",
    "_provider_runtime",
    "_idempotency_header",
    "default_query",
)


def is_plain(client: BaseChatModel, payload: dict[str, Any]) -> bool:
    """Return whether a client's request is a plain chat completion."""
    known: Any = client
    if (
        type(client).__name__ != "ChatOpenAI"
        or known.include_response_headers
        or payload.get("stream")
    ):
        return False
    return payload.keys() <= _parameters(
        known.client.__class__
    ) - BY_CLIENT and not known._use_responses_api(payload)


def complete(client: Any, payload: dict[str, Any]) -> ChatResult:
    """Return the completion of a plain request, like the client's `_generate`."""
    body = _exchange(client.root_client, payload)
    if isinstance(body, dict) and isinstance(choices := body.get("choices"), list):
        body["choices"] = choices[:1]  # the others are not used, and converting many takes long
    result: ChatResult = client._create_chat_result(body)
    for generation, choice in zip(result.generations, body["choices"], strict=True):
        generation.message.additional_kwargs["refusal"] = choice["message"].get("refusal")
    return result


@cache
def _parameters(resource: type) -> frozenset[str]:
    """Return the parameters that OpenAI's package accepts; it rejects any other."""
    return frozenset(inspect.signature(resource.create).parameters)  # type: ignore[attr-defined]


def _exchange(root: Any, payload: dict[str, Any]) -> Any:
    """Return the body of the reply."""
    request = _request(root, payload)
    if request is None:
        return root.post(PATH, cast_to=object, body=payload)
    try:
        response = root._client.send(request)
    except Exception as error:
        raise _connection_error(error, request) from error
    if not response.is_success:
        raise root._make_status_error_from_response(response)
    is_json = response.headers.get("content-type", "").partition(";")[0].endswith("json")
    return response.json() if is_json else response.text


def _connection_error(error: Exception, request: Any) -> Exception:
    from openai import APIConnectionError, APITimeoutError

    is_late = any(kind.__name__ == "TimeoutException" for kind in type(error).__mro__)
    return APITimeoutError(request=request) if is_late else APIConnectionError(request=request)


# A client's key, a request with an empty body, and its headers without the length.
_TEMPLATES: WeakKeyDictionary[Any, tuple[str, Any, Any]] = WeakKeyDictionary()


def _request(root: Any, payload: dict[str, Any]) -> Any:
    """Return the request that the client would build, or None if only the client can build it."""
    if type(root).__name__ != "OpenAI" or any(getattr(root, name, True) for name in UNUSUAL):
        return None
    try:
        content = json.dumps(
            payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        ).encode()
    except (TypeError, ValueError):  # the client supports more types
        return None
    key, template, headers = _TEMPLATES.get(root, ("", None, None))
    if template is None or key != root.api_key:
        template = _template(root)
        headers = template.headers.copy()
        del headers["content-length"]
        _TEMPLATES[root] = root.api_key, template, headers
    # Given content instead of a stream, the package would decode all headers again.
    request = type(template)(
        "POST",
        template.url,
        headers=headers,
        stream=type(template.stream)(content),
        extensions=template.extensions,
    )
    request.headers["Content-Length"] = str(len(content))
    request.read()
    return request


def _template(root: Any) -> Any:
    from openai._models import FinalRequestOptions

    return root._build_request(FinalRequestOptions.construct(method="post", url=PATH, json_data={}))
