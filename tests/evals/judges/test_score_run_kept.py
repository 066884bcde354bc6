"""What judges said of a run is kept and gone on with, and several judgements of it stand side by side."""

import shutil
from pathlib import Path

import pytest

from emend.agents.providers.policy import CallPolicy
from emend.evals.aggregate.rows import report
from emend.evals.judges.panel import Panel
from emend.evals.judges.score_run import score_run
from emend.evals.judges.store import FOLDER, find_scoring, judged_records, list_scorings, read_judgements
from emend.memory.errors import BadData, BadSettings, KeyRefused, ModelUnreachable, TooManyFailures
from tests.evals.judged_runs import JUDGE, elken_run, judge_model, rows, scored, verdict
from tests.fakes import ScriptedChatModel
from tests.provider.server import Provider


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return elken_run(tmp_path_factory.mktemp("runs") / "elken")


@pytest.fixture
def elken(run, tmp_path):
    return Path(shutil.copytree(run, tmp_path / "elken"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))


# --- keeping and going on


def test_the_records_stay_and_nothing_is_asked_twice(elken):
    before = (elken / "records.jsonl").read_bytes()
    first = judge_model()
    told = scored(elken, first)
    again = judge_model()
    same = scored(elken, again)
    assert (elken / "records.jsonl").read_bytes() == before
    assert first.calls and not again.calls
    assert (same.before, same.judged, same.scoring.id) == (told.judged, 0, told.scoring.id)


def test_like_texts_are_judged_once_and_count_for_every_record(elken):
    model = judge_model()
    told = scored(elken, model, kinds=["agreement"])
    places = sum("consistency" in one.values for one in judged_records(elken, told.scoring))
    assert (told.items["agreement"], places) == (1, 4)  # two events ask the same question; two editors say the same


def test_a_torn_last_line_is_asked_again_and_nothing_else(elken):
    told = scored(elken, panel=Panel(judges=(JUDGE,), batch=False))
    path = elken / FOLDER / f"{told.scoring.id}.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    model = judge_model()
    again = scored(elken, model, panel=Panel(judges=(JUDGE,), batch=False))
    assert (len(model.calls), again.judged, again.before) == (1, 1, told.judged - 1)
    assert len(path.read_bytes().splitlines()) == told.judged


def test_a_damaged_line_in_the_middle_is_named(elken):
    told = scored(elken)
    path = elken / FOLDER / f"{told.scoring.id}.jsonl"
    path.write_bytes(b'{"item": 3}\n' + path.read_bytes())
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
    with pytest.raises(KeyRefused):
        scored(elken, ScriptedChatModel(reply=reply), panel=panel, concurrency=1)
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
    told = scored(elken, ScriptedChatModel(reply=reply), panel=panel)
    assert told.failed == 1 and "no answer" in told.why
    assert (rows(elken)["G Q"].n, rows(elken)["G Q"].unscored) == (2, 1)
    assert scored(elken, panel=panel).judged == 1
    assert rows(elken)["G Q"].n == 3


def test_a_provider_that_never_answers_ends_the_scoring(tmp_path, elken, monkeypatch):
    monkeypatch.setattr("emend.evals.judges.panel.MAX_FAILED", 1)

    def reply(prompt: str) -> str:
        raise ModelUnreachable("no answer")

    with pytest.raises(TooManyFailures, match="what was judged is kept|What was judged is kept"):
        scored(elken, ScriptedChatModel(reply=reply), panel=Panel(judges=(JUDGE,), batch=False), concurrency=1)


def test_an_unreadable_reply_leaves_a_reason_and_the_reply(elken):
    told = scored(elken, ScriptedChatModel(reply=lambda prompt: "Perhaps."))
    assert told.unscored == told.judged
    assert all(one.reply == "Perhaps." and one.problem for one in read_judgements(elken, told.scoring))
    found = rows(elken)
    assert (found["G Q"].mean, found["G Q"].unscored) == (None, 3)
    assert any("neither" in reason for reason in report(elken).reasons)


def test_an_event_is_not_called_whole_while_one_of_its_answers_is_unscored(elken):
    def reply(prompt: str) -> str:
        return "Perhaps." if "mood" in prompt else verdict(prompt)

    scored(elken, ScriptedChatModel(reply=reply), panel=Panel(judges=(JUDGE,), batch=False))
    level = rows(elken)["G E"]
    assert (level.mean, level.n, level.unscored) == (100.0, 1, 1)


# --- several scorings, several judges


def test_another_judge_makes_another_scoring_and_either_can_be_shown(elken):
    one = scored(elken).scoring
    other = scored(elken, judge_model(2), Panel(judges=("openai:strict",))).scoring
    assert one.id != other.id
    assert {told.id for told in list_scorings(elken)} == {one.id, other.id}
    assert rows(elken, scoring=one.id)["G Q"].mean == 100.0
    assert rows(elken, scoring=other.id)["G Q"].mean == 0.0
    assert rows(elken, scoring="none")["G Q"].n == 0
    assert any(one.id in note for note in report(elken, other.id).choices)
    with pytest.raises(BadSettings, match="has no scoring 'nobody': it has ") as refused:
        report(elken, "nobody")
    assert one.id in str(refused.value) and other.id in str(refused.value)
    with pytest.raises(BadSettings, match=r"'openai' begins 2 scorings of .*\. Give more of the id"):
        find_scoring(elken, "openai")


def test_a_run_without_a_scoring_says_what_makes_one(elken):
    with pytest.raises(
        BadSettings, match="has no scoring 'foo': it has none; make one with: emend judge run .* --judge"
    ):
        report(elken, "foo")


def test_a_judge_that_was_never_reached_hides_no_other(elken):
    def reply(prompt: str) -> str:
        raise ModelUnreachable("no answer")

    one = scored(elken).scoring
    failed = scored(elken, ScriptedChatModel(reply=reply), Panel(judges=("openai:away",), batch=False))
    assert failed.judged == 0 < failed.failed
    found = find_scoring(elken)
    assert found is not None and found.id == one.id


def test_three_judges_vote_and_their_marks_are_averaged(elken):
    panel = Panel(judges=("openai:a", "openai:b", "openai:c"))
    models = {"openai:a": judge_model(5), "openai:b": judge_model(5), "openai:c": judge_model(2)}
    score_run(elken, panel, models=models)
    found = rows(elken)
    assert (found["G Q"].mean, found["overall"].mean, found["agreement"].mean) == (100.0, 4.0, 4.0)


def test_each_repeat_is_asked_for_itself(elken):
    one, three = judge_model(), judge_model()
    scored(elken, one)
    told = scored(elken, three, Panel(judges=(JUDGE,), repeats=3))
    assert len(three.calls) == 3 * len(one.calls)
    assert {told.repeat for told in read_judgements(elken, told.scoring)} == {0, 1, 2}


def test_kept_replies_answer_the_same_repeat_of_another_run_and_no_other_repeat(run, tmp_path):
    with Provider(lambda asked: verdict(asked.prompt)) as provider:
        panel = Panel(judges=(provider.spec("openai"),), repeats=2)
        seen = []
        for name in ("one", "two"):
            folder = Path(shutil.copytree(run, tmp_path / name))
            policy = CallPolicy(cache=tmp_path / "replies")
            told = score_run(folder, panel, ["tendency"], models=panel.models(policy, {}))
            policy.close()
            seen.append((provider.count, told.judged, told.unscored))
    (asked, judged, _), again = seen
    assert (asked, judged) == (2, 6)  # one batch of three free answers in either repeat
    assert again == (asked, judged, 0)
