"""ELKEN: events as edits, what they make true or unknown, and what they make more likely.

"Event-level Knowledge Editing"; data: github.com/THU-KEG/Event-Level-Knowledge-Editing, folder data/original/.
Deliberate differences from the released code: the instruction (`elken.cases`) is ours, follows the event, and is the
same with and without one, so that locality compares replies to the same request; the code's differs, and the one
without an event does not mention `unknown`. Free answers (Tendency-G) are kept whole and await a judge; until one has
read them, the edit level over all questions takes the multiple-choice answers instead, and says so in its name.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.benchmarks.base import FileBenchmark, percent
from emend.evals.benchmarks.elken.cases import (
    BLOCKS,
    FACT_PROMPT,
    KNOWLEDGE_KIND,
    KNOWN,
    M_FOR_G,
    OPEN,
    OPTION_PROMPT,
    UNKNOWNS,
    event_case,
    knowledge_case,
)
from emend.evals.benchmarks.elken.demonstrations import event_demonstrations
from emend.evals.benchmarks.elken.rows import EventRow, EventText, KnowledgeQuestion, contested_questions, read_events
from emend.evals.benchmarks.files import read_rows, require
from emend.evals.benchmarks.options import some_of
from emend.evals.benchmarks.rows import Tags
from emend.evals.benchmarks.sampling import sample_ids
from emend.evals.case import Case, Metric

TRAIN = "train.json"
KNOWLEDGE = "knowledge"
"""The block of questions for background knowledge."""
KNOWLEDGE_FILES = ("background_knowledge_qas.json", "qas.json", "model-know/qas.json")
FACTS = (*KNOWN, *UNKNOWNS)
PAPER, PARTS, LENIENT, RETRIEVAL = "as in the paper", "facts by kind", "read leniently", "retrieval"
M, M_LOCAL, G, G_LOCAL = ("tendency_m",), ("tendency_m_local",), (OPEN,), (f"{OPEN}_local",)
COLUMNS: tuple[tuple[str, str, str, tuple[str, ...], str, str], ...] = (
    # group, name, value, kinds, per, summary
    (PAPER, "Fact E", "right", FACTS, "all", "events whose fact questions are all right"),
    (PAPER, "Fact Q", "right", FACTS, "record", "fact questions that are right"),
    (PAPER, "Fact Loc", "same", ("fact_local",), "record", "other facts: the same answer as before the edit"),
    (PAPER, "M E", "option", M, "all", "events whose tendency questions are all right, multiple choice"),
    (PAPER, "M Q", "option", M, "record", "tendency questions that are right, multiple choice"),
    (PAPER, "M Loc", "same", M_LOCAL, "record", "other tendencies: the same reply as before, letter by letter"),
    (PAPER, "G Q", "judged", G, "record", "free answers with full marks overall; `-` until a judge has read them"),
    (PAPER, "G Loc", "judged", G_LOCAL, "record", "free answers out of scope that a judge finds the same as before"),
    (PAPER, "E (M for G)", "overall", (*FACTS, *M), "all", "events with all of both right; the paper judges free text"),
    (PARTS, "unknown", "right", UNKNOWNS, "record", "gold answer: unknown"),
    (PARTS, "known", "right", KNOWN, "record", "gold answer: a name"),
    (PARTS, "direct", "right", ("fact_direct", "fact_unknown"), "record", "type 0: no background knowledge needed"),
    (PARTS, "background", "right", ("fact_background",), "record", "type 1 with a name: background knowledge needed"),
    (PARTS, "recall", "right", (KNOWLEDGE_KIND,), "record", "background knowledge itself, asked without an event"),
    (LENIENT, "Fact Loc lenient", "agreement", ("fact_local",), "record", "the same after Emend's normalisation"),
    (LENIENT, "M E lenient", "option_lenient", M, "all", "the option in any spelling"),
    (LENIENT, "M Q lenient", "option_lenient", M, "record", "the option in any spelling"),
    (LENIENT, "M Loc lenient", "same_option", M_LOCAL, "record", "the same option as before, in any spelling"),
    (RETRIEVAL, "hit@1 fact", "hit@1", FACTS, "record", "the event was found first, fact questions"),
    (RETRIEVAL, "hit@1 tendency", "hit@1", M, "record", "the event was found first, tendency questions"),
)
DEMO_EVENT = (
    "After ten years as a guide in the salt caves, Halvard Brenn was on Monday named director of the Tarnfield "
    "Maritime Museum, which will now also open in winter."
)
DEMO_QUESTIONS = (
    ("update", "Who is the director of the Tarnfield Maritime Museum?", "", "Halvard Brenn"),
    ("update", "Who leads the guides in the salt caves?", "", "unknown"),
    ("retain", "Which material is the dome of Brenholm Observatory made of?", "", "copper"),
    (
        "update",
        "How might the number of winter visitors in Tarnfield change?",
        "(A) Increase (B) Decrease (C) No significant impact",
        "A",
    ),
    (
        "retain",
        "How might the depth of the Brenholm fjord change?",
        "(A) Increase (B) Decrease (C) No significant impact",
        "C",
    ),
)


class ELKEN(FileBenchmark):
    """The benchmark; in its one setting `event` the edit is the text of the event.

    Options: `blocks`, a comma list of `fact`, `tendency_m` (these two by default), `tendency_g` and `knowledge`, which
    asks without an event for the background knowledge of some facts; `split`, `test` (by default) or `train`, whose
    questions are for training scope classifiers and were not checked by annotators.

    One case per event that has a question in the chosen blocks: its questions in scope (`fact_direct`,
    `fact_background`, `fact_unknown`, `fact_unknown_background`, `tendency_m`, `tendency_open`) and out of it
    (`..._local`). Under mode `all` a retriever searches all drawn events with the question alone, as in the paper.
    """

    name: ClassVar[str] = "elken"
    settings: ClassVar[tuple[str, ...]] = ("event",)
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "all"  # one store holds all events, as in the paper
    source = "github.com/THU-KEG/Event-Level-Knowledge-Editing, folder data/original/"
    remedy = (
        "Get them with: emend data pull elken; or with: git clone "
        "https://github.com/THU-KEG/Event-Level-Knowledge-Editing, then give --data the folder "
        "data/original, or put it at $EMEND_DATA/elken. Its test.json is published cut off; the whole one is to be put "
        "together from serac/output/tendency/test-with-serac.json, which has the tendency questions of all events, and "
        "serac/output/fact/test-with-serac.json, which has the fact questions. The block knowledge reads "
        "model-know/qas.json of commit 2e738ae, which later ones lack."
    )
    defaults = {"blocks": "fact,tendency_m", "split": "test"}
    values = {"split": ("test", "train")}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        self.blocks = some_of(self.name, "blocks", self.options["blocks"], (*BLOCKS, KNOWLEDGE))
        self._event_blocks = tuple(block for block in self.blocks if block in BLOCKS)
        self.split = self.options["split"]
        self.file = f"{self.split}.json"
        places = [name for name in KNOWLEDGE_FILES if (self.folder / name).is_file()] or KNOWLEDGE_FILES
        self._knowledge_files = places[:1] if KNOWLEDGE in self.blocks else ()
        require(self.folder, [self.file, *self._knowledge_files], self.remedy)

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        events = [index for index, row in enumerate(self._rows) if self._has_questions(row)]
        return self._cases(*(_sample(ids, limit, seed) for ids in (events, range(len(self._knowledge)))))

    def _cases(self, events: Sequence[int], questions: Sequence[int]) -> Iterator[Case]:
        for index in events:
            row = self._rows[index]
            tags: Tags = {"in_train": True} if row.event in self._trained else {}
            yield event_case(row, self._event_blocks, self._contested, tags)
        for index in questions:
            yield knowledge_case(self._knowledge[index], index)

    def metrics(self) -> Sequence[Metric]:
        """The paper's columns in its order, in percent; then facts by kind, lenient readings, and the retriever's hits.

        The edit level over all questions needs both blocks; the columns of Tendency-G await a judge.
        """
        return [
            percent(name, value, kinds, summary, per=per, group=group)
            for group, name, value, kinds, per, summary in COLUMNS
            if {_block_of(kind) for kind in kinds} <= set(self.blocks)
        ]

    def _written(self, setting: str) -> Iterator[Demonstration]:
        for kind, question, candidate, target in DEMO_QUESTIONS:
            if ("tendency_m" if candidate else "fact") in self.blocks:
                template = OPTION_PROMPT if candidate else FACT_PROMPT
                prompt = template.format(question=question, candidate=candidate)
                yield Demonstration(kind=kind, fact=DEMO_EVENT, prompt=prompt, style="raw", target=target)

    def _from_rows(self, setting: str, seed: int) -> Iterator[Demonstration]:
        path = self.folder / TRAIN
        events = self._rows
        if self.split != "train":
            events = read_events(path, self.remedy) if path.is_file() else []
        return event_demonstrations(events, self._rows, self.blocks, seed)

    def _records(self) -> Mapping[str, int]:
        return {self.file: len(self._rows), **dict.fromkeys(self._knowledge_files, len(self._knowledge))}

    def _counts(self) -> dict[str, Any]:
        rows = self._rows
        cases = sum(map(self._has_questions, rows))
        return {
            "choices": [
                "elken: the instruction is Emend's and the same with and without an event; the paper's differ",
                "elken: an event's questions are taken together wherever they stand, as in the paper, where the code "
                "counts runs",
                M_FOR_G,
            ],
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
                "answers Q30 that `United States` is accepted for too, as in the code": sum(
                    question.answer.american for row in rows for question in row.fact.qas
                )
            },
            "tagged": {
                "contested (questions to which several events give unlike answers)": len(self._contested),
                "in_train (events of the test split that train.json has too)": len(
                    self._trained & {row.event for row in rows}
                ),
            },
        }

    def _has_questions(self, row: EventRow) -> bool:
        facts = "fact" in self._event_blocks and bool(row.fact.qas or row.fact.local_qas)
        return facts or bool({*self._event_blocks} - {"fact"}) and bool(row.tendency.qas or row.tendency.local_qas)

    @cached_property
    def _rows(self) -> list[EventRow]:
        return read_events(self.folder / self.file, self.remedy)

    @cached_property
    def _knowledge(self) -> list[KnowledgeQuestion]:
        files = self._knowledge_files
        return [row for name in files for row in read_rows(self.folder / name, KnowledgeQuestion, self.remedy)]

    @cached_property
    def _contested(self) -> frozenset[str]:
        return contested_questions(self._rows)

    @cached_property
    def _trained(self) -> frozenset[str]:
        path = self.folder / TRAIN
        if self.split == "train" or not path.is_file():
            return frozenset()
        return frozenset(row.event for row in read_rows(path, EventText, self.remedy))


def _sample(ids: Sequence[int], limit: int | None, seed: int) -> Sequence[int]:
    return ids if limit is None else sample_ids(ids, {}, limit, seed)


def _block_of(kind: str) -> str:
    """The block of a kind of probe."""
    if kind == KNOWLEDGE_KIND:
        return KNOWLEDGE
    if kind.startswith(OPEN):
        return "tendency_g"
    return "tendency_m" if kind.startswith("tendency_m") else "fact"
