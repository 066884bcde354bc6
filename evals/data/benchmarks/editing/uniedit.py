"""UniEdit: Wikidata facts of 25 domains, with chains of facts for generality and locality.

"UniEdit: A Unified Knowledge Editing Benchmark for Large Language Models" (Chen et al. 2025);
format, criteria and scores: github.com/qizhou000/UniEdit at 72ae7f8 (MIT), README.md,
dataset/llm.py and evaluation/llm_editor_eval.py; the files, one per domain, are qizhou/UniEdit at
Hugging Face.

Scores are those of the code. Reliability is the share of the target's tokens that are the most
probable ones, given the previous tokens. Generality is the share of tokens that are among the five
most probable, or for yes/no questions the most probable one. Locality is the share of positions
where the most probable token from before the edit is still among the five most probable. The code
compares tokens as text; here their ids are compared. Each criterion of a chain
(`criteria_of_generality`, `criteria_of_locality`) has its own column.

Before it measures generality, the code also edits those facts of a chain whose target is not among
the model's five most probable tokens. Here the option `hops=edited` edits all facts of the chain
together with the edited one; by default none is edited.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from emend.evals.case import Case
from emend.evals.data.benchmarks.base import Definition
from emend.evals.data.benchmarks.editing.token_benchmark import (
    TokenBenchmark,
    case_of,
    edit_of,
    json_files,
    right_probe,
    same_probe,
)
from emend.evals.data.benchmarks.rows import BenchmarkRow, Tags, Text, read_text
from emend.memory.errors import BadData, BadSettings, MissingData, problem_of

EDITED = ["h_e", "r_e", "t_e"]
# Wording of the code for yes/no questions over two paths.
YES_OR_NO = " The answer is (Yes/No):"
CHOICES = ("Yes", "No")
ITEM = "wikibase-item"


class Named(BenchmarkRow):
    """An entity or a relation: id, label and aliases."""

    id: str
    label: str = ""
    aliases: list[str] = []


class Tail(BenchmarkRow):
    """The object of a fact; for `wikibase-item` its value is an entity's."""

    datatype: str
    value: Any

    @model_validator(mode="after")
    def _check_entity(self) -> Self:
        self.entity  # noqa: B018  raises for an item that is not an entity
        return self

    @property
    def entity(self) -> Named | None:
        """The entity; None for a value of another type."""
        return Named.model_validate(self.value) if self.datatype == ITEM else None

    @property
    def key(self) -> str:
        """Id of the entity, or type and value."""
        entity = self.entity
        return f"ID:{entity.id}" if entity else f"{self.datatype}:{self.value}"


class ClozeFact(BenchmarkRow):
    """A fact with its cloze."""

    prompt: Text
    target: Text
    subject: str
    head_entity: Named
    relation: Named = Field(alias="property")
    tail_entity: Tail

    @property
    def pairs(self) -> set[tuple[str, ...]]:
        """Keys that an edited fact and a retained one must not share: head and tail in either
        order, or head, relation and value.
        """
        head, tail = f"ID:{self.head_entity.id}", self.tail_entity.key
        if self.tail_entity.entity:
            return {(head, tail), (tail, head)}
        return {(head, self.relation.id, tail)}


class Hop(ClozeFact):
    """A fact of a chain; `path` describes its link to the edited fact."""

    path: list[str]


class HopChain(BenchmarkRow):
    """A chain of facts with a question about its end."""

    prompt: Text
    target: Text
    path_type: str
    paths: list[list[str]] = []
    one_hops: list[Hop] = []
    single_path1: "HopChain | None" = None
    single_path2: "HopChain | None" = None

    @property
    def is_double(self) -> bool:
        """True for a question that asks if two chains end at the same entity."""
        return self.path_type == "double"

    @property
    def ways(self) -> list["HopChain"]:
        """The single paths of the chain: the chain itself, or both of a double chain."""
        both = (self.single_path1, self.single_path2)
        return [way for way in both if way] if self.is_double else [self]

    @property
    def hops(self) -> list[Hop]:
        """Facts of all paths."""
        return [hop for way in self.ways for hop in way.one_hops]


class UniRow(BenchmarkRow):
    """A row: the edited fact, chains for generality, and chains for locality."""

    edit: ClozeFact
    generality: dict[str, HopChain]
    locality: dict[str, HopChain]


def criteria_of_generality(chain: HopChain) -> list[str]:
    """Return the criteria tested by a chain of generality, named as in the code."""
    paths = [path for way in chain.ways for path in way.paths]
    edited = [hop for hop in chain.hops if hop.path == EDITED]
    tests = {
        "rephrase": not chain.is_double and len(paths) == 1 and paths[0][:4] == [*EDITED, "f"],
        "multi_hop": any(len(way.paths) >= 2 for way in chain.ways),
        "relation_reverse": any(path[:4] == [*reversed(EDITED), "b"] for path in paths),
        "same_entity": chain.is_double,
        "subject_alias": any(map(_has_subject_alias, edited)),
        "object_alias": bool(edited) and _has_object_alias(edited[0]),
    }
    return [name for name, holds in tests.items() if holds]


def _has_subject_alias(hop: Hop) -> bool:
    return bool(hop.head_entity.aliases) and hop.subject != hop.head_entity.label


def _has_object_alias(hop: Hop) -> bool:
    entity = hop.tail_entity.entity
    return entity is not None and bool(entity.aliases) and hop.target != entity.label


def criteria_of_locality(edit: ClozeFact, chain: HopChain) -> list[str]:
    """Return the criteria tested by a chain of locality, named as in the code."""
    head, relation, tail = edit.head_entity.id, edit.relation.id, edit.tail_entity.entity
    ends = {end for hop in chain.hops for end in _ends(hop)}
    tests = {
        "multi_hop": any(len(way.paths) >= 2 for way in chain.ways),
        "same_entity": chain.is_double,
        "subject_specificity": head in ends,
        "relation_specificity": relation in {hop.relation.id for hop in chain.hops},
        "object_specificity": tail is not None and tail.id in ends,
        "one_to_many": (relation, head)
        in {(hop.relation.id, hop.head_entity.id) for hop in chain.hops},
    }
    return [name for name, holds in tests.items() if holds]


def _ends(hop: Hop) -> list[str]:
    """Return the ids of the entities of a fact."""
    tail = hop.tail_entity.entity
    return [hop.head_entity.id, *([tail.id] if tail else [])]


def read_domain(path: Path, remedy: str) -> list[UniRow]:
    """Read the rows of a domain's file.

    Raises:
        BadData: the file is not an object of rows; the error names row and field.
    """
    try:
        rows = TypeAdapter(dict[str, UniRow]).validate_json(read_text(path, remedy))
    except ValidationError as error:
        first = error.errors()[0]
        row, field = "".join(map(str, first["loc"][:1])), ".".join(map(str, first["loc"][1:]))
        problem = f"{path.name}, row '{row}', field '{field}': {problem_of(first)}"
        raise BadData(f"{problem}. {remedy}") from error
    return list(rows.values())


class UniEdit(TokenBenchmark):
    """UniEdit; in its only setting `fact`, an edit is a cloze with its target.

    Options: `domains`, a comma list of files' names (all in the folder by default); `hops`:
    `edited` edits the further facts of a chain of generality in, too, and `asked`, the default,
    does not. Locality chains that contain a fact changed by another edit are left out, as in the
    code.
    """

    name: ClassVar[str] = "uniedit"
    definition = Definition.beside(__file__)
    defaults = {"domains": "", "hops": "asked"}
    values = {"hops": ("asked", "edited")}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        names = [name.strip() for name in self.options["domains"].split(",") if name.strip()]
        files = json_files(self.folder)
        if not files:
            raise MissingData(f"'{self.folder}' has no JSON file. {self.definition.remedy}")
        for name in names:
            if f"{name}.json" not in files:
                known = ", ".join(file.removesuffix(".json") for file in files)
                raise BadSettings(f"uniedit, domains='{name}': one of {known}.")
        self.files = [f"{name}.json" for name in dict.fromkeys(names)] or files
        self._edited = frozenset[tuple[str, ...]]()

    def _read(self) -> Mapping[str, Sequence[BenchmarkRow]]:
        remedy = self.definition.remedy
        return {file: read_domain(self.folder / file, remedy) for file in self.files}

    def _chosen(self, rows: Sequence[tuple[str, int, Any]]) -> Iterator[Case]:
        self._edited = frozenset(pair for _, _, row in rows for pair in row.edit.pairs)
        return super()._chosen(rows)

    def _case(self, row: UniRow, file: str, number: int) -> Case:
        fact = row.edit
        edits = [edit_of(fact.prompt, fact.subject, fact.target, fact.relation.label)]
        if self.options["hops"] == "edited":
            hops = [hop for chain in row.generality.values() for hop in chain.hops]
            further = [hop for hop in hops if hop.path != EDITED]
            edits += [edit_of(hop.prompt, hop.subject, hop.target) for hop in further]
        probes = [right_probe("reliability", fact.prompt, fact.target, edits[0])]
        for chain in row.generality.values():
            about = _asked(chain, criteria_of_generality(chain), "likely_target")
            probes.append(right_probe("generality", edit=edits[0], **about))
        for chain in row.locality.values():
            if not self._is_edited(chain):
                about = _asked(chain, criteria_of_locality(fact, chain), "likely_same")
                probes.append(same_probe("locality", **about))
        tags: Tags = {"domain": file.removesuffix(".json"), "record": number}
        by_id = {edit.id: edit for edit in edits}
        return case_of(list(by_id.values()), probes, tags)

    def _is_edited(self, chain: HopChain) -> bool:
        """Return True if a chain contains a fact that is changed by one of the edits."""
        return any(not self._edited.isdisjoint(hop.pairs) for hop in chain.hops)


def _asked(chain: HopChain, criteria: Sequence[str], scorer: str) -> dict[str, Any]:
    """Return the fields of the probe about a chain's end; a question over two paths is asked as
    yes/no.
    """
    suffix, choices = (YES_OR_NO, CHOICES) if chain.is_double else ("", ())
    return {
        "prompt": chain.prompt + suffix,
        "query": chain.prompt,
        "gold": chain.target,
        "choices": choices,
        "scorers": (scorer,),
        "tags": dict.fromkeys(criteria, True),
    }
