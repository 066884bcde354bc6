"""A stream as a benchmark: each place with questions is a case, and its turns are edits; and its estimate before."""

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.agents.llm import check_spec
from emend.editors.base import Demonstration, EditorContext
from emend.editors.registry import EDITORS
from emend.evals.case import Case, Metric
from emend.evals.config.run_config import RunConfig
from emend.evals.data.benchmarks.base import Definition, check_request, known_options
from emend.evals.data.benchmarks.rows import sha256
from emend.evals.log.records import read_records
from emend.evals.metrics.agents import ABSTAINS, REASONS, UNKNOWN
from emend.evals.results.dry_run import (
    COUNTS,
    SAMPLE,
    DryRun,
    EstimatedRow,
    StandIn,
    changed_config,
    make_stand_in,
    priced,
    usual_answer,
    without_warnings,
)
from emend.evals.run.run import run
from emend.evals.stream.loaders import load_stream
from emend.evals.stream.system import SYSTEMS
from emend.evals.stream.system_editor import StreamPlan, SystemEditorFactory
from emend.evals.stream.turn import StreamQuestion, StreamSegment, Turn, segments
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadSettings
from emend.memory.probe import Probe, Usage
from emend.memory.registry import nearest

FILE, BUDGET, PLACES = "file", "budget", "places"
SETTING = "turns"
DEFINITION = Definition.beside(__file__)


class Stream:
    """A stream of turns and questions in a file; memory systems take the place of editors.

    Args:
        data: None; the file is an option.
        options: `file`, `budget` of tokens a question, and `places`, the number of those to ask at.

    Raises:
        MissingData: there is no such file.
        BadData: it is malformed.
        BadSettings: an option is wrong, or the file is not named.
    """

    name: ClassVar[str] = "stream"
    settings: ClassVar[tuple[str, ...]] = (SETTING,)
    wording: ClassVar[str] = "messages"
    mode: ClassVar[str] = "sequential"

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        self.options = known_options(self.name, options, (FILE, BUDGET, PLACES))
        if not self.options.get(FILE):
            raise BadSettings("no stream is named: give its file, or make one with emend stream new.")
        self.file = Path(self.options[FILE]).expanduser()
        self.budget = _number(self.options.get(BUDGET), BUDGET)
        self.places = _number(self.options.get(PLACES), PLACES)
        self.items = load_stream(self.file)

    @cached_property
    def plan(self) -> StreamPlan:
        """The turns and questions by id, and the budget."""
        turns = {item.id: item for item in self.items if isinstance(item, Turn)}
        questions = {item.id: item for item in self.items if isinstance(item, StreamQuestion)}
        return StreamPlan(turns, questions, self.budget)

    @cached_property
    def _segments(self) -> list[StreamSegment]:
        return list(segments(self.items))

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """The places with questions in order, each with the turns since the place before; a limit takes the first.

        With the option `places` so many of them, spread evenly.
        """
        check_request(self.name, setting, self.settings, limit)
        parts = self._segments[:limit]
        return map(_case, parts if self.places is None else _spread(parts, self.places, seed))

    def metrics(self) -> Sequence[Metric]:
        """Accuracy by kind of question, wrong answers by reason, and what the memory needs."""
        return DEFINITION.metrics

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """None: a stream has no solved examples."""
        return ()

    def load_editor(self, name: str) -> Callable[[EditorContext], Any]:
        """The memory system of that name, as an editor; or else the editor.

        Raises:
            BadSettings: there is neither, or it cannot be loaded.
        """
        if SYSTEMS.installed(name):
            return SystemEditorFactory(name, SYSTEMS.load(name), self.plan)
        if EDITORS.installed(name):
            return EDITORS.load(name)
        if ":" not in name:
            known = [*SYSTEMS.names(), *EDITORS.names()]
            raise BadSettings(f"unknown memory system '{name}': {nearest(name, known)}")
        return SystemEditorFactory(name, SYSTEMS.load(name), self.plan)

    @property
    def provenance(self) -> dict[str, Any]:
        """The file with its digest, and how much it has."""
        return {
            "source": str(self.file),
            "files": {self.file.name: {"sha256": sha256(self.file)}},
            "turns": len(self.plan.turns),
            "questions": len(self.plan.questions),
            "choices": list(DEFINITION.choices),
        }


def _number(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text)):
        raise BadSettings(f"--{name} is '{text}': give a number of 1 or more, or leave it out.")
    return int(text)


def _spread(parts: Sequence[StreamSegment], count: int, seed: int) -> Iterator[StreamSegment]:
    """So many parts, one drawn from each of equal stretches, with all turns since the one before."""
    draw = random.Random(seed)  # kinds of questions may recur at equal distances
    chosen = {int((number + draw.random()) * len(parts) / count) for number in range(count)}
    turns: list[Turn] = []
    for number, part in enumerate(parts):
        turns += part.turns
        if number in chosen:
            yield StreamSegment(tuple(turns), part.questions)
            turns = []


def _case(segment: StreamSegment) -> Case:
    edits = tuple(map(_edit, segment.turns))
    probes = tuple(map(as_probe, segment.questions))
    # The turns of two places may be the same, and so may be their questions; what came before them is not.
    return Case(id=content_id("place", [probe.id for probe in probes]), edits=edits, probes=probes)


def _edit(turn: Turn) -> Edit:
    """A turn as an editor of Emend sees it: a dated text."""
    return Edit(id=turn.id, form="document", text=turn.text or " ", time=turn.date or None)


def as_probe(question: StreamQuestion) -> Probe:
    """A question as a run asks it."""
    wrong = question.wrong
    return Probe(
        id=question.id,
        kind=question.kind,
        prompt=f"[{question.date}] {question.user}: {question.text}" if question.date else question.text,
        style="question",
        gold=(UNKNOWN,) if question.abstains else question.gold,
        choices=tuple(each.value for each in wrong),
        edit_ids=question.evidence,
        scorers=("memory",),
        query=question.text,
        subject=question.subject,
        tags={
            ABSTAINS: question.abstains,
            REASONS: ",".join(each.why for each in wrong),
            "hops": question.hops,
            "age": question.age,
            "place": question.place,
        },
    )


def dry_run_stream(config: RunConfig) -> DryRun:
    """Estimate a run over a stream: each system observes the turns, and a stand-in answers at `SAMPLE` places of it.

    What answers need grows with the number of questions, and what a system needs that reads turns with the model with
    that of the turns.

    Raises:
        EmendError: a name, setting or file is wrong.
    """
    check_spec(config.model)
    cases = _cases(config)
    sampled = _sample_config(config, min(SAMPLE, len(cases)))
    places = _cases(sampled)
    questions = sum(len(case.probes) for case in cases) / sum(len(case.probes) for case in places)
    turns = sum(len(case.edits) for case in cases) / sum(len(case.edits) for case in places)
    rows = []
    for editor in config.editors:
        model = make_stand_in(config, usual_answer(cases))
        answers = _ask(changed_config(sampled, (editor,)), model)
        used = {name: (getattr(answers, name), getattr(model.usage, name)) for name in COUNTS}
        counts = {
            name: round(config.repeats * (questions * by_answers + turns * (total - by_answers)))
            for name, (by_answers, total) in used.items()
        }
        rows.append(EstimatedRow(setting=SETTING, editor=editor, units=config.repeats * len(cases), **counts))
    estimate = priced(config, tuple(rows))
    return estimate.model_copy(update={"sample": f"{len(places)} places, spread over the stream"})


def _cases(config: RunConfig) -> list[Case]:
    return list(Stream(None, config.benchmark_options).cases(SETTING, config.limit, config.seed))


def _sample_config(config: RunConfig, places: int) -> RunConfig:
    return changed_config(
        config,
        config.editors,
        benchmark_options={**config.benchmark_options, PLACES: str(places)},
        repeats=1,
        memory_server=None,
        share=None,
        fail_on_error="false",
    )


def _ask(config: RunConfig, model: StandIn) -> Usage:
    """Run a sample and return what its answers used; the model counts what observing turns used, too."""
    usage = Usage()
    with tempfile.TemporaryDirectory(prefix="emend-dry-run-") as home:
        with without_warnings():  # of a sample; the run will have its own
            run(config, Path(home) / "run", model=model)
        for record in read_records(Path(home) / "run"):
            usage = usage.plus(record.usage)
    return usage
