"""Options are generated from configuration models and reach the command as one value."""

from typing import Annotated, Any

import pytest
import typer
from click import Command
from pydantic import Field
from typer.testing import CliRunner

from emend.evals.cli.commands.judge import JudgeOptions
from emend.evals.cli.main import COMMANDS, load_command
from emend.evals.cli.options import OptionalFields, exclusive, grouped, parse_overrides
from emend.evals.config.limits import Limits
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings


class Paint(FrozenModel):
    """A group with an option that must be given."""

    colour: str = Field(description="Which colour.")
    coats: int = Field(default=2, description="How many.")


class Brush(FrozenModel):
    """Another one."""

    width: float | None = Field(default=None, description="In centimetres.")


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


def test_a_group_reaches_the_command_as_one_value_with_defaults_and_is_in_its_help() -> None:
    assert told("north", "--colour", "red") == (0, "", ["north", Paint(colour="red"), False, Brush(), "x"])
    code, _, seen = told("east", "--coats", "3", "--width", "2.5", "--colour", "blue", "--dry", "--tag", "y")
    assert (code, seen) == (0, ["east", Paint(colour="blue", coats=3), True, Brush(width=2.5), "y"])
    code, output, _ = told("--help")
    assert code == 0 and all(name in output for name in ("--colour", "Which colour.", "--coats", "--width", "--tag"))


def test_a_required_field_is_a_required_option() -> None:
    code, output, seen = told("north")
    assert (code, seen) == (2, []) and "--colour" in output
    code, output, seen = told("north", "--colour", "red", "--coats", "many")
    assert (code, seen) == (2, []) and "--coats" in output


def test_two_groups_with_one_name_are_refused_when_the_command_is_made() -> None:
    with pytest.raises(ValueError, match="duplicate parameter name: 'coats'"):

        @grouped
        def decorate(paint: Paint, coats: int = 1) -> None:
            """Decorate."""


def test_optional_fields_have_no_defaults_and_only_given_ones_reach_the_command() -> None:
    shell = typer.Typer()
    seen: list[Any] = []

    @shell.command()
    @grouped
    def decorate(paint: Paint, brush: Annotated[dict[str, Any], OptionalFields(Brush, ("width",))]) -> None:
        """Decorate."""
        seen.extend([paint, brush])

    assert CliRunner().invoke(shell, ["--colour", "red"]).exit_code == 0 and seen.pop() == {}
    assert CliRunner().invoke(shell, ["--colour", "red", "--width", "1.5"]).exit_code == 0 and seen.pop() == {
        "width": 1.5
    }
    assert seen == [Paint(colour="red")] * 2


def test_an_option_of_a_chat_template_is_a_setting_within_the_models() -> None:
    texts = [
        "model.template.enable_thinking=false",
        "model.template.date=2024-07-26",
        "model.chat=true",
        "my.mod:Ed.k=3",
    ]
    template = {"enable_thinking": False, "date": "2024-07-26"}
    assert parse_overrides(texts) == {"model": {"template": template, "chat": True}, "my.mod:Ed": {"k": 3}}


def test_options_that_do_not_go_together_are_named() -> None:
    assert exclusive({"--json": False, "--md": None}) == [] and exclusive({"--json": True, "--md": None}) == ["--json"]
    with pytest.raises(BadSettings, match="--json and --md do not go together"):
        exclusive({"--json": True, "--md": "x"})


def command(name: str, *words: str) -> Command:
    result: Any = load_command(name)
    for word in words:
        result = result.commands[word]
    return result  # type: ignore[no-any-return]


@pytest.mark.parametrize("words", [("judge", "run"), ("judge", "stress"), ("judge", "calibrate"), ("run",), ("ask",)])
def test_commands_that_ask_providers_have_the_same_options_with_the_same_words(words: tuple[str, ...]) -> None:
    groups = (JudgeOptions, Limits) if words[0] == "judge" else (Limits,)
    wanted = {name for group in groups for name in group.model_fields}
    mine, scores = ({option.name: option for option in command(*given).params} for given in (words, ("judge", "run")))
    assert wanted <= set(mine)
    for name in wanted:
        ours: Any = mine[name]
        theirs: Any = scores[name]
        assert (ours.help, ours.default, ours.opts) == (theirs.help, theirs.default, theirs.opts)


@pytest.mark.parametrize("name", COMMANDS.names())
def test_every_command_and_option_says_what_it_does(name: str) -> None:
    """And the options their unit or values, since no help text is a mere name."""
    result: Any = load_command(name)
    for each in (result, *getattr(result, "commands", {}).values()):
        assert each.help and each.help[0].isupper() and each.help.rstrip().endswith("."), each.name
        for option in each.params:
            if not option.hidden:
                text = option.help or ""
                assert text[:1].isupper() and text.endswith(".") and "[" not in text, (each.name, option.name)
