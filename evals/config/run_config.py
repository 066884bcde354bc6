"""Configuration of a run, validated on creation, and the specs that other functions take from
it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from emend.evals.config.benchmark_spec import BenchmarkSpec
from emend.evals.config.division import Share, WorkersSpec
from emend.evals.config.limits import FailureLimit, Limits
from emend.evals.config.memory_spec import MemorySpec
from emend.evals.config.mode import END, NO_CHECKPOINTS, Checkpoints, Mode
from emend.evals.config.model_spec import ModelSpec
from emend.evals.config.overrides import MODEL, OVERRIDES, check_overrides
from emend.evals.config.plan import Plan
from emend.evals.config.presets import expand_preset
from emend.evals.config.scoring import WRONG_BEFORE, ScoringSpec
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from emend.agents.providers.policy import CallPolicy

# Fields that may change when a run is resumed; the data is compared by content, not by path.
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
# Resumable fields that name files, servers and processes; they are never read from a run folder.
OF_THE_CALL = ("prices", "cache", "memory_server", "workers", "gpus_per_worker")
# Largest seed that PyTorch's generators accept.
LARGEST_SEED = 2**63 - 1
# Names of fields in manifests of older runs, with their current names.
OLD_NAMES = {
    "repeat": "repeats",
    "wording": "prompt_template",
    "options": "benchmark_options",
    "checkpoints": "reevaluate_at",
    "held_out": "perplexity_text",
}
SEED = "Random seed, also of the sample that --limit takes."
LIMIT = (
    "Maximum number of cases: a random sample drawn with --seed (of conversations the first); "
    "default: all."
)
CORRECTIONS = (
    "File of a published audit of a conversation benchmark's answers, which are "
    "corrected or left out."
)


class RunConfig(Limits):
    """Everything that determines a run's records, and how the run is carried out.

    Raises:
        BadSettings: the mode is unknown, a number is invalid, or `reevaluate_at` is given without
            mode `sequential`.
    """

    benchmark: str = Field(description="Benchmark; see: emend list benchmarks.")
    editors: tuple[str, ...] = Field(
        description="Editor to evaluate; repeatable; see: emend list editors."
    )
    model: str = Field(
        default="tiny",
        description="Model under test: tiny, hf:FOLDER, openai:NAME, openai:NAME@URL, "
        "anthropic:NAME or vllm:NAME@URL.",
    )
    settings: tuple[str, ...] = Field(
        default=(),
        description="Form in which the editors receive the edits, such as triplet or document; "
        "repeatable; default: the benchmark's first setting.",
    )
    mode: str | None = Field(
        default=None,
        description="How many cases' edits are applied together: single, batch:N, all, sequential "
        "(one case after another) or sequential:N (N cases per step); default: the "
        "benchmark's.",
    )
    reevaluate_at: str | None = Field(
        default=None,
        description="With --mode sequential, numbers of applied edits at which all earlier cases "
        "are evaluated again, such as 10,50,every:100,end; none disables it; default: end.",
    )
    limit: int | None = Field(default=None, description=LIMIT)
    benchmark_options: dict[str, str] = Field(
        default={}, description="Option of the benchmark; repeatable."
    )
    corrections: str | None = Field(default=None, description=CORRECTIONS)
    data: str | None = Field(
        default=None,
        description="Folder with the benchmark's files; default: BENCHMARK in "
        "EMEND_DATA or in ./data.",
    )
    overrides: dict[str, dict[str, Any]] = Field(default={}, description=OVERRIDES)
    retriever: str = Field(
        default="default",
        description="Retriever of memory-based editors; see: emend list retrievers.",
    )
    embedding: str = Field(
        default="auto",
        description="Embedding of memory-based editors: auto, lexical, minilm, a "
        "sentence-transformers folder, or module:attribute.",
    )
    memory_server: str | None = Field(
        default=None,
        description="Address of a Chroma server (http://HOST:PORT) for the memory of memory-based "
        "editors; default: the memory is stored in the run folder.",
    )
    prompt_template: str | None = Field(
        default=None,
        description="Prompt template that joins retrieved edits and a probe: new_fact, "
        "based_on_facts or brief; default: the benchmark's.",
    )
    prompts: str | None = Field(
        default=None,
        description="TOML or JSON file of instructions by kind of probe, such as those of a "
        "paper, instead of the benchmark's.",
    )
    protocols: tuple[str, ...] = Field(
        default=(),
        description="Rule for scoring an answer as correct: likelihood, teacher_forced, exact, "
        "contains, equivalence (a trained scorer, no language model; equivalence:0.1 leaves "
        "uncertain answers unscored) or judge; repeatable; default: the benchmark's own, plus "
        "contains if that is exact.",
    )
    form: str | None = Field(
        default=None,
        description="Prompt format for a model with a chat template: plain (text to continue) or "
        "chat; default: plain for clozes, and for all probes in runs with an editor that "
        "changes weights.",
    )
    count_only: str | None = Field(
        default=None,
        description="Probes that are scored: wrong_before excludes probes about an edit that the "
        "unedited model answers correctly; default: all.",
    )
    preset: str | None = Field(
        default=None,
        description="Preset of editor settings: paper (as MeLLo and IKE were published) or best "
        "(Emend's own); other options and --set override it; see: emend list settings.",
    )
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description=SEED)
    repeats: int = Field(default=1, description="Number of repeated generations per probe.")
    concurrency: int = Field(
        default=4,
        description="Number of API calls, or of local models' units or probes, at the same time.",
    )
    fail_on_error: str = Field(
        default="0.1",
        description="Failed units at which the run stops: true (the first), false (never), a "
        "proportion (0.1) or a count (5).",
    )
    perplexity_text: str | None = Field(
        default=None,
        description="Text file, one passage per line, for the perplexity under weight edits; none "
        "disables it; default: the benchmark's text, or a built-in one.",
    )
    ability: tuple[str, ...] = Field(
        default=(),
        description="Task for the model's general ability before and after weight edits: "
        "built_in, or lm_eval: with a task of lm-evaluation-harness or its YAML file; "
        "repeatable; default: none.",
    )
    share: str | None = Field(
        default=None,
        description="Evaluate one of N shares of the run, such as 1/8, each in its own folder; "
        "emend merge joins them. Limits of calls and cost apply to all shares together.",
    )

    workers: str = Field(
        default="auto",
        description="Where units are evaluated: threads of this process, processes:N of this "
        "machine, ray or ray:ADDRESS for a Ray cluster; auto: threads, or processes for large runs "
        "of API models.",
    )
    gpus_per_worker: float = Field(
        default=0.0, description="With --workers ray, GPUs of each worker."
    )

    @model_validator(mode="before")
    @classmethod
    def _expanded(cls, values: Any) -> Any:
        if isinstance(values, dict):
            return expand_preset(values)
        return values

    @model_validator(mode="before")
    @classmethod
    def _corrections_as_option(cls, values: Any) -> Any:
        """Copy `corrections` to the options of the benchmark, which reads the file."""
        if not (isinstance(values, dict) and values.get("corrections")):
            return values
        options = {
            **(values.get("benchmark_options") or {}),
            "corrections": str(values["corrections"]),
        }
        return values | {"benchmark_options": options}

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
        plan = self.plan
        if plan.checkpoints != NO_CHECKPOINTS and (
            plan.mode is None or plan.mode.kind != "sequential"
        ):
            raise BadSettings(
                f"--reevaluate-at {self.reevaluate_at} with mode "
                f"{self.mode or 'of the benchmark'}: only mode sequential has checkpoints. Give "
                "--mode sequential, or leave the option out."
            )
        _check_word("--form", self.form, ["plain", "chat"])
        _check_word("--count-only", self.count_only, [WRONG_BEFORE])
        if plan.share is not None:
            plan.share.limits(self)
        self.memory_spec.check_server()
        self._check_editors()
        for name in ("limit", "concurrency", "repeats"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise BadSettings(f"{name} is {number}: it must be 1 or more.")
        check_overrides(self.overrides, self.editors)
        return self

    def _check_editors(self) -> None:
        if not self.editors:
            raise BadSettings("no editor is given: name at least one, for example --editor rag.")
        for name in self.editors:
            if "," in name:
                repeated = " ".join(f"--editor {editor.strip()}" for editor in name.split(","))
                raise BadSettings(
                    f"--editor '{name}' names several editors: repeat --editor, as in {repeated}."
                )

    def resumed(self, options: Mapping[str, Any]) -> Self:
        """Return the configuration for resuming a run: stored fields without `OF_THE_CALL`, and the
        given options.

        Raises:
            BadSettings: an option is invalid.
        """
        stored = self.model_dump(exclude={*OF_THE_CALL})
        return type(self).model_validate({**stored, **options})

    @property
    def model_spec(self) -> ModelSpec:
        """The model under test."""
        return ModelSpec(self.model, self.overrides.get(MODEL, {}), self.form)

    @property
    def benchmark_spec(self) -> BenchmarkSpec:
        """The benchmark and the number of its cases."""
        return BenchmarkSpec(
            self.benchmark, self.data, self.benchmark_options, self.settings, self.limit
        )

    @property
    def memory_spec(self) -> MemorySpec:
        """The memory of memory-based editors."""
        return MemorySpec(
            self.embedding,
            self.retriever,
            self.memory_server,
            self.prompt_template,
            self.prompts or "",
        )

    @property
    def scoring(self) -> ScoringSpec:
        """Protocols of the run and its further measurements."""
        return ScoringSpec(
            protocols=self.protocols,
            only_wrong_before=self.count_only == WRONG_BEFORE,
            perplexity_text=self.perplexity_text,
            ability=self.ability,
        )

    @property
    def plan(self) -> Plan:
        """Mode, checkpoints, limits, workers, repeats and seed of the run.

        Raises:
            BadSettings: a field that is parsed from text is malformed.
        """
        return Plan(
            mode=None if self.mode is None else Mode.parse(self.mode),
            checkpoints=Checkpoints.parse(self.reevaluate_at),
            failure_limit=FailureLimit.parse(self.fail_on_error),
            share=self._share,
            workers=WorkersSpec.parse(self.workers, self.gpus_per_worker),
            repeats=self.repeats,
            concurrency=self.concurrency,
            seed=self.seed,
        )

    @property
    def _share(self) -> Share | None:
        if self.share is None:
            return None
        return Share.parse(self.share)

    @property
    def limits(self) -> Limits:
        """Limits on calls; in a share, the share's part of them.

        Raises:
            BadSettings: there are fewer calls than shares.
        """
        whole = Limits(**{name: getattr(self, name) for name in Limits.model_fields})
        share = self._share
        if share is None:
            return whole
        return whole.model_copy(update=share.limits(self))

    def policy(self, **replacements: Any) -> "CallPolicy":
        """Return the call policy with `limits`.

        Raises:
            BadSettings: see `Limits.policy`.
        """
        return self.limits.policy(**replacements)


def _check_word(option: str, value: str | None, known: list[str]) -> None:
    """Check that an option is None or one of the known words.

    Raises:
        BadSettings: it is another word.
    """
    if value is not None and value not in known:
        raise BadSettings(f"{option} is '{value}': {nearest(value, known)}")
