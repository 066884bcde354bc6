"""A hostile object store: nothing outside the copy is written, every command ends in time, and says what is wrong."""

import re
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from emend.evals.log import mirror
from emend.evals.log.lines import RECORDS
from emend.evals.log.manifest import MANIFEST
from emend.evals.log.mirror import MIRRORED, copy_mirror
from emend.evals.run.run import run
from emend.memory.errors import BadData, FetchFailed
from tests.evals.command_line import emend
from tests.evals.toy_runs import config, records
from tests.evals.toys import ScriptedModel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("s3fs") is None, reason="the extra 'mirror' is not installed"),
]

ADDRESS = "s3://bucket/x"
SECONDS = 2.0


class Store(ThreadingHTTPServer):
    """The part of S3 that reads, over objects by key; `act` answers a request in its place and returns true, or not."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.objects: dict[str, bytes] = {}
        self.act: Callable[[_Request], bool] = lambda request: False
        self.ended = Event()


class _Request(BaseHTTPRequestHandler):
    server: Store
    protocol_version = "HTTP/1.1"

    @property
    def key(self) -> str:
        """Key of the object, without the bucket."""
        return unquote(urlsplit(self.path).path).removeprefix("/bucket").lstrip("/")

    @property
    def query(self) -> dict[str, list[str]]:
        """Parameters of the request, of which a listing has some."""
        return parse_qs(urlsplit(self.path).query, keep_blank_values=True)

    @property
    def prefix(self) -> str:
        """Prefix of what is listed."""
        return self.query.get("prefix", [""])[0]

    def send(self, status: int, content: bytes, **headers: str) -> None:
        """Send a whole response."""
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def listing(self, sizes: dict[str, int], more: str = "") -> None:
        """Send a page of a listing; with `more` there is another page."""
        items = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size><ETag>&quot;0&quot;</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified><StorageClass>STANDARD</StorageClass></Contents>"
            for key, size in sizes.items()
        )
        token = f"<NextContinuationToken>{more}</NextContinuationToken>" if more else ""
        page = (
            f"<ListBucketResult><Name>bucket</Name><Prefix>{escape(self.prefix)}</Prefix><KeyCount>{len(sizes)}</KeyCount>"
            f"<MaxKeys>1000</MaxKeys><IsTruncated>{'true' if more else 'false'}</IsTruncated>{token}{items}"
            "</ListBucketResult>"
        )
        self.send(200, page.encode(), content_type="application/xml")

    def do_GET(self) -> None:
        """Answer."""
        try:
            if not self.server.act(self):
                self._answer()
        except OSError:  # the client has given up
            self.close_connection = True

    do_HEAD = do_PUT = do_DELETE = do_GET

    def _answer(self) -> None:
        objects = self.server.objects
        if "list-type" in self.query:
            self.listing({key: len(content) for key, content in objects.items() if key.startswith(self.prefix)})
        elif self.key not in objects:
            self.send(404, b"<Error><Code>NoSuchKey</Code></Error>", content_type="application/xml")
        else:
            content = objects[self.key]
            first, last = 0, len(content) - 1
            if match := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", "")):
                first, last = int(match[1]), min(int(match[2]), last)
            at = {"content_range": f"bytes {first}-{last}/{len(content)}"}
            when = "Thu, 01 Jan 2026 00:00:00 GMT"
            self.send(206, content[first : last + 1], etag='"0"', last_modified=when, **at)

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which nothing but the cache may be written."""
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "home" / "cache"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def store(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store with the mirror of a run, and its address in the environment."""
    folder = tmp_path / "mirrored"
    run(config(benchmark_options={"cases": "12"}), tmp_path / "run", model=ScriptedModel(), mirror=f"file://{folder}")
    monkeypatch.setattr(mirror, "CALL_SECONDS", SECONDS)
    server = Store()
    server.objects = {
        f"x/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-very-secret-key")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.ended.set()
    server.shutdown()
    server.server_close()


def _is_object(request: _Request, name: str = RECORDS) -> bool:
    return request.command == "GET" and "list-type" not in request.query and request.key.startswith(f"x/{name}")


def _other_bytes(request: _Request) -> bool:
    if not _is_object(request):
        return False
    request.send(206, b"x" * len(request.server.objects[request.key]))
    return True


def _too_many_bytes(request: _Request) -> bool:
    if not _is_object(request):
        return False
    request.send(206, request.server.objects[request.key] + b"more")
    return True


def _endless_listing(request: _Request) -> bool:
    if "list-type" not in request.query:
        return False
    request.listing({f"{request.prefix}{number:09}": 1 for number in range(1000)}, more="again")
    return True


def _drip(request: _Request) -> bool:
    if not _is_object(request):
        return False
    request.send_response(206)
    request.send_header("content-length", str(len(request.server.objects[request.key])))
    request.end_headers()
    while not request.server.ended.wait(0.2):
        request.wfile.write(b"x")
    return True


def _dripped_manifest(request: _Request) -> bool:
    return _is_object(request, MANIFEST) and _drip_any(request)


def _drip_any(request: _Request) -> bool:
    request.send_response(206)
    request.send_header("content-length", "100000")
    request.end_headers()
    while not request.server.ended.wait(0.2):
        request.wfile.write(b" ")
    return True


def _redirect_forever(request: _Request) -> bool:
    request.send(307, b"", location=f"http://127.0.0.1:{request.server.server_port}{request.path}")
    return True


def _huge_manifest(request: _Request) -> bool:
    if request.key != f"x/{MANIFEST}" or request.command != "HEAD":
        return False
    request.send_response(200)
    for name, value in (("content-length", str(10**12)), ("etag", '"0"')):
        request.send_header(name, value)
    request.send_header("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")
    request.end_headers()
    return True


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (_other_bytes, BadData),
        (_too_many_bytes, BadData),
        (_endless_listing, FetchFailed),
        (_drip, FetchFailed),
        (_dripped_manifest, FetchFailed),
        (_redirect_forever, FetchFailed),
        (_huge_manifest, BadData),
    ],
)
def test_a_hostile_store_is_refused_in_time(
    store: Store, act: Callable[[_Request], bool], error: type[Exception], capsys: Any
) -> None:
    store.act = act
    start = time.monotonic()
    with pytest.raises(error, match=ADDRESS):
        copy_mirror(ADDRESS)
    assert emend("view", ADDRESS, "--no-browser") == 2
    assert ADDRESS in capsys.readouterr().err
    assert time.monotonic() - start < 20 * SECONDS


def test_names_that_lead_out_are_not_followed(store: Store, home: Path, tmp_path: Path) -> None:
    before = {path for path in tmp_path.rglob("*") if home not in path.parents}
    name = next(key for key in store.objects if RECORDS in key).rpartition("/")[2]
    for key in (f"x/{RECORDS}/../../../{name}", f"x/{RECORDS}/..", "x/../outside", f"x/{RECORDS}/a/{name}", "/etc/x"):
        store.objects[key] = b"outside"
    folder = copy_mirror(ADDRESS)
    assert {path.name for path in folder.iterdir()} == {*MIRRORED, MANIFEST}
    assert {path for path in tmp_path.rglob("*") if home not in path.parents} == before
    assert [record.unit for record in records(folder)] == [record.unit for record in records(tmp_path / "run")]


@pytest.mark.parametrize("act", [_redirect_forever, _dripped_manifest])
def test_a_run_ends_beside_a_hostile_store(
    store: Store, home: Path, act: Callable[[_Request], bool], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(mirror, "PATIENCE", SECONDS)
    monkeypatch.setattr(mirror, "TRIES_AT_END", 1)
    store.act = act
    start = time.monotonic()
    summary = run(config(benchmark_options={"cases": "12"}), home / "run", model=ScriptedModel(), mirror=ADDRESS)
    assert summary.finished == summary.units and time.monotonic() - start < 20 * SECONDS
    assert "emend resume" in caplog.text and "a-very-secret-key" not in caplog.text
