"""The command `emend ask`."""

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.text import Text

from emend.evals.cli.options import grouped
from emend.evals.cli.output import print_text
from emend.evals.config.session_config import SessionConfig
from emend.evals.show.report.layout import console_for
from emend.memory.errors import (
    AccessBlocked,
    BadData,
    BadSettings,
    BudgetReached,
    EmendError,
    KeyRefused,
    MemoryMismatch,
    MissingData,
    MissingExtra,
    ProviderPaused,
    QuotaExhausted,
)
from emend.memory.escape import one_line, safe

if TYPE_CHECKING:
    from emend.evals.api.session import Session
    from emend.memory.probe import Answer, Step

# Errors that every further question would raise as well.
FATAL = (
    AccessBlocked, BadSettings, BudgetReached, KeyRefused, MemoryMismatch, MissingData,
    MissingExtra, ProviderPaused,
    QuotaExhausted,
)  # fmt: skip
# Maximum number of characters shown of a step's value.
MAX_VALUE = 300
SHOWN_ELSEWHERE = ("usage", "cut_tokens", "transcript", "reading")
HINT = "One question per line; Ctrl-D ends."


@grouped
def ask(
    config: SessionConfig,
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="QUESTION", help="Question; default: one per line of standard input."
        ),
    ] = None,
    continued: Annotated[
        bool,
        typer.Option("--continue", help="Continue the text instead of answering it as a question."),
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print each step as soon as it is finished.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per question, each on a line.")
    ] = False,
) -> None:
    """Ask a model questions about the edits of a memory, without changing the memory."""
    from emend.evals.api.session import Session

    if question is not None and not question.strip():
        raise BadSettings(
            "the question is blank: write one, or leave it out to type questions line by line."
        )
    with Session(config) as session:
        answer = partial(_answer, session, continued, trace, as_json)
        if question is not None:
            answer(question)
            return
        failed = sum(not _answered(answer, text) for text in questions(sys.stdin, sys.stderr))
    if failed:
        raise typer.Exit(1)


def questions(source: TextIO, prompt: TextIO) -> Iterator[str]:
    """Yield questions, one per line, until the input ends, with a prompt on a terminal.

    Raises:
        BadData: the input is not UTF-8.
    """
    typed = source.isatty() and prompt.isatty()

    def line() -> str:
        if typed:
            prompt.write("> ")
            prompt.flush()
        return source.readline()

    if typed:
        prompt.write(f"{HINT}\n")
    try:
        yield from filter(None, (text.strip() for text in iter(line, "")))
    except UnicodeDecodeError as error:
        raise BadData(
            f"the input is not UTF-8 ({error.reason}): write the questions in UTF-8."
        ) from error
    if typed:
        prompt.write("\n")  # starts a new line for the shell's prompt


def _answered(answer: Callable[[str], None], text: str) -> bool:
    """Ask one of several questions; return False if it fails, since the next one may succeed.

    Raises:
        EmendError: one of `FATAL`, after which no question will have an answer.
    """
    try:
        answer(text)
    except FATAL:
        raise
    except EmendError as error:
        print_text(f"{one_line(text, 60)}: {one_line(' '.join(str(error).split()))}", err=True)
        return False
    return True


def _answer(session: "Session", continued: bool, trace: bool, as_json: bool, text: str) -> None:
    """Ask a question and print the answer; as JSON, errors are printed too."""
    on_step = _step_printer() if trace and not as_json else None
    try:
        answer = session.ask(text, "cloze" if continued else "question", on_step)
    except EmendError as error:
        if as_json:
            print_text(json_line(text, error, trace))
        raise
    if as_json:
        print_text(json_line(text, answer, trace))
    else:
        _print_answer(answer, trace)


def json_line(question: str, result: "Answer | EmendError", steps: bool) -> str:
    """Return a question with its answer's fields or its error, as one line of JSON."""
    from emend.memory.steps import steps_of

    fields: dict[str, Any]
    if isinstance(result, EmendError):
        fields = {"error": f"{type(result).__name__}: {result}"}
        fields |= {"steps": [step.model_dump() for step in steps_of(result)]} if steps else {}
    else:
        fields = result.model_dump(exclude=None if steps else {"steps"})
    return json.dumps({"question": question} | fields, default=str)


def _print_answer(answer: "Answer", after_steps: bool) -> None:
    """Print the answer with its line breaks, below a heading if steps were printed."""
    heading = Text("answer  ", style="bold") if after_steps else Text()
    console_for().print(heading + Text(safe(answer.text or "")), soft_wrap=True)


def _step_printer() -> "Callable[[Step], None]":
    """Return a function that prints the steps of one question.

    For a value that grew since the previous step, only the new part is printed.
    """
    state: dict[str, Any] = {}

    def show(step: "Step") -> None:
        _print_step(step, state)
        state.update(_as_stored(step.update))

    return show


def _as_stored(update: dict[str, Any]) -> Any:
    """Return the update as stored in a run folder, with values unknown to JSON as texts."""
    return json.loads(json.dumps(update, ensure_ascii=False, default=str))


def _print_step(step: "Step", before: dict[str, Any]) -> None:
    """Print a step: its node, its duration in ms, and its changes of the state."""
    console = console_for()
    console.print(Text(f"{step.node}", style="bold") + Text(f"  {step.ms:,.0f} ms", style="dim"))
    for name, value in _changes(_as_stored(step.update), before):
        line = one_line(value)
        console.print(
            Text(f"  {name}: {line[:MAX_VALUE]}{'...' if len(line) > MAX_VALUE else ''}"),
            soft_wrap=True,
        )
    if step.error:
        console.print(Text(f"  {one_line(step.error)}", style="red"), soft_wrap=True)


def _changes(update: dict[str, Any], before: dict[str, Any]) -> Iterator[tuple[str, str]]:
    from emend.evals.show.report.traces.values import content_of, grown_by
    from emend.evals.show.trace.case_trace import conversation, new_hits

    for name, value in update.items():
        old = before.get(name)
        if name == "hits":
            new = new_hits(value, old or ())
        else:
            new = grown_by(value, old)[1]
        if name == "messages":
            messages = ((each["role"], content_of(each)) for each in conversation(new))
            texts = ((role, text) for role, text in messages if role in ("assistant", "tool"))
            yield from (
                (role, text) for role, text in texts if text and text not in update.values()
            )
        elif name not in SHOWN_ELSEWHERE and new not in ([], ""):
            yield name, new if isinstance(new, str) else json.dumps(new, ensure_ascii=False)
