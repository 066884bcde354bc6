"""Base class of benchmarks that score the tokens of the right answer with teacher forcing."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.base import FileBenchmark
from emend.evals.data.benchmarks.rows import BenchmarkRow, Tags, sample_ids
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadSettings, MissingData
from emend.memory.probe import Probe

# Scorers of a right answer, and of an answer that must stay the unedited model's.
RIGHT, SAME = ("teacher_forced",), ("same_tokens",)


def edit_of(prompt: str, subject: str, target: str, relation: str = "") -> Edit:
    """Return the edit of a prompt with its target: a triplet if the prompt names the subject
    exactly once, else a document.
    """
    if not subject or prompt.count(subject) != 1:
        return Edit(form="document", text=f"{prompt} {target}", target_new=target)
    template = prompt.replace(subject, "{}")
    words = " ".join(template.replace("{}", " ").split())
    triplet = Triplet(subject=subject, relation=relation or words, object=target)
    return Edit.from_triplet(triplet, template)


def right_probe(kind: str, prompt: str, gold: str, edit: Edit, **fields: Any) -> Probe:
    """Return a prompt that the edited model should continue with the right answer."""
    usual: dict[str, Any] = {"scorers": RIGHT, "edit_ids": (edit.id,)}
    return Probe(**usual | fields, kind=kind, prompt=prompt, gold=(gold,))


def same_probe(kind: str, prompt: str, gold: str, **fields: Any) -> Probe:
    """Return an out-of-scope prompt, for which the tokens of an answer are compared with the
    unedited model's.
    """
    usual: dict[str, Any] = {"scorers": SAME, "in_scope": False}
    return Probe(**usual | fields, kind=kind, prompt=prompt, gold=(gold,))


def fluency_probe(prompt: str, gold: str, edit: Edit, new_tokens: int) -> Probe:
    """Return a prompt to generate a text of `new_tokens` tokens from, whose n-grams are counted."""
    return right_probe(
        "generation",
        prompt,
        gold,
        edit,
        scorers=("fluency",),
        reading="whole",
        new_tokens=new_tokens,
    )


def case_of(edits: Sequence[Edit], probes: Iterable[Probe], tags: Tags) -> Case:
    """Return the case of the edits, with distinct probes."""
    by_id = {probe.id: probe for probe in probes}
    return Case(edits=tuple(edits), probes=tuple(by_id.values()), tags=tags)


class TokenBenchmark(FileBenchmark):
    """A benchmark with the single setting `fact`, and one case per row.

    Subclasses define the rows of the files and the case of a row.
    """

    settings: ClassVar[tuple[str, ...]] = ("fact",)
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "single"
    has_texts = False

    @abstractmethod
    def _read(self) -> Mapping[str, Sequence[BenchmarkRow]]:
        """Return the rows of each file."""

    @abstractmethod
    def _case(self, row: Any, file: str, number: int) -> Case:
        """Return the case of a row, given its number in its file."""

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        chosen = sample_ids(range(len(self._numbered)), limit, seed)
        return self._chosen([self._numbered[index] for index in chosen])

    def _chosen(self, rows: Sequence[tuple[str, int, Any]]) -> Iterator[Case]:
        """Yield the distinct cases of rows with their files and numbers."""
        ids = set[str]()
        for file, number, row in rows:
            case = self._case(row, file, number)
            if case.id not in ids:
                ids.add(case.id)
                yield case

    def _from_rows(self, setting: str, seed: int, count: int) -> Iterable[Demonstration]:
        return ()

    def _records(self) -> Mapping[str, int]:
        return {file: len(rows) for file, rows in self._files.items()}

    def _counts(self) -> dict[str, Any]:
        return {"cases": len({case.id for case in self._chosen(self._numbered)})}

    @cached_property
    def _files(self) -> Mapping[str, Sequence[BenchmarkRow]]:
        return self._read()

    @cached_property
    def _numbered(self) -> list[tuple[str, int, Any]]:
        return [
            (file, number, row)
            for file, rows in self._files.items()
            for number, row in enumerate(rows)
        ]


def text_length(benchmark: str, value: str) -> int:
    """Parse the option `generation`, a number of tokens.

    Raises:
        BadSettings: the value is not a number of tokens.
    """
    if not value.isdecimal():
        raise BadSettings(
            f"{benchmark}, generation='{value}': give a number of tokens, 100 as published, or 0 "
            "for none."
        )
    return int(value)


def json_files(folder: Path) -> list[str]:
    """Return the sorted names of the JSON files in a folder.

    Raises:
        MissingData: an entry is a link to a file that does not exist.
    """
    if not folder.is_dir():
        return []
    paths = [path for path in folder.glob("*.json") if path.name != "SOURCES.json"]
    for path in paths:
        if not path.exists():
            raise MissingData(
                f"'{path}' is a link to a file that does not exist. Copy the file there."
            )
    return sorted(path.name for path in paths)
