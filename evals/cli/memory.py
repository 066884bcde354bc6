"""The commands `emend memory add`, `search`, `show`, `stats`, `export`, `import` and `withdraw`."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli.options import Json, print_rows
from emend.memory.errors import BadData, BadSettings, MissingData

if TYPE_CHECKING:
    from emend.memory.edit import Edit
    from emend.memory.store.chroma import ChromaMemory

memory = typer.Typer(name="memory", help="Keep edits in a memory: add, search, show, take back.", no_args_is_help=True)

FOLDER = "emend-memory"
Where = Annotated[
    str,
    typer.Option(
        "--memory", metavar="DIR|URL", envvar="EMEND_MEMORY", help="A folder, or http://HOST:PORT of a server."
    ),
]
EmbeddingName = Annotated[
    str | None,
    typer.Option(
        "--embedding",
        help="auto, lexical, minilm, a sentence-transformers model, or module:attribute; default auto, or lexical as "
        "stored.",
    ),
]
Rule = Annotated[
    str | None, typer.Option("--superseding", help="Of a new memory: arrival (the later edit counts), time, or never.")
]
Subject = Annotated[str | None, typer.Option(help="Of one fact.")]


@memory.command()
def add(
    files: Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help="JSON lines; - is the input.")] = None,
    where: Where = FOLDER,
    embedding: EmbeddingName = None,
    superseding: Rule = None,
    subject: Subject = None,
    relation: Subject = None,
    object_: Annotated[str | None, typer.Option("--object", help="Of one fact.")] = None,
    document: Annotated[str | None, typer.Option(help="One document.")] = None,
    event: Annotated[str | None, typer.Option(help="One event; needs --time.")] = None,
    time: Annotated[str | None, typer.Option(help="When it begins to hold: 2026, 2026-05, 2026-05-31.")] = None,
) -> None:
    """Add edits from files, or one from the command line; what is there already is not doubled."""
    from emend.evals.cli.edit_files import read_files

    told = {"subject": subject, "relation": relation, "object": object_, "document": document, "event": event}
    single = {name: _text(value) for name, value in (told | {"time": time}).items() if value is not None}
    if bool(files) == bool(single):
        raise BadSettings("name files of JSON lines, or one fact (--subject, --relation, --object), document or event.")
    edits = read_files(files) if files else [_one(single)]
    with opened_memory(where, embedding, superseding, create=True) as opened:
        _add(opened, edits)


@memory.command("import")
def import_(
    file: Annotated[str, typer.Argument(help="What `emend memory export` wrote; - is the input.")],
    where: Where = FOLDER,
    embedding: EmbeddingName = None,
    superseding: Rule = None,
) -> None:
    """Make a memory of an exported file, in the order of the file."""
    from emend.evals.cli.edit_files import read_files

    edits = read_files([file])
    with opened_memory(where, embedding, superseding, create=True) as opened:
        stored = {edit.id for edit in opened.edits()}
        if foreign := stored - {edit.id for edit in edits}:
            raise BadSettings(
                f"{where} holds {len(foreign)} edits that {file} has not: import into a new folder, "
                f"or join the two with `emend memory add {file}`."
            )
        _add(opened, edits)


@memory.command()
def export(
    file: Annotated[str, typer.Argument(help="JSON lines; - is the output.")],
    where: Where = FOLDER,
    current: Annotated[bool, typer.Option("--current", help="Leave out what later edits supersede.")] = False,
) -> None:
    """Write all edits, superseded ones too, in the order in which they came."""
    from emend.evals.cli.edit_files import write_whole
    from emend.memory.store.jsonl import lines_of

    with opened_memory(where) as opened:
        edits, rule = opened.edits(current=current), opened.superseding
    if file == "-":
        sys.stdout.writelines(lines_of(edits))
        return
    write_whole(file, lines_of(edits))
    usual = "" if rule == "arrival" else f"; import them with --superseding {rule}, as they are kept here"
    typer.echo(f"{len(edits)} edits written to {file}{usual}")


@memory.command()
def search(
    query: Annotated[str, typer.Argument(help="What is looked for.")],
    where: Where = FOLDER,
    embedding: EmbeddingName = None,
    strategy: Annotated[str | None, typer.Option(help="See: emend list retrievers; default as in a run.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="At most so many.")] = 5,
    as_json: Json = False,
) -> None:
    """Search what is current, by any retrieval strategy."""
    from emend.evals.log.config import RunConfig
    from emend.memory.retrieval.compose import load_retriever
    from emend.memory.retrieval.registry import retriever_errors

    query = _text(query)
    factory = load_retriever(RunConfig.model_fields["retriever"].default if strategy is None else strategy)
    with opened_memory(where, embedding, create=False, search=True) as opened:
        hits = []
        if opened.count():
            with retriever_errors(strategy or "default"):
                found = factory(opened.view())
            with retriever_errors(strategy or "default", query):
                hits = found.search(query, k)[:k]
    if as_json:
        print_rows([{"score": hit.score, **hit.entry.model_dump()} for hit in hits])
        return
    from emend.evals.report.memory import show_hits
    from emend.evals.report.table import console_for

    show_hits(hits, console_for())


@memory.command()
def show(
    edit_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="An edit.")] = None,
    subject: Subject = None,
    relation: Subject = None,
    where: Where = FOLDER,
    as_json: Json = False,
) -> None:
    """Show an edit, or a fact (--subject and --relation), with all its values, oldest first."""
    from emend.evals.report.memory import edit_row, fact_rows, show_edit, show_facts
    from emend.evals.report.table import console_for

    if (edit_id is None) == (subject is None and relation is None) or (subject is None) != (relation is None):
        raise BadSettings("name an edit by its ID, or a fact by --subject and --relation.")
    with opened_memory(where) as opened:
        edit = _edit(opened, edit_id) if edit_id else None
        asked = {(t.subject, t.relation): t for t in edit.triplets} if edit else {(subject or "", relation or ""): None}
        facts = [opened.history(*fact) for fact in asked]
        entries = opened.entries([edit.id]) if edit else {}
    if edit is None and not facts[0].versions:
        raise MissingData(
            f"{where} has no edit of '{subject}', '{relation}': look with `emend memory search '{subject}'`."
        )
    if as_json:
        print_rows([*([edit_row(edit, entries)] if edit else []), *fact_rows(facts)])
        return
    if edit:
        show_edit(edit, entries, console_for())
    show_facts(facts, console_for())


@memory.command()
def stats(where: Where = FOLDER, as_json: Json = False) -> None:
    """Count what is stored."""
    with opened_memory(where) as opened:
        found = opened.stats()
    if as_json:
        print_rows([{"memory": where, **found.model_dump()}])
        return
    from emend.evals.report.memory import show_stats
    from emend.evals.report.table import console_for

    show_stats(where, found, console_for())


@memory.command()
def withdraw(
    edit_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Edits, as `search` and `show` name them.")],
    where: Where = FOLDER,
    as_json: Json = False,
) -> None:
    """Take edits back, as if they had never been added; what they had superseded is current again."""
    from emend.evals.report.memory import fact_rows, show_facts
    from emend.evals.report.table import console_for

    with opened_memory(where) as opened:
        edits = [_edit(opened, edit_id) for edit_id in dict.fromkeys(edit_ids)]
        opened.withdraw([edit.id for edit in edits])
        asked = dict.fromkeys((t.subject, t.relation) for edit in edits for t in edit.triplets)
        facts = [fact for one in asked if (fact := opened.history(*one)).versions]
    if as_json:
        print_rows([*({"withdrawn": edit.model_dump(mode="json")} for edit in edits), *fact_rows(facts)])
        return
    typer.echo(f"{len(edits)} edit{'s' * (len(edits) != 1)} withdrawn")
    show_facts(facts, console_for())


def _text(told: str) -> str:
    """What was typed; bytes that are no text in the terminal's encoding can neither be embedded nor kept."""
    try:
        told.encode()
    except UnicodeEncodeError as error:
        raise BadData(f"{told[:60]!a} is not UTF-8: give it in a file, in that encoding.") from error
    return told


@contextmanager
def opened_memory(
    where: str,
    embedding: str | None = None,
    superseding: Any = None,
    create: bool = False,
    search: bool = False,
) -> Iterator["ChromaMemory"]:
    """The memory; with an embedding only where one is needed, because loading a model takes its time."""
    from typing import get_args

    from emend.memory.embeddings.embed import LexicalEmbedding, load_embedding
    from emend.memory.paths import cache_folder
    from emend.memory.store.chroma import ChromaMemory
    from emend.memory.store.superseding import Superseding

    if superseding not in (None, *get_args(Superseding)):
        raise BadSettings(f"unknown rule '{superseding}': --superseding is one of {', '.join(get_args(Superseding))}.")
    encoder = None
    if create or search:
        stored = _identity(where, create)
        usual = "lexical" if stored == LexicalEmbedding().identity else "auto"
        encoder = load_embedding(embedding or usual, cache_folder("vectors"))
    with ChromaMemory(where, encoder, superseding, create) as opened:
        yield opened


def _identity(where: str, create: bool) -> str | None:
    """Of the embedding that a memory was made with; None if there is none and one is to be made."""
    from emend.memory.store.chroma import ChromaMemory

    try:
        with ChromaMemory(where, None, create=False) as opened:
            return opened.identity
    except MissingData:
        if not create:
            raise
        return None


def _edit(opened: "ChromaMemory", edit_id: str) -> "Edit":
    for edit in opened.edits([edit_id]):
        return edit
    raise BadData(f"no edit '{edit_id}' in {opened.location}: take an id that `emend memory search` shows.")


def _add(opened: "ChromaMemory", edits: "Sequence[Edit]") -> None:
    """With progress, and what came of it in one line."""
    from emend.evals.report.memory import counting

    told_before = {edit.id: edit for edit in opened.edits([edit.id for edit in edits])}
    before = opened.stats()
    try:
        with counting(len(edits)) as told:
            opened.add(edits, told)
    except KeyboardInterrupt:
        typer.echo("\ninterrupted: what is stored is kept; the same command stores the rest, nothing twice.", err=True)
        raise typer.Exit(130) from None
    after = opened.stats()
    superseded = f", {after.superseded} of them superseded" if after.superseded else ""
    new, replaced = after.edits - before.edits, len({e.id for e in edits if told_before.get(e.id, e) != e})
    instead = f", {replaced} in place of what had the same id" if replaced else ""
    typer.echo(f"{new} new edit{'s' * (new != 1)}{instead}; {opened.location} holds {after.edits}{superseded}")


def _one(told: dict[str, Any]) -> "Edit":
    from emend.memory.store.jsonl import edit_from

    if len({"subject", "document", "event"} & told.keys()) != 1:
        raise BadSettings("give one fact (--subject, --relation, --object), or one --document, or one --event.")
    return edit_from(told)
