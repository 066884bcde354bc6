"""The command `emend ask`."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli_memory import FOLDER, Where
from emend.evals.cli_options import Set, overrides_of
from emend.memory.errors import BadData, BadSettings, ModelReplyError
from emend.memory.secrets import hide_keys

if TYPE_CHECKING:
    from emend.memory.probe import Answer


def ask(
    question: Annotated[str | None, typer.Argument(help="What is asked; without it, one question a line.")] = None,
    model: Annotated[str, typer.Option(help="tiny, hf:FOLDER, openai:NAME[@URL], anthropic:NAME.")] = "tiny",
    editor: Annotated[str, typer.Option(help="An editor over a memory; see: emend list editors.")] = "rag",
    where: Where = FOLDER,
    retriever: Annotated[str, typer.Option(help="See: emend list retrievers.")] = "dense",
    embedding: Annotated[str | None, typer.Option(help="The memory's, where it is none of the usual ones.")] = None,
    continued: Annotated[
        bool, typer.Option("--continue", help="The text is no question, but to be continued.")
    ] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show each step as soon as it has ended.")] = False,
    settings: Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a question, each on its line.")] = False,
) -> None:
    """Ask a model that knows what a memory holds; nothing is added to the memory."""
    from emend.evals.ask import Asking, show_answer, show_step

    if question is not None and not question.strip():
        raise BadSettings("the question is blank: write one, or leave it out to be asked for it.")
    overrides = overrides_of(settings or [])
    with Asking(model, editor, where, retriever, overrides, embedding) as asking:
        lost = 0
        for text in [question] if question is not None else _lines():
            try:
                answer = asking.ask(
                    text, "cloze" if continued else "question", show_step if trace and not as_json else None
                )
            except ModelReplyError as error:
                if question is not None:
                    raise
                lost += 1  # the questions after it may fare better
                typer.echo(f"{text[:60]}: {hide_keys(str(error))}", err=True)
                continue
            _tell(answer, as_json, trace) if as_json else show_answer(answer, trace)
    if lost:
        raise typer.Exit(1)


def _lines() -> Any:
    """One question a line, until the input ends."""
    try:
        for line in sys.stdin:
            if line.strip():
                yield line.strip()
    except UnicodeDecodeError as error:
        raise BadData(f"the input is not UTF-8 ({error.reason}): write the questions in UTF-8.") from error


def _tell(answer: "Answer", as_json: bool, trace: bool) -> None:
    typer.echo(hide_keys(answer.model_dump_json(exclude=None if trace else {"steps"})))
