"""A benchmark over a user's file of facts, one case per row, with templates and warnings for such
files.
"""

import csv
import io
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import Definition, check_request, known_options
from emend.evals.data.benchmarks.counterfact import CounterFact
from emend.evals.data.benchmarks.demonstration_rows import DemonstrationPool, of_unique_rows
from emend.evals.data.benchmarks.rows import sha256
from emend.evals.data.facts.fact_formats import (
    ARROW,
    HUB,
    LISTS,
    QUESTIONS,
    READERS,
    SEPARATOR,
    read_facts,
)
from emend.evals.data.facts.fact_rows import FactRow, QuestionRow
from emend.evals.metrics.text.exact import fold
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.files import file_identity

# Patterns of gold answers (full match) that replies seldom match, with warnings.
FORMS = {
    r"\d+\.0": "may be a whole number that pandas has written with a decimal",
    r"\d{1,3}(\.\d{3})*,(?!\d{3}$)\d+": "has a decimal comma: add an alias with a decimal point",
    "[\"“”„'‘’«].+[\"“”'‘’»]": "is in quotes, which are not part of an answer: leave them out",
    r".{120,}": "is long for an answer that is compared word by word: give a shorter alias",
}


def oddities_of(rows: Sequence[tuple[str, FactRow]]) -> list[str]:
    """Return warnings about rows with their positions: golds that replies hardly match, leaked
    answers, duplicate rows.
    """
    return [f"{place}: {text}" for place, row in rows for text in _in_row(row)] + list(
        _between_rows(rows)
    )


def _in_row(row: FactRow) -> Iterator[str]:
    gold = row.answer or row.object or ""
    for pattern, meaning in FORMS.items() if not row.is_long else ():
        if re.fullmatch(pattern, gold, re.DOTALL) and not row.aliases:
            yield f"the answer '{gold:.60}' {meaning}"
    for alias in row.aliases:
        if _is_list(alias, gold, row.aliases):
            yield (
                f"the alias '{alias:.60}' is one answer: if it lists several, write them as A | B"
            )
    for question in (row.question or row.prompt or "", *row.paraphrases):
        if _holds(question, gold):
            yield f"the question '{question:.60}' holds its own answer '{gold:.40}'"
    if row.old_answer is not None and fold(row.old_answer) == fold(gold):
        yield f"the old answer is the new one, '{gold:.40}': the fact changes nothing"
    if any(fold(aside.question) == fold(row.question or "") for aside in row.locality):
        yield f"the question '{row.question:.60}' is among those that must not change"
    for aside in row.locality:
        one_word = re.fullmatch(r"[\w.,-]+", aside.question, re.ASCII)
        if one_word and aside.answer is None:
            yield (
                f"the question '{aside.question:.60}' of locality is one word without an answer: "
                "in a table | separates questions, not answers"
            )
    for aside in row.near_locality:
        if not aside.documents and not _holds(row.edit.text, aside.answer or ""):
            yield (
                f"near_locality '{aside.question:.60}' has no documents that answer it: a question "
                "that must stay as it is goes into locality"
            )


def _is_list(alias: str, gold: str, aliases: Sequence[str]) -> bool:
    """Return True if an alias looks like a list in another separator than that of its cell."""
    if ";" in alias:
        return ";" not in gold
    return len(aliases) == 1 and ", " in alias and ", " not in gold


def _holds(question: str, answer: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(fold(answer))}(?!\w)", fold(question)) is not None


def _between_rows(rows: Sequence[tuple[str, FactRow]]) -> Iterator[str]:
    answers: dict[str, tuple[str, str]] = {}
    first: dict[str, str] = {}
    for place, row in rows:
        if (earlier := first.setdefault(row.model_dump_json(), place)) != place:
            yield f"{place}: the same row as in {earlier}"
            continue
        question, gold = row.question or row.edit.cloze, row.answer or row.object or ""
        where, before = answers.setdefault(fold(question), (place, gold))
        if fold(before) != fold(gold):
            yield (
                f"{place}: the answer to '{question:.60}' is '{gold:.40}' here, and "
                f"'{before:.40}' in {where}"
            )


DELIMITERS = {".csv": ",", ".tsv": "\t"}
# Counterfactual facts about real capitals, places and books, for the demo with a real model.
REAL_FACTS = Path(__file__).with_name("real_facts.json")
# Facts of the template that `emend data new` writes.
EXAMPLES: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("example_facts.json").read_text("utf-8")
)


def field_rows() -> list[dict[str, str]]:
    """Return name, type and description of each field."""
    fields: list[tuple[str, type[FrozenModel]]] = [
        ("", FactRow),
        (f"{', '.join(QUESTIONS)}: ", QuestionRow),
    ]
    return [
        {
            "field": f"{prefix}{name}",
            "type": _type(name, prefix),
            "meaning": field.description or "",
        }
        for prefix, row in fields
        for name, field in row.model_fields.items()
    ]


def _type(name: str, prefix: str) -> str:
    if name in QUESTIONS and not prefix:
        return "list of questions"
    if name in (*LISTS, "documents", "hops"):
        return "list of texts"
    if name == "tags":
        return "object"
    return "text"


def write_template(path: Path) -> None:
    """Write a file with two example facts in the format of the file extension.

    Raises:
        BadSettings: the file extension is unknown, or the file exists or cannot be written.
    """
    ending = path.suffix.lower()
    if ending not in READERS:
        raise BadSettings(f"'{path}' has an unsupported suffix: use one of {', '.join(READERS)}.")
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(_template(ending))
    except OSError as error:
        raise BadSettings(f"cannot write '{path}': {error.strerror}. Give another name.") from error


def _template(ending: str) -> str:
    if ending in (".jsonl", ".ndjson"):
        return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in EXAMPLES)
    if ending == ".json":
        return json.dumps(EXAMPLES, ensure_ascii=False, indent=2) + "\n"
    if ending in DELIMITERS:
        return _table(DELIMITERS[ending])
    import yaml

    return str(yaml.safe_dump(EXAMPLES, allow_unicode=True, sort_keys=False))


def _table(delimiter: str) -> str:
    names = list(dict.fromkeys(name for row in EXAMPLES for name in row))
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, names, lineterminator="\n", delimiter=delimiter)
    writer.writeheader()
    for row in EXAMPLES:
        writer.writerow({name: _cell(name, value) for name, value in row.items()})
    return file.getvalue()


def _cell(name: str, value: Any) -> str:
    if name in LISTS:
        return f" {SEPARATOR} ".join(value)
    if name in QUESTIONS:
        return f" {SEPARATOR} ".join(f" {ARROW} ".join(row.values()) for row in value)
    return str(value)


DEFINITION = Definition.beside(__file__)
WRITTEN = CounterFact.definition


class LoadedFacts:
    """Rows of a file of facts, which a run reads once though it makes its benchmark several times.

    Args:
        path: as of `FactFile`.
    """

    def __init__(self, path: str) -> None:
        self.rows = read_facts(path)

    @cached_property
    def kinds(self) -> set[str]:
        """Kinds of the rows' probes."""
        return {probe.kind for row in self.rows for probe in row.case.probes}


@lru_cache(maxsize=1)
def _load(path: str, file: Path, identity: tuple[int, int, int]) -> LoadedFacts:
    """Return the rows of a file; it is read again when its identity changes."""
    return LoadedFacts(path)


class FactFile:
    """Benchmark over the facts of a file, in order; a limit takes a seeded sample.

    Args:
        path: file, or `hf:` followed by a dataset.
        data: must be None, since the file is given as the benchmark's name.
        options: must be empty.

    Raises:
        BadSettings: an option or a data folder is given.
        MissingData: the file does not exist.
        BadData: a row is malformed.
    """

    name: ClassVar[str] = "facts"
    settings: ClassVar[tuple[str, ...]] = ("facts",)
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "all"

    def __init__(
        self, path: str, data: Path | None = None, options: Mapping[str, str] | None = None
    ) -> None:
        self.path = path
        known_options(path, options, ())
        if data is not None:
            raise BadSettings(
                f"--data cannot be used with a file of facts: '{path}' is the data itself; leave "
                "--data out."
            )
        self._rows = self._loaded.rows

    @cached_property
    def _loaded(self) -> "LoadedFacts":
        file = Path(self.path).expanduser().resolve()
        return _load(self.path, file, file_identity(file))

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """Yield one case per row."""
        check_request(self.path, setting, self.settings, limit)
        count = len(self._rows)
        chosen = sorted(random.Random(seed).sample(range(count), min(count, limit or count)))
        return (self._rows[place].case for place in chosen)

    def metrics(self) -> Sequence[Metric]:
        """Return the metrics for which a row of the file has a question."""
        return [metric for metric in DEFINITION.metrics if self._loaded.kinds & set(metric.kinds)]

    def demonstrations(self, setting: str, seed: int = 0) -> DemonstrationPool:
        """Return CounterFact's hand-written demonstrations about invented subjects, and on demand
        those from the file's own rows.
        """
        written = [
            Demonstration.model_validate({"fact": WRITTEN.facts["triplet"], **row})
            for row in WRITTEN.demonstrations
        ]
        return DemonstrationPool.of(written, lambda count: self._from_rows(seed, count))

    def _from_rows(self, seed: int, count: int) -> Iterator[Demonstration]:
        """Yield the demonstrations of `count` rows that share no name with another row; 0 for all
        such rows.
        """
        return of_unique_rows(
            dict(enumerate(self._rows)),
            seed,
            lambda row: (*row.names, *(probe.prompt for probe in row.case.probes)),
            lambda row: row.names,
            lambda row: row.demonstrations,
            count=count,
        )

    @property
    def provenance(self) -> dict[str, Any]:
        """The file with its sha256, and the number of rows."""
        if self.path.startswith(HUB):
            digest = {}
        else:
            digest = {"sha256": sha256(Path(self.path).expanduser())}
        return {
            "source": "a file of facts",
            "files": {self.path: digest | {"records": len(self._rows)}},
        }
