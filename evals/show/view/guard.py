"""Access control of the viewer's server: by host, HTTP method and token."""

import hmac
import re
from http.cookies import SimpleCookie
from ipaddress import ip_address

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
COOKIE = "emend_view"
MAX_PORT = 2**16 - 1
_IPV6 = "[0-9a-f]*:[0-9a-f:.]*"
_HOST = re.compile(
    rf"(?:\[(?P<bracketed>{_IPV6})\]|(?P<name>[a-z0-9.-]+))(?::(?P<port>[0-9]{{1,5}}))?|"
    rf"(?P<bare>{_IPV6})"
)


def is_loopback(host: str) -> bool:
    """Return True if a Host header, or an address to listen at, is a loopback address.

    >>> [is_loopback(host) for host in ("localhost:7000", "127.0.0.1", "[::1]:80", "::1")]
    [True, True, True, True]
    >>> [is_loopback(host) for host in ("evil.test", "127.0.0.1.evil.test", "[::1]evil.test")]
    [False, False, False]
    """
    # the whole text must match, or text after an accepted name would be ignored
    match = _HOST.fullmatch(host.lower())
    if match is None or int(match["port"] or 0) > MAX_PORT:
        return False
    name = match["bracketed"] or match["name"] or match["bare"]
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware that adds security headers and refuses requests.

    It accepts only GET and HEAD requests, with a loopback address as Host header or, if there is a
    token, with the token.

    Args:
        app: the application.
        token: token that browsers must send; empty if the server is for this machine only.
    """

    def __init__(self, app: ASGIApp, token: str = "") -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                missing = [
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.encode() not in names
                ]
                message["headers"] = [*message["headers"], *missing]
            await send(message)

        refusal = self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("only GET is answered", 405, {"allow": "GET, HEAD"})
        hosts = request.headers.getlist("host")
        if not self._token:
            refused = len(hosts) != 1 or not is_loopback(hosts[0])
            if refused:
                return PlainTextResponse("unknown host: open http://127.0.0.1", 400)
            return None
        text = request.query_params.get("token", "")
        # a redirect takes the token out of the address, which browsers keep and show
        if text and self._is_token(text):
            response = RedirectResponse(request.url.path, 303)
            response.set_cookie(COOKIE, text, httponly=True, samesite="strict")
            return response
        cookie = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
        if cookie is not None and self._is_token(cookie.value):
            return None
        return PlainTextResponse("open the address with the token that emend view printed", 403)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(errors="replace"), self._token.encode())
