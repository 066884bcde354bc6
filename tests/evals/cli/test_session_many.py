"""`emend ask` with one question per line and with limits: failed questions and fatal errors."""

import io
import sys

import pytest

from emend.evals.cli.commands.ask import HINT, questions
from emend.memory.errors import BadData
from tests.evals.command_line import emend
from tests.provider.protocols import Said, ToolCall
from tests.provider.server import Provider

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")


class Piped(io.StringIO):
    """Where no one types."""


class Typed(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def ask(memory, *arguments, lines=""):
    """The exit code of the command."""
    before, sys.stdin = sys.stdin, Piped(lines)
    try:
        return emend("ask", "--memory", str(memory), *arguments)
    finally:
        sys.stdin = before


def test_a_terminal_gets_a_hint_and_prompts():
    told = Typed()
    assert list(questions(Typed("Who?\n\n  Where?  \n"), told)) == ["Who?", "Where?"]
    assert told.getvalue() == f"{HINT}\n> > > > \n"


@pytest.mark.parametrize(("source", "told"), [(Piped, Typed), (Typed, Piped)])
def test_a_pipe_gets_no_prompts(source, told):
    said = told()
    assert list(questions(source("Who?\nWhere?"), said)) == ["Who?", "Where?"]
    assert said.getvalue() == ""


def test_questions_that_are_not_utf_8_are_bad_data():
    with pytest.raises(BadData, match="the input is not UTF-8"):
        list(questions(io.TextIOWrapper(io.BytesIO(b"\xff\n"), "utf-8"), Piped()))


def fault(asked):
    """By a word of the question."""
    return next((name for name in ("overflow", "refusal", "401", "quota") if name in asked.prompt), "")


def test_a_failed_question_is_reported_and_the_next_one_is_asked(memory, capsys):
    with Provider(lambda asked: "Meburg", strike=fault) as provider:
        told = ("--model", provider.spec("openai"))
        assert ask(memory, *told, lines="Where?\noverflow\nrefusal\nWho?\n") == 1
        assert provider.count == 4
        printed = capsys.readouterr()
        assert printed.out.split() == ["Meburg", "Meburg"]
        first, second = printed.err.splitlines()
        assert first.startswith("overflow: ") and "context window" in first
        assert second.startswith("refusal: ") and "declined" in second
        assert ask(memory, *told, lines="Where?\n") == 0
        assert ask(memory, *told, "overflow") == 2 and "error: " in capsys.readouterr().err


@pytest.mark.parametrize("hopeless", ["401", "quota"])
def test_a_fatal_error_ends_the_session(memory, capsys, hopeless):
    with Provider(lambda asked: "Meburg", strike=fault) as provider:
        told = ("--model", provider.spec("openai"))
        assert ask(memory, *told, lines=f"Where?\n{hopeless}\nWho?\n") == 2
        assert provider.count == 2
    printed = capsys.readouterr()
    assert printed.out.split() == ["Meburg"] and printed.err.startswith("error: ") and printed.err.count("\n") == 1


def test_limits_hold_over_all_questions_and_cached_replies_are_free(memory, tmp_path, capsys):
    with Provider(lambda asked: "Meburg") as provider:
        told = ("--model", provider.spec("openai"), "--cache", str(tmp_path / "kept"), "--max-calls", "2")
        assert ask(memory, *told, lines="One?\nTwo?\nThree?\nFour?\n") == 2
        assert provider.count == 2 and "--max-calls 2" in capsys.readouterr().err
        assert ask(memory, *told, lines="One?\nTwo?\nThree?\n") == 0
        assert provider.count == 3


def test_limits_of_a_local_model_are_refused(memory, capsys):
    assert ask(memory, "--tpm", "1", "--rpm", "5", "Where?") == 2
    assert "--rpm and --tpm with model 'tiny': a model on this machine has no provider" in capsys.readouterr().err


def test_the_trace_of_an_agent_has_tool_calls_and_results(memory, capsys):
    def speak(asked):
        if asked.messages[-1][0] == "tool":
            return (
                "Meburg"
                if asked.prompt.count("<change>") > 1
                else Said(calls=[ToolCall("list_updates", {"entity": "Vouna"})])
            )
        return Said(calls=[ToolCall("lookup", {"subject": "Vouna", "relation": "capital"})])

    with Provider(speak) as provider:
        assert ask(memory, "--model", provider.spec("openai"), "--editor", "agent", "--trace", "Where is it?") == 0
    steps = capsys.readouterr().out.split("\nplan ")
    assert len(steps) == 3
    for step, call in zip(steps, ('lookup({"subject": "Vouna", "relation": "capital"})', "list_updates"), strict=False):
        assert step.count("assistant: ") == step.count("tool: <change>") == step.count('"score"') == 1
        assert f"assistant: {call}" in step and "tool: <change>The capital of Vouna is Meburg" in step
    assert "final: Meburg" in steps[2] and "assistant: " not in steps[2] and "tool: " not in steps[2].split("prompt")[0]


def test_unedited_needs_no_memory_and_other_editors_do(tmp_path, capsys):
    assert ask(tmp_path / "none", "--editor", "unedited", "What is the capital of Vouna?") == 0
    assert capsys.readouterr().out.strip() and not (tmp_path / "none").exists()
    assert ask(tmp_path / "none", "--editor", "in_context", "What is the capital of Vouna?") == 2
    assert "none" in capsys.readouterr().err
