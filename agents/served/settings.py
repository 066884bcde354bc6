"""Settings of a served model, with the names that local models have for the same."""

from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ServedSettings(FrozenModel):
    """Settings of a served model.

    Attributes:
        tokenizer: Hugging Face id or folder of the model's tokenizer; empty for the server's `/tokenize`.
        max_new_tokens: maximum new tokens of a reply; a call may give another limit.
        stop_at: stop texts for a single message to a base model.
        chat: use the tokenizer's chat template; None: if the tokenizer has one.
        gather: maximum number of prompts in one scoring request.
        score_apart: score the targets of each call in requests of their own.
        lora_folder: folder that the server sees under the same path, for adapters that `lora` and `qlora` train.
        lora_base: folder or Hugging Face id of the model's weights, on which they train them here.
        temperature: of generation.
        extra_body: parameters of the server's own, sent with each request for a reply.
        timeout: seconds without a byte of the reply after which a request is given up.
        deadline: seconds of a whole call with its retries.
        reply_mb: limit of a reply in megabytes.
    """

    tokenizer: str = ""
    max_new_tokens: Annotated[int, Field(ge=1)] = 32
    stop_at: tuple[str, ...] = ("\n",)
    chat: bool | None = None
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
        """Parameters that are sent with each request for a reply besides prompt, limit and stop texts."""
        return {"temperature": self.temperature} | self.extra_body


def read_settings(name: str, settings: dict[str, Any]) -> ServedSettings:
    """Return the settings of a served model.

    Raises:
        BadSettings: an unknown setting, or a value of another type or out of range.
    """
    known = ServedSettings.model_fields
    for setting in settings:
        if setting not in known:
            raise BadSettings(
                f"unknown setting '{setting}' of model '{name}': {nearest(setting, list(known))} A parameter of the "
                f'server\'s own goes into model.extra_body={{"{setting}": ...}}.'
            )
    try:
        return TypeAdapter(ServedSettings).validate_python(settings)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise BadSettings(
            f"setting '{wrong['loc'][0]}' of model '{name}': {wrong['msg']}, got {wrong['input']!r}."
        ) from error
