"""The help has the common options first and each other one in the panel of its subject."""

import inspect
import re
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from emend.evals.cli.main import COMMANDS, app, load_command, old_names
from emend.evals.cli.panels import COMMON, MORE, in_panels


def panels_of(command: Any) -> dict[str, list[str]]:
    """Options by panel, in the order of the help."""
    panels: dict[str, list[str]] = {}
    for option in command.params:
        if option.param_type_name == "option" and not option.hidden:
            panels.setdefault(option.rich_help_panel or COMMON, []).append(option.opts[0])
    return panels


def test_the_help_of_run_begins_with_twelve_common_options() -> None:
    panels = panels_of(load_command("run"))
    assert list(panels) == [
        COMMON,
        "More: what is evaluated",
        "More: scoring",
        "More: scale",
        "More: CI and files",
        "API calls",
    ]
    assert panels[COMMON][:4] == ["--benchmark", "--editor", "--model", "--setting"] and len(panels[COMMON]) == 12


@pytest.mark.parametrize("words", [[], ["view"], ["report"], ["judge", "agreement"], ["data", "chats"]])
def test_the_help_shows_no_python_types(words: list[str]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"]).output
    assert "Options" in shown and not re.search(r"<[a-z]|list\[", shown)


@pytest.mark.parametrize("name", [name for name in COMMANDS.names() if name not in old_names()])
def test_no_panel_of_any_command_has_more_than_twenty_options(name: str) -> None:
    command = load_command(name)
    for each in (command, *getattr(command, "commands", {}).values()):
        for title, options in panels_of(each).items():
            assert len(options) <= 20, (each.name, title)


def test_common_options_come_first_then_subjects_then_the_rest() -> None:
    @in_panels("c", subjects={"Tools": ("a",)}, hidden=("d",))
    def command(
        a: Annotated[int, typer.Option()] = 1,
        b: Annotated[int, typer.Option()] = 2,
        c: Annotated[int, typer.Option()] = 3,
        d: Annotated[int, typer.Option()] = 4,
    ) -> None:
        """Do it."""

    placed = inspect.signature(command).parameters
    options = {name: placed[name].annotation.__metadata__[0] for name in placed}
    assert [(name, option.rich_help_panel, option.hidden) for name, option in options.items()] == [
        ("c", COMMON, False),
        ("a", "Tools", False),
        ("b", MORE, False),
        ("d", MORE, True),
    ]


def test_a_common_option_that_the_command_lacks_is_refused_when_it_is_made() -> None:
    with pytest.raises(ValueError, match="no parameter 'colour'"):

        @in_panels("colour")
        def command() -> None:
            """Do it."""
