"""Overview of the nodes and cases of a run.

It has the cost of each node, and the cases in which something failed, was retried or is unscored.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from emend.evals.case import Record
from emend.evals.log.lines import CASES, ERRORS, EVENTS, RECORDS, StepLine, steps_from_events
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import (
    parse_record,
    read_json_lines,
    read_lines,
    read_parsed,
    read_records,
    require_records,
)
from emend.evals.log.run_index import RunIndex
from emend.evals.log.run_table import RunTable
from emend.evals.log.table_sources import RECORD_SOURCE, STEP_SOURCE
from emend.evals.log.table_sources import text as literal
from emend.evals.show.trace.case_trace import open_failures, trace
from emend.evals.show.trace.filters import (
    ALL_RECORDS,
    ALL_STEPS,
    RecordFilter,
    StepFilter,
    text_of,
    texts_of,
)
from emend.evals.show.trace.graph_paths import Path as GraphPath
from emend.evals.show.trace.graph_paths import edges_of, mermaid, paths_of
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.json_files import JsonLine
from emend.memory.registry import nearest

# Number of characters shown on each side of a match of a search.
CONTEXT = 40


class NodeRow(FrozenModel):
    """Statistics of one node under one editor, over the steps of all probes.

    Times are in milliseconds, as median and 95th percentile; tokens and calls are sums over model
    calls.
    """

    editor: str
    node: str
    steps: int
    median_ms: float
    p95_ms: float
    calls: int
    input_tokens: int
    output_tokens: int
    retries: int
    errors: int


class CaseRow(FrozenModel):
    """Statistics of one case under one editor.

    `finding` is an excerpt with the searched text, or else the worst problem.
    """

    case: str
    number: int
    setting: str
    editor: str
    probes: int
    steps: int
    seconds: float
    retries: int
    errors: int
    unscored: int
    failed: int
    finding: str = ""


class Overview(FrozenModel):
    """Statistics of nodes, in the order of their first steps, and of cases, in the run's order."""

    nodes: tuple[NodeRow, ...]
    cases: tuple[CaseRow, ...]


@dataclass
class _CaseSums:
    """Sums over one case under one editor, and its worst problem."""

    setting: str
    case: str
    editor: str
    probes: int = 0
    steps: int = 0
    seconds: float = 0.0
    retries: int = 0
    errors: int = 0
    unscored: int = 0
    finding: str = ""
    failed: int = 0
    number: int = 0


_STEP: Callable[[Any], Any] = TypeAdapter(StepLine).validate_python
_ROWS = TypeAdapter(tuple[CaseRow, ...])
# Setting, case, editor.
CaseKey = tuple[str, str, str]
# Views of the matching records and steps; the steps of a repeated record belong to its last line,
# so that their number does not multiply. If errors are searched for, the steps include the last one
# of unscored probes without an error, which shows what could not be scored.
VIEWS = (
    """
CREATE VIEW chosen_records AS SELECT r.*, cardinality(unscored) > 0 AS is_unscored, excerpt
FROM record_lines r LEFT JOIN matches m ON NOT is_step AND m.line = r.line WHERE {records}
""",
    """
CREATE VIEW steps AS SELECT s.*, record, editor, m.excerpt
FROM (SELECT unit, probe, max(line) AS record, any_value(editor) AS editor FROM chosen_records
    GROUP BY unit, probe)
JOIN step_lines s USING (unit, probe) LEFT JOIN matches m ON is_step AND m.line = s.line
""",
    "CREATE VIEW fitting_steps AS SELECT * FROM steps WHERE {steps}",
    """
CREATE VIEW last_steps AS SELECT * FROM steps WHERE line IN (
    SELECT max(line) FROM steps WHERE record IN (SELECT line FROM chosen_records WHERE {probes})
    AND record NOT IN (SELECT record FROM fitting_steps) GROUP BY record)
""",
    "CREATE VIEW chosen_steps AS FROM fitting_steps {further}",
)
NODES = """
SELECT editor, node, count(*), median(ms),
    list_sort(list(ms))[least(count(*), floor(0.95::DOUBLE * count(*))::BIGINT + 1)],
    sum(calls), sum(input_tokens), sum(output_tokens), sum(retries), count(*) FILTER (error != '')
FROM chosen_steps GROUP BY editor, node ORDER BY min(line)
"""
# Sums by case and editor, and the worst problem (the first one of the same rank).
CASES_ASKED = """
WITH sums AS (
    SELECT record, count(*) AS steps, sum(retries) AS retries, count(*) FILTER (error != '') AS
        errors,
        arg_min(error, line) FILTER (error != '') AS error, arg_min(excerpt, line) AS step_excerpt,
        arg_min(node || ' was retried: ' || retry_errors, line) FILTER (retries > 0) AS retry
    FROM chosen_steps GROUP BY record
), probes AS (
    SELECT *, {finding} AS finding,
        CASE WHEN {grep} THEN 1 WHEN error != '' THEN 3 WHEN retry != '' THEN 2 ELSE 1 END AS rank
    FROM chosen_records LEFT JOIN sums ON record = line WHERE steps > 0 OR ({probes})
)
SELECT setting, case_id, editor, count(*), coalesce(sum(steps), 0), sum(seconds),
    coalesce(sum(retries), 0),
    coalesce(sum(errors), 0), count(*) FILTER (is_unscored),
    coalesce(arg_max(finding, rank * 1000000000000 - line) FILTER (finding != ''), '')
FROM probes GROUP BY setting, case_id, editor ORDER BY min(line)
"""


def overview(
    folder: Path, records: RecordFilter = ALL_RECORDS, steps: StepFilter = ALL_STEPS
) -> Overview:
    """Summarise the nodes and cases of a run, or those with matching steps.

    Args:
        folder: a run folder.
        records: filter of records.
        steps: filter of steps; other steps are not counted, and cases without a matching step or
            probe are left out.

    Raises:
        BadSettings: an editor, kind or node is unknown, or nothing matches; an empty result of
            `errors` is allowed.
        BadData: the folder does not contain a run, or a line is damaged.
    """
    manifest = Manifest.read(folder)
    if records.editor is not None and records.editor not in manifest.config.editors:
        editors = list(manifest.config.editors)
        raise BadSettings(
            f"the run has no editor '{records.editor}': {nearest(records.editor, editors)}"
        )
    require_records(folder)
    with RunTable(folder, [RECORD_SOURCE, STEP_SOURCE]) as table:
        _check_names(table, manifest, records, steps)
        probes = _make_views(table, records, steps)
        nodes = tuple(map(_node_row, table.rows(NODES)))
        cases = {row[:3]: _CaseSums(*row) for row in table.rows(CASES_ASKED.format(**probes))}
        _add_failures(table, records, steps, cases)
    if not (cases or steps.errors or steps.is_empty):
        raise BadSettings(f"nothing in '{folder}' fits {steps}.")
    return Overview(nodes=nodes, cases=_case_rows(folder, cases))


def _check_names(
    table: RunTable, manifest: Manifest, records: RecordFilter, steps: StepFilter
) -> None:
    """Check that the run has the node and the kind of the filters.

    Raises:
        BadSettings: the node or kind is unknown.
    """
    if steps.node is not None:
        ran = {
            node for (node,) in table.rows("SELECT DISTINCT node FROM step_lines WHERE node != ''")
        }
        graphs = [
            graph for setting in manifest.cases for graph in edges_of(manifest, setting).values()
        ]
        steps.check_node(ran.union(*(graph.nodes for graph in graphs)), "the run")
    if records.kind is not None:
        query = "SELECT DISTINCT kind FROM record_lines WHERE editor = $1 OR $1 IS NULL"
        kinds = sorted(kind for (kind,) in table.rows(query, records.editor))
        if records.kind not in kinds:
            raise BadSettings(
                f"the run has no probes of kind '{records.kind}': {nearest(records.kind, kinds)}"
            )


def _make_views(table: RunTable, records: RecordFilter, steps: StepFilter) -> dict[str, str]:
    """Create the views of matching records and steps.

    Return the values for `CASES_ASKED`, among them the condition on probes without a matching step.
    """
    _add_matches(table, steps.grep)
    words = {
        "records": " AND ".join(_record_conditions(records)) or "true",
        "steps": " AND ".join(_step_conditions(steps)) or "true",
        "probes": " AND ".join(_probe_conditions(steps)) or "true",
        "further": "",
    }
    if steps.errors:
        words["further"] = "UNION ALL FROM last_steps"
    for view in VIEWS:
        table.connection.execute(view.format(**words))
    finding = "coalesce(error, retry, map_values(unscored)[1])"
    if steps.grep:
        finding = "coalesce(step_excerpt, excerpt)"
    return {"probes": words["probes"], "finding": finding, "grep": str(bool(steps.grep))}


def _record_conditions(records: RecordFilter) -> Iterator[str]:
    for name, value in records.model_dump(exclude_none=True).items():
        if name == "probe":
            yield f"starts_with({name}, {literal(value)})"
        else:
            yield f"{name} = {literal(value)}"


def _step_conditions(steps: StepFilter) -> Iterator[str]:
    if steps.node is not None:
        yield f"node = {literal(steps.node)}"
    if steps.grep:
        yield "excerpt IS NOT NULL"
    if steps.errors:
        yield "(error != '' OR retries > 0)"


def _probe_conditions(steps: StepFilter) -> Iterator[str]:
    """Yield the conditions for probes without a matching step; if a node is given, none matches."""
    if steps.node is not None:
        yield "false"
    elif steps.grep:
        yield "excerpt IS NOT NULL"
    if steps.errors:
        yield "is_unscored"


def _add_matches(table: RunTable, text: str | None) -> None:
    """Create the table of lines that contain a text; it is empty if no text is given."""
    table.connection.execute("CREATE TABLE matches (line BIGINT, is_step BOOLEAN, excerpt VARCHAR)")
    if not text:
        return
    matches = list(_matches(table.folder, text))
    if not matches:
        return
    # imported here: it takes 0.1 s, and few overviews search for a text
    import numpy as np

    columns = zip(("line", "is_step", "excerpt"), zip(*matches, strict=True), strict=True)
    arrays = {name: np.array(values, object) for name, values in columns}
    table.connection.register("new_matches", arrays)
    table.connection.execute("INSERT INTO matches SELECT * FROM new_matches")


def _matches(folder: Path, text: str) -> Iterator[tuple[int, bool, str]]:
    """Yield (line number, is a step, excerpt) of the steps and records that contain a text."""
    for _, unit in groupby(read_json_lines(folder, EVENTS), lambda line: line.fields.get("unit")):
        by_probe: dict[str, list[JsonLine]] = {}
        for line in unit:
            if "node" in line.fields:
                by_probe.setdefault(line.fields.get("probe", ""), []).append(line)
        for lines in by_probe.values():
            steps = steps_from_events(_STEP(each.fields) for each in lines)
            for line, step in zip(lines, steps, strict=True):
                whole = text_of(step)
                if text.casefold() in whole.casefold():
                    yield line.number, True, _excerpt(text, [whole])
    for line in read_parsed(folder / RECORDS, parse_record):
        texts = texts_of(line.fields)
        if text.casefold() in "\n".join(texts).casefold():
            yield line.number, False, _excerpt(text, texts)


def _node_row(values: tuple[Any, ...]) -> NodeRow:
    row = dict(zip(NodeRow.model_fields, values, strict=True))
    return NodeRow(**row | {name: round(row[name], 3) for name in ("median_ms", "p95_ms")})


def _with_steps(folder: Path, editor: str | None) -> Iterator[tuple[Record, list[dict[str, Any]]]]:
    """Yield each record of an editor, or of all, with its steps."""
    unit, events = "", dict[str, list[dict[str, Any]]]()
    with RunIndex(folder) as index:
        for record in read_records(folder):
            if editor is not None and record.editor != editor:
                continue
            if record.unit != unit:
                unit, events = record.unit, index.events(record.unit)
            yield record, list(steps_from_events(events.get(record.probe, ())))


def _excerpt(text: str, texts: Sequence[str]) -> str:
    """Return the first match of a text with some context."""
    for whole in texts:
        at = whole.casefold().find(text.casefold())
        if at >= 0:
            start, end = max(0, at - CONTEXT), at + len(text) + CONTEXT
            before, after = "…" * (start > 0), "…" * (end < len(whole))
            return f"{before}{whole[start:end]}{after}"
    return ""


def _add_failures(
    table: RunTable, records: RecordFilter, steps: StepFilter, cases: dict[CaseKey, _CaseSums]
) -> None:
    """Count the failed units that were not finished later, each once."""
    if records.kind is not None or next(read_lines(table.folder, ERRORS), None) is None:
        return
    finished = {unit for (unit,) in table.rows("SELECT DISTINCT unit FROM record_lines")}
    last = {line["unit"]: line for line in open_failures(table.folder, finished)}
    for line in last.values():
        if records.editor in (None, line["editor"]) and steps.fits_failure(line):
            key = line["setting"], line["case"], line["editor"]
            case = cases.setdefault(key, _CaseSums(*key))
            case.failed += 1
            case.finding = case.finding or f"{line['error']}: {line['message']}"


def _case_rows(folder: Path, cases: dict[CaseKey, _CaseSums]) -> tuple[CaseRow, ...]:
    numbers = {
        (line["setting"], line["case"]): line["number"] for line in read_lines(folder, CASES)
    }
    names = dict.fromkeys(setting for setting, _ in numbers)
    settings = {setting: position for position, setting in enumerate(names)}
    for sums in cases.values():
        sums.number, sums.seconds = (
            numbers.get((sums.setting, sums.case), 0),
            round(sums.seconds, 6),
        )
    rows = sorted(cases.values(), key=lambda sums: (settings.get(sums.setting, 0), sums.number))
    return _ROWS.validate_python(rows, from_attributes=True)


def draw_paths(folder: Path, case: str | None = None, records: RecordFilter = ALL_RECORDS) -> str:
    """Return a Mermaid diagram per editor, with the paths of a case or of all cases.

    Raises:
        BadSettings: a case, probe, editor or kind is unknown, or the editors have no graph.
        BadData: the folder does not contain a run, or a line is damaged.
    """
    manifest = Manifest.read(folder)
    graphs = {setting: edges_of(manifest, setting) for setting in manifest.cases}
    probes = Counter[tuple[str, str]]()
    paths = defaultdict[tuple[str, str], list[GraphPath]](list)
    for record, steps in _selected(folder, case, records):
        if graph := graphs.get(record.setting, {}).get(record.editor):
            probes[record.setting, record.editor] += 1
            paths[record.setting, record.editor] += paths_of(graph, steps)
    texts = []
    for (setting, name), count in probes.items():
        graph = graphs[setting][name]
        head = f"%% {name}, {setting}: {count} probes through the graph {graph.graph}"
        texts.append(f"{head}\n{mermaid(graph, paths[setting, name])}")
    if not texts:
        raise BadSettings(
            f"no graph was run: the editors are {', '.join(manifest.config.editors)}."
        )
    return "\n\n".join(texts)


def _selected(
    folder: Path, case: str | None, records: RecordFilter
) -> Iterator[tuple[Record, Sequence[dict[str, Any]]]]:
    if case is not None:
        for probe in trace(folder, case, records, scoring="none").probes:
            yield probe.record, probe.steps
    else:
        for record, steps in _with_steps(folder, records.editor):
            if records.fits(record):
                yield record, steps
