"""ELKEN: events as edits, what they make true or unknown, and what they make more likely.

"Event-level Knowledge Editing"; data: github.com/THU-KEG/Event-Level-Knowledge-Editing, folder data/original/. Where we
differ from the released code, on purpose: the instruction (`elken_rows`) is ours, stands after the event, and is the
same with and without one, so that locality compares replies to one and the same request; the code's differs, and the
plain one says nothing of `unknown`. Free answers (Tendency-G) are kept whole and await a judge; until one has read them
the edit level over all questions takes the multiple-choice answers in their place, and says so in its name.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.benchmarks.demonstrations import Shown
from emend.evals.benchmarks.elken.demonstrations import event_examples
from emend.evals.benchmarks.elken.knowledge import KIND, KNOWLEDGE, knowledge_cases, knowledge_file
from emend.evals.benchmarks.elken.rows import (
    BLOCKS,
    FACT_PROMPT,
    KNOWN,
    M_FOR_G,
    OPEN,
    OPTION_PROMPT,
    UNKNOWNS,
    EventRow,
    EventText,
    Tags,
    contested_questions,
    event_case,
    read_events,
)
from emend.evals.benchmarks.files import data_folder, read_rows, require, sha256
from emend.evals.benchmarks.options import check_request, known_options, one_of, some_of
from emend.evals.benchmarks.sampling import sample_ids
from emend.evals.case import Case, Metric

SPLITS = ("test", "train")
TRAIN = "train.json"
REMEDY = (
    "Get them with: emend data pull elken; or with: git clone "
    "https://github.com/THU-KEG/Event-Level-Knowledge-Editing, then give --data the folder "
    "data/original, or put it at $EMEND_DATA/elken. Its test.json is published cut off; the whole one is to be put "
    "together from serac/output/tendency/test-with-serac.json, which has the tendency questions of all events, and "
    "serac/output/fact/test-with-serac.json, which has the fact questions. The block knowledge reads "
    "model-know/qas.json of commit 2e738ae, which later ones lack."
)
OPTIONS = ("blocks", "split")
DEFAULT_BLOCKS = "fact,tendency_m"
FACTS = (*KNOWN, *UNKNOWNS)
PAPER, PARTS, LENIENT, FOUND = "as in the paper", "facts by kind", "read leniently", "retrieval"
M, M_LOCAL, G, G_LOCAL = ("tendency_m",), ("tendency_m_local",), (OPEN,), (f"{OPEN}_local",)
METRICS: tuple[tuple[str, str, str, tuple[str, ...], str, str], ...] = (
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
    (PARTS, "recall", "right", (KIND,), "record", "background knowledge itself, asked without an event"),
    (LENIENT, "Fact Loc lenient", "agreement", ("fact_local",), "record", "the same after Emend's normalisation"),
    (LENIENT, "M E lenient", "option_lenient", M, "all", "the option in any spelling"),
    (LENIENT, "M Q lenient", "option_lenient", M, "record", "the option in any spelling"),
    (LENIENT, "M Loc lenient", "same_option", M_LOCAL, "record", "the same option as before, in any spelling"),
    (FOUND, "hit@1 fact", "hit@1", FACTS, "record", "the event was found first, fact questions"),
    (FOUND, "hit@1 tendency", "hit@1", M, "record", "the event was found first, tendency questions"),
)
CHOICES = [
    "elken: the instruction is Emend's and the same with and without an event; the paper's differ",
    "elken: an event's questions are taken together wherever they stand, as in the paper, where the code counts runs",
    M_FOR_G,
]
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


class ELKEN:
    """The benchmark; in its one setting `event` the edit is the text of the event.

    Options: `blocks`, a comma list of `fact`, `tendency_m` (these two by default), `tendency_g` and `knowledge`, which
    asks without an event for what some facts build on; `split`, `test` (by
    default) or `train`, whose questions are for training what decides about scope and were not checked by annotators.

    One case per event that has a question in the chosen blocks: its questions in scope (`fact_direct`,
    `fact_background`, `fact_unknown`, `fact_unknown_background`, `tendency_m`, `tendency_open`) and out of it
    (`..._local`). Under mode `all` a retriever searches all events drawn with the question alone, as in the paper.

    Raises:
        MissingData: the folder or the split's file is absent.
        BadSettings: an option is unknown or its value impossible.
    """

    name: ClassVar[str] = "elken"
    settings: ClassVar[tuple[str, ...]] = ("event",)
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "all"  # one store holds all events, as in the paper

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        told = known_options(self.name, options, OPTIONS)
        self.blocks = some_of(self.name, "blocks", told.get("blocks", DEFAULT_BLOCKS), (*BLOCKS, KNOWLEDGE))
        self._of_events = tuple(block for block in self.blocks if block in BLOCKS)
        self.split = one_of(self.name, "split", told.get("split", "test"), SPLITS)
        self.folder = data_folder(self.name, data)
        require(self.folder, [self._file, *self._knowledge], REMEDY)

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """The cases in the order of the file; with a limit a seeded sample, because the file is sorted by topic.

        Raises:
            BadSettings: the setting is unknown, or the limit is below 1.
            BadData: the file is cut off, or a record is malformed.
        """
        check_request(self.name, setting, self.settings, limit, texts=True)
        places = [place for place, row in enumerate(self._rows) if self._asks(row)]
        if limit is not None:
            places = sample_ids(places, {}, limit, seed)
        return chain((self._case(self._rows[place]) for place in places), self._known(limit, seed))

    def _known(self, limit: int | None, seed: int) -> Iterator[Case]:
        """The cases of the block `knowledge`, of which a limit takes as many again."""
        for name in self._knowledge:
            known = list(knowledge_cases(self.folder / name, REMEDY))
            chosen = range(len(known)) if limit is None else sample_ids(range(len(known)), {}, limit, seed)
            yield from (known[place] for place in chosen)

    def metrics(self) -> Sequence[Metric]:
        """The paper's columns in its order, in percent; then facts by kind, lenient readings, and the retriever's hits.

        The edit level over all questions needs both blocks; the columns of Tendency-G count what awaits a judge.
        """
        chosen = [row for row in METRICS if {_block_of(kind) for kind in row[3]} <= set(self.blocks)]
        return [
            Metric(name=name, value=value, kinds=kinds, per=per, scale=100.0, summary=summary, group=group)
            for group, name, value, kinds, per, summary in chosen
        ]

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Hand-written ones about an invented event: what it changes, what it leaves open, what it leaves alone.

        Behind them (`Shown.rows`) those of the training split, where its file is there.
        """
        one_of(self.name, "setting", setting, self.settings)
        written = [
            Demonstration(
                kind=kind,
                fact=DEMO_EVENT,
                prompt=(OPTION_PROMPT if candidate else FACT_PROMPT).format(question=question, candidate=candidate),
                style="raw",
                target=target,
            )
            for kind, question, candidate, target in DEMO_QUESTIONS
            if ("tendency_m" if candidate else "fact") in self.blocks
        ]
        return Shown.of(written, lambda: event_examples(self._training, self._rows, self.blocks, seed))

    @property
    def provenance(self) -> dict[str, Any]:
        """Source, sha256 and counts of the file, and what was dropped or tagged, with counts."""
        rows, known = self._rows, self._knowledge
        return {
            "source": "github.com/THU-KEG/Event-Level-Knowledge-Editing, folder data/original/",
            "files": {
                self._file: {"sha256": sha256(self.folder / self._file), "records": len(rows)},
                **{name: {"sha256": sha256(self.folder / name), "records": self._knowledge_count} for name in known},
            },
            "choices": CHOICES,
            "options": {"blocks": ",".join(self.blocks), "split": self.split},
            "cases": sum(map(self._asks, rows)) + (self._knowledge_count if known else 0),
            "questions": {
                "fact in scope": sum(len(row.fact.qas) for row in rows),
                "fact out of scope": sum(len(row.fact.local_qas) for row in rows),
                "tendency in scope": sum(len(row.tendency.qas) for row in rows),
                "tendency out of scope": sum(len(row.tendency.local_qas) for row in rows),
            },
            "dropped": {"events about which the blocks ask nothing": sum(not self._asks(row) for row in rows)},
            "repaired": {"answers Q30 that `United States` is accepted for too, as in the code": self._american()},
            "tagged": {
                "contested (questions to which several events give unlike answers)": len(self._contested),
                "in_train (events of the test split that train.json has too)": len(self._trained & self._texts),
            },
        }

    def _case(self, row: EventRow) -> Case:
        seen: Tags = {"in_train": True} if row.event in self._trained else {}
        return event_case(row, self._of_events, self._contested, seen)

    def _asks(self, row: EventRow) -> bool:
        facts = "fact" in self._of_events and bool(row.fact.qas or row.fact.local_qas)
        return facts or bool({*self._of_events} - {"fact"}) and bool(row.tendency.qas or row.tendency.local_qas)

    def _american(self) -> int:
        return sum(question.answer.id == "Q30" for row in self._rows for question in row.fact.qas)

    @property
    def _knowledge(self) -> list[str]:
        """The file of the block `knowledge`, where that is asked for."""
        return [knowledge_file(self.folder)] if KNOWLEDGE in self.blocks else []

    @cached_property
    def _knowledge_count(self) -> int:
        return sum(1 for name in self._knowledge for _ in knowledge_cases(self.folder / name, REMEDY))

    @property
    def _file(self) -> str:
        return f"{self.split}.json"

    @cached_property
    def _rows(self) -> list[EventRow]:
        return read_events(self.folder / self._file, REMEDY)

    @cached_property
    def _training(self) -> list[EventRow]:
        """The events that may be shown: of the training split, none where its file is absent."""
        path = self.folder / TRAIN
        if self.split == "train":
            return self._rows
        return read_events(path, REMEDY) if path.is_file() else []

    @cached_property
    def _contested(self) -> frozenset[str]:
        return contested_questions(self._rows)

    @cached_property
    def _texts(self) -> frozenset[str]:
        return frozenset(row.event for row in self._rows)

    @cached_property
    def _trained(self) -> frozenset[str]:
        path = self.folder / TRAIN
        if self.split == "train" or not path.is_file():
            return frozenset()
        return frozenset(row.event for row in read_rows(path, EventText, REMEDY))


def _block_of(kind: str) -> str:
    """The block that a kind comes from."""
    if kind == KIND:
        return KNOWLEDGE
    if kind.startswith(OPEN):
        return "tendency_g"
    return "tendency_m" if kind.startswith("tendency_m") else "fact"
