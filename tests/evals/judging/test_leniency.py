"""Wrong answers made from gold, specific and vague, and how many a judge accepts of them."""

import json
from pathlib import Path

import pytest

from emend.agents.judging.base import JudgeInput
from emend.agents.judging.specifics import best_coverage
from emend.agents.llm import MODELS
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.judging.leniency import gold_questions, measure_leniency, rubric_questions
from emend.evals.judging.panel import Panel
from emend.evals.judging.wrong_answers import (
    KINDS,
    NONE_MADE,
    RIGHT,
    GoldQuestion,
    make_wrong,
    model_writer,
    rule_writer,
    vague_form,
)
from emend.memory.errors import BadSettings
from tests.evals.command_line import emend
from tests.evals.judged_runs import JUDGE, PANEL, judge_model
from tests.evals.toys import ScriptedModel
from tests.fakes import ScriptedChatModel
from tests.paths import DATA

pytestmark = pytest.mark.usefixtures("own_cache")
QUESTIONS = (
    GoldQuestion("When was Kelp Light built?", ("7 May 1903",)),
    GoldQuestion("When did the ferry sink?", ("12 June 1911",)),
    GoldQuestion("How many ships came?", ("five ships",)),
    GoldQuestion("Who leads the museum?", ("Halvard Brenn", "Brenn")),
    GoldQuestion("Who painted the pier?", ("Pia Skov",)),
    GoldQuestion("Is Norway a kingdom?", ("yes",)),
)


@pytest.mark.parametrize(
    ("question", "gold", "text"),
    [
        ("When was Kelp Light built?", "7 May 1903", "some time in 1903"),
        ("When did it end?", "2001", "some time in the 2000s"),
        ("How many ships came?", "five ships", "several ships"),
        ("Whose museum is it?", "Halvard Brenn's", "somebody who is known for it"),
        ("What kind of meal was served?", "pizza", "some meal or other"),
        ("The capital of France is", "Paris", "something of that sort"),
    ],
)
def test_a_vague_answer_says_no_more_than_what_is_asked(question, gold, text):
    assert vague_form(GoldQuestion(question, (gold,))) == text


def test_rules_make_wrong_answers_of_both_kinds_without_a_specific_of_the_right_one():
    write = rule_writer(QUESTIONS)
    texts = {(answer, kind): make_wrong(answer, kind, write) for answer in QUESTIONS for kind in KINDS}
    assert not [made for made in texts.values() if made.problem]
    for (answer, _), made in texts.items():
        assert not best_coverage(answer.question, answer.golds, made.text).present
    assert texts[QUESTIONS[0], "specific"].text == "12 June 1911"
    assert texts[QUESTIONS[2], "specific"].text == "8 ships"
    assert texts[QUESTIONS[5], "specific"].text == "No."


def test_what_cannot_be_made_or_may_be_right_is_unscored():
    alone = GoldQuestion("Which bird is it?", ("puffin",))
    assert make_wrong(alone, "specific", rule_writer([alone])).problem == NONE_MADE
    assert make_wrong(alone, "vague", lambda source, kind: "a small puffin").problem == RIGHT


def test_a_model_writes_them_from_question_and_gold():
    model = ScriptedChatModel(reply=lambda prompt: "the Brenn\nIt is not the Orsa.")
    answer = GoldQuestion("Which river is it?", ("the Orsa",))
    assert make_wrong(answer, "specific", model_writer(model)).text == "the Brenn"
    assert "Which river is it?" in model.calls[0] and "the Orsa" in model.calls[0]


def test_accepted_disputed_and_left_are_counted_with_intervals():
    model = judge_model(yes="yes")  # accepts everything
    result = measure_leniency(PANEL, {JUDGE: model}, QUESTIONS, rule_writer(QUESTIONS), "rules")
    right, *wrong = result.rows
    assert (right.kind, right.accepted.mean, right.left.mean, right.left.n) == ("right", 1.0, 1.0, 6)
    for row in wrong:
        assert (row.accepted.mean, row.accepted.n, row.disputed) == (1.0, 6, 6)
        assert (row.left.mean, row.accepted.unscored) == (0.0, 0)
        assert row.accepted.low is not None and 0.5 < row.accepted.low < 1.0 and row.left.low == 0.0
    assert result.calibration is None and result.examples == ()


def test_a_strict_judge_accepts_none_and_an_unreadable_one_is_unscored():
    write = rule_writer(QUESTIONS)
    strict = measure_leniency(PANEL, {JUDGE: judge_model(yes="no")}, QUESTIONS, write, "rules")
    assert [(row.accepted.mean, row.disputed) for row in strict.rows] == [(0.0, 0)] * 3
    silent = ScriptedChatModel(reply=lambda prompt: "Perhaps.")
    unread = measure_leniency(Panel(judges=(JUDGE,), retries=0), {JUDGE: silent}, QUESTIONS, write, "rules")
    assert [(row.accepted.mean, row.accepted.n, row.accepted.unscored) for row in unread.rows] == [(None, 0, 6)] * 3
    assert all(sum(row.reasons.values()) == 6 for row in unread.rows)


def test_questions_are_those_that_a_run_compares_with_gold(elken, recoe):
    judge = PANEL.load("equivalence")
    drawn = gold_questions(elken, judge, size=2)
    assert len(drawn) == 2 and drawn == gold_questions(elken, judge, size=2)
    everything = gold_questions(elken, judge, size=100)
    assert len(everything) == 5 and GoldQuestion("", ()) not in everything
    terse = PANEL.load("coherence")
    with pytest.raises(BadSettings, match="compared with gold"):
        gold_questions(recoe, terse, size=2)


def test_the_command_prints_both_kinds_and_gives_json(elken, monkeypatch, capsys):
    monkeypatch.setitem(MODELS.builtin, "marks", ("tests.evals.judged_runs:load_judge", "A scripted judge."))
    assert emend("judge", "leniency", str(elken), "--judge", "marks:5", "--size", "5") == 0
    printed = capsys.readouterr().out
    assert "written by rules" in printed and "not calibrated" in printed
    assert emend("judge", "leniency", str(elken), "--judge", "marks:5", "--size", "5", "--json") == 0
    content = json.loads(capsys.readouterr().out)
    assert [row["kind"] for row in content["rows"]] == ["right", "specific", "vague"]


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs over conversations that have a rubric, or a criterion."""
    folders = {}
    for name in ("beam", "longmemeval"):
        folders[name] = tmp_path_factory.mktemp("runs") / name
        config = RunConfig(benchmark=name, data=str(DATA / name), editors=("rag",), embedding="lexical")
        run(config, folders[name], model=ScriptedModel())
    return folders


STATEMENTS = '{"statements": [{"number": 1, "reason": "said", "score": SCORE}]}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "reply", "share"),
    [
        ("beam", "nuggets", STATEMENTS.replace("SCORE", "1"), 1.0),
        ("beam", "nuggets", STATEMENTS.replace("SCORE", "0.5"), 0.0),
        ("longmemeval", "remembered", '{"reason": "It is.", "verdict": "yes"}', 1.0),
        ("longmemeval", "remembered", '{"reason": "It is not.", "verdict": "no"}', 0.0),
    ],
)
def test_judges_of_conversations_get_wrong_answers_in_the_place_of_the_runs(
    conversations, name: str, kind: str, reply: str, share: float
):
    views = rubric_questions(conversations[name], PANEL.load(kind), size=9)
    assert views and "abstention" not in {each.kind for each in views.values()}
    model = ScriptedChatModel(reply=lambda prompt: reply)
    write = rule_writer([*views])
    result = measure_leniency(PANEL, {JUDGE: model}, [*views], write, "rules", kind=kind, views=views)
    vague = next(row for row in result.rows if row.kind == "vague")
    assert (vague.accepted.mean, vague.accepted.n > 0) == (share, True)
    assert any(vague_form(question) in call for question in views for call in model.calls)


@pytest.mark.slow
def test_a_run_without_a_rubric_is_refused(elken):
    with pytest.raises(BadSettings, match="--kind"):
        rubric_questions(elken, PANEL.load("nuggets"), size=2)


def test_a_list_of_events_is_what_the_judge_of_their_order_gets():
    question = GoldQuestion("In which order did I mention these?", ("1. the loan\n2. the car",))
    view = JudgeInput(kind="event_ordering", question=question.question, gold=question.golds, rubric=("loan", "car"))
    reply = '{"events": [{"number": 1, "event": 0}]}'
    model = ScriptedChatModel(reply=lambda prompt: reply)
    result = measure_leniency(
        PANEL, {JUDGE: model}, [question], rule_writer([question]), "rules", kind="order", views={question: view}
    )
    vague = next(row for row in result.rows if row.kind == "vague")
    assert (vague.accepted.mean, vague.accepted.n) == (0.0, 1)
