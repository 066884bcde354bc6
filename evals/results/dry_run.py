"""Estimates of a run before anything is asked: units, calls, tokens, cost, time, and needs of a local model."""

import json
import logging
import shlex
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr
from safetensors import SafetensorError, safe_open

from emend.agents.llm import check_spec, is_local_spec
from emend.agents.local.model_folder import is_half_precision, weights_digest
from emend.agents.providers.prices import Prices
from emend.agents.roles.decompose import count_sampled, sample_round
from emend.agents.roles.relation_chain import sample_chain
from emend.agents.scoring import TargetScores
from emend.agents.tiny import FOLDER as TINY
from emend.editors.device_speed import device_speed
from emend.editors.hyperparameters import (
    covariance_editors,
    covariance_layers,
    folder_config,
    shipped_settings,
    shipped_tables,
)
from emend.editors.registry import EDITORS
from emend.evals.case import Case
from emend.evals.config.run_config import RunConfig
from emend.evals.log.baseline import read_baseline
from emend.evals.log.manifest import CaseList
from emend.evals.log.records import read_records
from emend.evals.results.papers.tables import memory_factor, paper_models
from emend.evals.run.ability import BUILT_IN, built_in_questions, load_abilities
from emend.evals.run.run import TRAINING, edit_tokens, list_cases, run
from emend.evals.run.run_setup import RunSetup, load_setup
from emend.memory.edit import FrozenModel
from emend.memory.probe import Usage

SAMPLE = 5
"""Cases of each setting that are asked of the stand-in."""
SECONDS_PER_CALL = 1.0
HOPS = 2
"""Subquestions of a question that the stand-in decomposes."""
UNEDITED = "unedited"
API_PROVIDERS = ("openai", "anthropic", "langchain")
"""Providers whose models do not score."""
BASELINE = "baseline"
COUNTS = ("calls", "input_tokens", "output_tokens")
REPLY_LIMIT, REPLY_SHARE = 32, 0.4
"""Limit of tokens of a local model's reply, and the share of it that a reply fills with the edit in its prompt.

SmolLM2-135M-Instruct under `rag`: 0.1 to 0.2 on CounterFact, 0.3 on AKEW and 0.8 on DocTER."""
UNTAUGHT = 2
"""A model whose prompt has no edit writes so many times more, to its limit in most replies."""


class StandIn(BaseChatModel):
    """Takes the place of a model behind an API: answers `text` at once, and counts tokens by the length of texts.

    It decomposes a question into `HOPS` subquestions where it is asked to, and calls one tool where it is offered any.
    """

    text: str = "a short answer"
    is_local: bool = False
    reply_to: Callable[[str], str] | None = None
    """Gives the reply to a prompt, in place of `text`."""
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
        """The reply to a call with these options."""
        return self.text

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Bind the tools."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        tools = kwargs.get("tools") or ()
        prompt = "\n".join(str(message.text) for message in messages)
        sample = self.reply_to(prompt) if self.reply_to else sample_chain(prompt, self.text)
        sample = sample or sample_round(prompt, self.text, HOPS)
        reply = AIMessage(content=sample or self.reply(**kwargs))
        if tools and not any(isinstance(message, ToolMessage) for message in messages):
            function = tools[0]["function"]
            arguments = json.loads(sample) if self.reply_to else self._arguments(function["parameters"], prompt)
            call = {"name": function["name"], "args": arguments, "id": "1", "type": "tool_call"}
            reply = AIMessage(content="", tool_calls=[call])
        tokens_in = count_tokens_approximately(messages, tools=list(tools))
        tokens_out = count_tokens_approximately([reply]) - count_tokens_approximately([AIMessage("")])
        reply.usage_metadata = UsageMetadata(
            input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out
        )
        self._add(Usage(input_tokens=tokens_in, output_tokens=tokens_out, calls=1))
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def _add(self, usage: Usage) -> None:
        with self._lock:  # units are evaluated in several threads
            self._usage = self._usage.plus(usage)

    def _arguments(self, schema: Mapping[str, Any], prompt: str) -> dict[str, Any]:
        """Arguments of a tool: the text, twice in a list, and true once a question has been decomposed."""
        is_over = count_sampled(prompt, self.text) >= HOPS
        samples: dict[str, Any] = {"boolean": is_over, "array": [self.text, self.text]}
        return {name: samples.get(field.get("type"), self.text) for name, field in schema["properties"].items()}


class ScoringStandIn(StandIn):
    """Takes the place of a model that also scores."""

    def score(self, prompt: str | Sequence[BaseMessage], targets: Sequence[str]) -> TargetScores:
        """Score each target a little below the one before it."""
        tokens = count_tokens_approximately([prompt, *targets] if isinstance(prompt, str) else [*prompt, *targets])
        usage = Usage(input_tokens=tokens, calls=1)
        self._add(usage)
        return TargetScores(log_probs=tuple(-1.0 - place for place in range(len(targets))), usage=usage)


class LocalStandIn(ScoringStandIn):
    """Takes the place of a model that runs here, whose replies go on after the answer."""

    max_reply: int = REPLY_LIMIT

    def reply(self, **options: Any) -> str:
        """A text that fills a share of the call's limit."""
        return "words " * round(REPLY_SHARE * (options.get("max_tokens") or self.max_reply) * 4 / len("words "))


class EstimatedRow(FrozenModel):
    """Units of one editor in one setting, and what they are expected to need.

    `edits` and their tokens are those of an editor of weights, which passes them through the model, and then the texts
    whose perplexity is measured, and the built-in questions on ability.
    """

    setting: str
    editor: str
    units: int
    calls: int
    input_tokens: int
    output_tokens: int
    edits: int = 0
    edit_tokens: int = 0
    perplexity_tokens: int = 0


class DryRun(FrozenModel):
    """Estimate of a run; cost is None without a price, and seconds for a local model of unknown size."""

    model: str
    rows: tuple[EstimatedRow, ...]
    cost: float | None
    currency: str
    seconds: float | None
    needs: tuple[str, ...] = ()
    """Lines about memory and missing files of a local model."""
    sample: str = f"{SAMPLE} cases of each setting"
    """What the stand-in was asked."""

    def total(self, name: str) -> int:
        """Return the sum of a column."""
        return sum(getattr(row, name) for row in self.rows)


def dry_run(config: RunConfig) -> DryRun:
    """Estimate a run: count its cases, and ask the first ones of a stand-in that answers at once.

    An editor of weights is counted as the unedited model, since it is asked as that is.

    Raises:
        EmendError: a name, setting or file is wrong.
    """
    check_spec(config.model)
    load_abilities(config.ability, any(map(_writes_weights, config.editors)))
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="emend-dry-run-") as home:
        counting = changed_config(config, ("unedited",), memory_server=None, share=None)
        setup = load_setup(counting, Path(home), StandIn())
        cases = list_cases(setup, None)
        sample = _sample_config(config, setup)
        firsts = (case for name in setup.source.settings for case in islice(setup.source.cases(name), SAMPLE))
        model = make_stand_in(config, usual_answer(firsts))
        with without_warnings():  # of a sample; the run will have its own
            run(sample, Path(home) / "run", model=model)
        rows = tuple(_rows(config, Path(home) / "run", cases, setup, model.usage))
    needs = tuple(need_lines(config)) if is_local_spec(config.model) else ()
    estimate = priced(config, rows).model_copy(update={"needs": needs})
    if estimate.seconds is None or not is_local_spec(config.model):
        return estimate
    # A run starts as this one did: it imports, reads the data, opens a memory and makes a report.
    return estimate.model_copy(update={"seconds": estimate.seconds + time.perf_counter() - started})


@contextmanager
def without_warnings() -> Iterator[None]:
    """Context in which nothing below an error is logged."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def changed_config(config: RunConfig, editors: Sequence[str], **changes: Any) -> RunConfig:
    """The configuration of a sample of a run: of these editors, without limits of calls, in threads."""
    free = dict.fromkeys(("max_cost", "max_calls", "prices", "rpm", "tpm", "cache"))
    overrides = {name: values for name, values in config.overrides.items() if name in editors}
    fields = config.model_dump() | free | {"editors": tuple(editors), "overrides": overrides, "ability": ()}
    return RunConfig.model_validate(fields | {"workers": "threads", "gpus_per_worker": 0.0} | changes)


def _sample_config(config: RunConfig, setup: RunSetup) -> RunConfig:
    names = [name if not _writes_weights(name) else UNEDITED for name in config.editors]
    mode = setup.mode
    again = {"reevaluate_at": "none"} if mode.kind == "sequential" else {}
    return changed_config(
        config,
        tuple(dict.fromkeys(names)),
        limit=min(config.limit or SAMPLE, max(SAMPLE, mode.size)),
        mode=str(mode),
        repeats=1,
        memory_server=None,
        share=None,
        perplexity_text="none",
        fail_on_error="false",
        **again,
    )


def _writes_weights(editor: str) -> bool:
    return bool(getattr(EDITORS.load(editor), "needs_weights", False))


def stand_in_for(spec: str) -> type[StandIn]:
    """The class that takes the place of a model in estimates."""
    return StandIn if spec.partition(":")[0] in API_PROVIDERS else ScoringStandIn


def make_stand_in(config: RunConfig, text: str) -> StandIn:
    """A stand-in for the model of a run, which answers that text if the model is behind an API."""
    if not is_local_spec(config.model):
        return stand_in_for(config.model)(text=text)
    return LocalStandIn(text=text, max_reply=config.overrides.get("model", {}).get("max_new_tokens", REPLY_LIMIT))


def usual_answer(cases: Iterable[Case]) -> str:
    """A text as long as the answers to these cases are in the mean."""
    lengths = [len(probe.gold[0]) for case in cases for probe in case.probes if probe.gold] or [10]
    return ("answer " * 1000)[: max(1, sum(lengths) // len(lengths))]


def _edits(setup: RunSetup) -> dict[str, tuple[float, float]]:
    """By setting, the edits of a case and their tokens in the mean of the first cases."""
    means = {}
    for setting in setup.source.settings:
        edits = [case.edits for case in islice(setup.source.cases(setting), SAMPLE)]
        tokens = count_tokens_approximately([edit.text for each in edits for edit in each])
        means[setting] = sum(map(len, edits)) / max(1, len(edits)), tokens / max(1, len(edits))
    return means


def _rows(
    config: RunConfig, folder: Path, cases: Mapping[str, CaseList], setup: RunSetup, used: Usage
) -> Iterator[EstimatedRow]:
    """Yield a row per setting and editor, and one for the unedited model's answers that scores compare with.

    An editor that writes at subjects asks nothing in settings whose edits name none.
    """
    sample, edits = _read_sample(folder), _edits(setup)
    baseline = reduce(Usage.plus, (answer.usage for _, answer in read_baseline(folder)), Usage())
    applying = _usage_of_edits(sample, used, baseline)
    share = config.parsed().share
    times = config.repeats / (share.of if share else 1)
    for setting, listed in cases.items():
        count, sampled = (listed.cases + listed.again) * times, max(1, len(sample.cases.get(setting, ())))
        for editor in config.editors:
            is_writing = _writes_weights(editor)
            usage = (sample.whole if is_writing else sample.fresh).get((setting, UNEDITED if is_writing else editor))
            if not setup.source.names_subjects(setting) and getattr(EDITORS.load(editor), "needs_subject", False):
                usage, is_writing = None, False
            if is_writing or editor == UNEDITED:
                usage = _untaught(config, usage)
            needed = _scaled(usage or Usage(), count / sampled)
            needed = needed.plus(_scaled(applying.get((setting, editor), Usage()), listed.cases * times / sampled))
            further = _edit_counts(setup, count, *edits[setting], config.ability) if is_writing else {}
            yield _row(setting, editor, round(count), needed, **further)
    count = sum(listed.cases for listed in cases.values()) * times
    usage = _untaught(config, baseline) or baseline
    yield _row("", BASELINE, 0, _scaled(usage, count / max(1, sum(map(len, sample.cases.values())))))


class _Sample(NamedTuple):
    """Cases that the stand-in was asked, by setting, and by setting and editor the usage, without the baseline's.

    `edit_tokens` are, by setting, editor and case, those of the calls by which an editor reads edits.
    """

    cases: dict[str, set[str]]
    fresh: dict[tuple[str, str], Usage]
    whole: dict[tuple[str, str], Usage]
    edit_tokens: dict[tuple[str, str, str], int]


def _read_sample(folder: Path) -> _Sample:
    sample = _Sample(defaultdict(set), defaultdict(Usage), defaultdict(Usage), {})
    for record in read_records(folder):
        sample.edit_tokens[record.setting, record.editor, record.case] = record.edit_cost.tokens
        sample.cases[record.setting].add(record.case)
        place = record.setting, record.editor
        sample.whole[place] = sample.whole[place].plus(record.usage)
        if not record.from_baseline:
            sample.fresh[place] = sample.fresh[place].plus(record.usage)
    return sample


def _usage_of_edits(sample: _Sample, used: Usage, baseline: Usage) -> dict[tuple[str, str], Usage]:
    """Usage of editors that read edits, by setting and editor: what answers did not need, shared out by tokens."""
    tokens: dict[tuple[str, str], int] = defaultdict(int)
    for (setting, editor, _), number in sample.edit_tokens.items():
        tokens[setting, editor] += number
    answers = reduce(Usage.plus, sample.fresh.values(), baseline)
    reading = Usage(**{name: max(0, getattr(used, name) - getattr(answers, name)) for name in COUNTS})
    return {place: _scaled(reading, part / sum(tokens.values())) for place, part in tokens.items() if part}


def _scaled(usage: Usage, factor: float) -> Usage:
    return Usage(**{name: round(getattr(usage, name) * factor) for name in COUNTS})


def _untaught(config: RunConfig, usage: Usage | None) -> Usage | None:
    """The usage of a model that is shown no edit: one that runs here writes longer replies."""
    if usage is None or not is_local_spec(config.model):
        return usage
    return usage.model_copy(update={"output_tokens": UNTAUGHT * usage.output_tokens})


def _edit_counts(
    setup: RunSetup, units: float, edits: float, tokens: float, abilities: Sequence[str]
) -> dict[str, int]:
    """Edits of so many units, their tokens, and those of the texts and questions that are read after edits."""
    kind, size = setup.mode
    groups = 1.0 if kind == "all" else units / max(1, size)
    read = groups * count_tokens_approximately(list(setup.perplexity_texts))
    if BUILT_IN in abilities:
        times = setup.checkpoints.number(round(units * edits)) if kind == "sequential" else groups
        texts = [question.prompt + choice for question in built_in_questions() for choice in question.choices]
        read += times * count_tokens_approximately(texts)
    return {"edits": round(units * edits), "edit_tokens": round(units * tokens), "perplexity_tokens": round(read)}


def _row(setting: str, editor: str, units: int, usage: Usage, **further: int) -> EstimatedRow:
    return EstimatedRow(setting=setting, editor=editor, units=units, **usage.model_dump(include={*COUNTS}), **further)


def priced(config: RunConfig, rows: tuple[EstimatedRow, ...]) -> DryRun:
    """Make the estimate of a run from its rows."""
    calls, tokens_in, tokens_out = (sum(getattr(row, name) for row in rows) for name in COUNTS)
    prices = Prices.read(Path(config.prices).expanduser()) if config.prices else Prices()
    price, seconds = prices.find(config.model), None
    if is_local_spec(config.model):
        parameters = parameters_of(config.model)
        seconds = local_seconds(config, rows, parameters) if parameters else None
    else:
        share = config.parsed().share
        shares = share.of if share else 1
        minutes = [calls / config.rpm] if config.rpm else []
        minutes += [(tokens_in + tokens_out) / config.tpm] if config.tpm else []
        seconds = max(calls * SECONDS_PER_CALL / config.concurrency, *(each * 60 * shares for each in minutes), 0)
    cost = None if price is None else price.compute_cost({"input_tokens": tokens_in, "output_tokens": tokens_out})
    return DryRun(model=config.model, rows=rows, cost=cost, currency=prices.currency, seconds=seconds)


SPREAD = 3.0
"""Factor between an estimate and either end of the range that is shown before anything is measured."""
BUSY = 0.5
"""Share of the calls allowed at once that write in the mean: others score, and replies end at different times."""


def parameters_of(spec: str) -> float | None:
    """Number of parameters of a local model: of its files, or of the paper's model of that name; None if unknown."""
    name = spec.partition(":")[2]
    try:
        if count := sum(_count(file) for file in model_folder(spec).glob("*.safetensors")):
            return float(count)
    except (OSError, SafetensorError):
        return None
    billions = next((each.parameters for each in paper_models().values() if each.hub and each.hub == name), None)
    return None if billions is None else billions * 1e9


def model_folder(spec: str) -> Path:
    """Folder of a local model's files, if they are on this machine."""
    return TINY if spec == "tiny" else Path(spec.partition(":")[2] or spec).expanduser()


def _count(file: Path) -> int:
    with safe_open(file, "pt") as tensors:
        return sum(prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118  no mapping


def local_seconds(config: RunConfig, rows: Sequence[EstimatedRow], parameters: float) -> float:
    """Seconds that a run takes: its answers' tokens, and the passes of editors that search or train."""
    speed, architecture, total = device_speed(parameters), folder_config(model_folder(config.model)), 0.0
    for row in rows:
        total += (row.input_tokens + row.perplexity_tokens) * speed.reading
        total += row.output_tokens * (speed.reading + speed.writing / _replies_at_once(config, row))
        if row.edits:
            settings = editor_settings(config, row.editor, architecture)
            total += row.edits * TRAINING * edit_tokens(settings, row.edit_tokens / row.edits) * speed.reading
    return total


def _replies_at_once(config: RunConfig, row: EstimatedRow) -> float:
    """Replies that are written in one pass in the mean; under edited weights only those of one unit are."""
    calls = row.calls / max(1, row.units) if row.edits else row.calls
    return max(1.0, BUSY * min(config.concurrency, calls))


def editor_settings(config: RunConfig, editor: str, architecture: Any) -> dict[str, Any]:
    """Settings of an editor in this run; of one that is not shipped only those that the run gives."""
    shipped = shipped_settings(editor, architecture) if shipped_tables(editor) else {}
    return shipped | config.overrides.get(editor, {})


COLLECTED = "collected"
GB = 1e9


def need_lines(config: RunConfig) -> Iterator[str]:
    """Yield a line about memory, and one about missing covariances; nothing for a model whose files are not here."""
    folder = model_folder(config.model)
    if not folder.is_dir():
        return
    architecture = folder_config(folder)
    settings = {name: editor_settings(config, name, architecture) for name in config.editors}
    if parameters := parameters_of(config.model):
        yield _memory_line(config, parameters, settings)
    missing = {name: values["layers"] for name, values in settings.items() if _lacks_covariance(folder, name, values)}
    if missing:
        editors = "; ".join(f"{name}: {', '.join(map(str, layers))}" for name, layers in missing.items())
        command = _command(folder, architecture, missing)
        yield f"missing: the covariance of layers ({editors}); collect it once: {command}"


def _memory_line(config: RunConfig, parameters: float, settings: dict[str, dict[str, Any]]) -> str:
    """Memory of the weights, and with the editor that takes most beside them."""
    is_half = is_half_precision(str(config.overrides.get("model", {}).get("dtype", "auto")))
    weights = parameters * (2 if is_half else 4) / GB
    factors = {name: memory_factor(name, values) for name, values in settings.items()}
    largest = max(factors, key=lambda name: factors[name])
    line = f"memory: {weights:.1f} GB of weights"
    return line if factors[largest] <= 1 else f"{line}, about {weights * factors[largest]:.1f} GB with {largest}"


def _lacks_covariance(folder: Path, editor: str, settings: dict[str, Any]) -> bool:
    """True if the editor needs a collected covariance of this model and none has all its layers."""
    if editor not in covariance_editors() or settings["covariance"] != COLLECTED:
        return False
    from emend.editors.numerics.covariance import collected_folders

    return not collected_folders(weights_digest(folder), settings["layers"])


def _command(folder: Path, architecture: Any, missing: dict[str, list[int]]) -> str:
    """Command that collects the covariance of all these layers, and of those that other editors need."""
    needed = {*covariance_layers(architecture)}
    layers = {layer for each in missing.values() for layer in each}
    every = "" if layers <= needed else f" --layers {','.join(map(str, sorted(layers | needed)))}"
    return f"emend covariance --model {shlex.quote(f'hf:{folder}')}{every}"
