"""A web server on this machine that publishes files, well or badly, and keeps count of what it sent."""

import hashlib
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from emend.evals.data.download import DataSource, Remote


class Origin(ThreadingHTTPServer):
    """The server; its attributes say how it behaves."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.ranges = True
        """Whether it honours Range."""
        self.cuts: list[int] = []
        """After how many bytes to break off, answer by answer; whole answers when it is empty."""
        self.reset = False
        """Whether it breaks off by resetting the connection."""
        self.pause = 0.0
        """Seconds between the bytes of an answer; 0 sends all at once."""
        self.dripping = False
        """Whether it sends one header without end, byte by byte."""
        self.says: list[int] = []
        """Status codes of the next answers."""
        self.packed = ""
        """The Content-Encoding that it uses unasked."""
        self.leads = ""
        """Where it sends every request for another path."""
        self.sent: list[tuple[str, str, int]] = []
        """(path, Range, bytes of the body), written down before they go out: who has the answer finds it here."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that went away."""

    def url(self, name: str) -> str:
        """The address of a file."""
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"

    def publish(self, name: str, content: bytes) -> str:
        """Put a file up; returns its sha256."""
        self.files[f"/{name}"] = content
        return hashlib.sha256(content).hexdigest()

    def remote(self, name: str, digest: str = "", **more: str) -> Remote:
        """The table's entry of a file."""
        told = {"licence": "MIT", "repository": "github.com/them/it", "commit": "c0ffee", **more}
        return Remote.model_validate({"name": name, "url": self.url(name), "digest": digest, **told})

    def source(self, *remotes: Remote, name: str = "akew") -> DataSource:
        """A data set of these files."""
        return DataSource(name=name, remotes=remotes)


class _Handler(BaseHTTPRequestHandler):
    server: Origin
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        origin, asked = self.server, self.headers.get("Range", "")
        if origin.dripping:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
            with suppress(OSError):  # the client has gone
                while origin.dripping:
                    self.wfile.write(b"x")
                    time.sleep(0.02)
            self.close_connection = True
            return
        leads = "" if origin.leads.endswith(self.path) else origin.leads
        if leads or origin.says or self.path not in origin.files:
            code = 302 if leads else origin.says.pop(0) if origin.says else 404
            self.send_response(code)
            if leads:
                self.send_header("Location", leads)
            self.send_header("Content-Length", "0")
            origin.sent.append((self.path, asked, 0))
            self.end_headers()
            return
        self._send(origin.files[self.path], asked)

    def _send(self, content: bytes, asked: str) -> None:
        origin = self.server
        first = int(asked.removeprefix("bytes=").rstrip("-")) if asked and origin.ranges else 0
        if first >= len(content) and first:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            origin.sent.append((self.path, asked, 0))
            self.end_headers()
            return
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        if origin.packed:
            self.send_header("Content-Encoding", origin.packed)
        body = content[first:]
        self.send_header("Content-Length", str(len(body)))
        if origin.cuts:
            body = body[: origin.cuts.pop(0)]
            self.close_connection = True
        origin.sent.append((self.path, asked, len(body)))
        self.end_headers()
        if origin.pause:
            self._trickle(body)
        else:
            self.wfile.write(body)
        if self.close_connection and origin.reset:
            self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def _trickle(self, body: bytes) -> None:
        with suppress(OSError):  # the client has gone
            for byte in body:
                self.wfile.write(bytes([byte]))
                time.sleep(self.server.pause)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[Origin]:
    """A server for the time of the `with`."""
    with Origin() as origin:
        thread = Thread(target=origin.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield origin
        finally:
            origin.shutdown()
            thread.join()


def dead_url(name: str) -> str:
    """An address at which nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}/{name}"


@contextmanager
def flooding(head: bytes, part: bytes) -> Iterator[tuple[str, list[int]]]:
    """A server whose responses have no end; its address, and the number of parts sent on each connection."""
    sent: list[int] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.settimeout(20)
            sent.append(0)
            with connection, suppress(OSError):  # the client has gone
                connection.recv(65536)
                connection.sendall(head)
                while sent[-1] < 20_000:
                    connection.sendall(part)
                    sent[-1] += 1

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/a.json", sent
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(30)
