"""A collector on 127.0.0.1 that takes spans over OTLP/HTTP and keeps them, as a real one does."""

import gzip
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.provider.loopback import Loopback, LoopbackHandler


class Collector(Loopback):
    """Keeps the spans by id, so that the same one sent twice is there once; a context manager.

    Args:
        status: what it answers with.
        refuse_after: so many requests are taken before it refuses all others.
        reply: its words when it refuses.
        location: address to which it redirects requests that it does not take.
    """

    def __init__(
        self, status: int = 200, refuse_after: int | None = None, reply: str = "not so", location: str = ""
    ) -> None:
        self.status, self.refuse_after, self.reply, self.location = status, refuse_after, reply, location
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.spans: dict[tuple[bytes, bytes], Span] = {}
        self.taken = 0
        self.resources: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        """What `--otlp` is given."""
        return self.root

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """One request; the status of its answer."""
        self.requests.append((path, headers))
        if path != "/v1/traces":
            return 404
        if self.refuse_after is not None and len(self.requests) > self.refuse_after:
            return 307 if self.location else 400
        if self.status >= 300:
            return self.status
        asked = ExportTraceServiceRequest.FromString(body)
        for resource in asked.resource_spans:
            self.resources.append(attributes(resource.resource))
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.taken += 1
                    self.spans[span.trace_id, span.span_id] = span
        return self.status

    def named(self, beginning: str) -> list[Span]:
        """The spans whose names begin so, in the order in which they came."""
        return [span for span in self.spans.values() if span.name.startswith(beginning)]

    def above(self, span: Span) -> Span:
        """The span around this one."""
        return self.spans[span.trace_id, span.parent_span_id]

    def within(self, span: Span) -> list[Span]:
        """The spans right under this one."""
        return [
            item
            for item in self.spans.values()
            if (item.trace_id, item.parent_span_id) == (span.trace_id, span.span_id)
        ]


def attributes(holder: Any) -> dict[str, Any]:
    """What a span, an event or a resource tells."""
    return {pair.key: _plain(pair.value) for pair in holder.attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None


class _Handler(LoopbackHandler):
    served: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        status = self.served.take(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        answer = ExportTraceServiceResponse().SerializeToString() if status < 300 else self.served.reply.encode()
        self.send_response(status)
        if status // 100 == 3:
            self.send_header("Location", self.served.location)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


Collector.handler = _Handler
