"""A benchmark's instructions from a file take the place of its own, and replies are read in their form."""

import json
from pathlib import Path

import pytest

from emend.agents.judging.prompt_file import JudgePrompt
from emend.agents.roles.answer import probe_prompt, wording_id
from emend.agents.roles.instructions import (
    instructed_prompt,
    instruction_of,
    joined_name,
    read_form,
    read_instructions,
)
from emend.memory.errors import BadData
from emend.memory.probe import Probe

FILE = """
[fact]
system = "You are asked about events."
task = "Take the event as true."
ask = "Event: {facts} Question: {question} Answer:"
form = "Answer: {answer}"
words = { nobody = "unknown" }
[[fact.examples]]
facts = "Ana sold the mill."
question = "Whose is the mill?"
reply = "Answer: unknown"
[fact.alone]
task = "Answer by what you know."
ask = "Question: {question}"
[fact_local]
ask = "{prompt}"
[tendency_m]
ask = "{question} {options}"
"""
PROBE = Probe(kind="fact_direct", prompt="Say it. Question: Who left?", query="Who left?", gold=("Ana",), style="raw")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.toml"
    path.write_text(FILE)
    return path


def test_a_probe_is_asked_with_roles_demonstrations_and_its_facts(file: Path):
    prompt = probe_prompt(PROBE, ("Ana has left.",), (), joined_name(str(file), "new_fact"))
    assert [turn.type for turn in prompt.turns] == ["system", "human", "ai", "human"]
    assert prompt.turns[1].text.startswith("Take the event as true.\n\nEvent: Ana sold the mill.")
    assert prompt.turns[-1].text == "Event: Ana has left. Question: Who left? Answer:"
    assert prompt.text.endswith(prompt.turns[-1].text) and "Say it." not in prompt.text


def test_without_facts_it_is_asked_in_the_other_words(file: Path):
    prompt = probe_prompt(PROBE, (), (), joined_name(str(file), "new_fact"))
    assert [turn.text for turn in prompt.turns] == ["Answer by what you know.\n\nQuestion: Who left?"]


def test_the_longest_name_of_a_table_counts_and_other_kinds_keep_the_benchmarks_own_words(file: Path):
    name = joined_name(str(file), "based_on_facts")
    local = PROBE.model_copy(update={"kind": "fact_local"})
    assert probe_prompt(local, ("Ana has left.",), (), name).text == PROBE.prompt
    other = PROBE.model_copy(update={"kind": "superlative", "style": "question"})
    assert "Here are some new facts: Ana has left." in probe_prompt(other, ("Ana has left.",), (), name).text


def test_options_have_letters(file: Path):
    probe = PROBE.model_copy(update={"kind": "tendency_m_local", "choices": ("up", "down", "same")})
    assert probe_prompt(probe, (), (), f"{file}|new_fact").text == "Who left? (A) up (B) down (C) same"


def test_what_is_asked_is_part_of_an_editors_identity(file: Path, tmp_path: Path):
    name, plain = f"{file}|new_fact", wording_id("new_fact")
    first = wording_id(name)
    assert first != plain
    other = tmp_path / "other.toml"
    other.write_text(FILE.replace("Who left", "Who went").replace("what you know", "heart"))
    assert wording_id(f"{other}|new_fact") not in (first, plain)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Let me see.\nAnswer: Ana", "Ana"),
        ("Answer: Ana\nno, Answer: Nobody.", "unknown"),
        ("answer:   Ana Rojo  ", "Ana Rojo"),
        ("Ana", None),
    ],
)
def test_the_answer_is_the_field_of_the_last_line_in_the_form(file: Path, reply: str, answer: str | None):
    instruction = instruction_of(read_instructions(file), "fact_direct", has_facts=True)
    assert instruction is not None and read_form(instruction, reply) == answer


def test_a_form_may_be_a_tag():
    assert (
        read_form(JudgePrompt(ask="{question}", form="<answer>{answer}</answer>"), "So <answer>Ana</answer>") == "Ana"
    )


def test_a_reply_that_never_closes_its_tag_is_read_at_once():
    form = JudgePrompt(ask="{question}", form="<answer>{answer}</answer>")
    assert read_form(form, "<answer>" + " " * 50_000 + "Ana") is None
    assert read_form(form, "<answer>" * 5_000) is None


def test_a_form_may_begin_with_the_answer():
    assert read_form(JudgePrompt(ask="{question}", form="{answer} is it."), "So.\nAna is it.\nBye.") == "Ana"


def test_every_option_is_shown():
    probe = PROBE.model_copy(update={"kind": "x", "choices": tuple(f"no. {number}" for number in range(28))})
    text = instructed_prompt(JudgePrompt(ask="{options}"), probe, ()).text
    assert text.startswith("(A) no. 0 (B) no. 1") and text.endswith("(Z) no. 25 (27) no. 26 (28) no. 27")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[fact]\nask = "{event}"', r"no \{event\}"),
        ("[fact]\ntask = 'x'", "ask"),
        ("", "contains no prompt"),
        ("[fact", "cannot read"),
        ('[fact]\nask = "{question}"\nexamples = [{ reply = "x" }]', "lacks 'question'"),
    ],
)
def test_a_file_that_is_not_as_it_must_be_is_refused(tmp_path: Path, text: str, message: str):
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(BadData, match=message):
        read_instructions(tmp_path / "p.toml")


def test_a_file_in_json_has_the_same_tables(tmp_path: Path):
    (tmp_path / "p.json").write_text(json.dumps({"fact": {"ask": "{question}"}}))
    assert read_instructions(tmp_path / "p.json")["fact"].ask == "{question}"
