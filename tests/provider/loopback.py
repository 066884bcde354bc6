"""A web server on 127.0.0.1, the base of those that tests talk to."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self


class Server(ThreadingHTTPServer):
    """Takes many connections at once."""

    request_queue_size = 512
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news."""


class Loopback:
    """Serves on a free port while its context is open; its handlers find it as `served`."""

    handler: ClassVar[type["LoopbackHandler"]]

    def __enter__(self) -> Self:
        self._server = Server(("127.0.0.1", 0), type("Bound", (self.handler,), {"served": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def root(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self._server.server_port}"


class LoopbackHandler(BaseHTTPRequestHandler):
    """One connection of a client."""

    served: Any

    def log_message(self, *words: Any) -> None:
        """Nothing on the screen."""
