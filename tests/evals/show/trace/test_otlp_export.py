"""A finished run's trace goes to a collector over OTLP/HTTP: whole, once, and with texts only when asked for."""

import json
import sys

import pytest
from typer.testing import CliRunner

from emend.evals.cli.main import app
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.log.records import read_records
from emend.evals.show.trace import otlp_export as otlp
from emend.memory.errors import BadSettings, ExportFailed, MissingExtra
from tests.evals import made
from tests.evals.judged_runs import judge_model
from tests.evals.toy_runs import go
from tests.evals.toys import EDITOR

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra 'otel' is not installed")

from emend.evals.show.trace.otlp_spans import SpanMaker  # noqa: E402  (needs the extra)
from tests.evals.collector import Collector, attributes  # noqa: E402


def told(folder, **more):
    """What a collector has after an export."""
    with Collector() as collector:
        sent = otlp.export(folder, collector.address, **more)
    assert sent.spans == collector.taken == len(collector.spans)
    return collector


def texts(collector):
    """Every text that was sent."""
    items = []
    for span in collector.spans.values():
        holders = [span, *span.events]
        items += [span.name, span.status.message, *(e.name for e in span.events)]
        items += [json.dumps(value) for holder in holders for value in attributes(holder).values()]
    return "\n".join(items)


def test_case_probe_node_and_call_stand_in_each_other(smooth):
    collector = told(smooth)
    records = list(read_records(smooth))
    assert len(collector.named("case ")) == len({record.unit for record in records}) == 12
    assert len(collector.named("probe ")) == len(records)
    for call in (*collector.named("chat"), *collector.named("score")):
        node, probe = collector.above(call), collector.above(collector.above(call))
        case = collector.above(probe)
        assert (node.name, probe.name[:6], case.name[:5]) == ("respond", "probe ", "case ")
        assert not case.parent_span_id
        assert node.start_time_unix_nano <= call.start_time_unix_nano < call.end_time_unix_nano
        assert probe.end_time_unix_nano >= call.end_time_unix_nano - 1_000_000
    nodes = [span.name for span in collector.within(collector.named("probe efficacy")[-1])]
    assert nodes == list(records[-2].path) and records[-2].kind == "efficacy"


def test_a_case_of_one_probe_is_sent_under_ids_of_its_place(tmp_path):
    run = made.write_run(tmp_path / "run", [made.record("1", values={"em": 1.0})])
    assert len(told(run).named("probe ")) == 1
    unit, inner, other = (
        SpanMaker("run").span("a", key, 0, 1, {})
        for key in (("run", "unit"), ("run", "unit", "probe"), ("run", "other"))
    )
    assert inner.parent == unit.context and unit.parent is None
    assert inner.context.trace_id == unit.context.trace_id != other.context.trace_id
    assert unit.context.is_valid and len({span.context.span_id for span in (unit, inner, other)}) == 3


def test_each_case_links_to_the_span_of_its_run(smooth):
    collector = told(smooth)
    (run,) = collector.named("run ")
    assert attributes(run)["emend.editors"] == ["rag", EDITOR]
    cases = collector.named("case ")
    assert {(case.links[0].trace_id, case.links[0].span_id) for case in cases} == {(run.trace_id, run.span_id)}
    assert len({case.trace_id for case in cases}) == len(cases)
    assert collector.resources[0]["service.name"] == "emend"


def test_sent_twice_is_there_once(smooth):
    with Collector() as collector:
        first = otlp.export(smooth, collector.address)
        again = otlp.export(smooth, collector.address)
        item = otlp.export(smooth, collector.address, case="2", editor="rag")
    assert first.spans == again.spans == len(collector.spans) and collector.taken > 2 * first.spans
    assert (item.cases, item.spans < first.spans) == (1, True)


def test_calls_and_retrieval_have_the_names_of_the_conventions(rough):
    collector = told(rough)
    (call, *_) = collector.named("chat ")
    asked = attributes(call)
    assert asked["gen_ai.operation.name"] == "chat" and asked["gen_ai.provider.name"] == "openai"
    assert asked["gen_ai.request.model"] == asked["llm.model_name"] == "any-model"
    assert asked["gen_ai.usage.input_tokens"] == asked["llm.token_count.prompt"] > 0
    assert asked["gen_ai.usage.output_tokens"] == 1 and asked["gen_ai.response.finish_reasons"] == ["stop"]
    assert call.kind == call.SPAN_KIND_CLIENT and asked["openinference.span.kind"] == "LLM"
    fields = attributes(collector.named("retrieve")[0])
    assert fields["openinference.span.kind"] == "RETRIEVER" and fields["gen_ai.operation.name"] == "retrieval"
    assert fields["retrieval.documents.0.document.score"] > 0 and fields["retrieval.documents.0.document.id"]
    probe = collector.named("probe efficacy")[0]
    results = {attributes(e)["gen_ai.evaluation.name"]: attributes(e) for e in probe.events}
    assert results["em"]["gen_ai.evaluation.score.value"] == 1.0
    assert results["success"]["gen_ai.evaluation.score.label"] == "unscored"


def test_what_crags_wider_search_found_is_retrieved_there(tmp_path):
    told_to = {"search": "tests.graphs.forms:elsewhere", "upper": 1.0, "lower": 0.95}
    go(tmp_path / "run", editors=("crag",), embedding="lexical", limit=1, overrides={"crag": told_to})
    (span, *_) = told(tmp_path / "run").named("search")
    fields, place = attributes(span), "retrieval.documents.0.document"
    assert fields["openinference.span.kind"] == "RETRIEVER" and fields["gen_ai.operation.name"] == "retrieval"
    assert fields[f"{place}.id"] and fields[f"{place}.score"] == 1.0 and f"{place}.content" not in fields
    assert json.loads(fields[f"{place}.metadata"]).keys() == {"relevance", "used"}
    (span, *_) = told(tmp_path / "run", content=True).named("search")
    assert attributes(span)[f"{place}.content"] == "The capital of Land0 is New-0."


def test_retries_and_errors_are_told(rough):
    collector = told(rough)
    (call,) = [span for span in collector.named("chat ") if len(span.events) == 2]
    first, second = (attributes(event) for event in call.events)
    assert (first["emend.attempt"], first["error.type"], first["http.response.status_code"]) == (1, "RateLimited", 429)
    assert (second["emend.attempt"], second["error.type"]) == (2, "ModelUnreachable")
    times = [event.time_unix_nano for event in call.events]
    assert call.start_time_unix_nano <= times[0] < times[1] <= call.end_time_unix_nano
    refused = [span for span in collector.named("chat ") if attributes(span).get("error.type") == "ReplyRefused"]
    assert len(refused) == 1 and refused[0].status.code == refused[0].status.STATUS_CODE_ERROR
    (failed,) = [span for span in collector.named("case 2") if span.status.message]
    (probe,) = collector.within(failed)
    assert [span.name for span in collector.within(probe)] == ["retrieve", "compose", "respond"]


def test_no_text_is_sent_unless_it_is_asked_for(smooth, rough):
    for folder in (smooth, rough):
        quiet, open_ = texts(told(folder)), texts(told(folder, content=True))
        for record in read_records(folder):
            for text in (record.prompt, record.answer or record.prompt):
                assert text not in quiet, text
                assert text in open_, text
        for secret in ("New Fact", "I will not say", "Unsupported parameter"):
            assert secret not in quiet
    assert "New Fact: The capital of Land0 is New-0." in texts(told(smooth, content=True))


def test_messages_have_parts_in_the_conventions_form(smooth):
    call = attributes(told(smooth, case="1", editor="rag", content=True).named("chat")[0])
    prompt = "New Fact: The capital of Land0 is New-0.\nPrompt: The capital of Land0 is"
    assert json.loads(call["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": prompt}]}
    ]
    (said,) = json.loads(call["gen_ai.output.messages"])
    assert said["parts"] == [{"type": "text", "content": "New-0"}] and said["finish_reason"]
    assert call["input.value"] == prompt and call["output.value"] == "New-0"


def test_judgements_stand_under_the_probe_that_was_judged(elken, own_cache):
    score_run(elken, Panel(judges=("openai:judge",)), models={"openai:judge": judge_model()})
    collector = told(elken)
    judged = collector.named("judge tendency")
    assert judged
    for span in judged:
        assert collector.above(span).name.startswith("probe ")
        assert attributes(span)["emend.judge"] == "openai:judge"
        assert attributes(span.events[0])["gen_ai.evaluation.score.value"] > 0
    assert {item.name for span in judged for item in collector.within(span)} >= {"ask", "settle"}


def test_an_address_may_name_the_path_and_headers_come_from_the_environment(smooth, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-project=emend")
    with Collector() as collector:
        otlp.export(smooth, f"{collector.address}/v1/traces/", case="1")
    assert {path for path, _ in collector.requests} == {"/v1/traces"}
    assert all(headers["x-project"] == "emend" for _, headers in collector.requests)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:4318", "ftp://127.0.0.1", "http://", "http://[::1", "http://h:99999999", ""]
)
def test_what_is_no_address_is_refused(smooth, address):
    with pytest.raises(BadSettings, match="is not an address: give for example http://127.0.0.1:4318"):
        otlp.export(smooth, address)


def test_a_password_in_the_address_is_refused_and_no_collector_is_told_at_once(smooth):
    with pytest.raises(BadSettings, match="contains a password") as caught:
        otlp.export(smooth, "http://me:hunter22@127.0.0.1:4318")
    assert "hunter22" not in str(caught.value)
    with Collector() as collector:
        address = collector.address
    with pytest.raises(ExportFailed, match=f"no collector answers at {address}/v1/traces"):
        otlp.export(smooth, address)


def test_a_collector_that_refuses_or_breaks_off_is_told_with_what_it_took(smooth, capfd):
    with Collector(status=401) as collector, pytest.raises(ExportFailed, match=r"refuses \(HTTP 401: not so\)"):
        otlp.export(smooth, collector.address)
    with Collector(refuse_after=1) as collector, pytest.raises(ExportFailed, match="accepted 0 spans and then no more"):
        otlp.export(smooth, collector.address)
    assert capfd.readouterr().err == ""


def test_header_values_that_a_collector_repeats_are_hidden(smooth, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=otelsecret-1234567890,authorization=Bearer%20abc-def-ghi")
    reply = "invalid api-key otelsecret-1234567890, invalid abc-def-ghi"
    with Collector(status=401, reply=reply) as collector, pytest.raises(ExportFailed, match="HTTP 401: inv") as caught:
        otlp.export(smooth, collector.address)
    assert "otelsecret" not in str(caught.value) and "abc-def" not in str(caught.value)
    assert collector.requests[0][1]["api-key"] == "otelsecret-1234567890"


@pytest.mark.parametrize("first", [0, 1])
def test_no_redirect_is_followed_and_nothing_is_sent_there(smooth, monkeypatch, first):
    """`first` requests are taken before the collector redirects: its check, or the first batch."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=otelsecret-1234567890")
    with Collector() as other, Collector(refuse_after=first, location=f"{other.address}/v1/traces") as collector:
        with pytest.raises(ExportFailed, match="which is not followed" if first == 0 else "accepted 0 spans"):
            otlp.export(smooth, collector.address)
    assert len(collector.requests) == first + 1 and not other.requests


def test_without_the_extra_the_remedy_is_told(smooth, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    monkeypatch.delitem(sys.modules, "emend.evals.show.trace.otlp_client", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'emend-eval\[otel\]'"):
        otlp.export(smooth, "http://127.0.0.1:4318")


def test_the_command_sends_and_says_how_much(smooth):
    with Collector() as collector:
        done = CliRunner().invoke(app, ["trace", str(smooth), "--otlp", collector.address])
    assert (
        done.exit_code == 0 and f"{collector.taken} spans of 12 cases were sent to {collector.address}" in done.stdout
    )
    unknown = CliRunner().invoke(app, ["trace", str(smooth), "--otlp", "http://127.0.0.1:1", "--editor", "rug"])
    assert isinstance(unknown.exception, BadSettings) and "did you mean 'rag'" in str(unknown.exception)
