"""The configuration of a run, checked when it is made: modes, checkpoints and limits on failures."""

from typing import Any, Literal, NamedTuple, Self

from pydantic import model_validator

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.redaction import refuse_secrets
from emend.memory.registry import nearest

MODEL = "model"
"""The name in `overrides` under which the settings for loading the model are given."""
END, NO_CHECKPOINT = "end", "none"
CHECKPOINT_EXAMPLES = "give numbers of edits, such as 10,50, every:10, end, several of these with commas, or none"
OLD_NAMES = {
    "repeat": "repeats",
    "wording": "prompt_template",
    "options": "benchmark_options",
    "checkpoints": "reevaluate_at",
    "held_out": "perplexity_text",
}
"""Fields as manifests of older runs have them."""


class Mode(NamedTuple):
    """How many edits are applied together; `size` is the number of cases in a batch, and 0 in every other mode."""

    kind: Literal["single", "all", "batch", "sequential"]
    size: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `single`, `all`, `sequential` or `batch:N`.

        Raises:
            BadSettings: no such mode.
        """
        kind, _, size = text.partition(":")
        if kind == "batch" and size.isdigit() and int(size) > 0:
            return cls("batch", int(size))
        if text in ("single", "all", "sequential"):
            return cls(text)  # type: ignore[arg-type]
        raise BadSettings(f"unknown mode '{text}': {nearest(text, ['single', 'all', 'sequential', 'batch:N'])}")

    def __str__(self) -> str:
        return f"batch:{self.size}" if self.kind == "batch" else self.kind


class Checkpoints(NamedTuple):
    """Numbers of applied edits after which mode `sequential` asks all earlier cases again.

    Listed numbers, every n-th edit (0: never), and the last edit.
    """

    listed: tuple[int, ...] = ()
    every: int = 0
    end: bool = False

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Parse `10,50,100`, `every:N`, `end`, or several of these with commas; `none` and None give no checkpoint.

        Raises:
            BadSettings: the text is something else.
        """
        listed: set[int] = set()
        every, end = 0, False
        for part in () if text is None or text.strip() == NO_CHECKPOINT else text.split(","):
            word, colon, size = part.strip().partition(":")
            number = size if colon else word
            if part.strip() == END:
                end = True
            elif (colon and word != "every") or not (number.isascii() and number.isdigit()) or int(number) < 1:
                raise BadSettings(
                    f"--reevaluate-at is '{text}', and '{part.strip()}' is no checkpoint: {CHECKPOINT_EXAMPLES}."
                )
            elif colon:
                every = int(number)
            else:
                listed.add(int(number))
        return cls(tuple(sorted(listed)), every, end)

    def passed(self, before: int, now: int) -> bool:
        """Return whether a checkpoint is reached when the number of applied edits grows from `before` to `now`."""
        listed = any(before < number <= now for number in self.listed)
        return listed or bool(self.every and now // self.every > before // self.every)

    def refuse_beyond(self, edits: int, setting: str) -> None:
        """Compare the listed checkpoints with the number of edits that are applied at the end.

        Raises:
            BadSettings: a listed checkpoint would never be reached.
        """
        if beyond := [number for number in self.listed if number > edits]:
            raise BadSettings(
                f"--reevaluate-at {beyond[0]} is never reached: setting '{setting}' has {edits} different edits. "
                "Give smaller numbers, or end for the last."
            )


NO_CHECKPOINTS = Checkpoints()


class FailureLimit(NamedTuple):
    """How many failed units end a run: more than this count, or more than this share of the units tried."""

    text: str
    kind: Literal["count", "share"]
    limit: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `true` (none), `false` (any number), a proportion such as `0.1`, or a count such as `5`.

        Raises:
            BadSettings: the text is something else.
        """
        if text.lower() in ("true", "false"):
            return cls(text, "count", 0.0 if text.lower() == "true" else float("inf"))
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if 0 < number < 1:
            return cls(text, "share", number)
        if number >= 0 and number == int(number):
            return cls(text, "count", number)
        raise BadSettings(
            f"--fail-on-error is '{text}': give true, false, a proportion such as 0.1, or a count such as 5."
        )

    def exceeded(self, failed: int, tried: int) -> bool:
        """Return whether so many failures are too many."""
        return failed > (self.limit if self.kind == "count" else self.limit * tried)


class RunConfig(FrozenModel):
    """Everything that decides a run's records.

    Args:
        benchmark: name of the benchmark.
        data: its data folder, looked for under `EMEND_DATA` first.
        benchmark_options: options of the benchmark.
        settings: the benchmark's settings to run; empty for its first one.
        editors: names of editors, at least one.
        model: the model under test, `provider:name`.
        mode: how many edits are applied together; None for the benchmark's own.
        reevaluate_at: checkpoints of mode `sequential`, see `Checkpoints`; by default after the last edit.
        limit: maximum number of cases.
        repeats: number of repeated generations per probe.
        overrides: editor settings by editor name, and settings for loading the model under `model`.
        prompt_template: how facts are put before a prompt; None for the benchmark's own.
        fail_on_error: how many failed units end the run, see `FailureLimit`.
        max_cost: limit on what one process spends, in the currency of `prices`, a file.
        max_calls: limit on the calls of one process.
        rpm: calls per minute, `tpm` tokens per minute.
        cache: folder of cached replies.
        perplexity_text: file of texts whose perplexity is measured under edits of weights; None for the benchmark's
            own or a few plain ones; `none` for no measurement.

    Raises:
        BadSettings: unknown mode, or an impossible number; checkpoints without mode `sequential`.
    """

    benchmark: str
    data: str | None = None
    benchmark_options: dict[str, str] = {}
    settings: tuple[str, ...] = ()
    editors: tuple[str, ...]
    model: str = "tiny"
    retriever: str = "default"
    embedding: str = "auto"
    mode: str | None = None
    reevaluate_at: str | None = None
    limit: int | None = None
    seed: int = 0
    concurrency: int = 4
    repeats: int = 1
    overrides: dict[str, dict[str, Any]] = {}
    prompt_template: str | None = None
    fail_on_error: str = "0.1"
    max_cost: float | None = None
    max_calls: int | None = None
    prices: str | None = None
    rpm: float | None = None
    tpm: float | None = None
    cache: str | None = None
    perplexity_text: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _current_names(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = {OLD_NAMES.get(name, name): value for name, value in values.items()}
        if values.get("mode") == "sequential" and values.get("reevaluate_at") is None:
            values["reevaluate_at"] = END
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        mode = None if self.mode is None else Mode.parse(self.mode)
        if Checkpoints.parse(self.reevaluate_at) != NO_CHECKPOINTS and (mode is None or mode.kind != "sequential"):
            raise BadSettings(
                f"--reevaluate-at {self.reevaluate_at} with mode {self.mode or 'of the benchmark'}: only mode "
                "sequential has checkpoints. Give --mode sequential, or leave them out."
            )
        FailureLimit.parse(self.fail_on_error)
        if not self.editors:
            raise BadSettings("no editor is named: give at least one, for example --editor rag.")
        for name in ("limit", "concurrency", "repeats"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise BadSettings(f"{name} is {number}: it must be 1 or more.")
        refuse_secrets(self.overrides.get(MODEL, {}), MODEL)
        for name in self.overrides:
            if name not in (*self.editors, MODEL):
                raise BadSettings(
                    f"--set names the editor '{name}', which is not in the run: {nearest(name, [*self.editors, MODEL])}"
                )
        return self
