"""Two equal runs send equal prompts: nothing random and no clock is in what a model reads."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, message_to_dict

from emend.editors.registry import EDITORS
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from tests.editors.memory_based.test_writing_agent import Notary
from tests.evals.streams.streams import generated, run_systems, stream_file
from tests.evals.streams.writers import FactWriter
from tests.evals.toys import BENCHMARK
from tests.params import mostly_slow
from tests.provider.models import asked_model
from tests.provider.server import Provider
from tests.provider.speaking import believes

IN_PROMPTS = ("in_context", "rag", "cot", "ike", "input_aug", "serac", "crag", "mello", "kg_walk", "agent")


def prompt_of(messages: list[BaseMessage]) -> str:
    """What a provider would be sent: roles, texts, calls and their ids."""
    kept = ("content", "tool_calls", "tool_call_id", "type", "status")
    dicts = [message_to_dict(message)["data"] for message in messages]
    return str([{name: fields.get(name) for name in kept} for fields in dicts])


def prompts_of(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The prompts that a model of this class gets from now on."""
    prompts: list[str] = []
    generate = model._generate

    def record(self: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        prompts.append(prompt_of(messages))
        return generate(self, messages, *args, **kwargs)

    monkeypatch.setattr(model, "_generate", record)
    return prompts


def test_all_editors_that_ask_a_provider_are_walked() -> None:
    asking = {name for name in EDITORS.names() if not getattr(EDITORS.load(name), "needs_weights", False)}
    assert asking - {"unedited"} <= set(IN_PROMPTS), "add the new editor"


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("editor", mostly_slow(IN_PROMPTS, "agent"))
def test_an_editor_sends_equal_prompts_in_two_runs(editor: str, tmp_path: Path) -> None:
    sent = []
    for attempt in ("first", "second"):
        with Provider(believes) as provider:
            config = RunConfig.model_validate(
                {
                    "benchmark": BENCHMARK,
                    "benchmark_options": {"cases": "4"},
                    "editors": (editor,),
                    "embedding": "lexical",
                    "concurrency": 4,
                    "model": provider.spec("chat"),
                }
            )
            run(config, tmp_path / attempt, model=asked_model(provider))
            sent.append(Counter(str(request.body["messages"]) for request in provider.requests))
    assert sent[0] == sent[1] and sent[0]


def test_an_agent_that_writes_edits_sends_equal_prompts_in_two_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = prompts_of(Notary, monkeypatch)
    fields = {"benchmark": BENCHMARK, "benchmark_options": {"cases": "3"}, "editors": ("agent",), "model": "scripted"}
    config = RunConfig.model_validate(fields | {"overrides": {"agent": {"writes": True}}, "embedding": "lexical"})
    run(config, tmp_path / "first", model=Notary())
    first = Counter(prompts)
    prompts.clear()
    run(config, tmp_path / "second", model=Notary())
    assert Counter(prompts) == first
    assert any("remember" in prompt or "update" in prompt for prompt in prompts), "the agent has written"


@pytest.mark.parametrize("system", ["fact_agent", pytest.param("memory", marks=pytest.mark.slow)])
def test_a_memory_system_sends_equal_prompts_in_two_runs(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = prompts_of(FactWriter, monkeypatch)
    file = stream_file(tmp_path, generated(turns=20, rules=0))
    run_systems(tmp_path / "first", system, file=file, model=FactWriter())
    first = Counter(prompts)
    prompts.clear()
    run_systems(tmp_path / "second", system, file=file, model=FactWriter())
    assert Counter(prompts) == first and first
