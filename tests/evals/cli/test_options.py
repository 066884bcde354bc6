"""Options that several commands have are one class, taken apart for the command line and put together again."""

from dataclasses import dataclass, fields
from typing import Annotated, Any

import pytest
import typer
from click import Command
from typer.main import get_command
from typer.testing import CliRunner

from emend.evals.cli.judging_options import Judges
from emend.evals.cli.limits import Limits
from emend.evals.cli.main import app
from emend.evals.cli.options import Group, grouped


@dataclass(frozen=True)
class Paint(Group):
    """A group with an option that must be given."""

    colour: Annotated[str, typer.Option(help="Which colour.")]
    coats: Annotated[int, typer.Option(help="How many.")] = 2


@dataclass(frozen=True)
class Brush(Group):
    """Another one."""

    width: Annotated[float | None, typer.Option(help="In centimetres.")] = None


def told(*words: str) -> tuple[int, str, list[Any]]:
    seen: list[Any] = []
    shell = typer.Typer()

    @shell.command()
    @grouped
    def decorate(
        wall: Annotated[str, typer.Argument()], paint: Paint, dry: bool = False, *, brush: Brush, tag: str = "x"
    ) -> None:
        """Decorate."""
        seen.extend([wall, paint, dry, brush, tag])

    done = CliRunner().invoke(shell, list(words))
    return done.exit_code, done.output, seen


def test_a_group_reaches_the_command_as_one_value_and_defaults_stand() -> None:
    assert told("north", "--colour", "red") == (0, "", ["north", Paint("red"), False, Brush(), "x"])
    code, _, seen = told("east", "--coats", "3", "--width", "2.5", "--colour", "blue", "--dry", "--tag", "y")
    assert (code, seen) == (0, ["east", Paint("blue", 3), True, Brush(2.5), "y"])


def test_what_a_group_needs_is_asked_for_by_its_option() -> None:
    code, output, seen = told("north")
    assert (code, seen) == (2, []) and "--colour" in output
    code, output, seen = told("north", "--colour", "red", "--coats", "many")
    assert (code, seen) == (2, []) and "--coats" in output


def test_help_names_every_option_of_a_group() -> None:
    code, output, _ = told("--help")
    assert code == 0 and all(name in output for name in ("--colour", "Which colour.", "--coats", "--width", "--tag"))


def test_two_groups_with_one_name_are_refused_when_the_command_is_made() -> None:
    with pytest.raises(ValueError, match="duplicate parameter name: 'coats'"):

        @grouped
        def decorate(paint: Paint, coats: int = 1) -> None:
            """Decorate."""


def command(*words: str) -> Command:
    found: Any = get_command(app)
    for word in words:
        found = found.commands[word]
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize("words", [("score",), ("judge", "stress"), ("judge", "calibrate"), ("run",)])
def test_commands_that_ask_providers_have_the_same_options_with_the_same_words(words: tuple[str, ...]) -> None:
    groups = (Limits,) if words == ("run",) else (Judges, Limits)
    wanted = {field.name for group in groups for field in fields(group)}
    mine, scores = ({one.name: one for one in command(*given).params} for given in (words, ("score",)))
    assert wanted <= set(mine)
    for name in wanted:
        ours: Any = mine[name]
        theirs: Any = scores[name]
        assert (ours.help, ours.default, ours.opts) == (theirs.help, theirs.default, theirs.opts)
