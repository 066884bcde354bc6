"""The configuration of a run, checked when it is made: modes, checkpoints and limits on failures."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from emend.evals.config.presets import expand_preset
from emend.evals.metrics.scores import WRONG_BEFORE, check_protocols
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.redaction import hide_keys, refuse_secrets
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from emend.agents.providers.policy import CallPolicy

MODEL = "model"
"""The name in `overrides` under which the settings for loading the model are given."""
RESUMABLE_FIELDS = (
    "concurrency",
    "fail_on_error",
    "data",
    "max_cost",
    "max_calls",
    "prices",
    "rpm",
    "tpm",
    "cache",
    "memory_server",
    "workers",
    "gpus_per_worker",
)
"""Fields that may change between a run and its resumption; the data is compared by its content, not by its path."""
OF_THE_CALL = ("prices", "cache", "memory_server", "workers", "gpus_per_worker")
"""Those of them that name files, servers and processes, which are taken from no run folder."""
OVERRIDES = (
    "Setting of an editor or of the model: EDITOR.KEY=VALUE, model.KEY=VALUE, or EDITOR=@FILE with a TOML file; "
    "repeatable; see: emend list settings."
)
SERVER = re.compile(r"https?://(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?/?", re.ASCII)
"""Address of a Chroma server; one with a user and password would be written to the manifest with them."""
USER = re.compile(r"//.*@", re.S)
"""User and password in an address."""
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


_MODE = re.compile(r"(single|all|sequential)|(batch|sequential):(0*[1-9]\d*)", re.ASCII)


class Mode(NamedTuple):
    """How many edits are applied together; `size` is the number of cases in a batch or in a turn of a sequence.

    It is 0 in the other modes, and in a sequence of single cases.
    """

    kind: Literal["single", "all", "batch", "sequential"]
    size: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `single`, `all`, `sequential`, `sequential:N` or `batch:N`.

        Raises:
            BadSettings: no such mode.
        """
        if match := _MODE.fullmatch(text):
            kind, size = match[1] or match[2], int(match[3] or 0)
            return cls(kind, 0 if kind == "sequential" and size == 1 else size)  # type: ignore[arg-type]
        raise BadSettings(
            f"unknown mode '{text}': {nearest(text, ['single', 'all', 'sequential', 'sequential:N', 'batch:N'])}"
        )

    def __str__(self) -> str:
        return f"{self.kind}:{self.size}" if self.size else self.kind


_CHECKPOINT = re.compile(rf"{END}|(every:)?(0*[1-9]\d*)", re.ASCII)


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
            match = _CHECKPOINT.fullmatch(part.strip())
            if match is None:
                raise BadSettings(
                    f"--reevaluate-at is '{text}', and '{part.strip()}' is no checkpoint: {CHECKPOINT_EXAMPLES}."
                )
            if match[2] is None:
                end = True
            elif match[1]:
                every = int(match[2])
            else:
                listed.add(int(match[2]))
        return cls(tuple(sorted(listed)), every, end)

    def passed(self, before: int, now: int) -> bool:
        """Return whether a checkpoint is reached when the number of applied edits grows from `before` to `now`."""
        listed = any(before < number <= now for number in self.listed)
        return listed or bool(self.every and now // self.every > before // self.every)

    def number(self, edits: int) -> int:
        """How many are reached by so many edits."""
        listed = sum(number <= edits for number in self.listed)
        return listed + (edits // self.every if self.every else 0) + self.end

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
MAX_SHARES = 1_000
_SHARE = re.compile(r"(\d{1,4})/(\d{1,4})", re.ASCII)


class Share(NamedTuple):
    """One of `of` parts of a run, each evaluated by a process of its own; `number` is from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `I/N`.

        Raises:
            BadSettings: it has another form, or names no share from 1 to N.
        """
        match = _SHARE.fullmatch(text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]) <= MAX_SHARES:
            raise BadSettings(
                f"--share is '{text[:40]}': write I/N, such as 1/8 for the first of eight shares, with I from 1 to N "
                f"and N at most {MAX_SHARES}."
            )
        return cls(int(match[1]), int(match[2]))

    def limits(self, whole: "CallLimits") -> dict[str, Any]:
        """Return the limits of this share, which all shares together add up to.

        Raises:
            BadSettings: there are fewer calls than shares.
        """
        limits: dict[str, Any] = {}
        for name in ("rpm", "tpm", "max_cost"):
            if (limit := getattr(whole, name)) is not None:
                limits[name] = limit / self.of
        if whole.max_calls is not None:
            if 0 < whole.max_calls < self.of:
                raise BadSettings(
                    f"--max-calls {whole.max_calls} leaves no call to some of {self.of} shares: give more."
                )
            limits["max_calls"] = (whole.max_calls + self.of - self.number) // self.of
        return limits

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


_WORKERS = re.compile(r"auto|threads|processes:(?!0+$)([0-9]{1,3})|ray(?::(.+))?", re.DOTALL)


class WorkersSpec(NamedTuple):
    """Where units are evaluated: kind, number of processes, address of a Ray cluster, and GPUs of each worker there."""

    kind: Literal["auto", "threads", "processes", "ray"]
    number: int = 0
    address: str = ""
    gpus: float = 0.0

    @classmethod
    def parse(cls, text: str, gpus: float = 0.0) -> Self:
        """Parse `auto`, `threads`, `processes:N`, `ray` or `ray:ADDRESS`, with the GPUs of each worker.

        Raises:
            BadSettings: the text is something else, or GPUs are asked for without Ray.
        """
        kind, match = text.partition(":")[0], _WORKERS.fullmatch(text)
        if match is None:
            kinds = ["auto", "threads", "processes:N", "ray", "ray:ADDRESS"]
            known = "N is a number from 1 to 999." if kind == "processes" else nearest(text, kinds)
            raise BadSettings(f"unknown --workers '{text}': {known}")
        if not 0 <= gpus < float("inf") or (gpus and kind != "ray"):
            raise BadSettings(
                f"--gpus-per-worker {gpus:g} with --workers {text}: give a number of GPUs, and --workers ray, which "
                "deals them out."
            )
        return cls(kind, int(match[1] or 0), match[2] or "", gpus)  # type: ignore[arg-type]

    def __str__(self) -> str:
        rest = str(self.number) if self.number else self.address
        return f"{self.kind}:{rest}" if rest else self.kind


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
        if 0 <= number < float("inf") and number == int(number):
            return cls(text, "count", number)
        raise BadSettings(
            f"--fail-on-error is '{text}': give true, false, a proportion such as 0.1, or a count such as 5."
        )

    def exceeded(self, failed: int, tried: int) -> bool:
        """Return whether so many failures are too many."""
        return failed > (self.limit if self.kind == "count" else self.limit * tried)


class ParsedFields(NamedTuple):
    """Fields of a configuration that are short texts, as what they mean; no mode is the benchmark's."""

    mode: Mode | None
    checkpoints: Checkpoints
    failure_limit: FailureLimit
    share: Share | None
    workers: WorkersSpec


class CallLimits(FrozenModel):
    """Limits on the calls to a provider's API; None is no limit."""

    max_cost: float | None = Field(
        default=None, description="Maximum cost of this invocation's API calls, in the currency of --prices."
    )
    max_calls: int | None = Field(default=None, description="Maximum number of API calls of this invocation.")
    prices: str | None = Field(
        default=None, description="TOML file with prices per million tokens; see docs/how-to/models.md."
    )
    rpm: float | None = Field(default=None, description="Maximum API calls per minute.")
    tpm: float | None = Field(default=None, description="Maximum API tokens per minute.")
    cache: str | None = Field(default=None, description="Folder in which API replies are stored and reused.")

    def policy(self, **replacements: Any) -> "CallPolicy":
        """The call policy with these limits.

        Raises:
            BadSettings: an impossible number, or a file that cannot be used.
        """
        from emend.agents.providers.policy import CallPolicy

        limits: dict[str, Any] = {name: getattr(self, name) for name in CallLimits.model_fields}
        named = {name: limits[name] for name in ("prices", "cache") if limits[name] is not None}
        if empty := [name for name, path in named.items() if not path.strip()]:
            raise BadSettings(f"--{empty[0]} is empty: name a {'folder' if empty[0] == 'cache' else 'file'}.")
        paths = {name: Path(path).expanduser() for name, path in named.items()}
        return CallPolicy(**limits | paths | replacements)


class RunConfig(CallLimits):
    """Everything that decides a run's records, and how the run is carried out.

    Raises:
        BadSettings: an unknown mode, an impossible number, or `reevaluate_at` without mode `sequential`.
    """

    benchmark: str = Field(description="Benchmark; see: emend list benchmarks.")
    editors: tuple[str, ...] = Field(description="Editor to evaluate; repeatable; see: emend list editors.")
    model: str = Field(
        default="tiny",
        description="Model under test: tiny, hf:FOLDER, openai:NAME, openai:NAME@URL, anthropic:NAME or vllm:NAME@URL.",
    )
    settings: tuple[str, ...] = Field(
        default=(),
        description="Form in which the editors receive the edits, such as triplet or document; repeatable; "
        "default: the benchmark's first setting.",
    )
    mode: str | None = Field(
        default=None,
        description="How many cases' edits are applied together: single, batch:N, all, sequential (one case after "
        "another) or sequential:N (N cases a turn); default: the benchmark's.",
    )
    reevaluate_at: str | None = Field(
        default=None,
        description="With --mode sequential, numbers of applied edits at which all earlier cases are evaluated again, "
        "such as 10,50,every:100,end; none disables it; default: end.",
    )
    limit: int | None = Field(default=None, description="Maximum number of cases; default: all.")
    benchmark_options: dict[str, str] = Field(default={}, description="Option of the benchmark; repeatable.")
    data: str | None = Field(
        default=None, description="Folder with the benchmark's files; default: BENCHMARK in EMEND_DATA or in ./data."
    )
    overrides: dict[str, dict[str, Any]] = Field(default={}, description=OVERRIDES)
    retriever: str = Field(
        default="default", description="Retriever of memory-based editors; see: emend list retrievers."
    )
    embedding: str = Field(
        default="auto",
        description="Embedding of memory-based editors: auto, lexical, minilm, a sentence-transformers folder, or "
        "module:attribute.",
    )
    memory_server: str | None = Field(
        default=None,
        description="Address of a Chroma server (http://HOST:PORT) that holds the memory of memory-based editors; "
        "default: the run folder holds it.",
    )
    prompt_template: str | None = Field(
        default=None,
        description="Prompt template that joins retrieved edits and a probe: new_fact, based_on_facts or brief; "
        "default: the benchmark's.",
    )
    protocols: tuple[str, ...] = Field(
        default=(),
        description="Rule by which an answer counts as right: likelihood, teacher_forced, exact, contains or judge; "
        "repeatable; default: the benchmark's own, and contains beside exact.",
    )
    form: str | None = Field(
        default=None,
        description="How a model with a chat template is asked: plain text that it continues, or chat; default: plain "
        "for clozes, and for everything in a run with an editor that changes weights.",
    )
    count_only: str | None = Field(
        default=None,
        description="Probes that count: wrong_before leaves out those about an edit that the unedited model answers "
        "right; default: all.",
    )
    preset: str | None = Field(
        default=None,
        description="Named set-up of the editors: paper (as MeLLo and IKE were published) or best (Emend's own); other "
        "options and --set come first; see: emend list settings.",
    )
    seed: int = Field(default=0, description="Random seed.")
    repeats: int = Field(default=1, description="Number of repeated generations per probe.")
    concurrency: int = Field(
        default=4,
        description="Number of API calls, or of local models' units or probes, at the same time.",
    )
    fail_on_error: str = Field(
        default="0.1",
        description="Failed units at which the run stops: true (the first), false (never), a proportion (0.1) or a "
        "count (5).",
    )
    perplexity_text: str | None = Field(
        default=None,
        description="Text file, one passage per line, whose perplexity is measured under weight edits; none disables "
        "it; default: the benchmark's text, or a built-in one.",
    )
    ability: tuple[str, ...] = Field(
        default=(),
        description="Task that the model does before and under weight edits: built_in, or lm_eval: with a task of "
        "lm-evaluation-harness or its YAML file; repeatable; default: none.",
    )
    share: str | None = Field(
        default=None,
        description="Evaluate one of N parts of the run, such as 1/8, each in a folder of its own; emend merge joins "
        "them. Limits of calls and cost are those of all parts together.",
    )

    workers: str = Field(
        default="auto",
        description="Where units are evaluated: threads of this process, processes:N of this machine, ray or "
        "ray:ADDRESS for a Ray cluster; auto: threads, or processes for large runs of API models.",
    )
    gpus_per_worker: float = Field(default=0.0, description="With --workers ray, GPUs of each worker.")

    @model_validator(mode="before")
    @classmethod
    def _expanded(cls, values: Any) -> Any:
        return expand_preset(values) if isinstance(values, dict) else values

    @model_validator(mode="before")
    @classmethod
    def _reevaluate_at_end(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        if str(values.get("mode")).startswith("sequential") and values.get("reevaluate_at") is None:
            return values | {"reevaluate_at": END}
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        parsed = self.parsed()
        if parsed.checkpoints != NO_CHECKPOINTS and (parsed.mode is None or parsed.mode.kind != "sequential"):
            raise BadSettings(
                f"--reevaluate-at {self.reevaluate_at} with mode {self.mode or 'of the benchmark'}: only mode "
                "sequential has checkpoints. Give --mode sequential, or leave them out."
            )
        check_protocols(self.protocols)
        for option, value, known in (
            ("--form", self.form, ("plain", "chat")),
            ("--count-only", self.count_only, (WRONG_BEFORE,)),
        ):
            if value is not None and value not in known:
                raise BadSettings(f"{option} is '{value}': {nearest(value, list(known))}")
        if parsed.share is not None:
            parsed.share.limits(self)
        if self.memory_server is not None and not SERVER.fullmatch(self.memory_server):
            address = hide_keys(USER.sub("//...@", self.memory_server))
            raise BadSettings(
                f"--memory is '{address}': give a Chroma server, http://HOST:PORT, without user, password or path, or "
                "leave it out."
            )
        if not self.editors:
            raise BadSettings("no editor is named: give at least one, for example --editor rag.")
        if joined := next((name for name in self.editors if "," in name), None):
            repeated = " ".join(f"--editor {name.strip()}" for name in joined.split(","))
            raise BadSettings(f"--editor '{joined}' is not one editor: repeat --editor, as in {repeated}.")
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

    def parsed(self) -> ParsedFields:
        """Parse the fields that are short texts.

        Raises:
            BadSettings: one of them has another form.
        """
        return ParsedFields(
            mode=None if self.mode is None else Mode.parse(self.mode),
            checkpoints=Checkpoints.parse(self.reevaluate_at),
            failure_limit=FailureLimit.parse(self.fail_on_error),
            share=None if self.share is None else Share.parse(self.share),
            workers=WorkersSpec.parse(self.workers, self.gpus_per_worker),
        )

    def policy(self, **replacements: Any) -> "CallPolicy":
        """The call policy with these limits, in a share with its part of them.

        Raises:
            BadSettings: see `CallLimits.policy`.
        """
        share = self.parsed().share
        limits = {} if share is None else share.limits(self)
        return super().policy(**limits | replacements)
