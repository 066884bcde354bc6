"""Replies of units in work: found again by the unit that asked, in its place among equal ones, and by nobody else."""

from collections.abc import Iterator
from itertools import count

import pytest

from emend.agents.parsing.messages import usage_of
from emend.agents.providers.chat_model import AskedModel
from emend.agents.providers.replay import FOLDER, Unfinished, working
from emend.memory.errors import BadSettings, ReplyRefused
from tests.provider.models import PROTOCOLS, asked_model
from tests.provider.protocols import Said, ToolCall
from tests.provider.server import Provider

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")
pytest.importorskip("langchain_anthropic", reason="the extra 'anthropic' is not installed")

KEY = "sk-planted-0123456789"


class Broken(Exception):
    """Ends a unit in the middle."""


@pytest.fixture(autouse=True)
def planted(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


@pytest.fixture
def provider() -> Iterator[Provider]:
    """Never says the same twice."""
    numbers = count(1)
    with Provider(lambda asked: f"reply {next(numbers)}") as served:
        yield served


def ask(model: AskedModel, kept: Unfinished | None, unit: str, *asked: str, breaks: bool = True, on: bool = True):
    """What is replied in a unit that breaks off, or ends; `on` says whether it goes on later."""
    replies = []
    try:
        with working(kept, unit, lambda error: on):
            for text in asked:
                replies.append(model.invoke(text))
            if breaks:
                raise Broken
    except Broken:
        pass
    return [str(reply.text) for reply in replies], [usage_of(reply) for reply in replies]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_unit_that_goes_on_gets_its_replies_as_they_came_and_asks_only_what_is_new(protocol, provider, tmp_path):
    model = asked_model(provider, protocol)
    with Unfinished(tmp_path) as kept:
        first = ask(model, kept, "u", "a", "a", "b")
    assert first[0] == ["reply 1", "reply 2", "reply 3"] and (tmp_path / FOLDER).is_dir()
    with Unfinished(tmp_path) as kept:
        again = ask(model, kept, "u", "a", "a", "b", "c", breaks=False)
        assert again[0] == [*first[0], "reply 4"] and again[1][:3] == first[1]
        assert provider.count == 4 == model.policy.ledger.total().requests
    assert not (tmp_path / FOLDER).exists()


def test_no_other_unit_and_no_call_outside_of_one_gets_them(provider, tmp_path):
    model = asked_model(provider)
    with Unfinished(tmp_path) as kept:
        ask(model, kept, "u", "a")
        assert ask(model, kept, "v", "a")[0] == ["reply 2"] and ask(model, None, "u", "a")[0] == ["reply 3"]
        assert str(model.invoke("a").text) == "reply 4"
        assert ask(asked_model(provider, name="other"), kept, "u", "a")[0] == ["reply 5"]


@pytest.mark.parametrize(("breaks", "on"), [(False, True), (True, False)])
def test_of_a_unit_that_ended_well_or_not_nothing_is_left(breaks, on, provider, tmp_path):
    model = asked_model(provider)
    with Unfinished(tmp_path) as kept:
        ask(model, kept, "u", "a", breaks=breaks, on=on)
        assert ask(model, kept, "u", "a", breaks=False)[0] == ["reply 2"]
    assert not (tmp_path / FOLDER).exists()


def test_a_torn_last_line_costs_that_reply_alone(provider, tmp_path):
    model = asked_model(provider)
    with Unfinished(tmp_path) as kept:
        ask(model, kept, "u", "a", "b")
        path = kept.file("u")
    path.write_bytes(path.read_bytes()[:-9])
    with Unfinished(tmp_path) as kept:
        assert ask(model, kept, "u", "a", "b", "c")[0] == ["reply 1", "reply 3", "reply 4"]
    with Unfinished(tmp_path) as kept:
        assert ask(model, kept, "u", "a", "b", "c", breaks=False)[0] == ["reply 1", "reply 3", "reply 4"]


def test_a_folder_that_cannot_be_made_is_named_with_the_remedy(tmp_path):
    (tmp_path / FOLDER).write_text("a file stands here", encoding="utf-8")
    with pytest.raises(BadSettings, match="unfinished.*--out"):
        Unfinished(tmp_path)


def test_what_a_killed_process_left_of_finished_units_is_let_go_of(provider, tmp_path):
    model = asked_model(provider)
    with Unfinished(tmp_path) as kept:
        ask(model, kept, "u", "a")
        ask(model, kept, "v", "a")
    with Unfinished(tmp_path, {"u"}) as kept:
        assert ask(model, kept, "v", "a", breaks=False)[0] == ["reply 2"]
        assert ask(model, kept, "u", "a", breaks=False)[0] == ["reply 3"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_refusals_and_calls_of_tools_are_kept_too_and_no_key_is(protocol, tmp_path):
    said = [Said(refusal="Never."), Said(calls=[ToolCall("lookup", {"subject": KEY})])]
    with Provider(lambda asked: said[asked.prompt == "call"]) as provider:
        model = asked_model(provider, protocol)
        for _ in range(2):
            with Unfinished(tmp_path) as kept, pytest.raises(Broken), working(kept, "u", lambda error: True):
                with pytest.raises(ReplyRefused, match="Never"):
                    model.invoke("refuse")
                assert len(model.invoke("call").tool_calls) == 1
                raise Broken
        assert provider.count == 2
    assert all(KEY.encode() not in path.read_bytes() for path in (tmp_path / FOLDER).iterdir())
