"""A trace narrows down to a node, a text or what went wrong; all of a run is told in short."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from emend.evals.cli.main import app
from emend.evals.log.lines import split_passes
from emend.evals.log.records import read_records
from emend.evals.results.aggregate.rows import report
from emend.evals.show.report.traces.case_text import markdown, show_trace
from emend.evals.show.report.traces.run_overview import show_overview
from emend.evals.show.trace.case_trace import rows, trace, trajectory
from emend.evals.show.trace.filters import RecordFilter, StepFilter
from emend.evals.show.trace.graph_paths import Edge, GraphEdges, mermaid, paths_of
from emend.evals.show.trace.overview import draw_paths, overview
from emend.memory.errors import BadData, BadSettings, EmendError
from tests.evals.show.trace.test_graph_paths import steps_through
from tests.evals.toy_runs import go
from tests.evals.toys import EDITOR
from tests.evals.traced_runs import smooth_run
from tests.provider.models import asked_model
from tests.provider.server import Provider
from tests.provider.speaking import believes

EDITORS = ["rag", "my_graph:Quoter", "a:Twin", "b:Twin"]
LOOP = GraphEdges(
    graph="loop",
    nodes=("plan", "use", "say"),
    edges=(
        Edge("__start__", "plan"), Edge("plan", "use", True), Edge("plan", "say", True), Edge("use", "plan"),
        Edge("say", "__end__"),
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "full"), [("rag", "rag"), ("Quoter", "my_graph:Quoter"), ("my_graph:Quoter", "my_graph:Quoter"),
                       ("Twin", "Twin"), ("nope", "nope"), ("quoter", "my_graph:Quoter"), ("RAG", "rag")],
)  # fmt: skip
def test_an_own_editor_is_found_by_its_short_name_if_no_other_has_it(name, full):
    assert RecordFilter(editor=name).with_full_name(EDITORS).editor == full


def shown(folder, case, width=100, **wanted):
    file = io.StringIO()
    show_trace(trace(folder, case, steps=StepFilter(**wanted)), Console(file=file, width=width))
    return file.getvalue()


def short(folder, width=100, **wanted):
    file = io.StringIO()
    show_overview(
        overview(folder, steps=StepFilter(**wanted)), folder, StepFilter(**wanted), Console(file=file, width=width)
    )
    return file.getvalue()


def command(*words):
    return CliRunner().invoke(app, ["trace", *map(str, words)])


def test_a_node_is_shown_alone_and_an_unknown_one_names_the_nearest(smooth):
    traced = trace(smooth, "1", records=RecordFilter(editor="rag"), steps=StepFilter(node="compose"))
    assert {step["node"] for probe in traced.probes for step in probe.visible_steps} == {"compose"}
    assert all(len(probe.steps) > len(probe.visible_steps) for probe in traced.probes)
    text = shown(smooth, "1", node="compose")
    assert "2 compose" in text and "respond" not in text and "4 other steps not shown" in text
    for asked in (lambda: trace(smooth, "1", steps=StepFilter(node="retreive")),
                  lambda: overview(smooth, steps=StepFilter(node="retreive"))):  # fmt: skip
        with pytest.raises(BadSettings, match="no node 'retreive': did you mean 'retrieve'"):
            asked()


@pytest.mark.slow
def test_a_text_is_found_wherever_it_stands_in_either_case_and_in_the_step_of_the_node(smooth):
    traced = trace(smooth, "2", records=RecordFilter(editor="rag"), steps=StepFilter(grep="capital of LAND1 is new"))
    steps = [step["node"] for probe in traced.probes for step in probe.visible_steps]
    assert set(steps) == {"retrieve", "compose", "respond"}  # the hit, the prompt, and what the model was asked
    with pytest.raises(BadSettings, match="nothing in case 2 fits text 'zebra': it ran compose, respond, ret"):
        trace(smooth, "2", steps=StepFilter(grep="zebra"))
    with pytest.raises(BadSettings, match="nothing in '.*' fits node 'compose' and text 'zebra'"):
        overview(smooth, steps=StepFilter(grep="zebra", node="compose"))
    summary = overview(smooth, steps=StepFilter(grep="Land4"))
    assert {row.number for row in summary.cases} == {5}
    assert all("Land4" in row.finding for row in summary.cases)
    traced = trace(smooth, "1", records=RecordFilter(editor="rag"), steps=StepFilter(node="retrieve", grep="New-0"))
    assert {step["node"] for probe in traced.probes for step in probe.visible_steps} == {"retrieve"}


def test_nothing_went_wrong_is_no_error_and_no_column_of_retries(smooth):
    assert "no step failed, was retried or is unscored" in shown(smooth, "1", errors=True)
    assert "no step failed, was retried or is unscored" in short(smooth, errors=True)
    assert command(smooth, "1", "--errors").exit_code == 0
    assert not [row for row in report(smooth).costs if row.metric == "retries/probe"]


def test_retries_stand_in_the_step_in_which_they_happened(rough):
    traced = trace(rough, "1", steps=StepFilter(errors=True))
    retried = [probe for probe in traced.probes if probe.record.kind == "neighborhood"]
    (step,) = retried[0].visible_steps
    assert step["node"] == "respond"
    items = [(attempt["attempt"], attempt["error"], attempt["status"]) for attempt in step["calls"][0]["retries"]]
    assert items == [(1, "RateLimited", 429), (2, "ModelUnreachable", 503)]
    text = shown(rough, "1", errors=True)
    assert "2 retries" in text and "attempt 1 failed: RateLimited (HTTP 429); waited 0.0" in text


@pytest.mark.slow
@pytest.mark.parametrize("text", ["RateLimited", "http 429", "attempt 2 failed: ModelUnreachable (HTTP 503)"])
def test_retries_are_found_as_they_are_shown(rough, text):
    traced = trace(rough, "1", steps=StepFilter(grep=text))
    assert [step["node"] for probe in traced.probes for step in probe.visible_steps] == ["respond"]
    assert [row.number for row in overview(rough, steps=StepFilter(grep=text)).cases] == [1]


def test_retries_are_counted_per_probe_node_case_and_run(rough):
    assert sum(record.usage.retries for record in read_records(rough)) == 2
    summary = overview(rough)
    assert {row.node: row.retries for row in summary.nodes} == {"retrieve": 0, "compose": 0, "respond": 2}
    assert [row.retries for row in summary.cases] == [2, 0, 0, 0]
    (row,) = [row for row in report(rough).costs if row.metric == "retries/probe"]
    assert row.mean == pytest.approx(2 / 6) and row.n == 6


def test_errors_are_failed_units_steps_and_what_is_unscored_and_a_useless_reply_is_kept(rough):
    cases = {row.number: row for row in overview(rough, steps=StepFilter(errors=True)).cases}
    assert (cases[2].failed, cases[2].probes) == (1, 0) and cases[2].finding.startswith("RequestRefused: ")
    assert (cases[4].errors, cases[4].unscored) == (1, 2) and cases[4].finding.startswith("ReplyRefused: ")
    assert cases[1].finding == "respond was retried: RateLimited, ModelUnreachable"
    assert (cases[3].errors, cases[3].retries, cases[3].unscored) == (0, 0, 1)
    assert "rag failed" in shown(rough, "2", errors=True)
    (probe,) = [probe for probe in trace(rough, "4").probes if probe.record.kind == "neighborhood"]
    (call,) = probe.steps[-1]["calls"]
    assert call["reply"]["content"] == "I will not say that." and call["input_tokens"] > 0
    assert call["messages"][0]["content"] == probe.steps[1]["update"]["prompt"]


def test_of_an_unscored_probe_without_failed_steps_a_text_is_found_in_its_record(rough):
    traced = trace(rough, "3", steps=StepFilter(errors=True, grep="LAND2"))
    assert [[step["node"] for step in probe.visible_steps] for probe in traced.probes if probe.visible_steps] == [
        ["respond"]
    ]
    assert not any(
        probe.visible_steps for probe in trace(rough, "3", steps=StepFilter(errors=True, grep="zebra")).probes
    )


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(rough, smooth, width):
    for text in (shown(rough, "4", width), shown(smooth, "1", width), short(rough, width), short(smooth, width)):
        lines = text.splitlines()[:-1]  # the last may be a command, which is not broken
        assert max(map(len, lines)) <= width, max(lines, key=len)


def test_what_the_model_was_asked_is_whole_again_though_kept_once(smooth):
    (probe,) = [
        record
        for record in trace(smooth, "1", records=RecordFilter(editor="rag")).probes
        if record.record.kind == "efficacy"
    ]
    for step in probe.steps[2], probe.steps[5]:
        (call,) = step["calls"]
        assert list(call["messages"]) == [{"role": "user", "content": probe.steps[1]["update"]["prompt"]}]
    assert probe.steps[2]["calls"][0]["reply"] == {"role": "assistant", "content": "New-0"}
    assert [call["kind"] for step in probe.steps for call in step["calls"]] == ["chat", "score"]


def test_records_hold_the_way_through_the_graph_and_walks_are_told_apart(smooth):
    ways = {record.path for record in read_records(smooth) if record.editor == "rag"}
    walk = ("retrieve", "compose", "respond")
    assert ways == {walk, walk * 2}  # asked for a text, and some for probabilities besides
    steps = [{"node": "a", "place": 1}, {"node": "b", "place": 2}, {"node": "a", "place": 3}, {"node": "a", "place": 1}]
    assert [len(walk) for walk in split_passes(steps)] == [3, 1]


def test_a_trajectory_is_a_conversation_in_openais_form(smooth):
    (row,) = [row for row in rows(trace(smooth, "1", records=RecordFilter(editor="rag"))) if row["kind"] == "efficacy"]
    result = row["trajectory"]
    assert [message["role"] for message in result] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    calls = [message["tool_calls"][0] for message in result if message.get("tool_calls")]
    assert [call["function"]["name"] for call in calls] == ["retrieve", "compose"]
    assert [call["id"] for call in calls] == [
        message["tool_call_id"] for message in result if message["role"] == "tool"
    ]
    assert json.loads(result[2]["content"])["hits"][0]["text"] == "The capital of Land0 is New-0."
    assert result[0]["content"] == row["prompt"] and result[-1] == {"role": "assistant", "content": "New-0"}


def test_a_model_that_calls_tools_itself_keeps_its_own_conversation(smooth):
    record = next(iter(read_records(smooth)))
    said = [
        {"type": "human", "data": {"content": "Where?", "type": "human"}},
        {"type": "ai", "data": {"content": "", "type": "ai", "tool_calls": [
            {"name": "lookup", "args": {"subject": "x"}, "id": "1", "type": "tool_call"}]}},
        {"type": "tool", "data": {"content": "here", "type": "tool", "tool_call_id": "1", "name": "lookup"}},
        {"type": "ai", "data": {"content": "Here.", "type": "ai"}},
    ]  # fmt: skip
    steps = [{"node": "plan", "place": 1, "update": {"messages": said}}, {"node": "say", "place": 2, "update": {}}]
    result = trajectory(record, steps)
    assert [message["role"] for message in result] == ["user", "assistant", "tool", "assistant"]
    assert result[1]["tool_calls"][0]["function"] == {"name": "lookup", "arguments": '{"subject": "x"}'}


@pytest.mark.parametrize("kept", [None, [], "x", [3], [{"role": "user", "content": "x"}], [{"type": "ai", "data": 3}]])
def test_a_state_whose_messages_are_no_conversation_is_told_by_its_nodes(smooth, kept):
    record = next(iter(read_records(smooth)))
    steps = [{"node": "plan", "place": 1, "update": {"messages": kept}}, {"node": "say", "place": 2, "update": {}}]
    assert [message["role"] for message in trajectory(record, steps)] == ["user", "assistant", "tool", "assistant"]


def test_a_run_of_an_agent_is_traced(tmp_path, keys):
    pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")
    with Provider(believes) as provider:
        go(tmp_path / "run", asked_model(provider), editors=("agent",), embedding="lexical", limit=1)
    (row, *_) = rows(trace(tmp_path / "run", "1", records=RecordFilter(kind="efficacy")))
    assert [message["role"] for message in row["trajectory"]][:4] == ["system", "user", "assistant", "tool"]
    assert overview(tmp_path / "run").nodes


def path(*nodes):
    return paths_of(LOOP, steps_through(*nodes))


def test_the_way_taken_is_marked_with_numbers_of_steps_or_times_and_names_stay_inside():
    text = mermaid(LOOP, [*path("plan", "use", "plan", "say")])
    assert 'n0 ==>|"1"| n1' in text and 'n1 ==>|"2"| n2' in text and 'n2 ==>|"3"| n1' in text
    assert 'n1 ==>|"4"| n3' in text and 'n3 ==>|"5"| n4' in text and "class n0,n1,n2,n3,n4 taken" in text
    text = mermaid(LOOP, [*path("plan", "say")])
    assert "n1 -.-> n2" in text and "n2 --> n1" in text and "class n0,n1,n3,n4 taken" in text
    text = mermaid(LOOP, [*path("plan", "say"), *path("plan", "use", "plan", "say"), *path("plan", "say")])
    assert 'n0 ==>|"3x"| n1' in text and 'n1 ==>|"1x"| n2' in text and 'n3 ==>|"3x"| n4' in text
    text = mermaid(GraphEdges(graph="g", nodes=('a"]; click',), edges=()), path('a"]; click'))
    assert 'n1("a#quot;]; click")' in text


def test_the_command_draws_one_graph_per_editor_that_has_one(smooth, tmp_path):
    text = command(smooth, "1", "--mermaid").stdout
    assert text.count("graph TD") == 1 and "%% rag, plain: 2 probes through the graph rag" in text
    assert 'n0 ==>|"1"| n1' in text and 'n1("retrieve")' in text
    assert "12 probes" in draw_paths(smooth, records=RecordFilter(editor="rag"))
    output = command(smooth, "1", "--mermaid", "--out", tmp_path / "way.mmd")
    assert output.exit_code == 0 and (tmp_path / "way.mmd").read_text(encoding="utf-8") == text
    with pytest.raises(BadSettings, match="no graph was run"):
        draw_paths(smooth, "1", records=RecordFilter(editor=EDITOR))


def test_markdown_has_prompt_reply_and_drawing_and_nothing_of_a_model_is_markup(smooth, tmp_path):
    text = markdown(trace(smooth, "1", records=RecordFilter(editor="rag", kind="efficacy")))
    assert text.startswith("# case 1 (") and "```mermaid\ngraph TD" in text
    assert "```text\nNew Fact: The capital of Land0 is New-0.\nPrompt: The capital of Land0 is\n```" in text
    assert "**3 respond**" in text and "as above" in text
    traced = trace(smooth, "1", records=RecordFilter(editor="rag", kind="efficacy"))
    probe = traced.probes[0]
    rude = probe.record.model_copy(update={"answer": "<img src=x> [a](b) `c` **d**"})
    steps = ({**probe.steps[0], "update": {"note": "```\n# out\n```\x1b[2J"}},)
    probe = probe.model_copy(update={"record": rude, "visible_steps": steps})
    text = markdown(traced.model_copy(update={"probes": (probe,)}))
    assert r"\<img src=x\> \[a\](b) \`c\` \*\*d\*\*" in text
    assert "````text\n```\n# out\n```\\x1b[2J\n````" in text
    output = command(smooth, "1", "--editor", "rag", "--md", "--out", tmp_path / "case.md")
    assert output.exit_code == 0 and (tmp_path / "case.md").read_text(encoding="utf-8").startswith("# case 1 (")


def test_all_in_short_as_json_is_nodes_and_cases(smooth):
    data = json.loads(command(smooth, "--editor", "rag", "--json").stdout)["rows"]
    assert [row["node"] for row in data if "node" in row] == ["retrieve", "compose", "respond"]
    assert [row["number"] for row in data if "case" in row] == [1, 2, 3, 4, 5, 6]
    assert all(row["median_ms"] <= row["p95_ms"] for row in data if "node" in row)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("1", "--json", "--md"), "--json and --md do not go together"),
        (("1", "--mermaid", "--errors"), "--mermaid includes whole probes: leave out --node, --grep and --errors"),
        (("--md",), "--md selects within one case"),
        (("--scoring", "none"), "--scoring selects within one case"),
        (("1", "--otlp", "http://127.0.0.1:1", "--kind", "efficacy"), "--otlp sends whole cases: leave out"),
        (("1", "--out", "x.md"), "--out is the file of --md or --mermaid"),
        (("1", "--include-content"), "--include-content needs --otlp"),
        (("1", "--node", "respnd"), "case 1 has no node 'respnd': did you mean 'respond'?"),
        (("nowhere",), "no case 'nowhere'"),
        (("--editor", "rig"), "the run has no editor 'rig': did you mean 'rag'?"),
        (("--kind", "eficacy"), "the run has no probes of kind 'eficacy': did you mean 'efficacy'?"),
        (("1", "--scoring", "x"), "has no scoring 'x'"),
        (("1", "--md", "--out", "no/such/folder/x.md"), "cannot write 'no/such/folder/x.md'"),
    ],
)
def test_bad_options_are_told(smooth, words, message):
    output = command(smooth, *words)
    assert isinstance(output.exception, EmendError) and message in str(output.exception)


@pytest.mark.slow
def test_a_run_of_before_can_still_be_looked_at(tmp_path):
    folder = smooth_run(tmp_path / "old")
    path = folder / "events.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        for name in ("v", "place", "calls"):
            line.pop(name, None)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    text = shown(Path(folder), "1")
    assert "retrieve" in text and "New Fact: The capital of Land0 is New-0." in text
    assert overview(folder).nodes[0].steps == 18


@pytest.mark.slow
def test_a_folder_without_cases_or_with_records_of_another_setting_is_traced_or_refused_cleanly(tmp_path):
    folder = smooth_run(tmp_path / "run")
    records = folder / "records.jsonl"
    lines = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    records.write_text("".join(json.dumps(line | {"setting": "2020-13-45"}) + "\n" for line in lines), encoding="utf-8")
    with pytest.raises(BadSettings, match="no graph was run"):
        draw_paths(folder)
    (folder / "cases.jsonl").unlink()
    with pytest.raises(BadData, match="contains no case: restore the file"):
        trace(folder, "1")
    assert overview(folder).cases[0].number == 0
