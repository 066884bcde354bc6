"""OTLP/HTTP client: OpenTelemetry's own spans with given times and ids, sent by its own exporter."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TRACES_HEADERS
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.re import parse_env_headers

from emend.evals.trace.otlp_spans import Span
from emend.memory.errors import BadSettings, ExportFailed
from emend.memory.redaction import hide_keys

PATH = "/v1/traces"
BATCH = 512
"""Spans per request."""
SECONDS = 10.0


class OtlpClient:
    """Sends spans in batches; `sent` counts those that the collector accepted.

    Args:
        exporter: to the collector.
        url: the collector's, for messages.
        version: of Emend, at the time of the run.
    """

    def __init__(self, exporter: OTLPSpanExporter, url: str, version: str) -> None:
        self.exporter, self.url, self.sent = exporter, url, 0
        self._resource = Resource.create({"service.name": "emend", "service.version": version})
        self._scope = InstrumentationScope("emend", version)
        self._pending: list[ReadableSpan] = []

    def put(self, spans: Sequence[Span], link: Span | None = None) -> None:
        """Send the spans of one trace, now or with those that follow; the first gets the link.

        Raises:
            ExportFailed: the collector does not accept a batch.
        """
        self._pending += [self._convert(span, link if span is spans[0] else None) for span in spans]
        if len(self._pending) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Send all pending spans.

        Raises:
            ExportFailed: the collector does not accept them.
        """
        while batch := self._pending[:BATCH]:
            if self.exporter.export(batch) is not SpanExportResult.SUCCESS:
                raise ExportFailed(
                    f"the collector at {self.url} took {self.sent} spans and then no more: look at its log. Sending "
                    "again doubles nothing."
                )
            self.sent += len(batch)
            del self._pending[:BATCH]

    def _convert(self, span: Span, link: Span | None) -> ReadableSpan:
        error = {"error.type": span.error.partition(":")[0]} if span.error else {}
        return ReadableSpan(
            span.name,
            context=_context(span.trace_id, span.span_id),
            parent=None if span.parent_id is None else _context(span.trace_id, span.parent_id),
            resource=self._resource,
            attributes={**span.attributes, **error},
            events=[Event(event.name, event.attributes, _nanoseconds(event.at)) for event in span.events],
            links=[Link(_context(link.trace_id, link.span_id))] if link else [],
            kind=SpanKind.CLIENT if span.remote else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end),
            instrumentation_scope=self._scope,
        )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000) * 1000


@contextmanager
def connect(address: str, version: str) -> Iterator[OtlpClient]:
    """Connect to the collector, which must accept a request without spans; at the end everything has been sent.

    Raises:
        BadSettings: the address is invalid.
        ExportFailed: there is no collector, or it refuses.
    """
    url = _endpoint(address)
    logger = logging.getLogger("opentelemetry")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)  # what goes wrong is reported in one error
    with requests.Session() as session:
        try:
            _check(session, url)
            exporter = OTLPSpanExporter(endpoint=url, timeout=SECONDS, session=session)
            client = OtlpClient(exporter, url, version)
            yield client
            client.flush()
            exporter.shutdown()
        finally:
            logger.setLevel(level)


def _endpoint(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadSettings(f"--otlp '{address}' is no address: give for example http://127.0.0.1:4318.")
    if "@" in parts.netloc:
        raise BadSettings("the --otlp address holds a password: give it in OTEL_EXPORTER_OTLP_HEADERS instead.")
    return address.rstrip("/").removesuffix(PATH) + PATH


def _check(session: requests.Session, url: str) -> None:
    """Check the collector first: the exporter would retry for long, and not report the reason."""
    headers = {"Content-Type": "application/x-protobuf"}
    for name in (OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TRACES_HEADERS):
        headers |= parse_env_headers(os.environ.get(name, ""), liberal=True)
    try:
        answer = session.post(url, data=b"", headers=headers, timeout=SECONDS)
    except requests.RequestException as error:
        raise ExportFailed(
            f"no collector answers at {url} ({type(error).__name__}): start one there, or correct --otlp."
        ) from error
    if answer.status_code >= 400:
        reply = hide_keys(" ".join(answer.text.split()))[:200]
        raise ExportFailed(
            f"the collector at {url} refuses (HTTP {answer.status_code}{f': {reply}' if reply else ''}): correct the "
            "address, or give what it asks for in OTEL_EXPORTER_OTLP_HEADERS."
        )
