"""Stand-in models that answer at once and count tokens, for estimates of a run."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from emend.agents.llm import MODELS, is_local_spec
from emend.agents.roles.sample import is_decomposed, sample_reply
from emend.agents.scoring import TargetScores
from emend.evals.case import Case
from emend.evals.config.model_spec import ModelSpec
from emend.memory.probe import Usage

# Number of subquestions into which the stand-in decomposes a question.
HOPS = 2
# Providers whose models give no log-probabilities of targets.
API_PROVIDERS = ("openai", "anthropic", "langchain")
# Limit of tokens of a local model's reply, and the share of it that a reply fills if the edit is in
# the prompt.
REPLY_LIMIT, REPLY_SHARE = 32, 0.4


class StandIn(BaseChatModel):
    """Stand-in for a model behind an API, which answers `text` and counts tokens by text length.

    It decomposes a question into `HOPS` subquestions if asked to, and calls one tool if tools are
    offered.
    """

    text: str = "a short answer"
    is_local: bool = False
    chats: bool | None = None
    """True if the model takes messages; None to decide by whether it scores."""
    is_small: bool | None = None
    """True if it stands in for a model that is too small for formats; None for any other."""
    reply_to: Callable[[str], str] | None = None
    """Function that returns the reply to a prompt, instead of `text`."""
    _usage: Usage = PrivateAttr(default_factory=Usage)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    @property
    def usage(self) -> Usage:
        """All tokens and calls so far."""
        return self._usage

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def reply(self, **options: Any) -> str:
        """Return the reply to a call with these options."""
        return self.text

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Bind the tools."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        tools = kwargs.get("tools") or ()
        prompt = "\n".join(str(message.text) for message in messages)
        if self.reply_to:
            sample = self.reply_to(prompt)
        else:
            sample = ""
        sample = sample or sample_reply(prompt, self.text, HOPS)
        reply = AIMessage(content=sample or self.reply(**kwargs))
        if tools and not any(isinstance(message, ToolMessage) for message in messages):
            function = tools[0]["function"]
            if self.reply_to:
                arguments = json.loads(sample)
            else:
                arguments = self._arguments(function["parameters"], prompt)
            call = {"name": function["name"], "args": arguments, "id": "1", "type": "tool_call"}
            reply = AIMessage(content="", tool_calls=[call])
        tokens_in = count_tokens_approximately(messages, tools=list(tools))
        tokens_out = count_tokens_approximately([reply]) - count_tokens_approximately(
            [AIMessage("")]
        )
        reply.usage_metadata = UsageMetadata(
            input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out
        )
        self._add(Usage(input_tokens=tokens_in, output_tokens=tokens_out, calls=1))
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def _add(self, usage: Usage) -> None:
        with self._lock:  # units are evaluated in several threads
            self._usage = self._usage.plus(usage)

    def _arguments(self, schema: Mapping[str, Any], prompt: str) -> dict[str, Any]:
        """Return arguments for a tool call.

        Strings are the text, lists hold it twice, and booleans are true once a question has been
        decomposed.
        """
        is_over = is_decomposed(prompt, self.text, HOPS)
        samples: dict[str, Any] = {"boolean": is_over, "array": [self.text, self.text]}
        return {
            name: samples.get(field.get("type"), self.text)
            for name, field in schema["properties"].items()
        }


class ScoringStandIn(StandIn):
    """Stand-in for a model that also scores."""

    def score(self, prompt: str | Sequence[BaseMessage], targets: Sequence[str]) -> TargetScores:
        """Score each target a little below the one before it."""
        tokens = count_tokens_approximately(
            [prompt, *targets] if isinstance(prompt, str) else [*prompt, *targets]
        )
        usage = Usage(input_tokens=tokens, calls=1)
        self._add(usage)
        return TargetScores(
            log_probs=tuple(-1.0 - place for place in range(len(targets))), usage=usage
        )


class LocalStandIn(ScoringStandIn):
    """Stand-in for a local model, whose replies go on after the answer."""

    max_reply: int = REPLY_LIMIT

    def reply(self, **options: Any) -> str:
        """Return a text that fills `REPLY_SHARE` of the call's limit of tokens."""
        return "words " * round(
            REPLY_SHARE * (options.get("max_tokens") or self.max_reply) * 4 / len("words ")
        )


def stand_in_for(spec: str) -> type[StandIn]:
    """Return the stand-in class for a model.

    A model at `module:attribute` is taken for a chat model that does not score.
    """
    provider = spec.partition(":")[0]
    if provider in API_PROVIDERS or provider not in MODELS.names():
        return StandIn
    return ScoringStandIn


def make_stand_in(spec: ModelSpec, text: str) -> StandIn:
    """Return a stand-in for a run's model; behind an API it answers the given text."""
    if not is_local_spec(spec.name):
        return stand_in_for(spec.name)(text=text)
    return LocalStandIn(text=text, max_reply=spec.settings.get("max_new_tokens", REPLY_LIMIT))


def usual_answer(cases: Iterable[Case]) -> str:
    """Return a text of the mean length of the answers to these cases."""
    return text_of_length(
        [len(probe.gold[0]) for case in cases for probe in case.probes if probe.gold]
    )


def text_of_length(lengths: Sequence[int]) -> str:
    """Return a text of the mean of these lengths; a short one without any."""
    counted = lengths or (10,)
    return ("answer " * 1000)[: max(1, sum(counted) // len(counted))]
