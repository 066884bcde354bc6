"""Settings of a served model, named like those of local models."""

from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from emend.agents.templates.chat_template import THOUGHT_TOKENS
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings, problem_of
from emend.memory.registry import nearest

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ServedSettings(FrozenModel):
    """Settings of a served model.

    Attributes:
        tokenizer: Hugging Face id or folder of the model's tokenizer; empty for the server's
            `/tokenize`.
        max_new_tokens: maximum new tokens of a reply; a call may give another limit.
        stop_at: stop texts for a single message to a base model.
        chat: use the tokenizer's chat template; None: if the tokenizer has one.
        template: options of the chat template, such as `enable_thinking`, or `date` for a template
            that otherwise writes today's date.
        thought_tokens: maximum new tokens of a reply's thoughts, for models that write thoughts.
        gather: maximum number of prompts in one scoring request.
        score_apart: score the targets of each call in separate requests.
        lora_folder: folder for adapters trained by `lora` and `qlora`, which the server sees under
            the same path.
        lora_base: folder or Hugging Face id of the model's weights, with which `lora` and `qlora`
            train adapters on this machine.
        temperature: sampling temperature.
        extra_body: further parameters of the server, sent with each request for a reply.
        timeout: timeout in seconds without a byte of the reply.
        deadline: time limit of a call with its retries, in seconds.
        reply_mb: limit of a reply in megabytes.
    """

    tokenizer: str = ""
    max_new_tokens: Annotated[int, Field(ge=1)] = 32
    stop_at: tuple[str, ...] = ("\n",)
    chat: bool | None = None
    template: dict[str, Any] = {}
    thought_tokens: Annotated[int, Field(ge=1)] = THOUGHT_TOKENS
    gather: Annotated[int, Field(ge=1)] = 64
    score_apart: bool = False
    lora_folder: str = ""
    lora_base: str = ""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    extra_body: dict[str, Any] = {}
    timeout: Positive = 120.0
    deadline: Positive = 600.0
    reply_mb: Positive = 8.0

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters sent with each generation request besides prompt, limit and stop texts."""
        return {"temperature": self.temperature} | self.extra_body


def read_settings(name: str, settings: dict[str, Any]) -> ServedSettings:
    """Return the settings of a served model.

    Raises:
        BadSettings: a setting is unknown, or a value has a wrong type or is out of range.
    """
    known = ServedSettings.model_fields
    for setting in settings:
        if setting not in known:
            raise BadSettings(
                f"unknown setting '{setting}' of model '{name}': {nearest(setting, list(known))} "
                f'Give a parameter of the server itself in extra_body={{"{setting}": ...}}.'
            )
    try:
        return TypeAdapter(ServedSettings).validate_python(settings)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise BadSettings(
            f"setting '{wrong['loc'][0]}' of model '{name}': {problem_of(wrong)}, got "
            f"{wrong['input']!r}."
        ) from error
