"""`emend ask` and `emend graph`: output; asking leaves a memory unchanged."""

import json

import pytest
from typer.testing import CliRunner

from emend.evals.cli.main import app
from emend.evals.components.config import SessionConfig
from emend.evals.components.session import Session
from emend.graphs.registry import GRAPHS
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadSettings, MemoryMismatch
from emend.memory.store.chroma import ChromaMemory

RUN = CliRunner()


def ask(memory, *more: str, lines: str | None = None):
    return RUN.invoke(app, ["ask", "--memory", str(memory), *more], input=lines, catch_exceptions=False)


def test_the_model_answers_from_the_memory(memory):
    assert ask(memory, "What is the capital of Vouna?").stdout.strip() == "Meburg"


@pytest.mark.parametrize("editor", ["in_context", "rag"])
def test_superseded_edits_are_not_shown(memory, editor):
    newer = Triplet(subject="Vouna", relation="capital", object="Oldport")
    with ChromaMemory(memory, LexicalEmbedding()) as opened:
        opened.add([Edit.from_triplet(newer, "The capital of {} is")])
    told = json.loads(ask(memory, "--editor", editor, "--json", "What is the capital of Vouna?").stdout)
    assert "Oldport" in told["prompt"] and "Meburg" not in told["prompt"]


def test_another_embedding_can_be_named(memory):
    assert ask(memory, "--embedding", "lexical", "What is the capital of Vouna?").stdout.strip() == "Meburg"
    with pytest.raises(MemoryMismatch, match="--embedding lexical"):
        ask(memory, "--embedding", "minilm", "What is the capital of Vouna?")


def test_without_a_question_each_line_is_one_and_a_text_may_be_continued(memory):
    told = ask(memory, "--continue", "--editor", "serac", lines="The capital of Vouna is\n\nThe capital of Vouna is\n")
    assert told.stdout.split() == ["Meburg", "Meburg"]


def test_with_trace_every_step_is_shown_before_the_answer(memory):
    lines = ask(memory, "--trace", "--editor", "mello", "--set", "mello.hops=1", "What is the capital of Vouna?").stdout
    nodes = [line.split()[0] for line in lines.splitlines() if line and not line.startswith(" ")]
    assert nodes == ["decompose", "retrieve", "check", "decompose", "compose", "respond", "answer"]
    assert lines.splitlines()[-1].split() == ["answer", "Meburg"]


def test_json_has_one_object_per_answer(memory):
    told = json.loads(ask(memory, "--json", "What is the capital of Vouna?").stdout)
    assert told["text"] == "Meburg" and len(told["retrieved"]) == 1 and "steps" not in told
    assert json.loads(ask(memory, "--json", "--trace", "Where?").stdout.splitlines()[-1])["steps"]


def test_asking_adds_nothing_to_the_memory(memory):
    def stored():
        with ChromaMemory(memory, None) as opened:
            return [edit.id for edit in opened.edits()]

    before = stored()
    ask(memory, "What is the capital of Vouna?")
    assert stored() == before


def test_a_wrong_name_is_refused_before_a_model_is_loaded(memory):
    with pytest.raises(BadSettings, match="unknown editor 'ragg': did you mean 'rag'"):
        Session(SessionConfig(model="nothing", editor="ragg", memory=str(memory)))


@pytest.mark.parametrize("name", GRAPHS.names())
def test_every_graph_is_drawn_in_the_terminal_as_mermaid_and_as_json(name):
    shown = RUN.invoke(app, ["graph", name], env={"COLUMNS": "80"}).stdout
    rows = json.loads(RUN.invoke(app, ["graph", name, "--json"]).stdout)["rows"]
    mermaid = RUN.invoke(app, ["graph", name, "--mermaid"]).stdout
    assert max(map(len, shown.splitlines())) <= 80 and mermaid.startswith("---")
    for row in rows:
        assert row["node"] in shown and (row["node"] == "start" or (row["does"] and row["leads_to"])), row
        assert all(target in shown for target in row["leads_to"])


def test_two_forms_of_a_graph_do_not_go_together():
    with pytest.raises(BadSettings, match="--mermaid and --json do not go together"):
        RUN.invoke(app, ["graph", "rag", "--mermaid", "--json"], catch_exceptions=False)


def test_an_unknown_graph_is_named():
    with pytest.raises(BadSettings, match="unknown graph 'melo'"):
        RUN.invoke(app, ["graph", "melo"], catch_exceptions=False)


def test_an_editors_graph_is_drawn_by_the_editors_name():
    assert RUN.invoke(app, ["graph", "input_aug"]).stdout == RUN.invoke(app, ["graph", "rag"]).stdout
    for name in ("unedited", "rome"):  # a model with edited weights is asked as it stands
        assert RUN.invoke(app, ["graph", name]).stdout == RUN.invoke(app, ["graph", "direct"]).stdout
    assert RUN.invoke(app, ["graph", "ice"]).stdout == RUN.invoke(app, ["graph", "in_context"]).stdout
    with pytest.raises(BadSettings, match="unknown graph 'romeo'"):
        RUN.invoke(app, ["graph", "romeo"], catch_exceptions=False)


def test_as_json_with_trace_nothing_else_is_printed(memory):
    told = json.loads(ask(memory, "--json", "--trace", "What is the capital of Vouna?").stdout)
    assert told["text"] == "Meburg" and told["steps"]


@pytest.mark.parametrize("question", ["", "  "])
def test_a_blank_question_is_refused(memory, question):
    with pytest.raises(BadSettings, match="the question is blank"):
        ask(memory, question)
