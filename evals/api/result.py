"""Results of a run: tables, records, traces, comparisons, and pages for notebooks."""

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
from emend.evals.show.trace.filters import AnswerFilter, RecordFilter
from emend.evals.show.trace.verdicts import check_name
from emend.memory.distribution import install_command
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.files import write_export
from emend.memory.registry import nearest

if TYPE_CHECKING:
    import pandas

    from emend.evals.jobs.results import Summary
    from emend.evals.results.aggregate.requirement_outcomes import RequirementOutcome
    from emend.evals.results.analyses.compare import Comparison
    from emend.evals.show.trace.answers import AnswerRow
    from emend.evals.show.trace.case_trace import Trace


class RunResult:
    """A finished or unfinished run, read from its folder.

    Attributes:
        folder: the run folder.
        summary: summary of the call that ran it; None for a run that was loaded from its folder.
        require: thresholds given in the call.

    Raises:
        BadData: there is no run in the folder, or its manifest is damaged.
    """

    def __init__(
        self, folder: str | Path, summary: "Summary | None" = None, require: tuple[str, ...] = ()
    ) -> None:
        self.folder, self.summary, self.require = Path(folder), summary, require
        self.manifest = Manifest.read(self.folder)

    @cached_property
    def report(self) -> Report:
        """Report of the run with all its rows; computed once."""
        return report_of(self.folder)

    def table(
        self, *columns: str, sort: str | None = None, everything: bool = False
    ) -> DisplayTable:
        """Return the table of metrics with their confidence intervals, as `emend report` prints it.

        Args:
            columns: metrics to show; the main ones by default.
            sort: metric by which editors are sorted, best first.
            everything: also show secondary metrics, forgetting, perplexity and costs.

        Raises:
            BadSettings: a metric is unknown.
        """
        from emend.evals.show.report.metrics import render

        report, choice = self.report, TableChoice(columns, sort, everything)
        metric_tables([LabelledReport(report, {})], choice)
        return DisplayTable(lambda console: render(report, console, choice))

    def export(
        self, form: str, *columns: str, sort: str | None = None, everything: bool = False
    ) -> str:
        """Return the table of metrics as csv, markdown, latex or html.

        Raises:
            BadSettings: the format or a metric is unknown.
        """
        from emend.evals.show.report.export import export

        return export(
            [LabelledReport(self.report, {})], form, TableChoice(columns, sort, everything)
        )

    def check(self, *requirements: str) -> "list[RequirementOutcome]":
        """Return the outcome of each threshold, as `--require` prints it; by default of the
        thresholds given in the call.

        Args:
            requirements: thresholds such as `rag:efficacy>=0.9`; a metric named without a protocol
                stands for its headline protocol.

        Raises:
            BadSettings: a threshold is malformed, a name is unknown, or the run is unfinished.
        """
        from emend.evals.results.aggregate.requirement_outcomes import check_requirements

        return check_requirements(self.report, requirements or self.require)

    def records(self, editor: str | None = None) -> list[Record]:
        """Return one record per probe, repeat and editor, or those of one editor.

        Raises:
            BadSettings: the run has no such editor.
        """
        chosen = self._filter(editor=editor)
        check_name("the run has no editor", chosen.editor, self.manifest.config.editors)
        return list(filter(chosen.fits, read_records(self.folder)))

    def to_pandas(self, what: str = "metrics") -> "pandas.DataFrame":
        """Return metrics or records as a data frame.

        Args:
            what: `metrics`: one row per editor, setting, mode and metric with mean, low, high, n
                and unscored; `records`: one row per record, each score a column named
                `values.NAME`.

        Raises:
            MissingExtra: pandas is not installed.
            BadSettings: `what` is neither `metrics` nor `records`.
        """
        if what == "metrics":
            return data_frame(self.report.rows)
        if what == "records":
            return data_frame(self.records(), "values", "usage", "tags")
        raise BadSettings(f"to_pandas('{what}'): {nearest(what, ['metrics', 'records'])}")

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Run a DuckDB SQL query on the tables `records`, `scores`, `cases`, `edits` and `errors`,
        and return its rows.

        Raises:
            BadSettings: the query is invalid.
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
            BadSettings: the file has another extension or cannot be written, or the table does not
                exist.
        """
        from emend.evals.results.aggregate.database import check_file, open_database

        check_file(Path(path), (".parquet",))
        with open_database(self.folder, Path(path)) as tables:
            tables.write(f"FROM {table}", Path(path))

    def trace(
        self, case: int | str, editor: str | None = None, probe: str | None = None
    ) -> "TraceView":
        """Return the trace of a case, for all editors and probes or only the given ones.

        Raises:
            BadSettings: the case, editor or probe does not exist.
        """
        from emend.evals.show.trace.case_trace import trace

        chosen = self._filter(editor=editor, probe=probe)
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
        """Return answers with the gold answers, filtered by correctness, by score (`em=0`), or by
        several editors' verdicts.

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
        from emend.evals.show.trace.answers import list_answers

        answers = AnswerFilter(wrong=wrong, right=right, score=tuple(score), where=where)
        return list_answers(self.folder, answers, self._filter(editor=editor, kind=kind))

    def _filter(self, **fields: str | None) -> RecordFilter:
        """Return a filter of records with the full name of its editor."""
        return RecordFilter(**fields).with_full_name(self.manifest.config.editors)

    def compare(self, first: "str | RunResult", second: str | None = None) -> "ComparisonView":
        """Compare two editors of this run, or this run with another one, probe by probe, with
        paired tests.

        Args:
            first: editor that is the base of the comparison, or another run to compare with this
                one.
            second: the other editor.

        Raises:
            BadSettings: the editor does not exist, or the runs are not on the same data.
        """
        from emend.evals.results.analyses.compare import compare

        if isinstance(first, RunResult):
            return ComparisonView(compare(self.folder, first.folder, second, second))
        return ComparisonView(compare(self.folder, None, first, second))

    def view(self, cases: str | int = "wrong", height: int = 720) -> "ViewFrame":
        """Show the run's pages, as `emend view --single` writes them, in an inline frame of a
        notebook.

        Args:
            cases: cases that get a page: `all`, `wrong`, `flipped`, or the size of a random sample.
            height: pixels of the frame.

        Raises:
            MissingExtra: the viewer is not installed.
            BadSettings: there is no such choice of cases.
        """
        return ViewFrame(self.folder, cases, height)

    def __repr__(self) -> str:
        config = self.manifest.config
        return (
            f"RunResult({str(self.folder)!r}: {config.benchmark}, {config.model}, "
            f"{', '.join(config.editors)})"
        )

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class TraceView(DisplayTable):
    """The trace of one case, displayed as a table; `trace` has all its fields."""

    def __init__(self, trace: "Trace") -> None:
        from emend.evals.show.report.traces.case_text import trace_text

        self.trace = trace
        super().__init__(lambda console: trace_text(trace, console))

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Return all steps in order: node, position, state update, calls with prompt and reply,
        milliseconds.
        """
        return [
            {"editor": probe.record.editor, "probe": probe.record.probe} | step
            for probe in self.trace.probes
            for step in probe.visible_steps
        ]

    def to_markdown(self) -> str:
        """Return the trace with all prompts and replies in full."""
        from emend.evals.show.report.traces.case_text import markdown

        return markdown(self.trace)


class ComparisonView(DisplayTable):
    """The difference of two editors or runs, shown as a table; `comparison` has all its fields."""

    def __init__(self, comparison: "Comparison") -> None:
        from emend.evals.show.report.analysis import render_comparison

        self.comparison = comparison
        super().__init__(lambda console: render_comparison(comparison))

    def to_pandas(self) -> "pandas.DataFrame":
        """Return one row per metric and kind: both means, their difference, its interval, and the
        p-value of the test.
        """
        rows = [
            row.model_dump(exclude={"paired"}) | row.paired.model_dump()
            for row in self.comparison.rows
        ]
        return data_frame(rows)


def load_run(folder: str | Path) -> RunResult:
    """Load a run folder without importing anything that it names.

    Raises:
        BadData: there is no run in the folder, or its manifest is damaged.
    """
    return RunResult(folder)


def data_frame(rows: Iterable[FrozenModel | dict[str, Any]], *nested: str) -> "pandas.DataFrame":
    """Return rows as a data frame, in which the fields named by `nested` become columns
    `FIELD.NAME`.

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
    return flat | {
        f"{name}.{key}": value for name in nested for key, value in row.get(name, {}).items()
    }


class ViewFrame:
    """All pages of a run in one inline frame for notebooks; `save` writes them into a file.

    Args:
        folder: the run folder.
        cases: cases that get a page: `all`, `wrong`, `flipped`, or the size of a random sample.
        height: height of the frame in pixels.

    Raises:
        MissingExtra: the viewer is not installed.
        BadSettings: there is no such choice of cases.
        BadData: a line of a file is damaged.
    """

    def __init__(self, folder: Path, cases: str | int, height: int) -> None:
        try:
            from emend.evals.show.view.export import single_page
        except ImportError as error:
            raise MissingExtra(
                f"result.view() needs the viewer: {install_command('view')}."
            ) from error
        self.folder, self.height = folder, height
        self.html, self.summary = single_page([folder], str(cases))

    def save(self, file: str | Path) -> None:
        """Write the pages into one HTML file."""
        write_export(Path(file), self.html)

    def _repr_html_(self) -> str:
        # sandboxed, so that texts of a run cannot access anything of the notebook
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" '
            f'width="100%" height="{self.height}" '
            'style="border:0" title="Emend: pages of a run"></iframe>'
        )

    def __repr__(self) -> str:
        return (
            f"ViewFrame({str(self.folder)!r}: {self.summary.pages} pages for a notebook; "
            "save(FILE) keeps them)"
        )
