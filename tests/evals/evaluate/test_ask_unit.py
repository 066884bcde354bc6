"""What the unedited model says is asked once, before the weights change, and kept for every editor and resumed run."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel

from emend.agents.providers.journal import run_journal, unit_scope
from emend.editors.base import EditorContext
from emend.editors.memory_based.unedited import Unedited
from emend.evals.case import Case, Record
from emend.evals.config.run_config import RunConfig
from emend.evals.data.benchmarks.triples import NO_TRIPLET
from emend.evals.evaluate.ask_unit import hit_at_1
from emend.evals.evaluate.baseline import Baseline, needs_baseline
from emend.evals.evaluate.run import run
from emend.evals.evaluate.setup.run_setup import RunSetup, load_setup
from emend.evals.jobs.limits import refuse_unused_limits
from emend.evals.jobs.results import Summary
from emend.evals.jobs.shared_answers import AnswerFile
from emend.evals.log.folder import repair_torn_tail
from emend.evals.log.lines import BASELINE, EVENTS
from emend.evals.log.records import RunLog, read_lines, read_records
from emend.evals.metrics.fact_checks import CHECKS, CONTRADICTIONS
from emend.evals.metrics.scorers import score
from emend.evals.metrics.scoring.registry import own_scorers
from emend.memory.errors import BadSettings, ContextOverflow, ModelReplyError
from emend.memory.probe import Answer, ModelCall, Probe, Step, Usage
from emend.memory.steps import keep_steps, usage_until
from tests.evals.toys import ToyBenchmark
from tests.fakes import ScriptedChatModel, ScriptedScoringModel
from tests.provider.models import asked_model
from tests.provider.server import Provider

SHARED = Probe(kind="out_of_scope", prompt="The sky is", gold=("blue",), scorers=("agreement",))
FREE = Probe(kind="efficacy", prompt="The sea is", gold=("wide",))


def baseline(model: Any, files: RunLog, wording: str = "new_fact", name: str = "m") -> Baseline:
    return Baseline(Unedited(EditorContext(model=model, wording=wording)), AnswerFile(files), {"name": name})


def test_a_probe_that_two_cases_share_keeps_the_answer_from_before_the_edit(tmp_path: Path):
    weights = {"sky": "blue"}
    model = ScriptedChatModel(reply=lambda prompt: weights["sky"])
    with RunLog(tmp_path) as files:
        asked = baseline(model, files)
        asked.prepare([SHARED, FREE, SHARED])
        weights["sky"] = "green"
        assert [asked.answer(SHARED).text for _ in range(2)] == ["blue", "blue"]
    assert len(model.calls) == 1


def test_a_resumed_unit_gets_its_own_reply_and_not_the_one_that_the_baseline_had(tmp_path: Path, monkeypatch):
    pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    numbers = count(1)
    with Provider(lambda asked: f"reply {next(numbers)}") as provider, RunLog(tmp_path) as files:
        model = asked_model(provider)
        unedited = Unedited(EditorContext(model=model, wording="new_fact"))
        for _ in range(2):
            with run_journal(tmp_path) as journal, pytest.raises(KeyboardInterrupt), unit_scope(journal, "unit"):
                assert Baseline(unedited, AnswerFile(files), {"name": "m"}, journal).answer(SHARED).text == "reply 1"
                with unedited.edit(()) as answerer:
                    assert answerer.answer(SHARED).text == "reply 2"
                raise KeyboardInterrupt
        assert provider.count == 2


def test_a_later_process_finds_the_answers_and_asks_nothing(tmp_path: Path):
    model = ScriptedChatModel(reply=lambda prompt: "blue")
    with RunLog(tmp_path) as files:
        first = baseline(model, files).get(SHARED)
    with RunLog(tmp_path) as files:
        later = baseline(model, files)
        assert later.get(SHARED) == first
    assert len(model.calls) == 1


@pytest.mark.parametrize("other", [{"wording": "plain"}, {"name": "n"}, {"repeat": 1}])
def test_another_wording_model_or_repeat_is_another_question(tmp_path: Path, other: dict[str, Any]):
    from emend.agents.roles.answer import WORDINGS

    model = ScriptedChatModel(reply=lambda prompt: "blue")
    repeat = other.pop("repeat", 0)
    if "wording" in other:
        other["wording"] = next(name for name in WORDINGS if name != "new_fact")
    with RunLog(tmp_path) as files:
        baseline(model, files).answer(SHARED)
        baseline(model, files, **other).answer(SHARED, repeat)
    assert len(model.calls) == 2


def test_a_torn_answer_is_cut_and_asked_again(tmp_path: Path):
    model = ScriptedChatModel(reply=lambda prompt: "blue")
    second = SHARED.model_copy(update={"id": "other", "prompt": "The grass is"})
    with RunLog(tmp_path) as files:
        baseline(model, files).prepare([SHARED, second])
    path = tmp_path / BASELINE
    path.write_bytes(path.read_bytes()[:-7])
    assert [file["file"] for file in repair_torn_tail(tmp_path)[1]] == [BASELINE]
    with RunLog(tmp_path) as files:
        asked = baseline(model, files)
        assert [asked.answer(probe).text for probe in (SHARED, second)] == ["blue", "blue"]
    assert model.calls == ["The sky is", "The grass is", "The grass is"]


@pytest.mark.parametrize("error", [ModelReplyError("expected a colour", reply="mmh"), ContextOverflow("too long")])
def test_a_reply_that_is_no_use_is_kept_as_such(tmp_path: Path, error: Exception):
    def refuse(prompt: str) -> str:
        raise error

    model = ScriptedChatModel(reply=refuse)
    for _ in range(2):
        with RunLog(tmp_path) as files, pytest.raises(type(error), match=str(error)) as raised:
            baseline(model, files).answer(SHARED)
        assert getattr(raised.value, "reply", "") == getattr(error, "reply", "")
        assert [step.node for step in raised.value.steps] == ["compose", "respond"]  # type: ignore[attr-defined]
    assert len(model.calls) == 1


def test_only_what_is_no_answer_at_all_is_asked_again(tmp_path: Path):
    model = ScriptedChatModel(reply=lambda prompt: str(1 / 0))
    for _ in range(2):
        with RunLog(tmp_path) as files, pytest.raises(ZeroDivisionError):
            baseline(model, files).answer(SHARED)
    assert len(model.calls) == 2


@pytest.mark.parametrize("name", sorted(own_scorers().keys() - {"judged_same"}))  # that one's judge reads both later
def test_scorers_that_miss_the_unedited_answer_are_those_that_get_it(name):
    asked = SHARED.model_copy(update={"scorers": (name,), "rival": "red", "choices": ("blue", "red")})
    alone = score(asked, Answer(text="blue", log_probs=(-1.0, -2.0))).unscored.values()
    assert needs_baseline(asked) == any("unedited" in reason for reason in alone)


@pytest.mark.parametrize(
    ("retrieved", "updates", "hit"),
    [(("e", "x"), [], 1.0), (("x", "e"), [], 0.0), ((), [{}, {"hits": []}], 0.0), ((), [{}], None)],
)
def test_a_hit_is_counted_wherever_there_was_a_search(retrieved, updates, hit):
    answer = Answer(text="blue", retrieved=retrieved, steps=tuple(Step(node="n", update=u, ms=0.0) for u in updates))
    assert hit_at_1(("e",), answer) == hit
    assert hit_at_1((), answer) is None


class Two(ToyBenchmark):
    """Each case asks one probe for the capital and for what the unedited model says to it."""

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        for case in super().cases(setting, limit, seed):
            asked = case.probes[0].model_copy(update={"id": "", "scorers": ("exact_match", "agreement")})
            yield case.model_copy(update={"probes": (Probe.model_validate(asked.model_dump()),)})


def said_to(
    tmp_path: Path, reply: Callable[[str], str], editor: str = "rag", benchmark: str = "Two"
) -> tuple[Record, Summary]:
    config = RunConfig(
        benchmark=f"{__name__}:{benchmark}",
        editors=(editor,),
        model="scripted",
        embedding="lexical",
        benchmark_options={"cases": "1"},
        overrides={"mello": {"form": "text"}} if editor == "mello" else {},  # which falls back to no other
    )
    summary = run(config, tmp_path, model=ScriptedChatModel(reply=reply))
    (record,) = read_records(tmp_path)
    return record, summary


def test_where_the_unedited_answer_is_no_use_only_the_comparison_is_unscored(tmp_path: Path):
    def refuse(prompt: str) -> str:
        if "New Fact" not in prompt:
            raise ModelReplyError("the model declined", "no", Usage(input_tokens=5, output_tokens=1, calls=1))
        return "New-0"

    record, summary = said_to(tmp_path, refuse)
    assert record.values == {"em": 1.0, "contains": 1.0, "hit@1": 1.0}
    assert record.answer == "New-0" and record.usage.calls == 1
    assert record.unscored == {"agreement": "the unedited model: the model declined"}
    assert summary.calls == 2


def test_an_answer_of_no_use_keeps_what_was_found_and_all_that_it_cost(tmp_path: Path):
    asked: list[str] = []

    def cut(prompt: str) -> str:
        asked.append(prompt)
        if len(asked) == 3:
            raise ModelReplyError("the reply was cut off", "Subq", Usage(input_tokens=7, output_tokens=4, calls=1))
        agrees = "Retrieved fact does not contradict to generated answer, so the intermediate answer is: Old-0.\n"
        return f"{agrees * (len(asked) - 1)}Subquestion: What is the capital of Land0?\nGenerated answer: Old-0.\n"

    record, _ = said_to(tmp_path, cut, "mello")
    assert record.unscored == dict.fromkeys(("em", "agreement", "contains"), "the reply was cut off")
    assert record.no_answer
    assert record.values == {"hit@1": 1.0, CHECKS: 1.0, CONTRADICTIONS: 0.0} and record.retrieved
    steps = [line for line in read_lines(tmp_path, EVENTS) if "node" in line]
    calls = [call for step in steps for call in step.get("calls", ())]
    assert record.usage.calls == len(calls) == 3
    assert record.usage.input_tokens == sum(call.get("input_tokens", 0) for call in calls) > 7


def test_a_reply_that_could_not_be_read_is_not_counted_again_with_the_one_after_it():
    unread = ModelCall(input_tokens=100, output_tokens=10)
    refused = ModelCall(input_tokens=120, output_tokens=0, error="ReplyRefused: no")
    error = ModelReplyError("no", "", Usage(input_tokens=220, output_tokens=10, calls=2))
    keep_steps(error, (Step(node="n", update={}, ms=0.0, calls=(unread, refused)),))
    usage = usage_until(error)
    assert (usage.input_tokens, usage.output_tokens, usage.calls) == (220, 10, 2)


def test_calls_that_an_error_ended_are_counted_once():
    read = ModelCall(input_tokens=10, output_tokens=2)
    refused = ModelCall(input_tokens=3, output_tokens=1, error="ReplyRefused: no")
    error = ModelReplyError("no", "", Usage(input_tokens=3, output_tokens=1, calls=1))
    assert usage_until(error).calls == 1
    uncounted = ModelReplyError("no", "", Usage(calls=1))
    keep_steps(uncounted, (Step(node="n", update={}, ms=0.0, calls=(ModelCall(error="ReplyRefused: no"),)),))
    assert usage_until(uncounted) == Usage(calls=1)
    for calls, whole in (((read, refused), (13, 3, 2)), ((read,), (10, 2, 1)), ((refused,), (3, 1, 1))):
        keep_steps(error, (Step(node="n", update={}, ms=0.0, calls=calls),))
        usage = usage_until(error)
        assert (usage.input_tokens, usage.output_tokens, usage.calls) == whole


class Known(ToyBenchmark):
    """Asks what the model knew before, and for an edit of which no triplet was read."""

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        for case in super().cases(setting, limit, seed):
            first = case.probes[0].model_dump() | {"id": ""}
            flip = first | {
                "scorers": ("correct_flip",),
                "rival": first["gold"][0],
                "tags": {NO_TRIPLET: True},
                "edit_ids": (),
            }
            yield case.model_copy(update={"probes": (Probe.model_validate(flip),)})


def test_what_the_model_knew_before_is_told_though_its_answer_now_is_no_use(tmp_path: Path):
    def cut(prompt: str) -> str:
        if "New Fact" in prompt:
            raise ModelReplyError("the reply was cut off", "", Usage(calls=1))
        return "Old-0"

    record, _ = said_to(tmp_path, cut, benchmark="Known")
    assert set(record.values) == {"pre_edit", "pre_edit_contains"}
    assert record.unscored["correct_flip"] == "the reply was cut off"
    assert record.unscored["hit@1"].startswith("no triplet was read out of the document")


READY = FakeListChatModel(responses=["Ostrim"])
SURE = ScriptedScoringModel(reply=lambda prompt: "Ostrim", log_prob=lambda prompt, target: -1.0)


class Ready(FakeListChatModel):
    """Takes no settings."""

    responses: list[str] = ["Ostrim"]


def make_ready() -> FakeListChatModel:
    return READY


def loaded_setup(tmp_path: Any, counterfactual: str, **more: Any) -> RunSetup:
    overrides = {"serac": {"counterfactual": counterfactual}}
    config = RunConfig(benchmark="tinyworld", editors=("serac",), model="tiny", overrides=overrides, **more)
    return load_setup(config, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counterfactual", "calls"),
    [
        (f"{__name__}:READY", True),
        (f"{__name__}:Ready", True),
        (f"{__name__}:make_ready", True),
        (f"{__name__}:SURE", False),
        ("", False),
    ],
)
def test_a_second_model_is_called_through_the_policy_unless_it_is_local(tmp_path, counterfactual, calls):
    assert loaded_setup(tmp_path, counterfactual).calls_providers is calls


@pytest.mark.slow
def test_limits_are_taken_for_a_second_model_of_ones_own(tmp_path):
    remote = loaded_setup(tmp_path, f"{__name__}:READY", max_calls=5)
    assert remote.calls_providers and remote.policy.ledger.max_calls == 5
    refuse_unused_limits(remote.config.limits, remote.config.model, remote.policy)
    local = loaded_setup(tmp_path, "", max_calls=5)
    assert local.passes
    with pytest.raises(BadSettings, match="--max-calls with model 'tiny': a local model"):
        refuse_unused_limits(local.config.limits, local.config.model, local.policy)
