"""How long a reply may be: as long as the probe wants, or as the user has set the model to, if that is more."""

from typing import Any, ClassVar

import pytest
from langgraph.runtime import Runtime

from emend.graphs.respond import RespondContext, RespondState, respond
from emend.memory.errors import ReplyCutOff
from tests.fakes import InstantChatModel
from tests.provider.models import asked_model
from tests.provider.protocols import Said
from tests.provider.server import Provider

pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")
pytest.importorskip("langchain_anthropic", reason="the extra 'anthropic' is not installed")

pytestmark = pytest.mark.usefixtures("keys")


def speak(model, new_tokens):
    state: RespondState = {"prompt": "Tell.", "reading": "whole", "new_tokens": new_tokens}
    return respond(state, Runtime(context=RespondContext(model)))


@pytest.mark.parametrize(
    ("protocol", "settings", "sent"),
    [
        ("chat", {}, 256),
        ("chat", {"max_tokens": 4096}, 4096),
        ("chat", {"max_tokens": 64}, 256),
        ("anthropic", {}, 256),  # what the loader sets for itself is nobody's wish
        ("anthropic", {"max_tokens": 5000}, 5000),
    ],
)
def test_the_larger_limit_is_sent(protocol, settings, sent):
    with Provider(lambda asked: "Ostrim") as provider:
        speak(asked_model(provider, protocol, **settings), 256)
        body = provider.requests[0].body
    assert body.get("max_completion_tokens", body.get("max_tokens")) == sent


def test_the_remedy_of_a_reply_that_was_cut_off_within_thoughts_helps():
    def reasons(asked):
        room = asked.body["max_completion_tokens"]
        return Said("<think>Hm.</think>Ostrim") if room > 1000 else Said("<think>Hm", cut=True)

    with Provider(reasons) as provider:
        with pytest.raises(ReplyCutOff, match="--set model.max_tokens=4096"):
            speak(asked_model(provider), 256)
        told = speak(asked_model(provider, max_tokens=4096), 256)
    assert told["reply"] == "<think>Hm.</think>Ostrim"


class Limited(InstantChatModel):
    """A model on this machine, as far as limits go."""

    max_new_tokens: int = 32
    given: list[int] = []
    ends: list[Any] = []

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.given.append(kwargs["max_new_tokens"])
        self.ends.append(stop)
        return super()._generate(messages, stop, run_manager)


@pytest.mark.parametrize(("own", "asked", "given"), [(32, 100, 100), (512, 100, 512), (32, 0, 256)])
def test_a_local_model_has_the_larger_limit_too(own, asked, given):
    model = Limited(text="Ostrim", max_new_tokens=own)
    speak(model, asked)
    assert model.given == [given]


class LimitedChat(Limited):
    """The same behind a chat template."""

    chats: ClassVar[bool] = True


@pytest.mark.parametrize(("begun", "stop"), [(True, ["\n"]), (False, None)])
def test_a_line_that_is_begun_for_a_local_chat_model_ends_with_the_line(begun: bool, stop: list[str] | None):
    """Behind `Final answer:` small models went on with further steps, and their answers counted as cut off."""
    turns = [{"role": "user", "content": "Question: Who?"}, {"role": "assistant", "content": "Final answer:"}]
    state: RespondState = {"prompt": "Who?", "turns": turns if begun else []}
    model = LimitedChat(text="Bo", ends=[])
    assert respond(state, Runtime(context=RespondContext(model)))["reply"] == "Bo" and model.ends == [stop]
