"""A finished run is judged afterwards: what is asked and stored, who may judge, what report and command show."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emend.agents.llm import MODELS
from emend.agents.providers.policy import CallPolicy
from emend.evals.cli.main import app
from emend.evals.judging.calibration.stored import judge_id
from emend.evals.judging.items import question_of
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.judging.scorings.choice import ItemChoice
from emend.evals.judging.scorings.judgements import read_judgements
from emend.evals.judging.scorings.manifest import JudgeCalling
from emend.evals.judging.scorings.search import find_scoring, list_scorings
from emend.evals.judging.scorings.verdicts import judged_records
from emend.evals.log.lines import RECORDS
from emend.evals.results.aggregate.judged import NOT_CALIBRATED
from emend.evals.results.aggregate.rows import report
from emend.memory.errors import BadData, BadSettings, EmendError, KeyRefused, ModelUnreachable, TooManyFailures
from tests.evals.judged_runs import JUDGE, akew_run, elken_run, judge_model, rows, scored, verdict
from tests.fakes import ScriptedChatModel
from tests.provider.server import Provider

pytestmark = pytest.mark.usefixtures("own_cache")


# --- what is judged


def test_elkens_free_answers_get_their_columns_under_the_judges_name(elken):
    before = rows(elken)
    assert (before["G Q"].n, before["G Q"].unscored, before["G Q"].judge) == (0, 3, "")
    summary = scored(elken)
    assert set(summary.items) == {"tendency", "agreement"} and summary.unscored == summary.failed == 0
    after = rows(elken)
    assert (after["G Q"].mean, after["G Q"].n, after["G Q"].unscored) == (100.0, 3, 0)
    assert (after["G E"].mean, after["G Loc"].mean, after["agreement"].mean) == (100.0, 100.0, 5.0)
    assert after["correctness"].mean == 5.0 and after["rule broken"].mean == 0.0
    assert after["G Q"].judge == f"tendency by {JUDGE}, {NOT_CALIBRATED}"
    assert after["Fact Q"] == before["Fact Q"]
    # Of the two events with free answers one has facts too, and "unknown" is the answer to one of its three.
    assert (after["E"].mean, after["E"].n) == (50.0, 2)


def test_recoes_chains_get_recall_and_coherence(recoe):
    summary = scored(recoe)
    assert set(summary.items) == {"recall", "coherence"}
    by_metric = rows(recoe)
    assert (by_metric["fact recall"].mean, by_metric["related"].mean, by_metric["of related"].mean) == (
        50.0,
        50.0,
        100.0,
    )
    assert by_metric["coherence"].mean == 100.0
    (record,) = [record for record in judged_records(recoe, summary.scoring) if "supported" in record.values]
    assert record.values["recall_consistent"] == 0.5


def test_equivalence_stands_beside_exact_match_and_changes_nothing_of_it(elken):
    before = rows(elken)
    scored(elken, kinds=["equivalence"])
    after = rows(elken)
    assert after["Fact Q"] == before["Fact Q"] and after["G Q"] == before["G Q"]
    assert after["same answer"].mean == 100.0 and after["same answer"].judge


def test_a_cases_documents_are_held_against_each_of_its_facts_and_not_against_what_follows_from_two(tmp_path):
    folder, model = akew_run(tmp_path / "akew"), judge_model(yes="no")
    summary = scored(folder, model, kinds=["supports"])
    assert summary.items == {"supports": 4} and len(model.calls) == 4
    shown = next(prompt for prompt in model.calls if "Ada Wardle plays tennis" in prompt)
    assert "found in Ada Wardle a patient champion" in shown and "Pell Lock" not in shown
    assert (rows(folder)["conveyed"].mean, rows(folder)["conveyed"].n) == (0.0, 4)


def test_the_judge_sees_question_event_and_label_without_the_instruction(elken):
    model = judge_model()
    scored(elken, model, kinds=["tendency"])
    prompt = "\n".join(model.calls)
    assert "The island of Orsay opens a free eye clinic." in prompt and "How might the sale of spectacles" in prompt
    assert "Say what is likely" not in prompt and "\nRise\n" in prompt


@pytest.mark.parametrize(
    ("prompt", "question"),
    [
        ("Say it.\nQuestion: Who is it?\nAnswer:", "Who is it?"),
        ("Question: Who is it?\nThoughts:", "Who is it?"),
        ("Who is it?", "Who is it?"),
        ("The capital of France is", "The capital of France is"),
        ("Say it.\nQuestion: Which?\n(A) One (B) Two\nAnswer:", "Which?\n(A) One (B) Two"),
    ],
)
def test_a_question_is_found_in_its_prompt(prompt, question):
    assert question_of(prompt) == question


# --- who may judge, and what is known of the judge


def test_the_model_under_test_does_not_judge_itself_unless_forced(elken):
    for spec in ("openai:tested", "openai:tested@http://127.0.0.1:1/v1"):
        with pytest.raises(BadSettings, match="is the model under test"):
            scored(elken, panel=Panel(judges=(spec,)))
    for spec in ("openai:tested@http://127.0.0.1:1/v1", "openai:tested"):  # known by its name alone, and by all of it
        summary = scored(elken, panel=Panel(judges=(spec,)), force=True)
        assert summary.scoring.forced
    assert any("scores are not independent" in note for note in report(elken).choices)


def test_a_judge_from_elsewhere_is_named_by_its_module_and_a_run_without_items_for_one_says_so(elken):
    with pytest.raises(BadSettings, match="nothing to judge for coherence") as caught:
        scored(elken, kinds=["coherence"])
    assert "--kind" not in str(caught.value), "a judge is named already"
    with pytest.raises(BadSettings, match="did you mean 'tendency'"):
        scored(elken, kinds=["tendncy"])
    summary = scored(elken, kinds=["tests.evals.judged_runs:TERSE"])
    assert summary.unscored == 0
    assert (rows(elken)["short"].mean, rows(elken)["short"].n) == (100.0, 4)


def test_a_calibration_is_shown_whether_it_was_there_before_or_came_later(elken, tmp_path):
    summary = scored(elken).scoring
    assert summary.calibration == {} and any(
        "agreement with people not measured" in note for note in report(elken).choices
    )
    folder = tmp_path / "cache" / "calibration" / judge_id([JUDGE])
    folder.mkdir(parents=True)
    measured = {"n": 120, "kappa": {"value": 0.74, "low": 0.61, "high": 0.85}, "prompt_id": summary.prompts["tendency"]}
    (folder / "tendency.json").write_text(json.dumps(measured))
    (folder / "agreement.json").write_text(json.dumps(measured | {"prompt_id": "another"}))
    assert rows(elken)["G Q"].judge == f"tendency by {JUDGE}, calibrated: kappa 0.74 [0.61, 0.85], n=120"
    assert rows(elken)["G Loc"].judge.endswith(NOT_CALIBRATED)


# --- keeping and going on


def test_the_records_stay_and_nothing_is_asked_twice(elken):
    before = (elken / "records.jsonl").read_bytes()
    first = judge_model()
    summary = scored(elken, first)
    again = judge_model()
    same = scored(elken, again)
    assert (elken / "records.jsonl").read_bytes() == before
    assert first.calls and not again.calls
    assert (same.before, same.judged, same.scoring.id) == (summary.judged, 0, summary.scoring.id)


def test_like_texts_are_judged_once_and_count_for_every_record(elken):
    model = judge_model()
    summary = scored(elken, model, kinds=["agreement"])
    places = sum("consistency" in record.values for record in judged_records(elken, summary.scoring))
    assert (summary.items["agreement"], places) == (1, 4)  # two events ask the same question; two editors say the same


def test_a_torn_last_line_is_asked_again_and_nothing_else(elken):
    summary = scored(elken, panel=Panel(judges=(JUDGE,), batch=False))
    path = summary.scoring.folder(elken) / RECORDS
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    model = judge_model()
    again = scored(elken, model, panel=Panel(judges=(JUDGE,), batch=False))
    assert (len(model.calls), again.judged, again.before) == (1, 1, summary.judged - 1)
    assert len(path.read_bytes().splitlines()) == summary.judged
    path.write_bytes(b'{"unit": 3}\n' + path.read_bytes())  # damage that no crash leaves
    with pytest.raises(BadData, match=r"jsonl, line 1"):
        report(elken)


def test_what_was_judged_before_the_key_was_refused_is_kept(elken):
    calls: list[str] = []

    def reply(prompt: str) -> str:
        calls.append(prompt)
        if len(calls) > 2:
            raise KeyRefused("the key is refused")
        return verdict(prompt)

    panel = Panel(judges=(JUDGE,), batch=False)
    with pytest.raises(TooManyFailures, match="the key is refused"):
        scored(elken, ScriptedChatModel(reply=reply), panel=panel, calling=JudgeCalling(concurrency=1))
    (scoring,) = list_scorings(elken)
    assert len(list(read_judgements(elken, scoring))) == 2
    model = judge_model()
    again = scored(elken, model, panel=panel)
    assert again.before == 2 and len(model.calls) == again.judged


def test_calls_that_fail_for_the_providers_sake_are_left_for_another_time(elken):
    def reply(prompt: str) -> str:
        if "spectacles" in prompt:
            raise ModelUnreachable("no answer")
        return verdict(prompt)

    panel = Panel(judges=(JUDGE,), batch=False)
    summary = scored(elken, ScriptedChatModel(reply=reply), panel=panel)
    assert summary.failed == 1 and "no answer" in summary.why
    assert (rows(elken)["G Q"].n, rows(elken)["G Q"].unscored) == (2, 1)
    assert scored(elken, panel=panel).judged == 1
    assert rows(elken)["G Q"].n == 3


def test_a_provider_that_never_answers_ends_the_scoring(elken):
    calls: list[str] = []

    def reply(prompt: str) -> str:
        calls.append(prompt)
        raise ModelUnreachable("no answer")

    with pytest.raises(TooManyFailures, match="--fail-on-error 2"):
        scored(
            elken,
            ScriptedChatModel(reply=reply),
            panel=Panel(judges=(JUDGE,), batch=False),
            calling=JudgeCalling(concurrency=1, fail_on_error="2"),
        )
    assert len(calls) < 5


def test_an_unreadable_reply_leaves_a_reason_and_the_reply(elken):
    summary = scored(elken, ScriptedChatModel(reply=lambda prompt: "Perhaps."))
    assert summary.unscored == summary.judged
    assert all(
        judgement.reply == "Perhaps." and judgement.problem for judgement in read_judgements(elken, summary.scoring)
    )
    by_metric = rows(elken)
    assert (by_metric["G Q"].mean, by_metric["G Q"].unscored) == (None, 3)
    assert any("neither" in reason for reason in report(elken).reasons)


def test_an_event_is_not_called_whole_while_one_of_its_answers_is_unscored(elken):
    def reply(prompt: str) -> str:
        return "Perhaps." if "mood" in prompt else verdict(prompt)

    scored(elken, ScriptedChatModel(reply=reply), panel=Panel(judges=(JUDGE,), batch=False))
    level = rows(elken)["G E"]
    assert (level.mean, level.n, level.unscored) == (100.0, 1, 1)


# --- several scorings, several judges


def test_the_last_scoring_is_shown_though_the_clock_went_back(elken):
    first = scored(elken).scoring
    first.model_copy(update={"started": datetime(2999, 1, 1, tzinfo=UTC)}).write(first.folder(elken))
    last = scored(elken, judge_model(2), Panel(judges=("openai:strict",))).scoring
    assert [scoring.id for scoring in list_scorings(elken)] == [first.id, last.id]
    assert find_scoring(elken) == list_scorings(elken)[-1]


def test_another_judge_makes_another_scoring_and_either_can_be_shown(elken):
    with pytest.raises(
        BadSettings, match="has no scoring 'foo': it has none; make one with: emend judge run .* --judge"
    ):
        report(elken, "foo")
    summary = scored(elken).scoring
    other = scored(elken, judge_model(2), Panel(judges=("openai:strict",))).scoring
    assert summary.id != other.id
    assert {scoring.id for scoring in list_scorings(elken)} == {summary.id, other.id}
    assert rows(elken, scoring=summary.id)["G Q"].mean == 100.0
    assert rows(elken, scoring=other.id)["G Q"].mean == 0.0
    assert rows(elken, scoring="none")["G Q"].n == 0
    assert any(summary.id in note for note in report(elken, other.id).choices)
    with pytest.raises(BadSettings, match="has no scoring 'nobody': it has ") as refused:
        report(elken, "nobody")
    assert summary.id in str(refused.value) and other.id in str(refused.value)
    with pytest.raises(BadSettings, match=r"'openai' begins 2 scorings of .*\. Give more of the id"):
        find_scoring(elken, "openai")


def test_a_judge_that_was_never_reached_hides_no_other(elken):
    def reply(prompt: str) -> str:
        raise ModelUnreachable("no answer")

    summary = scored(elken).scoring
    with pytest.raises(TooManyFailures, match="no answer"):
        scored(elken, ScriptedChatModel(reply=reply), Panel(judges=("openai:away",), batch=False))
    result = find_scoring(elken)
    assert result is not None and result.id == summary.id


def test_three_judges_vote_and_their_marks_are_averaged(elken):
    panel = Panel(judges=("openai:a", "openai:b", "openai:c"))
    models = {"openai:a": judge_model(5), "openai:b": judge_model(5), "openai:c": judge_model(2)}
    score_run(elken, panel, models=models)
    by_metric = rows(elken)
    assert (by_metric["G Q"].mean, by_metric["overall"].mean, by_metric["agreement"].mean) == (100.0, 4.0, 4.0)


def test_each_repeat_is_asked_for_itself(elken):
    item, three = judge_model(), judge_model()
    scored(elken, item)
    summary = scored(elken, three, Panel(judges=(JUDGE,), repeats=3))
    assert len(three.calls) == 3 * len(item.calls)
    assert {judgement.repeat for judgement in read_judgements(elken, summary.scoring)} == {0, 1, 2}


@pytest.mark.slow
def test_kept_replies_answer_the_same_repeat_of_another_run_and_no_other_repeat(judgeable, tmp_path):
    with Provider(lambda asked: verdict(asked.prompt)) as provider:
        panel = Panel(judges=(provider.spec("openai"),), repeats=2)
        seen = []
        for name in ("one", "two"):
            folder = Path(shutil.copytree(judgeable["elken"], tmp_path / name))
            policy = CallPolicy(cache=tmp_path / "replies")
            summary = score_run(folder, panel, ["tendency"], models=panel.models(policy, {}))
            policy.close()
            seen.append((provider.count, summary.judged, summary.unscored))
    (asked, judged, _), again = seen
    assert (asked, judged) == (2, 6)  # one batch of three free answers in either repeat
    assert again == (asked, judged, 0)


# --- the command


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.setitem(MODELS.builtin, "scripted", ("tests.evals.judged_runs:load_judge", "for tests"))
    monkeypatch.setenv("COLUMNS", "120")
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def test_the_command_shows_the_scores_and_so_does_the_report(elken, shell):
    done = shell("judge", "run", elken, "--judge", "scripted:5", "--repeats", "2")
    assert done.exit_code == 0, done.output
    assert "not calibrated" in done.output and "Scoring scripted-5-" in done.output and "G E" in done.output
    again = shell("report", elken, "--json")
    by_name = {row["metric"]: row for row in json.loads(again.output)["rows"] if row["editor"] == "rag"}
    assert by_name["G Q"]["mean"] == 100.0 and by_name["G Q"]["judge"] == "tendency by scripted:5, not calibrated"


@pytest.mark.slow
def test_a_judge_that_cannot_be_reached_is_an_error(elken, shell):
    done = shell("judge", "run", elken, "--judge", "openai:x@http://127.0.0.1:9/v1", "--set", "judge.deadline=1")
    assert done.exit_code and isinstance(done.exception, EmendError), done.output


@pytest.mark.slow
def test_stress_is_shown_and_a_broken_order_is_an_exit_code(shell):
    done = shell("judge", "stress", "--judge", "scripted:5", "--kind", "tendency", "--kind", "recall")
    assert done.exit_code == 1
    assert "gold > unedited" in done.output and "holds: 12, broken: 6, unscored: 0" in done.output
    rows = json.loads(shell("judge", "stress", "--judge", "scripted:5", "--kind", "supports", "--json").output)["rows"]
    assert len(rows) == 10 + 9 and rows[0]["value"] == 1.0 and rows[-1]["outcome"] == "holds"


def test_a_judges_graph_is_drawn_like_any_other(shell):
    done = shell("graph", "recall")
    assert done.exit_code == 0 and "label" in done.output and "settle" in done.output


def test_a_judge_must_be_named_and_takes_its_own_settings_alone(elken, shell):
    done = shell("judge", "run", elken)
    assert done.exit_code == 2 and "--judge" in done.output
    done = shell("judge", "run", elken, "--judge", "scripted:5", "--set", "rag.k=2")
    assert isinstance(done.exception, BadSettings) and "judge.key=value" in str(done.exception)


# --- a choice of what is judged


def chosen(folder: Path, **choice: object):
    calling = JudgeCalling(choice=ItemChoice.model_validate(choice))
    return scored(folder, kinds=["equivalence"], calling=calling)


def test_a_limit_judges_the_first_items_and_the_same_command_without_it_the_rest(elken):
    first = chosen(elken, limit=1)
    waiting = rows(elken)["same answer"].unscored
    rest = chosen(elken)
    assert first.items == {"equivalence": 1} and rest.scoring.id == first.scoring.id
    assert rest.before == first.judged < rest.judged
    assert rows(elken)["same answer"].unscored < waiting


def test_a_larger_sample_has_the_items_of_a_smaller_one(elken):
    first, larger = chosen(elken, sample=1), chosen(elken, sample=2)
    assert (first.items, larger.items) == ({"equivalence": 1}, {"equivalence": 2})
    assert larger.before == first.judged == larger.judged


def test_the_answers_of_one_editor_are_judged_alone(tmp_path):
    folder = elken_run(tmp_path / "own", lambda prompt: f"answer {len(prompt)}")
    alone, both = chosen(folder, editors=("rag",)), chosen(folder)
    assert both.before == alone.judged == both.judged
    assert rows(folder)["same answer"].n == rows(folder, "unedited")["same answer"].n > 0


@pytest.mark.parametrize(
    ("choice", "problem"), [({"editors": ("rga",)}, "did you mean 'rag'"), ({"limit": 1, "sample": 1}, "one of them")]
)
def test_an_impossible_choice_is_refused(elken, choice, problem):
    with pytest.raises(BadSettings, match=problem):
        chosen(elken, **choice)
    assert list_scorings(elken) == []
