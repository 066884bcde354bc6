"""Operations one after another, and the answers that a person gives to questions between them."""

import pytest

from emend.memory.facts.fact import Fact, Lookup, Provenance
from emend.memory.facts.fact_memory import FactMemory
from tests.memory.facts.stories import DISPUTED, STORIES, Step
from tests.params import first_quick


@pytest.mark.parametrize("name", STORIES)
def test_answers_are_those_that_a_person_gives(name: str) -> None:
    ids: dict[str, str] = {}
    with FactMemory(None) as memory:
        for step in STORIES[name]:
            assert_step(memory, step, ids)


@pytest.mark.parametrize("name", first_quick(STORIES, 5))
def test_the_story_told_twice_to_the_same_file_changes_nothing(name: str, tmp_path) -> None:
    ids: dict[str, str] = {}
    sizes = []
    questions = [step for step in STORIES[name] if step.call in ("lookup", "history")]
    for repeated in (False, True):
        with FactMemory(tmp_path) as memory:
            for number, step in enumerate(STORIES[name]):
                if not repeated or step not in questions:
                    assert_step(memory, step, ids, f"step {number}", repeated)
            assert_step(memory, questions[-1], ids)
            sizes.append(memory.count())
    assert sizes[0] == sizes[1]


def assert_step(
    memory: FactMemory, step: Step, ids: dict[str, str], operation_id: str = "", repeated: bool = False
) -> None:
    arguments = {name: _filled(value, ids) for name, value in step.arguments.items()}
    if step.call == "lookup":
        assert _answer(memory.lookup(**arguments)) == sorted(step.result), arguments
        return
    if step.call == "history":
        facts = memory.history(**arguments)
        assert [_version(fact)[: len(gold)] for fact, gold in zip(facts, step.result, strict=True)] == list(step.result)
        return
    who = {name: arguments.pop(name) for name in ("user", "recorded_at") if name in arguments}
    change = getattr(memory, step.call)(**arguments, provenance=Provenance(operation_id=operation_id, **who))
    assert change.repeated is repeated
    if step.result and not repeated:
        ids[step.result] = change.dependency.id if change.dependency else change.facts[0].id
    if change.conflicts and not repeated:
        ids["conflict"] = change.conflicts[0].id


def _filled(value, ids):
    if isinstance(value, list):
        return [_filled(each, ids) for each in value]
    return value.format(**ids) if isinstance(value, str) and value.strip("{}") in ids else value


def _answer(found: Lookup) -> list[str]:
    return sorted([*(DISPUTED for _ in range(found.disputed)), *(fact.object for fact in found.facts)])


def _version(fact: Fact) -> tuple[str, ...]:
    return (fact.object, fact.status, (fact.valid_from or "")[:10], (fact.valid_to or "")[:10])
