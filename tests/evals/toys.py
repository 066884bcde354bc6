"""A benchmark, editors and a model that are small enough to know every right answer by heart."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

from emend.agents.llm import MODELS
from emend.agents.scoring import TargetScores
from emend.editors.base import NO_COST, Answerer, ApplyMore, Demonstration, EditorContext
from emend.evals.case import Case, Metric, Record
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadData
from emend.memory.probe import Answer, Probe, Step, Usage
from emend.memory.registry import trust_names

BENCHMARK = "tests.evals.toys:ToyBenchmark"
EDITOR = "tests.evals.toys:ToyEditor"
HEAVY = "tests.evals.toys:HeavyEditor"
FLEETING_EDITOR = "tests.evals.toys:FleetingEditor"
trust_names([BENCHMARK, EDITOR, HEAVY, FLEETING_EDITOR, "tests.evals.toys:ScriptedModel"])  # workers too
FLEETING = 3
SETTINGS = ("plain", "loud")


class ToyBenchmark:
    """Country n has the capital New-n, once Old-n. Options: `cases`, `probes` more, `twice`, the only `scorer`."""

    name: ClassVar[str] = "toy"
    settings: ClassVar[tuple[str, ...]] = SETTINGS
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "single"

    def __init__(self, data: Path | None, options: dict[str, str]) -> None:
        self.data, self.options = data, options

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        count = int(self.options.get("cases", 6))
        for place in range(min(count, limit or count)):
            case = toy_case(place, setting, int(self.options.get("probes", 1)))
            if scorer := self.options.get("scorer"):
                asked = case.probes[0].model_copy(update={"scorers": (scorer,)})
                case = case.model_copy(update={"probes": (asked, *case.probes[1:])})
            more = (toy_case(100 * n + place).edits[0] for n in range(1, int(self.options.get("edits", 1))))
            yield case.model_copy(update={"edits": (*case.edits, *more)})
            if self.options.get("twice"):
                yield case

    def metrics(self) -> Sequence[Metric]:
        return [
            Metric(name="EM", value="em", kinds=("efficacy",), scale=100, summary="says the new capital"),
            Metric(name="ES", value="success", kinds=("efficacy",), scale=100, summary="new beats old"),
            Metric(name="keep", value="agreement", kinds=("neighborhood",), scale=100, summary="as before"),
            Metric(name="hit@1", value="hit@1", kinds=("efficacy",), scale=100, summary="finds the edit"),
        ]

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        return ()

    @property
    def provenance(self) -> dict[str, Any]:
        return {"source": "made up"}


def untimed(record: Record) -> str:
    """A record as JSON, without what differs from run to run: the time that asking and editing took."""
    return record.model_copy(update={"seconds": 0.0, "edit_cost": NO_COST}).model_dump_json()


def toy_case(place: int, setting: str = "plain", neighbors: int = 1) -> Case:
    edit = Edit(
        form="triplet",
        text=f"The capital of Land{place} is New-{place}." + ("!" if setting == "loud" else ""),
        subject=f"Land{place}",
        prompt="The capital of {} is",
        target_new=f"New-{place}",
        target_true=f"Old-{place}",
    )
    asked = Probe(
        kind="efficacy",
        prompt=edit.cloze,
        gold=(edit.target_new,),
        rival=edit.target_true,
        edit_ids=(edit.id,),
        scorers=("exact_match", "likelihood"),
    )
    others = [
        Probe(kind="neighborhood", prompt=f"The river of Land{place}, {n}, is", gold=("Blue",), in_scope=False,
              scorers=("agreement",))
        for n in range(neighbors)
    ]  # fmt: skip
    return Case(edits=(edit,), probes=(asked, *others))


class SpeakingModel(BaseChatModel):
    """Says what the fact before the prompt says, else "Blue"; gives no probabilities; keeps its calls."""

    delay: float = 0.0
    fail_on: str = ""
    _calls: list[str] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt = str(messages[-1].text)
        message = AIMessage(
            content=self.reply(prompt),
            usage_metadata={"input_tokens": len(prompt.split()), "output_tokens": 1, "total_tokens": 0},
            response_metadata={"model_name": "scripted"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def reply(self, prompt: str) -> str:
        """What it says."""
        self._calls.append(prompt)
        if self.delay:
            time.sleep(self.delay)
        if self.fail_on and self.fail_on in prompt:
            raise ConnectionError(f"no connection for {self.fail_on}")
        fact, _, asked = prompt.rpartition("\n")
        result = fact.rpartition(" is ")[2].rstrip(".!")
        return result if result and "capital" in asked else "Blue"

    @property
    def calls(self) -> list[str]:
        return self._calls


class ScriptedModel(SpeakingModel):
    """The same, with probabilities."""

    def score(self, prompt: str, targets: Sequence[str]) -> TargetScores:
        """-1 for what it would say, -2 for anything else."""
        said = self.reply(prompt) if prompt else ""  # a held-out text is read, and nobody is asked
        return TargetScores(
            log_probs=tuple(-1.0 if target == said else -2.0 for target in targets), usage=Usage(calls=1)
        )


class ToyAnswerer:
    """Puts the text of the edit that bears on the probe before it."""

    def __init__(self, model: Any, edits: Sequence[Edit]) -> None:
        self.model, self.edits = model, {edit.id: edit for edit in edits}
        self.asked = 0

    def _prompt(self, probe: Probe) -> str:
        facts = [self.edits[name].text for name in probe.edit_ids if name in self.edits]
        return "\n".join([*facts, probe.prompt])

    def answer(self, probe: Probe) -> Answer:
        prompt = self._prompt(probe)
        return self._told(probe, prompt, {"prompt": prompt, "reply": str(self.model.invoke(prompt).text)})

    def score(self, probe: Probe, targets: Sequence[str]) -> Answer:
        prompt = self._prompt(probe)
        log_probs = self.model.score(prompt, targets).log_probs
        return self._told(probe, prompt, {"prompt": prompt, "log_probs": list(log_probs)})

    def _told(self, probe: Probe, prompt: str, update: dict[str, Any]) -> Answer:
        self.asked += 1
        hits: list[dict[str, Any]] = [
            {"edit_id": name, "text": self.edits[name].text, "score": 1.0}
            for name in probe.edit_ids
            if name in self.edits
        ]
        steps = (Step(node="retrieve", update={"hits": hits}, ms=0.1), Step(node="respond", update=update, ms=0.2))
        return Answer(
            text=update.get("reply"),
            log_probs=tuple(update.get("log_probs", ())),
            prompt=prompt,
            retrieved=tuple(hit["edit_id"] for hit in hits),
            usage=Usage(input_tokens=len(prompt.split()), output_tokens=1, calls=1),
            steps=steps,
        )


class ToyEditor:
    """Remembers its edits; the log says which stood when."""

    name: ClassVar[str] = "toy"
    needs_weights: ClassVar[bool] = False
    log: ClassVar[list[tuple[str, ...]]] = []

    def __init__(self, context: EditorContext) -> None:
        self.context = context

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"editor": self.name, "settings": dict(self.context.settings)}

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        type(self).log.append(tuple(edit.subject for edit in edits))
        yield ToyAnswerer(self.context.model, edits)


class HeavyEditor(ToyEditor):
    """Claims the model for itself, and says so if anyone else asked it meanwhile."""

    name: ClassVar[str] = "heavy"
    needs_weights: ClassVar[bool] = True
    intruders: ClassVar[list[int]] = []

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        model: Any = self.context.model
        before = len(model.calls)
        answerer = ToyAnswerer(model, edits)
        yield answerer
        others = len(model.calls) - before - answerer.asked
        if others:
            HeavyEditor.intruders.append(others)


class Choosy(HeavyEditor):
    """Cannot make an edit about the third land, whatever stands beside it."""

    name: ClassVar[str] = "choosy"

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        if any(edit.subject == "Land3" for edit in edits):
            raise BadData("the third land cannot be edited")
        with super().edit(edits) as answerer:
            yield answerer


class FleetingAnswerer(ToyAnswerer):
    """Knows the last few edits only, and its prompts tell on what stack of edits it stands."""

    def __init__(self, model: Any, stack: Sequence[Edit]) -> None:
        super().__init__(model, stack[-FLEETING:])
        self.stack = content_id([edit.id for edit in stack])

    def _prompt(self, probe: Probe) -> str:
        return f"[{self.stack}] {super()._prompt(probe)}"


class FleetingEditor(HeavyEditor):
    """Solves edits on top of one another, and forgets all but the last few; the log has what each call added."""

    name: ClassVar[str] = "fleeting"
    left: ClassVar[list[int]] = []
    """How many edits stood whenever a sequence was undone."""

    @contextmanager
    def sequence(self) -> Iterator[ApplyMore]:
        stack: list[Edit] = []

        def grow(edits: Sequence[Edit]) -> Answerer:
            for edit in edits:
                if edit.subject in self.context.settings.get("hard", ()):
                    raise BadData(f"{edit.subject} cannot be edited")
            type(self).log.append(tuple(edit.subject for edit in edits))
            stack.extend(edits)
            return FleetingAnswerer(self.context.model, tuple(stack))

        try:
            yield grow
        finally:
            type(self).left.append(len(stack))


def load_scripted(name: str, **settings: Any) -> ScriptedModel:
    """As a model provider: the name is how many milliseconds a call takes."""
    return ScriptedModel(delay=float(name or 0) / 1000, **settings)


def enlist() -> None:
    """Makes `scripted:MS` a model that the command line knows, in this process."""
    MODELS.builtin["scripted"] = ("tests.evals.toys:load_scripted", "for tests")
