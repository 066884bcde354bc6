"""The commands `emend memory add`, `search`, `show`, `stats`, `export`, `import` and `withdraw`."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli.options import Json
from emend.evals.cli.output import emit, interrupts_as_exit, print_text
from emend.memory.errors import BadData, BadSettings, MissingData

if TYPE_CHECKING:
    from emend.memory.edit import Edit
    from emend.memory.store.chroma import ChromaMemory

memory = typer.Typer(
    name="memory",
    help="Manage the edits of a memory: add, search, show and withdraw them.",
    no_args_is_help=True,
)

FOLDER = "emend-memory"
Where = Annotated[
    str,
    typer.Option(
        "--memory",
        metavar="FOLDER|URL",
        envvar="EMEND_MEMORY",
        help="Memory: a folder, or http://HOST:PORT.",
    ),
]
EmbeddingName = Annotated[
    str | None,
    typer.Option(
        "--embedding",
        metavar="NAME",
        help="Embedding: auto, lexical, minilm, a sentence-transformers folder, or "
        "module:attribute; default: the memory's own, or auto for a new one.",
    ),
]
Rule = Annotated[
    str | None,
    typer.Option(
        "--superseding",
        metavar="RULE",
        help="In a new memory, which of two edits of the same fact is current: the one added "
        "later (arrival), the one with the later --time (time), or both (never); default: "
        "arrival.",
    ),
]
Subject = Annotated[str | None, typer.Option(metavar="TEXT", help="Subject of the fact.")]
Relation = Annotated[str | None, typer.Option(metavar="TEXT", help="Relation of the fact.")]


@memory.command()
def add(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="JSON lines with edits; - is standard input."),
    ] = None,
    where: Where = FOLDER,
    embedding: EmbeddingName = None,
    superseding: Rule = None,
    subject: Subject = None,
    relation: Relation = None,
    object_: Annotated[
        str | None, typer.Option("--object", metavar="TEXT", help="Object of the fact.")
    ] = None,
    document: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Add this document instead of a fact.")
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Add this event instead of a fact; needs --time."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="DATE", help="Date from which the edit is valid: 2026, 2026-05 or 2026-05-31."
        ),
    ] = None,
) -> None:
    """Add edits from files, or one edit given by options; edits that are already stored are
    skipped.
    """
    from emend.evals.cli.edit_files import read_files

    options = {
        "subject": subject,
        "relation": relation,
        "object": object_,
        "document": document,
        "event": event,
    }
    single = {
        name: value for name, value in (options | {"time": time}).items() if value is not None
    }
    if bool(files) == bool(single):
        raise BadSettings(
            "name files of JSON lines, or one fact (--subject, --relation, "
            "--object), document or event."
        )
    edits = read_files(files) if files else [_edit_from(single)]
    with _open(where, embedding, superseding, create=True) as opened:
        _add(opened, edits)


@memory.command("import")
def import_(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="File written by emend memory export; - is standard input."
        ),
    ],
    where: Where = FOLDER,
    embedding: EmbeddingName = None,
    superseding: Rule = None,
) -> None:
    """Create a memory from an exported file, in the file's order."""
    from emend.evals.cli.edit_files import read_files

    edits = read_files([file])
    with _open(where, embedding, superseding, create=True) as opened:
        stored = {edit.id for edit in opened.edits()}
        if foreign := stored - {edit.id for edit in edits}:
            raise BadSettings(
                f"{where} holds {len(foreign)} edits that {file} lacks: import into a new folder, "
                f"or join the two with `emend memory add {file}`."
            )
        _add(opened, edits)


@memory.command()
def export(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="File to write, as JSON lines; - is standard output."),
    ],
    where: Where = FOLDER,
    current: Annotated[bool, typer.Option("--current", help="Leave out superseded edits.")] = False,
) -> None:
    """Write all edits, superseded ones included, in the order in which they were added."""
    from emend.memory.files import write_export
    from emend.memory.store.jsonl import dump_lines

    with _open(where) as opened:
        edits, rule = opened.edits(current=current), opened.superseding
    if file == "-":
        sys.stdout.writelines(dump_lines(edits))
        return
    write_export(Path(file), "".join(dump_lines(edits)))
    if rule == "arrival":
        hint = ""
    else:
        hint = f"; import them with --superseding {rule} to keep this memory's rule"
    print_text(f"{len(edits)} edits written to {file}{hint}")


@memory.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Text to search for.")],
    where: Where = FOLDER,
    embedding: EmbeddingName = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Retriever; default: the default of emend run; see: emend list retrievers.",
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Maximum number of hits.")] = 5,
    as_json: Json = False,
) -> None:
    """Search the current edits with a retriever."""
    from emend.evals.config.run_config import RunConfig
    from emend.evals.show.report.lists import show_hits
    from emend.memory.retrieval.base import search as search_corpus
    from emend.memory.retrieval.compose import load_retriever
    from emend.memory.retrieval.registry import RETRIEVERS

    factory = load_retriever(
        RunConfig.model_fields["retriever"].default if strategy is None else strategy
    )
    with _open(where, embedding, create=False, search=True) as opened:
        hits = []
        if opened.count():
            with RETRIEVERS.plugin_errors(strategy or "default"):
                retriever = factory(opened.view())
            hits = search_corpus(retriever, query, k)[:k]
    rows = [{"score": hit.score, **hit.entry.model_dump()} for hit in hits]
    emit(rows, as_json, lambda console: show_hits(hits, console))


@memory.command()
def show(
    edit_id: Annotated[str | None, typer.Argument(metavar="ID", help="Id of an edit.")] = None,
    subject: Subject = None,
    relation: Relation = None,
    where: Where = FOLDER,
    as_json: Json = False,
) -> None:
    """Show an edit, or a fact (--subject and --relation), with all its versions, oldest first."""
    from emend.evals.show.report.lists import edit_row, fact_rows, show_edit, show_facts

    if (edit_id is None) == (subject is None and relation is None) or (subject is None) != (
        relation is None
    ):
        raise BadSettings("name an edit by its ID, or a fact by --subject and --relation.")
    with _open(where) as opened:
        edit = _find_edit(opened, edit_id) if edit_id else None
        keys = (
            {(t.subject, t.relation): t for t in edit.triplets}
            if edit
            else {(subject or "", relation or ""): None}
        )
        facts = [opened.history(*fact) for fact in keys]
        entries = opened.entries([edit.id]) if edit else {}
    if edit is None and not facts[0].versions:
        raise MissingData(
            f"{where} has no edit of '{subject}', '{relation}': search with `emend memory search "
            f"'{subject}'`."
        )
    rows = [*([edit_row(edit, entries)] if edit else []), *fact_rows(facts)]
    if edit and not as_json:
        emit([], as_json, lambda console: show_edit(edit, entries, console))
    emit(rows, as_json, lambda console: show_facts(facts, console))


@memory.command()
def stats(where: Where = FOLDER, as_json: Json = False) -> None:
    """Count the stored edits."""
    from emend.evals.show.report.lists import show_stats

    with _open(where) as opened:
        counts = opened.stats()
    emit(
        [{"memory": where, **counts.model_dump()}],
        as_json,
        lambda console: show_stats(where, counts, console),
    )


@memory.command()
def withdraw(
    edit_ids: Annotated[
        list[str], typer.Argument(metavar="ID", help="Ids of edits, as in search and show.")
    ],
    where: Where = FOLDER,
    as_json: Json = False,
) -> None:
    """Remove edits as if they had never been added; edits that they superseded become current
    again.
    """
    from emend.evals.show.report.lists import fact_rows, show_facts

    with _open(where) as opened:
        edits = [_find_edit(opened, edit_id) for edit_id in dict.fromkeys(edit_ids)]
        opened.withdraw([edit.id for edit in edits])
        keys = dict.fromkeys((t.subject, t.relation) for edit in edits for t in edit.triplets)
        facts = [fact for key in keys if (fact := opened.history(*key)).versions]
    if not as_json:
        print_text(f"{len(edits)} edit{'s' * (len(edits) != 1)} withdrawn")
    rows = [*({"withdrawn": edit.model_dump(mode="json")} for edit in edits), *fact_rows(facts)]
    emit(rows, as_json, lambda console: show_facts(facts, console))


def _open(where: str, *settings: Any, **options: Any) -> "AbstractContextManager[ChromaMemory]":
    from emend.memory.store.open_memory import open_memory

    return open_memory(where, *settings, **options)


def _find_edit(opened: "ChromaMemory", edit_id: str) -> "Edit":
    for edit in opened.edits([edit_id]):
        return edit
    raise BadData(
        f"no edit '{edit_id}' in {opened.location}: use an id that `emend memory search` shows."
    )


def _add(opened: "ChromaMemory", edits: "Sequence[Edit]") -> None:
    """Add edits with a progress bar, and print the number of new edits."""
    from emend.evals.show.report.progress import counter

    stored = {edit.id: edit for edit in opened.edits([edit.id for edit in edits])}
    before = opened.stats()
    with interrupts_as_exit("stored edits are kept; repeat the command to add the rest."):
        with counter("embedding and storing", "entries") as update:
            sizes: list[int] = []

            def on_progress(entries: int) -> None:
                sizes.append(entries)
                update(sum(sizes), "")

            opened.add(edits, on_progress)
    after = opened.stats()
    superseded = ""
    if after.superseded:
        superseded = f", {after.superseded} of them superseded"
    new, replaced = (
        after.edits - before.edits,
        len({e.id for e in edits if stored.get(e.id, e) != e}),
    )
    instead = f", {replaced} replaced" if replaced else ""
    print_text(
        f"{new} new edit{'s' * (new != 1)}{instead}; {opened.location} holds "
        f"{after.edits}{superseded}"
    )


def _edit_from(options: dict[str, Any]) -> "Edit":
    from emend.memory.store.jsonl import edit_from

    if len({"subject", "document", "event"} & options.keys()) != 1:
        raise BadSettings(
            "give one fact (--subject, --relation, --object), or one --document, or one --event."
        )
    return edit_from(options)
