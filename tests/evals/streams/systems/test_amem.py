"""What A-Mem's model writes, links and fails to write."""

import json
import re
from collections.abc import Iterator

import pytest

from emend.evals.streams.conformance import EMPLOYER, TURNS
from emend.evals.streams.system import SystemContext
from emend.evals.streams.systems.amem import AMem
from emend.memory.errors import ModelError
from tests.evals.streams.extraction import A_MEM, write_down
from tests.provider.models import asked_model
from tests.provider.protocols import Asked
from tests.provider.server import Provider

pytestmark = pytest.mark.slow


@pytest.fixture
def provider() -> Iterator[Provider]:
    pytest.importorskip("agentic_memory", reason="a-mem is not installed")
    with Provider(link_to_all) as provider:
        yield provider


def link_to_all(asked: Asked) -> str:
    """A note about employers, linked to all neighbours."""
    schema = asked.body["response_format"]["json_schema"]["name"]
    if schema == "NoteAnalysis":
        return json.dumps({"keywords": ["Mira"], "context": "Employers.", "tags": ["work", "people"]})
    links = {"suggested_connections": re.findall(r"memory_id:(\S+)", asked.prompt), "tags_to_update": ["linked"]}
    return json.dumps(A_MEM[schema] | {"should_evolve": True, "actions": ["strengthen"]} | links)


def test_a_note_comes_with_what_the_model_wrote_about_it_and_with_the_notes_that_it_links_to(provider: Provider):
    system = AMem(SystemContext(model=asked_model(provider), settings={"k": 1}))
    for turn in TURNS:
        system.observe(turn)
    items = system.context_for(EMPLOYER.without_gold(), EMPLOYER.date)
    assert "(context: Employers.; keywords: Mira; tags: " in items[0].text
    assert len(items) > 1 and {item.turn for item in items} <= {turn.id for turn in TURNS}
    assert {item.date for item in items} <= {turn.date for turn in TURNS}
    system.close()


def test_a_turn_whose_call_fails_is_no_note_and_can_be_observed_again(provider: Provider):
    system = AMem(SystemContext(model=asked_model(provider)))
    provider.faults.extend(["401"])
    with pytest.raises(ModelError):
        system.observe(TURNS[0])
    assert system.size().items == 0
    provider.responder = lambda asked: write_down(asked) or ""
    system.observe(TURNS[0])
    assert [item.text for item in system.context_for(EMPLOYER.without_gold(), "")] == [f"user: {TURNS[0].text}"]
    system.close()
