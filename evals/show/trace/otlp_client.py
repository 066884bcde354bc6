"""OTLP/HTTP client, based on OpenTelemetry's exporter."""

import logging
import os
from collections.abc import Iterable
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.util.re import parse_env_headers

from emend.memory.errors import BadSettings, ExportFailed
from emend.memory.redaction import OTLP_HEADERS, hide_keys

PATH = "/v1/traces"
# Spans per request.
BATCH = 512
SECONDS = 10.0
# Maximum number of bytes read of an error response.
REPLY = 2000


class _DirectSession(requests.Session):
    """Session that does not follow redirects, which would forward the OTLP headers with keys."""

    def send(self, request: requests.PreparedRequest, **settings: Any) -> requests.Response:
        """Send one request.

        Raises:
            ExportFailed: the collector redirects.
        """
        answer = super().send(request, **settings | {"allow_redirects": False})
        if 300 <= answer.status_code < 400:
            place = hide_keys(answer.headers.get("Location", "another address"))[:200]
            raise ExportFailed(
                f"{request.url} redirects to {place}, which is not followed: correct --otlp."
            )
        return answer


def send(spans: Iterable[ReadableSpan], address: str) -> tuple[int, str]:
    """Send spans to a collector, and return their number and the URL.

    An empty request is sent first, to test the connection.

    Args:
        spans: spans in the order in which they are sent.
        address: address of the collector.

    Raises:
        BadSettings: the address is invalid.
        ExportFailed: there is no collector, or it refuses, redirects, or does not accept a batch.
    """
    url, rest, sent = _endpoint(address), iter(spans), 0
    logger = logging.getLogger("opentelemetry")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)  # all failures are reported as one error
    with _DirectSession() as session:
        try:
            _check(session, url)
            exporter = OTLPSpanExporter(endpoint=url, timeout=SECONDS, session=session)
            while batch := list(islice(rest, BATCH)):
                if exporter.export(batch) is not SpanExportResult.SUCCESS:
                    raise ExportFailed(
                        f"the collector at {url} accepted {sent} spans and then no more: check "
                        "its log. Sending again creates no duplicates."
                    )
                sent += len(batch)
            exporter.shutdown()
        finally:
            logger.setLevel(level)
    return sent, url


def _endpoint(address: str) -> str:
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # invalid brackets or port
        known = False
    if not known:
        raise BadSettings(
            f"--otlp '{address}' is not an address: give for example http://127.0.0.1:4318."
        )
    if "@" in parts.netloc:
        raise BadSettings(
            "the --otlp address contains a password: give it in OTEL_EXPORTER_OTLP_HEADERS instead."
        )
    return address.rstrip("/").removesuffix(PATH) + PATH


def _check(session: requests.Session, url: str) -> None:
    """Check that the collector answers; the exporter would retry for long and hide the reason."""
    headers = {"Content-Type": "application/x-protobuf"}
    for name in OTLP_HEADERS:
        headers |= parse_env_headers(os.environ.get(name, ""), liberal=True)
    try:
        with session.post(url, data=b"", headers=headers, timeout=SECONDS, stream=True) as answer:
            refused = answer.status_code >= 400
            text = next(answer.iter_content(REPLY), b"").decode(errors="replace") if refused else ""
    except (requests.RequestException, ValueError) as error:
        raise ExportFailed(
            f"no collector answers at {url} ({type(error).__name__}): start one there, or correct "
            "--otlp."
        ) from error
    if refused:
        reply = hide_keys(" ".join(text.split()))[:200]
        raise ExportFailed(
            f"the collector at {url} refuses (HTTP "
            f"{answer.status_code}{f': {reply}' if reply else ''}): correct the address, or give "
            "the required headers in OTEL_EXPORTER_OTLP_HEADERS."
        )
