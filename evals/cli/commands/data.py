"""The commands `emend build` and `emend data list`, `pull`, `check`, `stats`, `schema` and `new`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.options import Json, grouped
from emend.evals.cli.output import emit, interrupts_as_exit, print_rich, print_text
from emend.evals.config.task_config import BuildConfig

if TYPE_CHECKING:
    from emend.evals.build.card import Card


data = typer.Typer(name="data", help="Download the benchmarks' files, check them and count them.", no_args_is_help=True)

Benchmark = Annotated[str, typer.Argument(metavar="BENCHMARK", help="Benchmark; see: emend data list.")]
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
        typer.Option("--to", metavar="FOLDER", help="Target folder; default: BENCHMARK in EMEND_DATA or in ./data."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Download a benchmark's files from where they are published; repeat the command to continue."""
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
def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="BENCHMARK|FOLDER|FILE", help="Benchmark, a folder with its files, or a file of your own facts."
        ),
    ],
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Check the files of a folder and list every fault by file, record and field; exit code 2 if there is one."""
    from emend.evals.data.benchmarks.fact_formats import is_fact_file

    if is_fact_file(target):
        _check_facts(target, as_json)
        return
    from emend.evals.data.check import check as check_data
    from emend.evals.show.report.data_sets import show_checked

    checked = check_data(target, folder)
    rows = [{"kind": "file", **file.model_dump()} for file in checked.files]
    rows += [{"kind": "fault", **fault.model_dump()} for fault in checked.faults]
    rows += [{"kind": "count", "reading": r, "what": what, "count": n} for r, what, n in checked.counts]
    emit(rows, as_json, lambda console: show_checked(checked, console))
    if checked.faults:
        raise typer.Exit(2)


@data.command()
def stats(name: Benchmark, folder: Folder = None, as_json: Json = False) -> None:
    """Print the paper's statistics of its data, counted from the local files, beside the published numbers."""
    from emend.evals.data.check import stats as stats_of
    from emend.evals.show.report.data_sets import show_table

    table = stats_of(name, folder)
    emit(table.plain(), as_json, lambda console: show_table(table, console))


@data.command()
def schema(as_json: Json = False) -> None:
    """List the fields of a file of your own facts, for emend run --benchmark FILE."""
    from emend.evals.data.benchmarks.fact_file import field_rows
    from emend.evals.show.report.data_sets import show_fields

    rows = field_rows()
    emit(rows, as_json, lambda console: show_fields(rows, console))


@data.command()
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file: .jsonl, .json, .csv, .tsv or .yaml.")],
) -> None:
    """Write a template of a file of facts."""
    from emend.evals.data.benchmarks.fact_file import write_template

    write_template(file)
    print_text(f"Two facts are in {file}; the fields are listed by: emend data schema")
    print_text(f"Next: emend run --benchmark {file} --editor unedited --editor rag")


def _check_facts(name: str, as_json: bool) -> None:
    from emend.evals.data.benchmarks.fact_file import oddities_of
    from emend.evals.data.benchmarks.fact_formats import placed_facts
    from emend.memory.escape import one_line

    rows, faults = placed_facts(name)
    odd = oddities_of(rows)
    counts = {"facts": len(rows), "questions": sum(len(row.case.probes) for _, row in rows), "faults": len(faults)}
    counts |= {"warnings": len(odd)} if odd else {}
    listed = [{"kind": "count", "reading": name, "what": what, "count": count} for what, count in counts.items()]
    listed += [{"kind": "fault", "problem": text} for text in faults]
    listed += [{"kind": "warning", "problem": text} for text in odd]
    lines = [*map(one_line, faults), *(f"warning: {one_line(text)}" for text in odd)]
    lines.append(", ".join(f"{count} {what}" for what, count in counts.items()))
    emit(listed, as_json, lambda console: print_text("\n".join(lines)))
    if faults:
        raise typer.Exit(2)


@grouped
def build(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="Kind: akew, wikiupdate, questions, facts, chains, docter, elken, tendencies, recoe; or fresh.",
        ),
    ],
    config: BuildConfig,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the benchmark; the same call continues it.")],
    review: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Filled sheets of emend judge annotate --study build; asks no model."),
    ] = None,
    no_review: Annotated[
        bool, typer.Option("--no-review", help="End the recipe paper without its human step.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print calls, tokens, cost and time, and ask no model.")
    ] = False,
) -> None:
    """Build a benchmark from facts or documents, and print its card.

    An interrupted construction is continued by the same command.
    """
    if dry_run:
        _show_estimate(kind, config)
        return
    from emend.evals.build.build import RUN, apply_review, build
    from emend.evals.cli.interrupts import interruptible
    from emend.evals.show.report.data_sets import render_card
    from emend.evals.show.report.progress import progress_on

    if review is not None:
        card = apply_review(out, review)
    else:
        with interruptible(out / RUN):
            card = build(kind, config, out, needs_review=not no_review, progress=progress_on())
    print_rich(lambda console: console.print(render_card(card)))
    _print_next(card, out)


def _print_next(card: "Card", out: Path) -> None:
    print_text(f"\nThe benchmark is in {out}, its card in {out / 'card.md'}. Next:")
    if card.status == "draft":
        print_text(f"  emend judge annotate {out / 'run'} --study build --out {out / 'review'}")
        print_text(f"  emend build {card.kind} --out {out} --review {out / 'review'}, once the sheets are filled in")
    print_text(f"  emend run --benchmark {out} --editor rag --model {card.models.get('author', 'MODEL')}")
    if card.models:
        print_text(f"  emend view {out / 'run'}")


def _show_estimate(kind: str, config: BuildConfig) -> None:
    from emend.evals.build.assemble import FRESH
    from emend.evals.build.build import foresee

    estimate = foresee(kind, config)
    print_text(f"{estimate.items} items; nothing is asked in a dry run")
    for role in estimate.roles:
        cost = "no price" if role.cost is None else f"{role.cost:,.2f} {estimate.currency}"
        tokens = f"{role.input_tokens:,} tokens in, {role.output_tokens:,} out"
        print_text(f"  {role.role} {role.model}: {role.calls:,} calls, {tokens}, {cost}")
    if not estimate.roles:
        print_text("  No model is needed; with --model the texts are worded by one.")
        return
    if kind != FRESH:
        print_text("  Every item is taken to pass at its first attempt; each new attempt costs as much again.")
