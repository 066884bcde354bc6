"""Every page of the viewer is there, and its numbers are those of the commands."""

import json
import shutil
import time
from urllib.parse import parse_qs

import pytest

from emend.evals.judging.panel import Panel
from emend.evals.log.lines import CASES
from emend.evals.log.records import read_lines
from emend.evals.results.aggregate.rows import report
from emend.evals.results.aggregate.tables import LabelledReport, TableChoice, metric_tables
from emend.evals.show.view.environment import render
from emend.evals.show.view.pages.steps import pass_views
from emend.evals.show.view.site import PageMissing, Site
from emend.evals.show.view.views import CellView
from tests.evals.command_line import caller
from tests.evals.judged_runs import judge_model, scored
from tests.evals.made import record, write_run
from tests.evals.toy_runs import go

ENDS = ("difference", "low", "high")
NAMES = ("index", "cases", "retrieval", "judges", "errors", "live")
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def command(monkeypatch, capsys):
    return caller(monkeypatch, capsys)


def pages_of(site):
    """All pages of a site by path, complete."""
    site.library.patient = site.library.results._patient = True
    names = ["index.html", "about.html", "compare.html"]
    for run in site.runs():
        names += [f"run/{run.id}/{name}.html" for name in NAMES]
        names += site.case_paths(run.id, "all") + site.compare_paths(run.id)
    pages = {path: site.page(path) for path in names}
    flips = [flip.href for page in pages.values() for pair in getattr(page.data, "pairs", ()) for flip in pair.flips]
    return pages | {path: site.page(path) for path in flips}


def numbers(row):
    return {name: row[name] for name in ("mean", "low", "high", "n", "unscored")}


def numbers_of(cell: CellView):
    return numbers(cell.model_dump())


@pytest.fixture
def judged(judgeable, tmp_path):
    folder = shutil.copytree(judgeable["recoe"], tmp_path / "judged")
    replies = iter("yes no yes yes no no".split() * 50)
    model = judge_model()
    model.reply = lambda prompt: json.dumps({"reason": "r", "verdict": next(replies)})
    scored(folder, model, Panel(judges=("openai:judge",), repeats=3), kinds=["coherence"])
    return folder


@pytest.fixture
def sequential(tmp_path):
    go(tmp_path / "sequential", mode="sequential", reevaluate_at="2", benchmark_options={"cases": "4"})
    return tmp_path / "sequential"


def test_every_page_is_shown_with_its_numbers(smooth, rough, judged, sequential, command):
    with Site([smooth, rough, judged, sequential]) as site:
        pages = pages_of(site)
        assert len(pages) > 40
        for path, page in pages.items():
            html = render(page)
            assert page.status == 200 and page.head.title in html.replace("&#39;", "'"), path
            assert page.head.refresh == 0 or path.endswith("live.html")
        for run in site.runs():
            page = pages[f"run/{run.id}/index.html"].data
            rows = command("report", run.folder, "--json").rows
            cells = [
                numbers_of(cell)
                for grid in (*page.tables, *page.other_protocols, *page.costs)
                for row in grid.rows
                for cell in row.cells
                if cell
            ] + [numbers_of(point.cell) for curve in page.forgetting for point in curve.points]
            assert sorted(map(str, cells)) == sorted(str(numbers(row)) for row in rows)
            html = render(pages[f"run/{run.id}/index.html"])
            shown = [cell for grid in page.tables for row in grid.rows for cell in row.cells if cell]
            assert all(cell.text in html and cell.interval in html for cell in shown)
        assert any(
            page.data.forgetting for path, page in pages.items() if path.endswith("index.html") and "run/" in path
        )


def test_a_comparison_has_the_numbers_of_the_command(smooth, command):
    with Site([smooth]) as site:
        pages = pages_of(site)
        run = site.runs()[0]
        (pair,) = pages[f"compare/{run.id}.0~{run.id}.1.html"].data.pairs
        a, b = run.editors
        rows = command("compare", smooth, "--editor-a", a, "--editor-b", b, "--json").rows
        scales = {metric.name: metric.scale for metric in site.library.scan.runs()[run.id].manifest.metrics}
        expected = [
            (row["metric"], row["kind"], row["n"], *(row[end] and row[end] * scales[row["metric"]] for end in ENDS))
            for row in rows
            if "metric" in row
        ]
        listed = [(row.metric, row.kind, row.paired.n, row.mean, row.low, row.high) for row in pair.rows]
        names = {row.metric for row in pair.rows}
        assert listed == [row for row in expected if row[0] in names]
        notes = " ".join(note for note in pair.notes if note.startswith("not shown"))
        assert all(row[0].split()[0] in notes for row in expected if row[0] not in names)
        for row in pair.rows:
            if row.cells:
                counts = row.cells
                total = counts.both + counts.only_a + counts.only_b + counts.neither
                share = (counts.only_b - counts.only_a) / total * scales[row.metric]
                assert total == row.paired.n and row.mean == pytest.approx(share)
        assert any(row.cells for row in pair.rows)
        for flip in pair.flips:
            beside = pages[flip.href].data
            assert {flip.a.verdict, flip.b.verdict} == {"right", "wrong"}
            assert any(each.flipped and each.a.record == flip.a.record for each in beside.pairs)
        assert pair.flips_total == len(pair.flips)


@pytest.mark.slow
def test_a_case_that_two_runs_number_differently_is_shown_beside_itself(smooth, tmp_path):
    other = shutil.copytree(smooth, tmp_path / "other")

    def change(name, field, value):
        lines = [json.loads(line) for line in (smooth / name).read_text("utf-8").splitlines()]
        changed = [json.dumps(line | {field: value(line[field])}) + "\n" for line in lines]
        (other / name).write_text("".join(changed), encoding="utf-8")

    change("cases.jsonl", "number", lambda number: 9 - number)
    change("records.jsonl", "values", lambda values: {name: 1 - value for name, value in values.items()})
    with Site([smooth, other], static=True) as site:
        first, second = (next(run.id for run in site.runs() if run.name == name) for name in (smooth.name, "other"))
        (pair,) = site.page(f"compare/{first}.0~{second}.0.html").data.pairs
        assert pair.flips and first != second
        for flip in pair.flips:
            beside = site.page(flip.href).data
            assert flip.a.number + flip.b.number == 9
            assert (flip.a.record, flip.b.record) in [(each.a.record, each.b.record) for each in beside.pairs]


@pytest.mark.slow
def test_the_filters_of_cases_choose_the_answers_that_the_trace_lists(rough, smooth, command):
    with Site([rough, smooth]) as site:
        pages_of(site)
        for run in site.runs():
            path = f"run/{run.id}/cases.html"
            kinds = list(site.page(path).data.counts["kind"])
            filters = [{"verdict": "wrong"}, {"verdict": "right"}, {"verdict": "wrong", "kind": kinds[0]}]
            filters += [{"where": f"{run.editors[0]} right, {run.editors[-1]} wrong"}]
            for chosen in filters:
                data = site.page(path, {name: [value] for name, value in chosen.items()}).data
                options = [
                    word
                    for name, value in chosen.items()
                    for word in ([f"--{value}"] if name == "verdict" else [f"--{name}", value])
                ]
                rows = command("trace", run.folder, *options, "--json").rows
                assert data.answers == len(rows)
                assert data.cases == len({(row["setting"], row["case"]) for row in rows})
                tallied = [sum((t.right, t.wrong, t.unscored)) for row in data.rows for t in row.tallies]
                assert sum(tallied) == len(rows)


def test_text_is_found_in_answers_and_edits_whatever_its_case(smooth):
    with Site([smooth]) as site:
        pages_of(site)
        path = f"run/{site.runs()[0].id}/cases.html"
        every = site.page(path).data
        title = every.rows[0].title
        assert site.page(path, {"text": [title.upper()]}).data.cases >= 1
        question = every.rows[0].example.record.prompt
        by_question = site.page(path, {"text": [question.upper()]}).data
        assert by_question.rows and all(question in row.example.record.prompt for row in by_question.rows)
        nothing = site.page(path, {"text": ["no such text"]}).data
        assert (nothing.cases, nothing.answers, nothing.rows) == (0, 0, [])


def test_the_example_of_a_case_is_a_wrong_answer_under_an_edit(tmp_path):
    lines = [
        record("1", editor="unedited", values={"em": 0.0}),
        record("1", editor="rag", values={"em": 1.0}),
        record("1", editor="ike", values={"em": 0.0}),
    ]
    cases = [{"setting": "doc", "number": 1, "case": "1", "edits": [], "tags": {}}]
    with Site([write_run(tmp_path / "run", lines, cases=cases)]) as site:
        pages_of(site)
        path = f"run/{site.runs()[0].id}/cases.html"
        assert site.page(path).data.rows[0].example.record.editor == "ike"
        assert site.page(path, {"verdict": ["right"]}).data.rows[0].example.record.editor == "rag"
        assert "nope" in site.page(path, {"editor": ["nope"]}).data.problem


@pytest.mark.slow
def test_pages_of_cases_follow_each_other_by_key(tmp_path, monkeypatch):
    monkeypatch.setattr("emend.evals.show.view.pages.cases.SIZE", 2)
    go(tmp_path / "run", benchmark_options={"cases": "5"})
    with Site([tmp_path / "run"]) as site:
        pages_of(site)
        for sort in ("number", "wrong", "slow", "tokens"):
            link, numbers_seen = f"run/{site.runs()[0].id}/cases.html?sort={sort}", []
            while link:
                path, _, query = link.partition("?")
                data = site.page(path, parse_qs(query)).data
                numbers_seen += [row.number for row in data.rows]
                link = data.next
            assert sorted(numbers_seen) == [1, 2, 3, 4, 5]
            assert sort != "number" or numbers_seen == [1, 2, 3, 4, 5]


def test_a_case_shows_steps_calls_decisions_and_failures(rough, smooth):
    with Site([rough, smooth]) as site:
        pages = pages_of(site)
        cases = [page.data for path, page in pages.items() if "/case/" in path]
        questions = [probes for case in cases for probes in case.questions]
        probes = [probe for probes in questions for probe in probes]
        steps = [step for probe in probes for part in probe.passes for step in part]
        assert all(probe.passes for probe in probes)
        hits = [hit for step in steps for hit in step.hits or ()]
        assert {"kept"} <= {hit.decision for hit in hits} and all(hit.why for hit in hits)
        assert any(hit.of_case for hit in hits)
        assert any(call.retries for step in steps for call in step.calls)
        assert any(probe.record.unscored for probe in probes)
        failures = [failure for case in cases for failure in case.failures]
        assert failures and failures[0].line["error"] and failures[0].line["message"]
        graph = next(probe.graph for probe in probes if probe.graph)
        assert {node.state for node in graph.nodes} >= {"taken"} and any(edge.walked for edge in graph.edges)
        assert any(len(probes) == 2 for probes in questions)
        errors = next(page.data for path, page in pages.items() if path.endswith("errors.html") and page.data.groups)
        assert errors.failures_total == len(failures) and errors.failures[0].href in pages


def test_entries_that_a_node_left_out_were_dropped_by_it_for_a_reason():
    entries = [{"entry_id": name, "text": f"Fact {name}.", "score": 1.0, "edit_id": name} for name in "ab"]
    judged = [{**entry, "relevance": score} for entry, score in zip(entries, (0.7, -0.99), strict=True)]
    limits = {"thresholds": {"upper": 0.5, "lower": -0.9}, "action": "correct"}
    updates = {"retrieve": {"hits": entries}, "evaluate": {"judged": judged, **limits}, "refine": {"hits": entries[:1]}}
    updates |= {"compose": {"prompt": "Fact a. Q?"}, "respond": {"reply": "A"}}
    steps = [
        {"node": node, "place": place, "after": [], "at": 0.0, "ms": 1.0, "update": update, "calls": [], "error": None}
        for place, (node, update) in enumerate(updates.items(), 1)
    ]
    (part,) = pass_views(steps, None, frozenset("a"))
    entry, dropped = part[0].hits
    assert (entry.decision, entry.of_case, dropped.decision, dropped.of_case) == ("kept", True, "dropped", False)
    assert dropped.by == "refine" and dropped.why.startswith("relevance -0.99 (thresholds upper 0.5, lower -0.9)")
    assert "action correct" in entry.why and "in the prompt" in entry.why


def test_split_votes_of_judges_are_listed(judged):
    with Site([judged]) as site:
        pages = pages_of(site)
        data = pages[f"run/{site.runs()[0].id}/judges.html"].data
        assert data.disagreements_total == len(data.disagreements) > 0
        votes = data.disagreements[0].votes
        assert len(votes) == 3 and len({str(vote.values) for vote in votes}) > 1
        assert data.disagreements[0].answer.href.partition("#")[0] in pages
        case = pages[data.disagreements[0].answer.href.partition("#")[0]].data
        assert any(probe.judged and probe.judged[0].item.judgement.reason == "r" for (probe,) in case.questions)


def test_the_page_has_the_marks_of_the_table(smooth):
    with Site([smooth], static=True) as site:
        site.library.patient = site.library.results._patient = True
        page = site.page(f"run/{site.runs()[0].id}/index.html")
    tables = metric_tables([LabelledReport(report(smooth), {})], TableChoice(all_groups=True))
    for grid, table in zip(page.data.tables, tables, strict=True):
        for position, metric in enumerate(table.metrics):
            marks = [row.cells[position].mark if row.cells[position] else "" for row in grid.rows]
            assert marks == table.marks(metric)


@pytest.mark.parametrize(
    "path",
    [
        "run/none-000000/index.html",
        "run/{id}/nothing.html",
        "run/{id}/case/9-1.html",
        "run/{id}/case/0-999.html",
        "compare/{id}.0.html",
        "compare/{id}.0~{id}.9.html",
        "compare/{id}.0~{id}.0.html",
        "compare/{id}.0~{id}.²9.html",
        "../index.html",
        "run/../index.html",
    ],
)
def test_there_is_no_other_page(smooth, path):
    with Site([smooth], static=True) as site, pytest.raises(PageMissing):
        site.page(path.format(id=site.runs()[0].id))


def test_a_damaged_run_gives_a_page_that_says_so(smooth, tmp_path):
    shutil.copytree(smooth, tmp_path / "runs" / "damaged")
    (tmp_path / "runs" / "damaged" / "records.jsonl").write_bytes(b'{"unit": 1}\n')
    (tmp_path / "runs" / "no manifest").mkdir()
    (tmp_path / "runs" / "odd").mkdir()
    (tmp_path / "runs" / "odd" / "manifest.json").write_text("{")
    with Site([tmp_path / "runs"], static=True) as site:
        run = next(iter(site.library.scan.runs()))
        assert "manifest.json" in site.page("index.html").data.problems[0]
        page = site.page(f"run/{run}/index.html")
        text = page.data.text if page.status == 422 else page.data.status.text
        assert "records.jsonl, line 1" in text
        assert site.page(f"run/{run}/cases.html").status == 422


@pytest.mark.parametrize("limit", [2**40, -1], ids=["small", "large"])
def test_the_list_of_runs_waits_for_no_run_that_cannot_be_read(smooth, tmp_path, monkeypatch, limit):
    for name in ("LOADED_AT_ONCE", "COUNTED_AT_ONCE"):
        monkeypatch.setattr(f"emend.evals.show.view.library.{name}", limit)
    shutil.copytree(smooth, tmp_path / "whole")
    shutil.copytree(smooth, tmp_path / "damaged")
    (tmp_path / "damaged" / "records.jsonl").write_bytes(b'{"unit": 1}\n')
    with Site([tmp_path]) as site:
        page, _ = wait_for(site, "index.html")
        assert {run.name: run.records is None for run in page.data.runs} == {"whole": False, "damaged": True}


def test_a_case_that_was_not_asked_yet_says_so(smooth, tmp_path):
    folder = shutil.copytree(smooth, tmp_path / "run")
    lines = (folder / "records.jsonl").read_bytes().splitlines(keepends=True)
    first = next(read_lines(folder, CASES))["case"]  # whichever ended first
    (folder / "records.jsonl").write_bytes(b"".join(line for line in lines if json.loads(line)["case"] == first))
    with Site([folder]) as site:
        run = next(iter(site.library.scan.runs()))
        pages = [site.page(f"run/{run}/case/0-{number}.html") for number in (1, 2)]
    assert sorted(page.status for page in pages) == [200, 404]
    assert any("emend resume" in page.data.text for page in pages if page.status == 404)


def wait_for(site, path):
    """The page as soon as it waits for nothing, and whether it ever waited."""
    end, waited = time.monotonic() + 60, False
    while time.monotonic() < end:
        page = site.page(path)
        if not page.head.refresh:
            return page, waited
        waited = True
        time.sleep(0.05)
    raise AssertionError(f"{path} still waits")


def test_the_rows_of_a_large_run_are_read_meanwhile(smooth, monkeypatch):
    monkeypatch.setattr("emend.evals.show.view.library.LOADED_AT_ONCE", 0)
    with Site([smooth]) as site:
        run = next(iter(site.library.scan.runs()))
        page, waited = wait_for(site, f"run/{run}/case/0-1.html")
        assert waited and page.data.questions


@pytest.mark.slow
def test_a_large_run_is_computed_by_a_process_of_its_own(smooth, tmp_path, monkeypatch, command):
    folder = shutil.copytree(smooth, tmp_path / "run")
    monkeypatch.setattr("emend.evals.show.view.library.AT_ONCE", -1)
    monkeypatch.setattr("emend.evals.show.view.results.SMALL", -1)
    for module in ("answers", "library", "results"):
        monkeypatch.setattr(f"emend.evals.show.view.{module}.LARGE", 0)
    with Site([folder]) as site:
        run = next(iter(site.library.scan.runs()))
        page, waited = wait_for(site, f"run/{run}/index.html")
        assert waited and page.data.status.records == len((folder / "records.jsonl").read_bytes().splitlines())
        monkeypatch.setattr("emend.evals.show.view.library.AT_ONCE", 10**6)  # what the process indexed is all there is
        cases, _ = wait_for(site, f"run/{run}/cases.html")
        assert cases.data.answers == page.data.status.records
        (folder / "errors.jsonl").write_bytes(b'{"unit": "u"}\n')
        (folder / "records.jsonl").write_bytes(b"[]\n")
        page, _ = wait_for(site, f"run/{run}/index.html")
        assert page.status == 422 and "records.jsonl, line 1" in page.data.text


def test_the_filter_of_errors_lists_the_cases_of_failed_units(rough):
    failed = {json.loads(line)["case"] for line in (rough / "errors.jsonl").read_text("utf-8").splitlines()}
    with Site([rough]) as site:
        site.library.patient = site.library.results._patient = True
        (run,) = site.runs()
        listed = site.page(f"run/{run.id}/cases.html", {"errors": "1"}).data
    assert failed
    assert sum(any(tally.failed for tally in row.tallies) for row in listed.rows) == len(failed)
