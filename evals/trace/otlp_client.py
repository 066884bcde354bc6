"""OTLP/HTTP client: OpenTelemetry's own spans with given times and ids, sent by its own exporter."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

import requests
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TRACES_HEADERS
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.re import parse_env_headers

from emend.evals.trace.otlp_spans import Span
from emend.memory.errors import BadSettings, ExportFailed
from emend.memory.redaction import hide_keys

PATH = "/v1/traces"
BATCH = 512
"""Spans per request."""
SECONDS = 10.0
NANO = 1_000_000_000
NO_LIMITS = SpanLimits(max_span_attributes=SpanLimits.UNSET, max_events=SpanLimits.UNSET)
"""By default a span would lose attributes beyond 128."""


class _FixedIds(IdGenerator):
    """Returns the ids that were set for the next span."""

    def __init__(self) -> None:
        self.trace_id = self.span_id = 0

    def generate_trace_id(self) -> int:
        """Return the trace's id."""
        return self.trace_id

    def generate_span_id(self) -> int:
        """Return the span's id."""
        return self.span_id


class OtlpClient:
    """Sends spans in batches; `sent` counts those that the collector accepted.

    Args:
        exporter: to the collector.
        url: the collector's, for messages.
        version: of Emend, at the time of the run.
    """

    def __init__(self, exporter: OTLPSpanExporter, url: str, version: str) -> None:
        self.exporter, self.url, self.sent = exporter, url, 0
        self._ids, self._batch = _FixedIds(), InMemorySpanExporter()
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create({"service.name": "emend", "service.version": version}),
            id_generator=self._ids,
            span_limits=NO_LIMITS,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(SimpleSpanProcessor(self._batch))
        self._tracer = self._provider.get_tracer("emend", version)

    def put(self, spans: Sequence[Span], link: Span | None = None) -> None:
        """Send the spans of one trace, now or with those that follow; the first gets the link.

        Raises:
            ExportFailed: the collector does not accept a batch.
        """
        for span in spans:
            self._make(span, link if span is spans[0] else None)
        if len(self._batch.get_finished_spans()) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Send the current batch.

        Raises:
            ExportFailed: the collector does not accept it.
        """
        spans = self._batch.get_finished_spans()
        for start in range(0, len(spans), BATCH):
            batch = spans[start : start + BATCH]
            if self.exporter.export(batch) is not SpanExportResult.SUCCESS:
                raise ExportFailed(
                    f"the collector at {self.url} took {self.sent} spans and then no more: look at its log. Sending "
                    "again doubles nothing."
                )
            self.sent += len(batch)
        self._batch.clear()

    def close(self) -> None:
        """Shut down OpenTelemetry's provider."""
        self._provider.shutdown()

    def _make(self, span: Span, link: Span | None) -> None:
        self._ids.trace_id, self._ids.span_id = span.trace_id, span.span_id
        around = None if span.parent_id is None else _context(span.trace_id, span.parent_id)
        made = self._tracer.start_span(
            span.name,
            context=trace.set_span_in_context(NonRecordingSpan(around) if around else trace.INVALID_SPAN),
            kind=SpanKind.CLIENT if span.remote else SpanKind.INTERNAL,
            attributes=span.attributes,
            links=[Link(_context(link.trace_id, link.span_id))] if link else [],
            start_time=_nano(span.start),
        )
        for event in span.events:
            made.add_event(event.name, event.attributes, _nano(event.at))
        if span.error:
            made.set_attribute("error.type", span.error.partition(":")[0])
            made.set_status(Status(StatusCode.ERROR, span.error))
        made.end(_nano(span.end))


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _nano(seconds: float) -> int:
    return int(seconds * 1_000_000) * (NANO // 1_000_000)


@contextmanager
def connect(address: str, version: str) -> Iterator[OtlpClient]:
    """Connect to the collector, which must accept a request without spans; at the end everything has been sent.

    Raises:
        BadSettings: the address is invalid.
        ExportFailed: there is no collector, or it refuses.
    """
    url = _endpoint(address)
    with requests.Session() as session, _quiet():
        _check(session, url)
        exporter = OTLPSpanExporter(endpoint=url, timeout=SECONDS, session=session)
        client = OtlpClient(exporter, url, version)
        try:
            yield client
            client.flush()
        finally:
            client.close()
            exporter.shutdown()


def _endpoint(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadSettings(f"--otlp '{address}' is no address: give for example http://127.0.0.1:4318.")
    if "@" in parts.netloc:
        raise BadSettings("the --otlp address holds a password: give it in OTEL_EXPORTER_OTLP_HEADERS instead.")
    base = address.rstrip("/")
    return base if base.endswith(PATH) else base + PATH


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
        said = hide_keys(" ".join(answer.text.split()))[:200]
        raise ExportFailed(
            f"the collector at {url} refuses (HTTP {answer.status_code}{f': {said}' if said else ''}): correct the "
            "address, or give what it asks for in OTEL_EXPORTER_OTLP_HEADERS."
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's log: what went wrong is reported in one error."""
    logger = logging.getLogger("opentelemetry")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
