"""ELKEN: events as edits, with questions about facts that become true or unknown, and about likely
tendencies.

"Event-level Knowledge Editing"; data: github.com/THU-KEG/Event-Level-Knowledge-Editing, folder
data/original/. Deliberate differences from the released code: the instruction is our own, follows
the event, and is the same with and without an event, so that locality compares replies to the same
request; the code's instructions differ, and the one without an event does not mention `unknown`.
Free answers (Tendency-G) are stored in full for a judge; until they are judged, the edit level over
all questions uses the multiple-choice answers instead, which its name states.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import Definition, FileBenchmark, some_of
from emend.evals.data.benchmarks.elken.cases import (
    BLOCKS,
    FACT_PROMPT,
    KNOWLEDGE_KIND,
    KNOWN,
    M_FOR_G,
    OPEN,
    OPTION_PROMPT,
    UNKNOWNS,
    event_case,
    event_demonstrations,
    knowledge_case,
)
from emend.evals.data.benchmarks.elken.rows import (
    EventRow,
    EventText,
    KnowledgeQuestion,
    contested_questions,
    read_events,
)
from emend.evals.data.benchmarks.rows import Tags, read_rows, require, sample_ids

TRAIN = "train.json"
# Block of questions about background knowledge.
KNOWLEDGE = "knowledge"
KNOWLEDGE_FILES = ("background_knowledge_qas.json", "qas.json", "model-know/qas.json")
FACTS = (*KNOWN, *UNKNOWNS)


class ELKEN(FileBenchmark):
    """ELKEN; in its only setting `event`, the edit is the text of the event.

    Options: `blocks`, a comma list of `fact`, `tendency_m` (these two by default), `tendency_g` and
    `knowledge`, which asks without an event for the background knowledge of some facts; `split`,
    `test` (by default) or `train`, whose questions are for training scope classifiers and were not
    checked by annotators.

    One case per event that has a question in the chosen blocks: its questions in scope
    (`fact_direct`, `fact_background`, `fact_unknown`, `fact_unknown_background`, `tendency_m`,
    `tendency_open`) and out of it (`..._local`). Under mode `all` a retriever searches all drawn
    events with the question alone, as in the paper.
    """

    name: ClassVar[str] = "elken"
    settings: ClassVar[tuple[str, ...]] = ("event",)
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "all"  # one store holds all events, as in the paper
    definition = Definition.beside(__file__)
    defaults = {"blocks": "fact,tendency_m", "split": "test"}
    values = {"split": ("test", "train")}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        self.blocks = some_of(self.name, "blocks", self.options["blocks"], (*BLOCKS, KNOWLEDGE))
        self._event_blocks = tuple(block for block in self.blocks if block in BLOCKS)
        self.split = self.options["split"]
        self.file = f"{self.split}.json"
        places = [
            name for name in KNOWLEDGE_FILES if (self.folder / name).is_file()
        ] or KNOWLEDGE_FILES
        self._knowledge_files = places[:1] if KNOWLEDGE in self.blocks else ()
        require(self.folder, [self.file, *self._knowledge_files], self.definition.remedy)

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        events = [index for index, row in enumerate(self._rows) if self._has_questions(row)]
        return self._cases(
            *(sample_ids(ids, limit, seed) for ids in (events, range(len(self._knowledge))))
        )

    def _cases(self, events: Sequence[int], questions: Sequence[int]) -> Iterator[Case]:
        for index in events:
            row = self._rows[index]
            tags: Tags = {"in_train": True} if row.event in self._trained else {}
            yield event_case(row, self._event_blocks, self._contested, tags)
        for index in questions:
            yield knowledge_case(self._knowledge[index], index)

    def _measures(self, metric: Metric) -> bool:
        return {_block_of(kind) for kind in metric.kinds} <= set(self.blocks)

    def _written(self, setting: str) -> Iterator[Demonstration]:
        for row in self.definition.demonstrations:
            options = row.get("options", "")
            if ("tendency_m" if options else "fact") in self.blocks:
                template = OPTION_PROMPT if options else FACT_PROMPT
                prompt = template.format(question=row["prompt"], candidate=options)
                fact = self.definition.facts["usual"]
                yield Demonstration(
                    kind=row["kind"], fact=fact, prompt=prompt, style="raw", target=row["target"]
                )

    def _choices(self) -> list[str]:
        return [*super()._choices(), M_FOR_G]

    def _from_rows(self, setting: str, seed: int, count: int) -> Iterator[Demonstration]:
        if self.split == "train":
            events = self._rows
        else:
            events = self._training_rows
        return event_demonstrations(events, self._rows, self.blocks, seed, count)

    def _records(self) -> Mapping[str, int]:
        return {
            self.file: len(self._rows),
            **dict.fromkeys(self._knowledge_files, len(self._knowledge)),
        }

    def _counts(self) -> dict[str, Any]:
        rows = self._rows
        cases = sum(map(self._has_questions, rows))
        return {
            "options": {"blocks": ",".join(self.blocks), "split": self.split},
            "cases": cases + len(self._knowledge),
            "questions": {
                "fact in scope": sum(len(row.fact.qas) for row in rows),
                "fact out of scope": sum(len(row.fact.local_qas) for row in rows),
                "tendency in scope": sum(len(row.tendency.qas) for row in rows),
                "tendency out of scope": sum(len(row.tendency.local_qas) for row in rows),
            },
            "dropped": {"events about which the blocks ask nothing": len(rows) - cases},
            "repaired": {
                "answers Q30 for which `United States` is also accepted, as in the code": sum(
                    question.answer.american for row in rows for question in row.fact.qas
                )
            },
            "tagged": {
                "contested (questions to which several events give unlike answers)": len(
                    self._contested
                ),
                "in_train (events of the test split that train.json has too)": len(
                    self._trained & {row.event for row in rows}
                ),
            },
        }

    def _has_questions(self, row: EventRow) -> bool:
        facts = "fact" in self._event_blocks and bool(row.fact.qas or row.fact.local_qas)
        return (
            facts
            or bool({*self._event_blocks} - {"fact"})
            and bool(row.tendency.qas or row.tendency.local_qas)
        )

    @cached_property
    def _rows(self) -> list[EventRow]:
        return read_events(self.folder / self.file, self.definition.remedy)

    @cached_property
    def _knowledge(self) -> list[KnowledgeQuestion]:
        files = self._knowledge_files
        return [
            row
            for name in files
            for row in read_rows(self.folder / name, KnowledgeQuestion, self.definition.remedy)
        ]

    @cached_property
    def _contested(self) -> frozenset[str]:
        return contested_questions(self._rows)

    @cached_property
    def _training_rows(self) -> list[EventRow]:
        path = self.folder / TRAIN
        if path.is_file():
            return read_events(path, self.definition.remedy)
        return []

    @cached_property
    def _trained(self) -> frozenset[str]:
        path = self.folder / TRAIN
        if self.split == "train" or not path.is_file():
            return frozenset()
        return frozenset(row.event for row in read_rows(path, EventText, self.definition.remedy))


def _block_of(kind: str) -> str:
    """Return the block of a kind of probe."""
    if kind == KNOWLEDGE_KIND:
        return KNOWLEDGE
    if kind.startswith(OPEN):
        return "tendency_g"
    if kind.startswith("tendency_m"):
        return "tendency_m"
    return "fact"
