"""Spans over the wire: OpenTelemetry's own spans, with given times and ids, through its own exporter."""

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
"""So many spans go into one request."""
SECONDS = 10.0
NANO = 1_000_000_000
ALL = SpanLimits(max_span_attributes=SpanLimits.UNSET, max_events=SpanLimits.UNSET)
"""Nothing of a span is left out, as it would be beyond 128 attributes."""


class _Given(IdGenerator):
    """The ids that are wanted next."""

    def __init__(self) -> None:
        self.trace_id = self.span_id = 0

    def generate_trace_id(self) -> int:
        """The trace's."""
        return self.trace_id

    def generate_span_id(self) -> int:
        """The span's."""
        return self.span_id


class Sending:
    """Takes spans and sends them in batches; `sent` counts those that the collector took.

    Args:
        exporter: to the collector.
        url: the collector's, for messages.
        version: of Emend, at the time of the run.
    """

    def __init__(self, exporter: OTLPSpanExporter, url: str, version: str) -> None:
        self.exporter, self.url, self.sent = exporter, url, 0
        self._ids, self._held = _Given(), InMemorySpanExporter()
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create({"service.name": "emend", "service.version": version}),
            id_generator=self._ids,
            span_limits=ALL,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(SimpleSpanProcessor(self._held))
        self._tracer = self._provider.get_tracer("emend", version)

    def put(self, spans: Sequence[Span], about: Span | None = None) -> None:
        """Send the spans of one trace, now or with those that follow; the first links to what they are about.

        Raises:
            ExportFailed: the collector does not take a batch.
        """
        for span in spans:
            self._make(span, about if span is spans[0] else None)
        if len(self._held.get_finished_spans()) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Send what is held.

        Raises:
            ExportFailed: the collector does not take it.
        """
        held = self._held.get_finished_spans()
        for start in range(0, len(held), BATCH):
            batch = held[start : start + BATCH]
            if self.exporter.export(batch) is not SpanExportResult.SUCCESS:
                raise ExportFailed(
                    f"the collector at {self.url} took {self.sent} spans and then no more: look at its log. Sending "
                    "again doubles nothing."
                )
            self.sent += len(batch)
        self._held.clear()

    def close(self) -> None:
        """Let go of what OpenTelemetry holds."""
        self._provider.shutdown()

    def _make(self, span: Span, about: Span | None) -> None:
        self._ids.trace_id, self._ids.span_id = span.trace_id, span.span_id
        around = None if span.parent_id is None else _context(span.trace_id, span.parent_id)
        made = self._tracer.start_span(
            span.name,
            context=trace.set_span_in_context(NonRecordingSpan(around) if around else trace.INVALID_SPAN),
            kind=SpanKind.CLIENT if span.remote else SpanKind.INTERNAL,
            attributes=span.attributes,
            links=[Link(_context(about.trace_id, about.span_id))] if about else [],
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
def sending(address: str, version: str) -> Iterator[Sending]:
    """To the collector at an address, once it has taken a request without spans; at the end all has been sent.

    Raises:
        BadSettings: the address is none.
        ExportFailed: there is no collector, or it refuses.
    """
    url = _endpoint(address)
    with requests.Session() as session, _quiet():
        _knock(session, url)
        exporter = OTLPSpanExporter(endpoint=url, timeout=SECONDS, session=session)
        sender = Sending(exporter, url, version)
        try:
            yield sender
            sender.flush()
        finally:
            sender.close()
            exporter.shutdown()


def _endpoint(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadSettings(f"--otlp '{address}' is no address: give for example http://127.0.0.1:4318.")
    if "@" in parts.netloc:
        raise BadSettings("the --otlp address holds a password: give it in OTEL_EXPORTER_OTLP_HEADERS instead.")
    base = address.rstrip("/")
    return base if base.endswith(PATH) else base + PATH


def _knock(session: requests.Session, url: str) -> None:
    """Ask before anything is made: the exporter itself would wait long for what is not there, and not say why."""
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
    """The exporter's own log lines stay away: what went wrong is told in one error."""
    logger = logging.getLogger("opentelemetry")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
