"""Runs of memory systems over streams."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest

from emend.evals.log.lines import EVENTS
from emend.evals.log.records import read_lines, read_records
from emend.evals.results.aggregate.rows import report
from emend.evals.streams.fairness import answer_prompt
from emend.evals.streams.run.job import run_stream
from emend.evals.streams.run.session import OBSERVED
from emend.evals.streams.stream_config import StreamConfig
from emend.evals.streams.system import ContextItem, SystemContext, item_of
from emend.evals.streams.systems.facts import FactsGold
from emend.evals.streams.turn import ABSTAINING, StreamQuestion, Turn
from emend.memory.errors import BadSettings, BudgetReached, RateLimited, TooManyFailures
from emend.memory.registry import name_object, trust_names
from tests.evals.streams.streams import accuracy, generated, questions_of, run_systems, stream_file, turns_of
from tests.provider.server import Provider

ANSWERABLE = ("current", "historic", "cascade", "multi_hop", "set")


class Spy:
    """Recalls everything, and checks what it is shown."""

    observed: ClassVar[list[Turn]] = []

    def __init__(self, context: SystemContext) -> None:
        self.observed.clear()

    def observe(self, turn: Turn) -> None:
        assert (turn.kind, turn.claims, turn.rules) == ("", (), ())
        self.observed.append(turn)

    def context_for(self, question: StreamQuestion, at: str) -> Sequence[ContextItem]:
        assert (question.gold, question.wrong, question.evidence, question.path) == ((), (), (), ())
        assert at == question.date == self.observed[-1].date
        return [item_of(turn) for turn in reversed(self.observed)]


class Parrot:
    """Answers by itself, always the same."""

    def __init__(self, context: SystemContext) -> None:
        self.settings = context.settings

    def observe(self, turn: Turn) -> None:
        """Do nothing."""

    def answer(self, question: StreamQuestion, at: str) -> str:
        return str(self.settings.get("says", "unknown"))


class Mute:
    """Observes, and says nothing."""

    def __init__(self, context: SystemContext) -> None: ...

    def observe(self, turn: Turn) -> None:
        """Do nothing."""


def name_of(system: type) -> str:
    return name_object(system.__name__, system)


@pytest.mark.slow
def test_a_memory_with_all_evidence_is_right_in_every_kind_and_an_empty_one_in_none(tmp_path: Path):
    items = generated(turns=100)
    records = run_systems(tmp_path, "oracle", "full_context", "empty", file=stream_file(tmp_path, items))
    assert {record.kind for record in records} == {*ANSWERABLE, *ABSTAINING}
    assert accuracy(records, "oracle") == accuracy(records, "full_context") == 1
    assert accuracy(records, "empty", *ANSWERABLE) == 0
    assert len(records) == 3 * len(questions_of(items))


def test_a_system_sees_the_turns_before_a_question_and_no_gold(tmp_path: Path):
    items = generated(turns=40, users=2)
    records = run_systems(tmp_path, name_of(Spy), file=stream_file(tmp_path, items))
    assert accuracy(records, name_of(Spy)) == 1
    assert [turn.id for turn in Spy.observed] == [turn.id for turn in turns_of(items)][: len(Spy.observed)]


def test_a_system_may_answer_by_itself_with_settings_of_its_own(tmp_path: Path):
    name = name_of(Parrot)
    records = run_systems(tmp_path, name, overrides={name: {"says": "I do not know."}})
    assert accuracy(records, name, *ABSTAINING) == 1
    assert accuracy(records, name, *ANSWERABLE) == 0


def test_a_system_that_can_neither_recall_nor_answer_is_refused(tmp_path: Path):
    with pytest.raises(BadSettings, match="context_for"):
        run_systems(tmp_path, name_of(Mute))


def test_an_unknown_system_is_refused_with_the_nearest_name(tmp_path: Path):
    with pytest.raises(BadSettings, match="full_context"):
        run_systems(tmp_path, "full_contxt")


@pytest.mark.slow
def test_the_budget_cuts_every_context(tmp_path: Path):
    items = generated(turns=40)
    file = stream_file(tmp_path, items)
    for budget in (40, 200):
        records = run_systems(tmp_path / str(budget), "full_context", "grep", file=file, budget=budget)
        tokens = [record.values["context_tokens"] for record in records]
        assert 0 < max(tokens) <= budget


@pytest.mark.slow
def test_questions_at_a_few_places_have_the_context_that_they_have_in_the_whole_stream(tmp_path: Path):
    file = stream_file(tmp_path, generated(turns=120))
    whole = {each.probe: each.values["context_tokens"] for each in run_systems(tmp_path, "full_context", file=file)}
    few = run_systems(tmp_path / "few", "full_context", file=file, places=3)
    assert len({each.case for each in few}) == 3
    assert {each.probe: each.values["context_tokens"] for each in few}.items() <= whole.items()


def test_an_editor_of_edits_takes_part_with_the_turns_as_texts(tmp_path: Path):
    records = run_systems(tmp_path, "rag", file=stream_file(tmp_path, generated(turns=30)), limit=3)
    assert records and all("correct" in record.values for record in records)


@pytest.mark.slow
def test_scores_say_what_the_store_is_like_and_what_a_question_costs(tmp_path: Path):
    items = generated(turns=40)
    run_systems(tmp_path, "memory", file=stream_file(tmp_path, items))
    rows = {row.metric: row for row in report(tmp_path / "run").rows}
    assert (rows["state_precision"].mean, rows["state_recall"].mean) == (100, 100)
    assert rows["stale"].mean == rows["leaked"].mean == rows["false_acceptance"].mean == 0
    assert 0 < (rows["store_items"].mean or 0) <= 40
    assert all(rows[name].n > 10 for name in ("context_tokens", "recall_ms", "evidence", "accuracy"))


@pytest.mark.slow
def test_another_stream_starts_with_an_empty_memory(tmp_path: Path):
    first, second = (
        [item.model_copy(update={"stream": name}) for item in generated(turns=30, seed=seed)]
        for name, seed in (("a", 1), ("b", 2))
    )
    second = [
        item.model_copy(
            update={"id": f"b-{item.id}", "evidence": ()}
            if isinstance(item, StreamQuestion)
            else {"id": f"b-{item.id}"}
        )
        for item in second
    ]
    records = run_systems(tmp_path, "full_context", "memory", file=stream_file(tmp_path, [*first, *second]))
    assert accuracy(records, "full_context") == 1
    last = [record for record in records if record.editor == "full_context"][-1]
    steps = [event for event in read_lines(tmp_path / "run", EVENTS) if event.get("probe") == last.probe]
    texts = {
        hit["text"] for event in steps if event["editor"] == "full_context" for hit in event["update"].get("hits", ())
    }
    texts_of_second = {turn.text for turn in turns_of(second)}
    assert texts and all(any(turn in text for turn in texts_of_second) for text in texts)


@pytest.mark.slow
def test_a_resumed_run_uses_the_store_and_asks_what_is_left(tmp_path: Path):
    items = generated(turns=80)
    file = stream_file(tmp_path, items)
    whole = run_systems(tmp_path / "whole", "memory", "grep", file=file)
    run_systems(tmp_path, "memory", "grep", file=file)
    records, run_folder = tmp_path / "run" / "records.jsonl", tmp_path / "run"
    lines = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(b"".join(lines[: len(lines) // 4]))
    (observed,) = run_folder.glob(f"systems/memory/*/{OBSERVED}")
    assert len(observed.read_text().split()) > 60
    again = run_systems(tmp_path, "memory", "grep", file=file)
    assert untimed(again) == untimed(whole)
    stored = observed.read_text().split()
    assert len(stored) == len({*stored})


def untimed(records: list[Any]) -> list[tuple[Any, ...]]:
    keys = ((each.editor, each.probe, each.answer, each.retrieved, each.values["correct"]) for each in records)
    return sorted(keys)


@pytest.mark.slow
def test_processes_give_what_threads_give(tmp_path: Path):
    file = stream_file(tmp_path, generated(turns=40))
    with Provider(lambda asked: answer_prompt(asked.prompt)) as provider:
        config = StreamConfig(systems=("grep", "memory"), model=provider.spec("chat"), embedding="lexical")
        for workers in ("threads", "processes:2"):
            run_stream(file, config.model_copy(update={"workers": workers}), tmp_path / workers)
    threads, processes = (list(read_records(tmp_path / workers)) for workers in ("threads", "processes:2"))
    assert len(threads) == 2 * len(questions_of(generated(turns=40)))
    assert untimed(threads) == untimed(processes)


class Flaky(FactsGold):
    """Remembers facts; its provider is away once, at the twelfth turn."""

    turns: ClassVar[int] = 0

    def observe(self, turn: Turn) -> None:
        Flaky.turns += 1
        if Flaky.turns == 12:
            raise RateLimited("later")
        super().observe(turn)


def test_questions_after_turns_that_could_not_be_read_are_asked_again_by_resume(tmp_path: Path) -> None:
    file = stream_file(tmp_path, generated(turns=30))
    found: list[dict[str, Any]] = []
    for system in (name_of(Flaky), "facts_gold"):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        with suppress(TooManyFailures):
            run_systems(folder, system, file=file)
        found.append({record.prompt: record.values.get("correct") for record in run_systems(folder, system, file=file)})
    assert found[0] == found[1] and found[0]


def test_calls_by_which_turns_are_read_are_paid_for_once(tmp_path: Path) -> None:
    file = stream_file(tmp_path, generated(turns=20))
    with Provider(lambda asked: "unknown") as provider:
        for calls in (25, 1000):
            asked = StreamConfig(
                systems=("fact_agent",), model=provider.spec("chat"), embedding="lexical", max_calls=calls
            )
            with suppress(BudgetReached):
                run_stream(file, asked, tmp_path / "run")
        bodies = [json.dumps(request.body, sort_keys=True) for request in provider.requests]
    assert len(bodies) == len(set(bodies)) > 25
    assert not list((tmp_path / "run").glob("replies*"))


def test_limits_of_calls_are_refused_with_a_local_model_and_left_alone_with_a_given_one(tmp_path):
    fields = {
        "systems": ("grep",),
        "model": "tests.evals.toys:ScriptedModel",
        "embedding": "lexical",
        "max_calls": 1000,
    }
    trust_names([str(fields["model"])])
    with pytest.raises(BadSettings, match="--max-calls with model .*a local model makes no API calls"):
        run_stream(stream_file(tmp_path), StreamConfig.model_validate(fields), tmp_path / "run")
    assert run_systems(tmp_path / "other", "grep", file=tmp_path / "stream.jsonl", max_calls=1000)
