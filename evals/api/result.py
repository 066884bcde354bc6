"""A run as an object: its table, records, traces, comparisons, and its pages in a notebook."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.evals.case import Record
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records
from emend.evals.results.aggregate.rows import Report
from emend.evals.results.aggregate.rows import report as report_of
from emend.evals.results.aggregate.tables import LabelledReport, TableChoice, metric_tables
from emend.evals.show.report.layout import DisplayTable
from emend.memory.distribution import install_command
from emend.memory.edit import FrozenModel
from emend.memory.errors import MissingExtra

if TYPE_CHECKING:
    import pandas

    from emend.evals.results.analyses.compare import Comparison
    from emend.evals.run.results import Summary
    from emend.evals.show.trace.answers import AnswerRow
    from emend.evals.show.trace.case_trace import Trace


class RunResult:
    """A run folder, finished or not.

    Attributes:
        folder: the run folder.
        summary: what the call that made this object did; None for a run that was loaded.

    Raises:
        BadData: there is no run in the folder, or its manifest is damaged.
    """

    def __init__(self, folder: str | Path, summary: "Summary | None" = None) -> None:
        self.folder, self.summary = Path(folder), summary
        self.manifest = Manifest.read(self.folder)

    @cached_property
    def report(self) -> Report:
        """All rows of the run's report, which is computed once."""
        return report_of(self.folder)

    def table(self, *columns: str, sort: str | None = None, everything: bool = False) -> DisplayTable:
        """The table of metrics with their intervals, as `emend report` prints it.

        Args:
            columns: metrics to show; the main ones by default.
            sort: metric by which editors are sorted, best first.
            everything: show all metrics, forgetting, perplexity and costs.

        Raises:
            BadSettings: there is no such metric.
        """
        from emend.evals.show.report.metrics import render

        report, choice = self.report, TableChoice(columns, sort, everything)
        metric_tables([LabelledReport(report, {})], choice)
        return DisplayTable(lambda console: render(report, console, choice))

    def export(self, form: str, *columns: str, sort: str | None = None, everything: bool = False) -> str:
        """The table of metrics as csv, markdown, latex or html.

        Raises:
            BadSettings: there is no such form or metric.
        """
        from emend.evals.show.report.export import export

        return export([LabelledReport(self.report, {})], form, TableChoice(columns, sort, everything))

    def records(self, editor: str | None = None) -> list[Record]:
        """One record per probe, repeat and editor, or those of one editor."""
        return [record for record in read_records(self.folder) if editor in (None, record.editor)]

    def to_pandas(self, what: str = "metrics") -> "pandas.DataFrame":
        """A data frame.

        Args:
            what: `metrics`: one row per editor, setting, mode and metric with mean, low, high, n and unscored;
                `records`: one row per record, each score a column named `values.NAME`.

        Raises:
            MissingExtra: pandas is not installed.
            ValueError: neither of the two.
        """
        if what == "metrics":
            return data_frame(self.report.rows)
        if what == "records":
            return data_frame(self.records(), "values", "usage", "tags")
        raise ValueError(f"to_pandas('{what}'): write metrics or records")

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query in DuckDB's SQL over the tables `records`, `scores`, `cases`, `edits` and `errors`.

        Raises:
            BadSettings: the query is wrong.
        """
        from emend.evals.results.aggregate.database import open_database

        with open_database(self.folder) as tables:
            result = tables.query(sql)
        return [dict(zip(result.columns, row, strict=True)) for row in result.rows]

    def to_parquet(self, path: str | Path, table: str = "records") -> None:
        """Write a table as a Parquet file.

        Args:
            path: a file that ends in `.parquet`.
            table: `records`, `scores`, `cases`, `edits` or `errors`, or a query in brackets.

        Raises:
            BadSettings: the file has another ending or cannot be written, or there is no such table.
        """
        from emend.evals.results.aggregate.database import check_file, open_database

        check_file(Path(path), (".parquet",))
        with open_database(self.folder, Path(path)) as tables:
            tables.write(f"FROM {table}", Path(path))

    def trace(self, case: int | str, editor: str | None = None, probe: str | None = None) -> "TraceView":
        """The trace of a case: its number from 1, or the beginning of its id; of one editor or probe, or of all.

        Raises:
            BadSettings: there is no such case, editor or probe.
        """
        from emend.evals.show.trace.answers import RecordFilter
        from emend.evals.show.trace.case_trace import trace

        chosen = RecordFilter(editor=editor, probe=probe)
        return TraceView(trace(self.folder, str(case), chosen))

    def answers(
        self,
        *,
        wrong: bool = False,
        right: bool = False,
        score: Sequence[str] = (),
        where: str | None = None,
        editor: str | None = None,
        kind: str | None = None,
    ) -> "list[AnswerRow]":
        """Answers beside what would be right: the wrong or right ones, by score (`em=0`), or by several editors.

        Args:
            wrong: only wrong answers.
            right: only right answers.
            score: conditions on scores, such as `em=0` or `magnitude<0.5`.
            where: verdicts of editors on the same probe, such as `rag right, mello wrong`.
            editor: answers of this editor only.
            kind: probes of this kind only.

        Raises:
            BadSettings: no such editor, kind or score, or a condition of another form.
        """
        from emend.evals.show.trace.answers import AnswerFilter, RecordFilter, list_answers

        answers = AnswerFilter(wrong=wrong, right=right, score=tuple(score), where=where)
        return list_answers(self.folder, answers, RecordFilter(editor=editor, kind=kind))

    def compare(self, first: "str | RunResult", second: str | None = None) -> "ComparisonView":
        """Two editors of this run, or this run and another one, probe by probe, with paired tests.

        Args:
            first: editor that is the base of the comparison, or another run, which is compared with this one.
            second: the other editor.

        Raises:
            BadSettings: no such editor, or the runs are not on the same data.
        """
        from emend.evals.results.analyses.compare import compare

        if isinstance(first, RunResult):
            return ComparisonView(compare(self.folder, first.folder, second, second))
        return ComparisonView(compare(self.folder, None, first, second))

    def view(self, cases: str | int = "wrong", height: int = 720) -> "ViewFrame":
        """The run's pages, as `emend view --single` writes them, in an inline frame of a notebook.

        Args:
            cases: cases that get a page: `all`, `wrong`, `flipped`, or the number of a random sample.
            height: pixels of the frame.

        Raises:
            MissingExtra: the viewer is not installed.
            BadSettings: there is no such choice of cases.
        """
        return ViewFrame(self.folder, cases, height)

    def __repr__(self) -> str:
        config = self.manifest.config
        return f"RunResult({str(self.folder)!r}: {config.benchmark}, {config.model}, {', '.join(config.editors)})"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class TraceView(DisplayTable):
    """The trace of one case, which shows itself; `trace` has all its fields."""

    def __init__(self, trace: "Trace") -> None:
        from emend.evals.show.report.tracing import trace_text

        self.trace = trace
        super().__init__(lambda console: trace_text(trace, console))

    @property
    def steps(self) -> list[dict[str, Any]]:
        """All steps in their order: node, place, state update, calls with prompt and reply, milliseconds."""
        return [
            {"editor": probe.record.editor, "probe": probe.record.probe} | step
            for probe in self.trace.probes
            for step in probe.visible_steps
        ]

    def to_markdown(self) -> str:
        """The trace with all prompts and replies in full."""
        from emend.evals.show.report.tracing import markdown

        return markdown(self.trace)


class ComparisonView(DisplayTable):
    """The difference of two editors or runs, which shows itself; `comparison` has all its fields."""

    def __init__(self, comparison: "Comparison") -> None:
        from emend.evals.show.report.analysis import render_comparison

        self.comparison = comparison
        super().__init__(lambda console: render_comparison(comparison))

    def to_pandas(self) -> "pandas.DataFrame":
        """One row per metric and kind: both means, their difference, its interval, and the test's p."""
        rows = [row.model_dump(exclude={"paired"}) | row.paired.model_dump() for row in self.comparison.rows]
        return data_frame(rows)


def load_run(folder: str | Path) -> RunResult:
    """Load a run folder, or a copy of a mirror such as `s3://BUCKET/FOLDER`; nothing that it names is imported.

    Raises:
        BadData: there is no run in the folder, or its manifest is damaged.
        FetchFailed: the mirror cannot be read.
    """
    if "://" in str(folder):
        from emend.evals.log.mirror import copy_mirror

        return RunResult(copy_mirror(str(folder)))
    return RunResult(folder)


def data_frame(rows: Iterable[FrozenModel | dict[str, Any]], *nested: str) -> "pandas.DataFrame":
    """A data frame of rows, in which the fields named by `nested` become columns `FIELD.NAME`.

    Raises:
        MissingExtra: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra(f"a data frame needs pandas: {install_command('pandas')}.") from error
    plain = [row if isinstance(row, dict) else row.model_dump() for row in rows]
    return pandas.DataFrame([_flat(row, nested) for row in plain])


def _flat(row: dict[str, Any], nested: Sequence[str]) -> dict[str, Any]:
    flat = {name: value for name, value in row.items() if name not in nested}
    return flat | {f"{name}.{key}": value for name in nested for key, value in row.get(name, {}).items()}


class ViewFrame:
    """All pages of a run in one, which a notebook shows; `save` writes them into a file.

    Args:
        folder: the run folder.
        cases: cases that get a page: `all`, `wrong`, `flipped`, or the number of a random sample.
        height: pixels.

    Raises:
        MissingExtra: the viewer is not installed.
        BadSettings: there is no such choice of cases.
        BadData: a damaged line.
    """

    def __init__(self, folder: Path, cases: str | int, height: int) -> None:
        try:
            from emend.evals.show.view.export import single_page
        except ImportError as error:
            raise MissingExtra(f"result.view() needs the viewer: {install_command('view')}.") from error
        self.folder, self.height = folder, height
        self.html, self.summary = single_page([folder], str(cases))

    def save(self, file: str | Path) -> None:
        """Write the pages into one HTML file."""
        Path(file).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        # sandboxed, so that the pages reach nothing of the notebook's, whatever a run's texts may be
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" width="100%" height="{self.height}" '
            'style="border:0" title="Emend: pages of a run"></iframe>'
        )

    def __repr__(self) -> str:
        return f"ViewFrame({str(self.folder)!r}: {self.summary.pages} pages for a notebook; save(FILE) keeps them)"
