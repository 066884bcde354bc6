"""OTLP/HTTP client: OpenTelemetry's own spans with given times and ids, sent by its own exporter."""

import logging
import os
from collections.abc import Iterable
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.re import parse_env_headers

from emend.evals.show.trace.otlp_spans import Span
from emend.memory.errors import BadSettings, ExportFailed
from emend.memory.redaction import OTLP_HEADERS, hide_keys

PATH = "/v1/traces"
BATCH = 512
"""Spans per request."""
SECONDS = 10.0
REPLY = 2000
"""Bytes of a refusal that are read."""


class _DirectSession(requests.Session):
    """Session that follows no redirect, because the headers that OTLP is given would be sent there too."""

    def send(self, request: requests.PreparedRequest, **settings: Any) -> requests.Response:
        """Send one request.

        Raises:
            ExportFailed: the collector redirects.
        """
        answer = super().send(request, **settings | {"allow_redirects": False})
        if 300 <= answer.status_code < 400:
            place = hide_keys(answer.headers.get("Location", "another address"))[:200]
            raise ExportFailed(f"{request.url} redirects to {place}, which is not followed: correct --otlp.")
        return answer


def send(spans: Iterable[Span], address: str, version: str) -> tuple[int, str]:
    """Send spans to a collector, which must accept a request without any first; returns their number and the URL.

    Args:
        spans: in the order in which they are sent.
        address: of the collector.
        version: of Emend, at the time of the run.

    Raises:
        BadSettings: the address is invalid.
        ExportFailed: there is no collector, or it refuses, redirects, or does not accept a batch.
    """
    url, rest, sent = _endpoint(address), iter(spans), 0
    resource = Resource.create({"service.name": "emend", "service.version": version})
    scope = InstrumentationScope("emend", version)
    logger = logging.getLogger("opentelemetry")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)  # what goes wrong is reported in one error
    with _DirectSession() as session:
        try:
            _check(session, url)
            exporter = OTLPSpanExporter(endpoint=url, timeout=SECONDS, session=session)
            while batch := [_convert(span, resource, scope) for span in islice(rest, BATCH)]:
                if exporter.export(batch) is not SpanExportResult.SUCCESS:
                    raise ExportFailed(
                        f"the collector at {url} took {sent} spans and then no more: look at its log. Sending again "
                        "doubles nothing."
                    )
                sent += len(batch)
            exporter.shutdown()
        finally:
            logger.setLevel(level)
    return sent, url


def _convert(span: Span, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    error = {"error.type": span.error.partition(":")[0]} if span.error else {}
    return ReadableSpan(
        span.name,
        context=_context(span.trace_id, span.span_id),
        parent=None if span.parent_id is None else _context(span.trace_id, span.parent_id),
        resource=resource,
        attributes={**span.attributes, **error},
        events=[Event(event.name, event.attributes, _nanoseconds(event.at)) for event in span.events],
        links=[Link(_context(span.link.trace_id, span.link.span_id))] if span.link else [],
        kind=SpanKind.CLIENT if span.remote else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
        start_time=_nanoseconds(span.start),
        end_time=_nanoseconds(span.end),
        instrumentation_scope=scope,
    )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000) * 1000


def _endpoint(address: str) -> str:
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets or a port that are none
        known = False
    if not known:
        raise BadSettings(f"--otlp '{address}' is no address: give for example http://127.0.0.1:4318.")
    if "@" in parts.netloc:
        raise BadSettings("the --otlp address holds a password: give it in OTEL_EXPORTER_OTLP_HEADERS instead.")
    return address.rstrip("/").removesuffix(PATH) + PATH


def _check(session: requests.Session, url: str) -> None:
    """Check the collector first: the exporter would retry for long, and not report the reason."""
    headers = {"Content-Type": "application/x-protobuf"}
    for name in OTLP_HEADERS:
        headers |= parse_env_headers(os.environ.get(name, ""), liberal=True)
    try:
        with session.post(url, data=b"", headers=headers, timeout=SECONDS, stream=True) as answer:
            refused = answer.status_code >= 400
            text = next(answer.iter_content(REPLY), b"").decode(errors="replace") if refused else ""
    except (requests.RequestException, ValueError) as error:
        raise ExportFailed(
            f"no collector answers at {url} ({type(error).__name__}): start one there, or correct --otlp."
        ) from error
    if refused:
        reply = hide_keys(" ".join(text.split()))[:200]
        raise ExportFailed(
            f"the collector at {url} refuses (HTTP {answer.status_code}{f': {reply}' if reply else ''}): correct the "
            "address, or give what it asks for in OTEL_EXPORTER_OTLP_HEADERS."
        )
