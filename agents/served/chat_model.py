"""A model on a completion server: plain text or chat template, and log-probabilities where
supported.

Prompts are sent as token ids, encoded here as for a local model, so that both get the same input.
"""

import json
import logging
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr, SkipValidation

from emend.agents.local.prefixes import Encoded
from emend.agents.local.token_ids import Encoder
from emend.agents.parsing.messages import count_tokens, read_usage
from emend.agents.providers.chat_model import ProviderChatModel
from emend.agents.providers.journal import call_key, in_unit, replay_or_call
from emend.agents.providers.policy import CallPolicy
from emend.agents.providers.repetition import current_repeat
from emend.agents.providers.usage import ProviderUsage
from emend.agents.scoring import TargetScores, join_target
from emend.agents.served.client import TOKEN_IDS, CompletionsClient
from emend.agents.served.connection import reply_message
from emend.agents.served.forms import Rows, ScoreForm, read_forms
from emend.agents.served.lists import ListScorer, TokenScores
from emend.agents.served.self_check import choose_form
from emend.agents.served.server import ServerModel, describe
from emend.agents.served.tokens import named_tokenizer, server_encoder
from emend.agents.templates.chat_template import ChatTemplate
from emend.agents.templates.thoughts import Thoughts, thought_room
from emend.memory.errors import BadSettings
from emend.memory.probe import Usage


class Connected(NamedTuple):
    """Information about a model from its server."""

    server: ServerModel
    encoder: Encoder
    tokenizer: Any
    """Hugging Face tokenizer; None if the server tokenizes."""
    template: ChatTemplate


class ServedChatModel(ProviderChatModel):
    """A served model without log-probabilities; see `ScoringServedModel`.

    As with a local model, a single human message to a base model is continued unchanged, and
    replies may be empty or end at the limit of new tokens.
    """

    inner: CompletionsClient
    max_new_tokens: int = 32
    supports_prefill: bool = True
    no_scores: str = ""
    """Why the model gives no log-probabilities."""
    connected: SkipValidation[Connected | None] = None

    @classmethod
    def connect(
        cls,
        inner: CompletionsClient,
        spec: str,
        policy: CallPolicy | None,
        settings: dict[str, Any],
    ) -> "ServedChatModel":
        """Ask the server for its models, check its log-probabilities, and return the model.

        Raises:
            ModelError: the server does not answer, or has no usable tokenizer.
            BadSettings: the server does not have the model, or a setting does not apply to it.
        """
        model = cls.wrap(inner, spec, policy, settings)
        assert isinstance(model, cls)
        model._connect()
        form, model.no_scores = choose_form(
            model._ask_form, read_forms(inner.dialect), model._encoder
        )
        if form is None:
            logging.getLogger(__name__).warning(
                "%s returns no log-probabilities: %s", spec, model.no_scores
            )
            return model
        scoring = ScoringServedModel(
            **{name: getattr(model, name) for name in ServedChatModel.model_fields}
        )
        scoring._settings = model._settings
        scoring.use_form(form)
        return scoring

    @property
    def chats(self) -> bool:
        """True if prompts go through a chat template."""
        template = getattr(self._tokenizer, "chat_template", None)
        return bool(template) if self.inner.settings.chat is None else self.inner.settings.chat

    @property
    def fingerprint(self) -> str:
        """An id that changes with the served model, its server, number format and window, as far as
        these are known.
        """
        assert self.connected is not None
        return self.connected.server.fingerprint + self.connected.template.suffix

    @property
    def window(self) -> int | None:
        """Maximum number of positions; None if the server does not report it."""
        return self._encoder.window

    @property
    def _identifying_params(self) -> dict[str, Any]:
        settings = self.inner.settings
        here = {
            "max_new_tokens": self.max_new_tokens,
            "stop_at": settings.stop_at,
            "tokenizer": settings.tokenizer,
        }
        options = self.connected.template.suffix if self.connected and self.chats else ""
        return (
            super()._identifying_params
            | here
            | {"chat": self.chats}
            | ({"options": options} if options else {})
        )

    @property
    def _encoder(self) -> Encoder:
        assert self.connected is not None
        return self.connected.encoder

    @property
    def _tokenizer(self) -> Any:
        return None if self.connected is None else self.connected.tokenizer

    def _connect(self) -> None:
        settings = self.inner.settings
        self.max_new_tokens = settings.max_new_tokens
        server = describe(self)
        if settings.tokenizer:
            tokenizer = named_tokenizer(settings.tokenizer)
            encoder = Encoder.of(tokenizer, server.window, settings.tokenizer)
        else:
            tokenizer, encoder = None, server_encoder(self.post, self.inner.model, server.window)
        template = ChatTemplate(tokenizer, settings.template, self.spec)
        self.connected = Connected(server, encoder, tokenizer, template)
        if settings.chat and not getattr(tokenizer, "chat_template", None):
            raise BadSettings(
                f"model.chat: '{self.spec}' has no chat template; name a tokenizer that has one "
                "(model.tokenizer)."
            )
        if self.chats:
            template.observe(self._first_text)
            template.warn()

    def _first_text(self, prompt: str) -> str:
        """Return the first tokens of a reply, including special tokens if the server shows them."""
        return str(self._continue(self._encoder.prompt(prompt, 2), 2, [], None).text)

    def post(self, path: str, body: dict[str, Any], tokens: int = 0) -> Any:
        """Return the server's JSON reply to a request that is made under the policy."""
        send = self.inner.connection.post
        message = self._call(lambda: reply_message(send(path, body)), tokens, None)
        return message.additional_kwargs["reply"]

    def get(self, path: str) -> Any:
        """Return the JSON at a path of the server, asked for under the policy."""
        message = self._call(lambda: reply_message(self.inner.connection.get(path)), 0, None)
        return message.additional_kwargs["reply"]

    def command(self, path: str, body: dict[str, Any]) -> None:
        """Send a request whose reply is plain text or any JSON, under the policy."""
        self._call(lambda: reply_message(self.inner.connection.command(path, body)), 0, None)

    def adapted(self, adapter: str) -> "ServedChatModel":
        """Return this model with an adapter loaded on the server."""
        inner = self.inner.model_copy(
            update={"model": adapter, "base": self.inner.base or self.inner.model}
        )
        return self.model_copy(update={"inner": inner})

    def plain(self) -> "ServedChatModel":
        """Return this model without its chat template; it continues plain text."""
        if not self.chats:
            return self
        settings = self.inner.settings.model_copy(update={"chat": False})
        return self.model_copy(
            update={"inner": self.inner.model_copy(update={"settings": settings})}
        )

    def close(self) -> None:
        """Release resources; further calls fail."""

    def _ask_form(self, form: ScoreForm, rows: Rows) -> TokenScores:
        reply = self.post(
            form.path, form.body(self.inner.naming, rows), sum(len(row.ids) for row in rows)
        )
        return form.read(reply, rows)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        limit = (
            kwargs.pop("max_new_tokens", None)
            or kwargs.pop("max_tokens", None)
            or self.max_new_tokens
        )
        if kwargs:
            raise BadSettings(
                f"served model '{self.spec}' was called with {', '.join(sorted(kwargs))}: it "
                "accepts only stop and max_new_tokens. For tools and structured replies name the "
                "same server as openai:NAME@URL."
            )
        continues = not self.chats and len(messages) == 1 and isinstance(messages[0], HumanMessage)
        if stop is None:
            stop = list(self.inner.settings.stop_at) if continues else []
        thoughts = self._thoughts_of(messages)
        if thoughts:
            room = thought_room(self.inner.settings.thought_tokens, limit, self.window)
            limit, ends, stop = limit + room, tuple(stop), []
        row = self._encoder.prompt(self._text(messages), limit)
        reply = self._continue(row, limit, stop, run_manager)
        if thoughts:
            reply.content = thoughts.cut(thoughts.complete(str(reply.text)), ends)
        # with a local model, a stop text before the first word does not end a reply
        if stop and not str(reply.text).strip():
            before, reply = read_usage(reply), self._continue(row, limit, [], run_manager)
            usage = before.plus(read_usage(reply))
            reply.usage_metadata = count_tokens(usage.input_tokens, usage.output_tokens)
        reply.content = cut_at(str(reply.text), stop)
        reply.response_metadata |= {"cut_tokens": row.cut}
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def _continue(self, row: Encoded, limit: int, stop: list[str], run_manager: Any) -> AIMessage:
        prompt = HumanMessage("", additional_kwargs={TOKEN_IDS: list(row.ids)})
        result = super()._generate([prompt], stop, run_manager, max_tokens=limit)
        message = result.generations[0].message
        assert isinstance(message, AIMessage)
        return message

    def _text(self, messages: Sequence[BaseMessage]) -> str:
        if not self.chats:
            return "\n\n".join(str(message.text) for message in messages)
        assert self.connected is not None
        return self.connected.template.render(messages)

    def _answer_text(self, messages: Sequence[BaseMessage]) -> str:
        """Return the prompt up to the position of the answer, after the thoughts of a model that
        writes them.
        """
        if not self.chats or self.connected is None:
            return self._text(messages)
        return self.connected.template.render_answer(messages)

    def _thoughts_of(self, messages: Sequence[BaseMessage]) -> Thoughts | None:
        """Return the thoughts with which a reply to these messages begins."""
        if not self.chats or self.connected is None or (messages and messages[-1].type == "ai"):
            return None
        return self.connected.template.thoughts_in(messages)

    def _usable(self, message: AIMessage, arguments: dict[str, Any]) -> AIMessage:
        return message


class ScoringServedModel(ServedChatModel):
    """A served model whose log-probabilities passed the check at load."""

    _form: ScoreForm = PrivateAttr()
    _lists: ListScorer = PrivateAttr()

    def adapted(self, adapter: str) -> "ScoringServedModel":
        """Return this model with an adapter loaded on the server; it must be closed separately."""
        model = super().adapted(adapter)
        assert isinstance(model, ScoringServedModel)
        model.use_form(self._form)
        return model

    def use_form(self, form: ScoreForm) -> None:
        """Use this request form for scoring from now on."""
        settings = self.inner.settings
        self._form = form
        self._lists = ListScorer(
            lambda rows: self._ask_form(form, rows), settings.gather, settings.score_apart
        )

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return super()._identifying_params | {"scored_by": self._form.name}

    def score(self, prompt: str | Sequence[BaseMessage], targets: Sequence[str]) -> TargetScores:
        """Return the natural-log probability of each target, joint and by token, as the
        continuation of the prompt.

        With a chat template, a non-empty text is a message, and the target is the beginning of the
        reply, or continues a final assistant message.

        Raises:
            BadData: a target is blank.
            ContextOverflow: a target alone does not fit the window.
            ModelReplyError: the server's reply does not have the targets' log-probabilities.
            ModelError: the server does not answer.
        """
        if not isinstance(prompt, str) or (prompt and self.chats):
            prompt = self._answer_text(
                [HumanMessage(prompt)] if isinstance(prompt, str) else prompt
            )
        for target in targets:
            join_target(prompt, target)
        rows = self._encoder.pairs([(prompt, target) for target in targets])
        if not rows:
            return TargetScores(log_probs=())
        scores, is_cached = self._scores(rows)
        tokens = max(row.start for row in rows) + sum(map(len, scores))
        return TargetScores(
            log_probs=tuple(math.fsum(values) for values in scores),
            target_tokens=tuple(map(len, scores)),
            token_log_probs=tuple(map(tuple, scores)),
            cut_tokens=max(row.cut for row in rows),
            usage=Usage(cached=1) if is_cached else Usage(input_tokens=tokens, calls=1),
        )

    def close(self) -> None:
        """End the threads that batch calls; further calls fail."""
        self._lists.close()

    def _scores(self, rows: list[Encoded]) -> tuple[TokenScores, bool]:
        """Return the rows' log-probabilities, and whether they are from the cache."""
        cache, key = self.policy.cache, ""
        if cache is not None or in_unit():
            request = {"model": self.inner.model, "rows": [(row.start, row.ids) for row in rows]}
            key = call_key(
                self.spec, self.inner.base_url, request | self._form.parameters, current_repeat()
            )
        if (
            cache is not None
            and (cached := cache.find(key)) is not None
            and (scores := read_scores(cached, rows))
        ):
            self.policy.ledger.add(self.spec, ProviderUsage(cached=1))
            return scores, True
        self.policy.ledger.add_sent(self.spec, self._form.parameters)
        message = replay_or_call(key, lambda: scores_message(self._lists.score(rows)))
        if (scores := read_scores(message, rows)) is None:
            message = scores_message(scores := self._lists.score(rows))  # a damaged journal
        if cache is not None:
            cache.add(key, message)
        return scores, False


def scores_message(scores: TokenScores) -> AIMessage:
    """Return log-probabilities as a message, for the journal and the cache."""
    return AIMessage(json.dumps(scores))


def read_scores(message: AIMessage, rows: Sequence[Encoded]) -> TokenScores | None:
    """Return the log-probabilities in a message; None if they do not match these rows."""
    try:
        scores = json.loads(str(message.text))
        sizes = [len(row.ids) - row.start for row in rows]
        if [len(values) for values in scores] == sizes and all(
            type(x) is float for values in scores for x in values
        ):
            return scores  # type: ignore[no-any-return]
    except (ValueError, TypeError):
        pass
    return None


def cut_at(text: str, stop: Sequence[str]) -> str:
    """Return a continuation before the first stop text, without leading white space, as with a
    local model.
    """
    text = text.lstrip()
    return text[: min((at for end in stop if (at := text.find(end)) >= 0), default=len(text))]
