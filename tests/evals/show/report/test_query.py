"""The rows of a query in a terminal."""

from rich.console import Console

from emend.evals.results.aggregate.database import QueryResult
from emend.evals.show.report.analysis import MAX_ROWS, show_query


def test_rows_are_shown_with_numbers_to_four_digits_and_no_control_characters() -> None:
    console = Console(width=80, record=True, force_terminal=False)
    show_query(QueryResult(["name", "mean"], [("one\x1b[31m", 2 / 3), (None, None)]), console)
    text = console.export_text()
    assert "0.6667" in text and "\\x1b[31m" in text and "\x1b" not in text and text.count("-") == 2


def test_what_is_not_shown_is_counted() -> None:
    console = Console(width=80, record=True)
    show_query(QueryResult(["n"], [(n,) for n in range(MAX_ROWS + 5)]), console)
    assert "and 5 more" in console.export_text()
