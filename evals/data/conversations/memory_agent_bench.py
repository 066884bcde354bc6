"""MemoryAgentBench: long texts that an agent reads in chunks before it answers questions, in four
splits.

"Evaluating Memory in LLM Agents via Incremental Multi-Turn Interactions" (Hu et al. 2025); data:
huggingface.co/datasets/ai-hyz/MemoryAgentBench, one parquet file per split. The columns are
`context`, `questions`, `answers` (a list of accepted answers for each question) and `metadata` with
its `source`.

The conflict split has numbered facts, where later facts replace earlier ones; each fact is a turn.
Other contexts are read in chunks of whole sentences. Evidence is not published: chunks that contain
an accepted answer as whole words count as evidence, if there are at most `FEW` of them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, ValidationError

from emend.evals.data.benchmarks.base import Definition, some_of
from emend.evals.data.benchmarks.rows import BenchmarkRow, Text, require
from emend.evals.data.conversations.benchmark import CORRECTIONS, ConversationBenchmark
from emend.evals.data.conversations.conversation import (
    AnswerText,
    ConversationMessage,
    ConversationQuestion,
    DatedConversation,
    StreamKind,
)
from emend.memory.errors import BadData, field_problem
from emend.memory.retrieval.conversations.pieces import pieces_of
from emend.memory.retrieval.tokens import whole

SPLITS = "splits"
FILES: Mapping[str, str] = {
    "retrieval": "Accurate_Retrieval-00000-of-00001.parquet",
    "learning": "Test_Time_Learning-00000-of-00001.parquet",
    "understanding": "Long_Range_Understanding-00000-of-00001.parquet",
    "conflict": "Conflict_Resolution-00000-of-00001.parquet",
}
CONFLICT = "factconsolidation"
COLUMNS = ("context", "questions", "answers", "metadata")
# Words per chunk; the paper reads chunks of 512 and of 4,096 tokens.
PIECE_WORDS = 300
# Maximum number of chunks that count as evidence, and maximum length of answers in characters that
# are ignored because they occur in too many texts.
FEW, SHORT = 10, 3
SOURCE = "https://huggingface.co/datasets/ai-hyz/MemoryAgentBench"
REMEDY = f"Give the parquet files of {SOURCE}, such as {FILES['conflict']}."
_FACT = re.compile(r"^\d+\. .+$", re.MULTILINE)


def as_list(value: Any) -> Any:
    """Return a list of accepted answers; a single answer becomes a list."""
    return value if isinstance(value, list) else [value]


class ContextRow(BenchmarkRow):
    """A context with its questions; each answer is a text or a list of accepted ones."""

    context: Text
    questions: list[Text]
    answers: list[Annotated[tuple[AnswerText, ...], BeforeValidator(as_list), Field(min_length=1)]]
    metadata: dict[str, Any] | None = None

    @property
    def source(self) -> str:
        """The dataset that the row comes from, such as `factconsolidation_mh_32k`."""
        return str((self.metadata or {}).get("source", ""))


class MemoryAgentBench(ConversationBenchmark):
    """MemoryAgentBench, with one case per text and its questions.

    Options: `splits` = some of `retrieval,learning,understanding,conflict`; `corrections` = a file
    of an audit.
    """

    name: ClassVar[str] = "memory_agent_bench"
    definition = Definition.beside(__file__)
    defaults = {SPLITS: ",".join(FILES), CORRECTIONS: ""}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        self.splits = some_of(self.name, SPLITS, self.options[SPLITS], FILES)
        require(self.folder, [FILES[split] for split in self.splits], self.definition.remedy)

    def _read(self) -> Iterator[tuple[DatedConversation, str]]:
        for split in self.splits:
            path = self.folder / FILES[split]
            for number, conversation in enumerate(read_contexts(path, split)):
                yield conversation, f"{path.name}, row {number}"

    def _records(self) -> Mapping[str, int | None]:
        return {FILES[split]: None for split in self.splits}


def read_contexts(path: Path, split: str = "") -> Iterator[DatedConversation]:
    """Yield the contexts of a file.

    Args:
        path: parquet file.
        split: kind of the questions; if empty, taken from the file's name.

    Raises:
        BadData: the file is not a parquet file, or a row is malformed; the error names row and
            field.
    """
    named = [name for name, file in FILES.items() if file.partition("-")[0] in path.name]
    names: dict[str, int] = {}
    for number, fields in enumerate(_rows(path)):
        where = f"{path.name}, row {number}"
        try:
            row = ContextRow.model_validate(fields)
        except ValidationError as error:
            raise BadData(f"{where}, {field_problem(error)}. {REMEDY}") from error
        if len(row.questions) != len(row.answers):
            raise BadData(
                f"{where}, field 'answers': {len(row.answers)} answers to {len(row.questions)} "
                f"questions. {REMEDY}"
            )
        source = row.source or path.stem
        names[source] = names.get(source, 0) + 1
        if names[source] == 1:
            name = source
        else:
            name = f"{source}-{names[source]}"
        if row.source.startswith(CONFLICT):
            kind = "conflict"
        else:
            kind = split or next(iter(named), "retrieval")
        yield _conversation(name, kind, row, where)


def _rows(path: Path) -> list[dict[str, Any]]:
    import duckdb  # imported lazily because it is slow

    try:
        with duckdb.connect() as database:
            result = database.execute("select * from read_parquet(?)", [str(path)])
            names = [column[0] for column in result.description or ()]
            rows = result.fetchall()
    # DuckDB's bindings raise a bare RuntimeError for text that is not in UTF-8.
    except (duckdb.Error, RuntimeError) as error:
        raise BadData(f"cannot read '{path}': {error}. {REMEDY}") from error
    lacking = [name for name in COLUMNS if name not in names]
    if lacking:
        raise BadData(f"{path} has no column {', '.join(lacking)}. {REMEDY}")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _conversation(name: str, kind: str, row: ContextRow, where: str) -> DatedConversation:
    if kind == "conflict":
        facts = _FACT.findall(row.context)
    else:
        facts = pieces_of(row.context, PIECE_WORDS)
    if not facts:
        raise BadData(f"{where}, field 'context': it has no numbered fact. {REMEDY}")
    messages = tuple(
        ConversationMessage(
            id=str(number), session=name, speaker="document", role="user", text=fact
        )
        for number, fact in enumerate(facts)
    )
    questions = tuple(_questions(name, kind, row, facts))
    return DatedConversation(id=name, messages=messages, questions=questions)


def _questions(
    name: str, kind: str, row: ContextRow, facts: Sequence[str]
) -> Iterator[ConversationQuestion]:
    is_multi_hop = "_mh_" in name
    stream: StreamKind = "multi_hop" if is_multi_hop else "current"
    for number, (question, accepted) in enumerate(zip(row.questions, row.answers, strict=True)):
        yield ConversationQuestion(
            id=str(number),
            kind="conflict_multi_hop" if kind == "conflict" and is_multi_hop else kind,
            stream_kind=stream,
            text=question,
            gold=accepted,
            evidence=_pieces_with(accepted, facts),
            position=f"{name}_{number}",
        )


def _pieces_with(gold: Sequence[str], facts: Sequence[str]) -> tuple[str, ...]:
    """Return ids of the chunks that contain an answer as whole words, if there are only few."""
    patterns = [whole(answer, any_case=True) for answer in gold if len(answer) > SHORT]
    matching: list[str] = []
    for n, fact in enumerate(facts):
        if any(pattern.search(fact) for pattern in patterns):
            matching.append(str(n))
    if len(matching) <= FEW:
        return tuple(matching)
    return ()
