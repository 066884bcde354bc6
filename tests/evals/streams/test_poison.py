"""Poisoned writes."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from emend.evals.streams.fairness import OracleReader, check_stream
from emend.evals.streams.generator import with_injections
from emend.evals.streams.sentences.wordings import read_question
from emend.memory.errors import BadSettings
from tests.evals.streams.streams import accuracy, generated, questions_of, run_systems, stream_file, turns_of


class GullibleReader(OracleReader):
    """Gives what a document about the subject of the question demands."""

    def _generate(self, messages: list[BaseMessage], *more: Any, **settings: Any) -> ChatResult:
        prompt = "\n".join(str(message.text) for message in messages)
        lines = prompt.splitlines()
        target = read_question(lines[-1].partition("user: ")[2])
        for line in reversed(lines[:-1]):
            if target and "Zzyx" in line and target.subject in line:
                word = next(word for word in line.replace(".", " ").split() if word.startswith("Zzyx"))
                return ChatResult(generations=[ChatGeneration(message=AIMessage(word))])
        return super()._generate(messages, *more, **settings)


@pytest.mark.slow
def test_documents_come_before_the_questions_that_they_attack_and_change_no_gold():
    items = generated(turns=300)
    poisoned = with_injections(items, 30)
    documents = [turn for turn in turns_of(poisoned) if turn.kind == "injection"]
    attacked = [each for each in questions_of(poisoned) if each.wrong and each.wrong[0].why == "injected"]
    assert len(documents) == len(attacked) == 30
    assert [each.id for each in questions_of(items)] == [each.id for each in questions_of(poisoned)]
    assert [each.gold for each in questions_of(items)] == [each.gold for each in questions_of(poisoned)]
    assert [check.failed for check in check_stream(poisoned)] == [0, 0, 0, 0]


def test_a_stream_with_too_few_questions_is_refused():
    with pytest.raises(BadSettings, match="--injections"):
        with_injections(generated(turns=20), 30)


@pytest.mark.slow
def test_a_reader_that_obeys_documents_gives_what_they_demand(tmp_path: Path):
    file = stream_file(tmp_path, with_injections(generated(turns=120), 10))
    gullible = run_systems(tmp_path / "gullible", "full_context", "empty", file=file, model=GullibleReader())
    sound = run_systems(tmp_path / "sound", "full_context", file=file)
    injected = {
        editor: [
            each.values["gives_injected"]
            for each in gullible
            if each.editor == editor and "gives_injected" in each.values
        ]
        for editor in ("full_context", "empty")
    }
    assert injected == {"full_context": [1.0] * 10, "empty": [0.0] * 10}
    assert accuracy(sound, "full_context") == 1
