"""The commands `emend data list`, `pull`, `chats`, `check`, `stats`, `schema` and `new`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import Json
from emend.evals.cli.output import emit, interrupts_as_exit, print_rich, print_text

data = typer.Typer(
    name="data",
    help="Download and check the benchmarks' files, and compute statistics.",
    no_args_is_help=True,
)

Benchmark = Annotated[
    str, typer.Argument(metavar="BENCHMARK", help="Benchmark; see: emend data list.")
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FOLDER",
        help="Folder with the benchmark's files; default: BENCHMARK in EMEND_DATA or in ./data.",
    ),
]


@data.command("list")
def list_data(as_json: Json = False) -> None:
    """List the files of each benchmark: size, licence, origin, and whether a checksum is known."""
    from emend.evals.data.download import SOURCES
    from emend.evals.show.report.data_sets import rows_of, show_sources

    sources = list(SOURCES.values())
    emit(rows_of(sources), as_json, lambda console: show_sources(sources, console))


@data.command()
def pull(
    name: Benchmark,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FOLDER",
            help="Target folder; default: BENCHMARK in EMEND_DATA or in ./data.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Download a benchmark's files from their publishers; repeat the command to continue."""
    from emend.evals.data.benchmarks.rows import data_folder
    from emend.evals.data.download import source_of
    from emend.evals.data.pull import Puller
    from emend.evals.show.report.data_sets import download_bar, show_licences, show_outcomes
    from emend.memory.escape import one_line

    source = source_of(name)
    folder = data_folder(name, to)
    if not as_json:
        print_rich(lambda console: show_licences(source, folder, console))
    with interrupts_as_exit("finished files are kept; repeat the command to continue."):
        outcomes = Puller(source, folder, download_bar).pull()
    emit(outcomes, as_json, lambda console: show_outcomes(source, outcomes, folder, console))
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    for outcome in failed:
        print_text(f"error: {outcome.name}: {one_line(outcome.problem)}", err=True)
    if failed:
        raise typer.Exit(2)
    if not as_json:
        print_text(f"Next: emend data check {name}" + (f" --data {folder}" if to else ""))


@data.command()
def chats(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG", help="Files of chat messages.")],
    questions: Annotated[
        Path,
        typer.Option(
            "--questions", metavar="FILE", help="File of questions about the logs, one per line."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder to write to.")],
    as_json: Json = False,
) -> None:
    """Create a benchmark from your own chat logs: JSON lines, or messages of OpenAI, ChatGPT or
    LangChain.
    """
    from emend.evals.data.conversations.chats import make_chats
    from emend.evals.show.report.layout import counted
    from emend.memory.escape import one_line

    counts = make_chats(logs, questions, out)
    line = (
        f"{counts.file}: {counted(counts.conversations, 'conversation')}, "
        f"{counted(counts.sessions, 'session')}, "
        f"{counted(counts.messages, 'message')} ({counts.undated} without a time), "
        f"{counted(counts.questions, 'question')} ({counts.without_evidence} without evidence)"
    )
    emit([counts], as_json, lambda console: console.print(one_line(line), markup=False))


@data.command()
def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="BENCHMARK|FOLDER|FILE",
            help="Benchmark, a folder with its files, a file of your own facts, or a declared "
            "benchmark.",
        ),
    ],
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Check the files of a folder and list all faults by file, record and field; exit code 2 if
    there are any.
    """
    from emend.evals.data.declared.description import is_declared
    from emend.evals.data.facts.fact_formats import is_fact_file

    if is_declared(target):
        _check_declared(target, as_json)
        return
    if is_fact_file(target):
        _check_facts(target, as_json)
        return
    from emend.evals.data.check import check as check_data
    from emend.evals.show.report.data_sets import show_checked

    checked = check_data(target, folder)
    rows = [{"kind": "file", **file.model_dump()} for file in checked.files]
    rows += [{"kind": "fault", **fault.model_dump()} for fault in checked.faults]
    rows += [
        {"kind": "count", "reading": r, "what": what, "count": n} for r, what, n in checked.counts
    ]
    emit(rows, as_json, lambda console: show_checked(checked, console))
    if checked.faults:
        raise typer.Exit(2)


@data.command()
def stats(
    name: Benchmark,
    folder: Folder = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            "--tokenizer",
            metavar="FILE",
            help="Tokenizer by which docter's mean lengths are counted: a tokenizer.json, a "
            "model's folder, or a SentencePiece file. Default: the paper's, if it was pulled.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the statistics that the paper reports of its data, computed from the local files, next
    to the published numbers.
    """
    from emend.evals.data.stats import stats as stats_of
    from emend.evals.show.report.data_sets import show_tables

    tables = stats_of(name, folder, tokenizer)
    rows = [row for table in tables for row in table.plain()]
    emit(rows, as_json, lambda console: show_tables(tables, console))


@data.command()
def schema(as_json: Json = False) -> None:
    """List the fields of a file of your own facts, for emend run --benchmark FILE."""
    from emend.evals.data.facts.fact_file import field_rows
    from emend.evals.show.report.data_sets import show_fields

    rows = field_rows()
    emit(rows, as_json, lambda console: show_fields(rows, console))


@data.command()
def new(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="New file: .jsonl, .json, .csv, .tsv or .yaml.")
    ],
) -> None:
    """Write a template of a file of facts."""
    from emend.evals.data.facts.fact_file import write_template

    write_template(file)
    print_text(f"Two facts are in {file}; the fields are listed by: emend data schema")
    print_text(f"Next: emend run --benchmark {file} --editor unedited --editor rag")


def _counts_text(counts: dict[str, int]) -> str:
    """Return the counts by noun in the plural as one text."""
    from emend.evals.show.report.layout import counted

    return ", ".join(counted(count, what.removesuffix("s")) for what, count in counts.items())


def _check_declared(name: str, as_json: bool) -> None:
    from emend.evals.data.declared.benchmark import DeclaredBenchmark
    from emend.memory.escape import one_line

    checked = DeclaredBenchmark(name).check()
    counts = {"cases": checked.cases, "questions": checked.probes, "faults": len(checked.faults)}
    rows = [
        {"kind": "count", "reading": name, "what": what, "count": count}
        for what, count in counts.items()
    ]
    rows += [{"kind": "fault", "problem": text} for text in checked.faults]
    lines = [
        *map(one_line, checked.faults),
        _counts_text(counts),
    ]
    emit(rows, as_json, lambda console: print_text("\n".join(lines)))
    if checked.faults:
        raise typer.Exit(2)


def _check_facts(name: str, as_json: bool) -> None:
    from emend.evals.data.facts.fact_file import oddities_of
    from emend.evals.data.facts.fact_formats import placed_facts
    from emend.memory.escape import one_line

    rows, faults = placed_facts(name)
    if not rows and not faults:
        faults = [f"{name} has no rows: write a template with emend data new FILE"]
    odd = oddities_of(rows)
    counts = {
        "facts": len(rows),
        "questions": sum(len(row.case.probes) for _, row in rows),
        "faults": len(faults),
    }
    counts |= {"warnings": len(odd)} if odd else {}
    listed = [
        {"kind": "count", "reading": name, "what": what, "count": count}
        for what, count in counts.items()
    ]
    listed += [{"kind": "fault", "problem": text} for text in faults]
    listed += [{"kind": "warning", "problem": text} for text in odd]
    lines = [*map(one_line, faults), *(f"warning: {one_line(text)}" for text in odd)]
    lines.append(_counts_text(counts))
    emit(listed, as_json, lambda console: print_text("\n".join(lines)))
    if faults:
        raise typer.Exit(2)
