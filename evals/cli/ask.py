"""The command `emend ask`."""

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.limits import Limits
from emend.evals.cli.memory import FOLDER, Where
from emend.evals.cli.options import Set, grouped, overrides_of
from emend.memory.errors import (
    BadSettings,
    BudgetReached,
    EmendError,
    KeyRefused,
    MemoryMismatch,
    MissingData,
    MissingExtra,
    QuotaExhausted,
)
from emend.memory.redaction import hide_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from emend.evals.cli.session import Asking

HOPELESS = (BadSettings, BudgetReached, KeyRefused, MemoryMismatch, MissingData, MissingExtra, QuotaExhausted)
"""What befalls one question would befall the next as well."""


@grouped
def ask(
    question: Annotated[str | None, typer.Argument(help="What is asked; without it, one question a line.")] = None,
    model: Annotated[str, typer.Option(help="tiny, hf:FOLDER, openai:NAME, anthropic:NAME.")] = "tiny",
    editor: Annotated[str, typer.Option(help="An editor over a memory; see: emend list editors.")] = "rag",
    where: Where = FOLDER,
    retriever: Annotated[str, typer.Option(help="See: emend list retrievers.")] = "dense",
    embedding: Annotated[str | None, typer.Option(help="The memory's, where it is none of the usual ones.")] = None,
    continued: Annotated[
        bool, typer.Option("--continue", help="The text is no question, but to be continued.")
    ] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show each step as soon as it has ended.")] = False,
    settings: Set = None,
    *,
    limits: Limits,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a question, each on its line.")] = False,
) -> None:
    """Ask a model that knows what a memory holds; nothing is added to the memory."""
    from emend.evals.cli.session import Asking, questions

    if question is not None and not question.strip():
        raise BadSettings("the question is blank: write one, or leave it out to be asked for it.")
    overrides = overrides_of(settings or [])
    with Asking(model, editor, where, retriever, overrides, embedding, asdict(limits)) as asking:
        answer = partial(_answer, asking, continued, trace, as_json)
        if question is not None:
            answer(question)
            return
        lost = sum(not _answered(answer, text) for text in questions(sys.stdin, sys.stderr))
    if lost:
        raise typer.Exit(1)


def _answered(answer: "Callable[[str], None]", text: str) -> bool:
    """Whether one of several questions has an answer: those after one that has none may fare better.

    Raises:
        EmendError: one of `HOPELESS`, after which no question will have one.
    """
    from emend.evals.report.escape import one_line

    try:
        answer(text)
    except HOPELESS:
        raise
    except EmendError as error:
        typer.echo(f"{one_line(text, 60)}: {one_line(hide_keys(' '.join(str(error).split())))}", err=True)
        return False
    return True


def _answer(asking: "Asking", continued: bool, trace: bool, as_json: bool, text: str) -> None:
    """Ask, and print the answer; as JSON, the error too that takes its place."""
    from emend.evals.cli import session as ask

    told = ask.showing() if trace and not as_json else None
    try:
        answer = asking.ask(text, "cloze" if continued else "question", told)
    except EmendError as error:
        if as_json:
            typer.echo(ask.as_json(text, error, trace))
        raise
    if as_json:
        typer.echo(ask.as_json(text, answer, trace))
    else:
        ask.show_answer(answer, trace)
