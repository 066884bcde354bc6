"""The command `emend judge correct`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.options import Json, RunFolder, grouped
from emend.evals.cli.output import emit, print_text
from emend.evals.show.trace.filters import RecordFilter
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.evals.corrections.correction import ScoreCorrection

Case = Annotated[
    str | None,
    typer.Argument(metavar="CASE", help="Case: its number from 1, or the beginning of its id."),
]
Value = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="right|wrong|X",
        help="Corrected score: right, wrong, a number from 0 to 1, or scored, which undoes a "
        "correction.",
    ),
]
Score = Annotated[
    str | None,
    typer.Option(
        "--score",
        metavar="NAME",
        help="Score to correct; default: the one that decides whether the answer is right.",
    ),
]
Export = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write the run's answers to this new .csv file, to be filled in."
    ),
]
Table = Annotated[
    Path | None,
    typer.Option("--table", metavar="FILE", help="Read corrections from a filled .csv file."),
]


@grouped
def correct(
    folder: RunFolder,
    records: RecordFilter,
    case: Case = None,
    to: Value = None,
    score: Score = None,
    export: Export = None,
    wrong: Annotated[bool, typer.Option("--wrong", help="Export only wrong answers.")] = False,
    table: Table = None,
    note: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason for the correction; default: none.")
    ] = "",
    by: Annotated[
        str, typer.Option(metavar="NAME", help="Author of the correction; default: none.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Correct scores manually, one by one or with a table, or list the corrections; the original
    scores are kept, and reports show both.
    """
    _check(case, to, export, table)
    if export is not None:
        _export(folder, export, records, wrong)
    elif table is not None:
        from emend.evals.show.trace.correction_table import read_table

        _add(folder, read_table(folder, table, by))
    elif case is not None and to is not None:
        from emend.evals.log.manifest import Manifest
        from emend.evals.show.trace import score_corrections

        value = score_corrections.parse_score(to, "--to")
        record = score_corrections.find_answer(folder, case, records)
        name = score_corrections.score_of(record, Manifest.read(folder).metrics, score)
        _add(folder, [score_corrections.correction_of(record, name, value, note, by)])
    else:
        _list(folder, as_json)


def _check(case: str | None, to: str | None, export: Path | None, table: Path | None) -> None:
    """Refuse options that do not go together.

    Raises:
        BadSettings: options do not go together; the message names them.
    """
    if (case is None) != (to is None):
        raise BadSettings(
            "a correction needs a case and a value: emend judge correct RUN 1 --editor rag "
            "--kind efficacy --to right"
        )
    ways = {"CASE": case, "--export": export, "--table": table}
    options = [name for name, value in ways.items() if value is not None]
    if len(options) > 1:
        raise BadSettings(f"{options[0]} and {options[1]} exclude each other: give one of them.")


def _export(folder: Path, file: Path, records: RecordFilter, wrong: bool) -> None:
    from emend.evals.show.trace.correction_table import write_table
    from emend.evals.show.trace.score_corrections import answers_to_correct

    count = write_table(file, answers_to_correct(folder, records, wrong))
    command = shlex.join(["emend", "judge", "correct", str(folder), "--table", str(file)])
    print_text(
        f"{count} answers are in {file}: for wrong scores, write right, wrong or a number into the "
        f"column 'corrected', then run: {command}"
    )


def _add(folder: Path, corrections: "list[ScoreCorrection]") -> None:
    from emend.evals.corrections.correction import CORRECTIONS, add_corrections

    add_corrections(folder, corrections)
    print_text(
        f"Added to {folder / CORRECTIONS}: {len(corrections)}. "
        f"{shlex.join(['emend', 'report', str(folder)])} shows the metrics with them."
    )


def _list(folder: Path, as_json: bool) -> None:
    from emend.evals.corrections.correction import read_corrections
    from emend.evals.log.manifest import Manifest
    from emend.evals.show.report.traces.corrections import corrections_table

    Manifest.read(folder)
    lines = list(read_corrections(folder).values())
    emit(lines, as_json, lambda console: console.print(corrections_table(lines)))
