"""Labelled items put to judges by name, so that what they say can be held against what people said."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from emend.agents.judging.base import Item
from emend.evals.judges.calibration import JudgeKind, Verdict
from emend.evals.judges.lookup import judge_of
from emend.evals.judges.panel import Judgement, Panel, ask_all, calls_of, combine
from emend.evals.judges.stress import stress_items
from emend.graphs.registry import JUDGES
from emend.memory.errors import ModelUnreachable

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.agents.providers.policy import CallPolicy
    from emend.graphs.judges.graph import Judge


class JudgeKinds(Mapping[str, JudgeKind]):
    """What a calibration must know of each judge; one that is no built-in is loaded when it is asked for.

    It has those of `emend list judges`, and every `module:attribute`, which raises BadSettings if no judge is there.
    Of the items of such judges the parts are not known.
    """

    def __getitem__(self, name: str) -> JudgeKind:
        if ":" not in name and name not in JUDGES.names():
            raise KeyError(name)
        role = judge_of(name).role
        known = next(iter(stress_items(name).values())).parts if name in JUDGES.builtin else {}
        return JudgeKind(scale=role.scale, fields=tuple(known), prompt_id=role.prompt_id)

    def __iter__(self) -> Iterator[str]:
        return iter(JUDGES.names())

    def __len__(self) -> int:
        return len(JUDGES.names())


@dataclass(frozen=True)
class Asking:
    """Asks a panel about items; its repeats are verdicts apart from each other."""

    panel: Panel
    models: "Mapping[str, BaseChatModel]"
    concurrency: int = 4

    @classmethod
    def of(cls, panel: Panel, policy: "CallPolicy", settings: Mapping[str, Any], concurrency: int) -> Self:
        """With the panel's models, loaded under the policy.

        Raises:
            BadSettings: no such model, or a setting that it does not have.
        """
        from emend.agents.llm import load_model

        return cls(panel, {spec: load_model(spec, policy, **settings) for spec in panel.judges}, concurrency)

    def __call__(self, items: Sequence[Item]) -> list[list[Verdict]]:
        """Per repeat, each item's number, or the reason why it has none.

        Raises:
            ModelError: the judges could not be asked.
        """
        judge, name = judge_of(items[0].kind), items[0].kind
        items = [item.model_copy(update={"kind": judge.name}) for item in items]  # a plug-in's role has its own name
        told: list[Judgement] = []
        calls = calls_of(self.panel, judge, items, set())
        with JUDGES.plugin_errors(name):
            tally = ask_all(calls, self.models, told.extend, self.panel.retries, self.concurrency)
        if tally.failed and not tally.asked:
            raise ModelUnreachable(f"no call to the judges succeeded, the first failed with {tally.first}")
        return [[self._verdict(judge, item, told, repeat) for item in items] for repeat in range(self.panel.repeats)]

    def _verdict(self, judge: "Judge", item: Item, told: Sequence[Judgement], repeat: int) -> Verdict:
        """What the panel says in one repeat."""
        own = [one.model_copy(update={"repeat": 0}) for one in told if one.item == item.id and one.repeat == repeat]
        found = combine(self.panel.model_copy(update={"repeats": 1}), judge, own)
        output = judge.role.output
        return found.values.get(output, found.unscored.get(output, "no verdict"))
