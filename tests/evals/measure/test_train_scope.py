"""`emend prepare scope`: training questions, the saved classifier, and its accuracy."""

import json

import pytest
from typer.testing import CliRunner

from emend.agents.scope import cross_encoder
from emend.agents.scope.base import embed_corpus
from emend.agents.scope.load import load_scope
from emend.evals.case import Case
from emend.evals.cli.commands.measure import _print_steps
from emend.evals.cli.main import app
from emend.evals.config.measure_config import ScopeConfig
from emend.evals.measure.training import questions_from, questions_of, train_scope_on
from emend.memory.edit import Edit, Triplet
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.probe import Probe
from tests.memory.tiny import tiny_bert
from tests.paths import DATA

RUN = CliRunner()
ELKEN = DATA / "elken"
TINY = ScopeConfig(
    benchmark="tinyworld",
    embedding="lexical",
    limit=12,
    benchmark_options={"split": "seen"},
    also_check={"split": "unseen"},
)


def test_every_tenth_of_the_steps_is_told(capsys):
    for step in range(1, 26):
        _print_steps(step, 25)
    told = [int(line.split()[1]) for line in capsys.readouterr().err.splitlines()]
    assert told == [*range(2, 25, 2), 25]


def test_a_question_is_about_its_relevant_edit_or_none():
    questions = questions_of(TINY, TINY.benchmark_options)
    assert len(questions.texts) == 12 and len(set(questions.cases)) == 12
    assert len(questions.questions) == len(questions.about) == len(questions.beside) == len(questions.cases)
    assert {bool(about) for about in questions.about} == {True, False}
    assert all(example.beside is None for example in questions.examples if example.about)


def test_a_question_that_another_applied_edit_asks_is_not_out_of_scope():
    lands = [
        Edit.from_triplet(
            Triplet(subject=f"Land{n}", relation="river", object=f"Aske{n}"),
            "The river of {} is",
            question=f"What is the river of Land{n}?",
        )
        for n in range(2)
    ]
    outside = [
        Probe(kind="hop", prompt="What is the river of Land1?", style="question", gold=("x",), in_scope=False),
        Probe(kind="hop", prompt="Who rules Land0?", style="question", gold=("x",), in_scope=False),
    ]
    inside = [Probe(kind="efficacy", prompt=edit.cloze, gold=("x",), edit_ids=(edit.id,)) for edit in lands]
    cases = [Case(edits=(lands[0],), probes=(inside[0], *outside)), Case(edits=(lands[1],), probes=(inside[1],))]
    questions = questions_from(cases)
    assert questions.questions == (inside[0].prompt, "Who rules Land0?", inside[1].prompt)
    assert questions.about == ((0,), (), (1,))
    assert len(questions_from(cases[:1]).questions) == 3  # alone, the other edit is not applied


@pytest.mark.slow
def test_the_classifier_is_saved_and_measured_on_held_out_questions(tmp_path):
    rows = train_scope_on(TINY, tmp_path / "scope")
    assert [(row.split, row.scope) for row in rows] == [
        (s, o) for s in ("train", "check") for o in ("in", "out", "all")
    ]
    for row in rows:
        assert row.accuracy is not None and row.low is not None and row.high is not None
        assert 0 <= row.low <= row.accuracy <= row.high <= 1 and row.n > 0 and row.texts == 12
    assert rows[5].accuracy is not None and rows[5].accuracy > 0.7
    assert rows[0].n + rows[1].n == rows[2].n
    assert load_scope(tmp_path / "scope").threshold == rows[0].threshold


@pytest.mark.slow
def test_the_command_shows_accuracy_and_an_editor_takes_the_folder(tmp_path):
    scope = tmp_path / "scope"
    words = ["prepare", "scope", "--benchmark", "tinyworld", "--embedding", "lexical", "--limit", "6"]
    shown = RUN.invoke(app, [*words, "--out", str(scope)], catch_exceptions=False, env={"COLUMNS": "80"}).stdout
    assert "accuracy" in shown and "trained on" in shown and "serac.scope=" in shown
    words += ["--out", str(tmp_path / "again")]
    rows = json.loads(RUN.invoke(app, [*words, "--json"], catch_exceptions=False).stdout)["rows"]
    assert {row["split"] for row in rows} == {"train"}
    run = ["run", "--benchmark", "tinyworld", "--editor", "serac", "--set", f"serac.scope={scope}", "--limit", "1"]
    done = RUN.invoke(app, [*run, "--embedding", "lexical", "--out", str(tmp_path / "run")], catch_exceptions=False)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("changed", "error", "told"),
    [
        ({"classifier": "crossencoder"}, BadSettings, "did you mean 'cross-encoder'"),
        ({"benchmark": "tinyword"}, BadSettings, "tinyworld"),
    ],
)
def test_wrong_names_are_refused(changed, error, told, tmp_path):
    with pytest.raises(error, match=told):
        train_scope_on(TINY.model_copy(update=changed), tmp_path)
    assert not list(tmp_path.iterdir())


def test_edits_are_grouped_by_a_tag_and_an_unknown_tag_is_refused(tmp_path):
    elken = ScopeConfig(
        benchmark="elken",
        data=str(ELKEN),
        embedding="lexical",
        benchmark_options={"split": "train"},
        group="event_type",
    )
    questions = questions_of(elken, elken.benchmark_options)
    assert len(questions.groups) == len(questions.texts) > 1
    types = {row["event"]: row["event_type"] for row in json.loads((ELKEN / "train.json").read_text("utf-8"))}
    assert questions.groups == tuple(types[text] for text in questions.texts)
    train_scope_on(elken, tmp_path / "scope")
    assert questions_of(elken.model_copy(update={"group": ""}), elken.benchmark_options).groups == ()
    with pytest.raises(BadSettings, match=r"no tag 'event_typ'.*event_type"):
        questions_of(elken.model_copy(update={"group": "event_typ"}), elken.benchmark_options)


def test_questions_of_one_kind_alone_are_refused(tmp_path, monkeypatch):
    questions = questions_of(TINY, TINY.benchmark_options)
    inside = questions.model_copy(update={"about": ((0,),) * len(questions.about)})
    monkeypatch.setattr("emend.evals.measure.training.questions_of", lambda run, options: inside)
    with pytest.raises(BadData, match="both are needed"):
        train_scope_on(TINY, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("classifier", ["cross-encoder", "elken"])
def test_a_cross_encoder_is_trained_and_loaded(tmp_path, monkeypatch, classifier):
    folder = tiny_bert(tmp_path / "base")
    monkeypatch.setattr(cross_encoder, "encoder_folder", lambda spec: folder)
    run = TINY.model_copy(update={"classifier": classifier, "limit": 4, "also_check": {}})
    rows = train_scope_on(run, tmp_path / "scope")
    loaded = load_scope(tmp_path / "scope")
    assert loaded.identity.startswith(f"{classifier}/") and loaded.threshold == rows[0].threshold
    assert classifier == "cross-encoder" or loaded.threshold == 0.5
    probabilities = loaded.over(embed_corpus(["The capital of Vouna is Meburg.", "x"], LexicalEmbedding()))(
        "What is the capital of Vouna?"
    )
    assert probabilities.shape == (2,) and ((0 < probabilities) & (probabilities < 1)).all()
    assert not list(tmp_path.rglob("*.bin")) and list((tmp_path / "scope").glob("*.safetensors"))
    assert loaded.over(embed_corpus([], LexicalEmbedding()))("x").shape == (0,)
