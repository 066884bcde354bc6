"""A served model's description by its server: name, base of an adapter, window, version, number
format.
"""

from typing import Any, Protocol

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, ModelReplyError, RequestRefused
from emend.memory.redaction import hide_keys
from emend.memory.registry import nearest

MODELS = "/v1/models"
# Paths at which servers report their version.
DETAILS = {"vllm": "/version", "sglang": "/server_info"}
# Maximum characters kept of a server's text.
LONGEST = 200
# Positions of the window that must stay free when scoring: servers require room for one new token.
MARGIN = 2


class Asker(Protocol):
    """A model whose server accepts GET requests."""

    spec: str
    inner: Any

    def get(self, path: str) -> Any:
        """Return the JSON at a path."""


class ServerModel(FrozenModel):
    """A model's description by its server; "" and None for unknown values."""

    name: str
    dialect: str
    root: str = ""
    """Folder or Hugging Face id of the weights, or of the adapter."""
    parent: str = ""
    """Name of the model that an adapter belongs to; empty for a model of its own."""
    max_model_len: int | None = None
    """Length of prompt and reply; an SGLang server's limit of prompts, if it is smaller."""
    version: str = ""
    dtype: str = ""

    @property
    def window(self) -> int | None:
        """Maximum number of positions of a prompt."""
        return None if self.max_model_len is None else self.max_model_len - MARGIN

    @property
    def fingerprint(self) -> str:
        """An id that changes with any of the fields."""
        length = "" if self.max_model_len is None else f"{self.max_model_len} tokens"
        parts = (
            f"{self.dialect} {self.version}".strip(),
            self.parent,
            self.root,
            self.dtype,
            length,
        )
        return f"{self.name} ({', '.join(part for part in parts if part)})"


def describe(model: Asker) -> ServerModel:
    """Ask the server for its models, version and number format.

    A name of the form `base+adapter` refers to the adapter, unless a model has the whole name.

    Raises:
        BadSettings: the server does not have the model, or the adapter belongs to another one.
        ModelError: the server does not answer.
    """
    cards = _cards(model)
    client = model.inner
    name, plus, adapter = client.model.partition("+")
    if plus and client.model not in cards:
        _refuse_unknown(model, name, cards)
        _refuse_unknown(model, adapter, cards)
        if (parent := _text(cards[adapter], "parent")) and parent != name:
            raise BadSettings(
                f"model '{model.spec}': its server has adapter '{adapter}' for "
                f"'{parent}', not '{name}'."
            )
        client.model = adapter
    _refuse_unknown(model, client.model, cards)
    client.base = _text(cards[client.model], "parent")
    card = cards[client.model]
    info = _details(model, DETAILS[client.dialect]) if client.dialect in DETAILS else {}
    length = card.get("max_model_len") or cards.get(_text(card, "parent"), {}).get("max_model_len")
    lengths = [
        size
        for size in (length, info.get("max_req_input_len"))
        if type(size) is int and size > MARGIN + 1
    ]
    return ServerModel(
        name=client.model,
        dialect=client.dialect,
        root=("" if client.base else _text(info, "model_path")) or _text(card, "root"),
        parent=_text(card, "parent"),
        max_model_len=min(lengths, default=None),
        version=_text(info, "version"),
        dtype=_text(card, "dtype") or _text(info, "dtype"),
    )


def _cards(model: Asker) -> dict[str, dict[str, Any]]:
    reply = model.get(MODELS)
    data = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(data, list):
        raise ModelReplyError(
            f"{model.spec}: {MODELS} of its server lists no models: check the address."
        )
    return {
        card["id"]: card
        for card in data
        if isinstance(card, dict) and isinstance(card.get("id"), str)
    }


def _refuse_unknown(model: Asker, name: str, cards: dict[str, Any]) -> None:
    if name not in cards:
        raise BadSettings(
            f"model '{model.spec}': its server has no '{name}': {nearest(name, sorted(cards)[:50])}"
        )


def _details(model: Asker, path: str) -> dict[str, Any]:
    """Return optional details from a path of the server; empty if the path does not exist."""
    try:
        reply = model.get(path)
    except (RequestRefused, ModelReplyError):
        return {}
    return reply if isinstance(reply, dict) else {}


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return hide_keys(value)[:LONGEST] if isinstance(value, str) else ""
