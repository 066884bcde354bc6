"""ReCoE: questions that must be reasoned out, whose supporting facts are edited so that another answer follows.

"Propagation and Pitfalls: Reasoning-based Assessment of Knowledge Editing through Counterfactual Tasks" (Findings of
ACL 2024); data: github.com/awslabs/ReCoE and github.com/Wenyueh/RoCoE. The paper's code is not published, so these are
our choices: answers are compared as `metrics.recoe.canonical` has it, and where a form stands for both answers ("3" for
-3 and for 3) no flip is counted, because none can be seen. A record, shortened (the others in `recoe_rows`):

    {"question": "How many lighthouses stand on the isle of Torvay?", "answer": "5", "counterfactual_answer": "4",
     "answer_alias": ["five"], "counterfactual_answer_alias": ["four"], "domain": "geography",
     "counterfactual_facts": [{"original_output": "...", "sentence": "Kelp Light stands on the isle of Marn.",
        "atomic_facts": ["Kelp Light stands on the isle of Marn"],
        "atomic_triples": ["(Kelp Light; stands on; the isle of Marn)"]}], "facts": [...], "extended_facts": [...]}
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.benchmarks.files import data_folder, require, sha256
from emend.evals.benchmarks.recoe_rows import PREFIX, ROWS, ReCoERow, read_rows, row_case, triples_of
from emend.evals.benchmarks.sampling import sample_ids
from emend.evals.case import Case, Metric
from emend.memory.errors import BadSettings, MissingData
from emend.memory.registry import nearest

SCHEMES = tuple(ROWS)
AWSLABS = "{scheme}/counterfactual_datapoints_verified_atomic.json"
"""Where a scheme's records lie in awslabs/ReCoE, under data/; Wenyueh/RoCoE has data/{scheme}.json."""
REMEDY = (
    "Get them with: git clone https://github.com/awslabs/ReCoE, then give --data ReCoE/data, or put that folder at "
    "$EMEND_DATA/recoe."
)
OPTIONS = ("schemes", "superlative_file")


class ReCoE:
    """The benchmark: one case per record, its counterfactuals and its question, asked directly.

    Settings, what the editor is given of the counterfactuals: `atomic` facts (what the paper fine-tunes on), whole
    `sentence`s, or the atomic `triple`s (what the paper gives MEMIT). Options: `schemes`, a comma list (those whose
    file is there by default); `superlative_file`, a file in the folder with records like superlative's.

    The paper edits one scheme at a time, all its records at once: give `--option schemes=counting`, say. With several
    schemes in one run their facts stand together. Its InputAug is the editor `in_context`.

    Raises:
        MissingData: no scheme's file is there, or one that was asked for is not.
        BadSettings: an option is unknown or its value impossible.
    """

    name: ClassVar[str] = "recoe"
    settings: ClassVar[tuple[str, ...]] = ("atomic", "sentence", "triple")
    wording: ClassVar[str] = "based_on_facts"
    mode: ClassVar[str] = "all"  # the paper's mass editing

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        told = dict(options or {})
        for option in told:
            if option not in OPTIONS:
                raise BadSettings(f"unknown option '{option}' of recoe: {nearest(option, list(OPTIONS))}")
        self.folder = data_folder(self.name, data)
        self._superlative = told.get("superlative_file", "")
        asked = _schemes(told["schemes"]) if "schemes" in told else ()
        self._files = self._find(asked)
        self._tables: dict[str, list[ReCoERow]] = {}

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """The cases by scheme, in the order of the files; with a limit a seeded sample, as many of each scheme.

        Raises:
            BadSettings: the setting is unknown or the limit below 1.
            BadData: a record is malformed.
        """
        if setting not in self.settings:
            raise BadSettings(f"unknown setting '{setting}' of recoe: {nearest(setting, list(self.settings))}")
        if limit is not None and limit < 1:
            raise BadSettings(f"limit={limit}: at least 1 case is needed.")
        return self._build(setting, limit, seed)

    def metrics(self) -> Sequence[Metric]:
        """The paper's tables 4 and 3, a column per scheme in its order, in percent; then the retriever's first hits."""
        groups = (
            ("correct_flip", "correct_flip", "", "new answer, where the unedited model gave the original one"),
            ("pre-edit accuracy", "pre_edit", "before ", "the unedited model gives the original answer"),
        )
        tables = [
            Metric(name=f"{prefix}{scheme}", value=value, kinds=(scheme,), scale=100.0, summary=summary, group=group)
            for group, value, prefix, summary in groups
            for scheme in self._files
        ]
        said = "the first fact found is one of the record's"
        kinds = tuple(self._files)
        return [*tables, Metric(name="hit@1", value="hit@1", kinds=kinds, scale=100.0, summary=said, group="retrieval")]

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Three hand-written ones about an invented place; for editors that need some, the paper shows none."""
        counted = "How many windmills turn on Oxley Fen?"
        compared = "Which of the caves Dunn and Sorrel is deeper?"
        shown = (
            ("update", "Cobb's Mill turns on Oxley Fen beside the four other windmills.", counted, "5"),
            ("update", "Dunn Cave is 40 metres deep. Sorrel Cave is 90 metres deep.", compared, "Sorrel"),
            ("retain", "The ferry to Oxley Fen is blue.", "What is the opposite of north?", "south"),
        )
        return [Demonstration(kind=k, fact=f, prompt=p, style="question", target=t) for k, f, p, t in shown]

    @property
    def provenance(self) -> dict[str, Any]:
        """Source, sha256 and records of each file, schemes without file, and what was repaired or tagged, counted."""
        rows = [(scheme, row) for scheme in self._files for row in self._rows(scheme)]
        triples = sum(len(fact.atomic_triples) for _, row in rows for fact in row.facts)
        atoms = {
            scheme: sum(len(f.atomic_facts) for r in self._rows(scheme) for f in r.facts) for scheme in self._files
        }
        return {
            "source": "github.com/awslabs/ReCoE or github.com/Wenyueh/RoCoE, folder data/",
            "files": {
                str(path.relative_to(self.folder)): {"sha256": sha256(path), "records": len(self._rows(scheme))}
                for scheme, path in self._files.items()
            },
            "schemes without a file": [scheme for scheme in SCHEMES if scheme not in self._files],
            "cases": len(rows),
            "atomic counterfactual facts": atoms,
            "dropped": {
                "triples without three parts": triples - sum(len(triples_of(row)) for _, row in rows),
                "records that repeat another": len(rows) - len(set(rows)),
            },
            "repaired": {
                f"questions that begin with '{PREFIX}'": sum(row.question != row.asked for _, row in rows),
                "aliases under a misspelt key": sum(bool(row.misspelt_alias) for _, row in rows),
                "aliases left out, a number of another size": sum(row.wrong_aliases for _, row in rows),
            },
            "tagged": {
                "contested (another record edits the same subject and relation to another object)": sum(
                    map(len, self._contested.values())
                ),
                "shared_form (a form stands for both answers, no flip can be seen)": sum(
                    bool(row.shared) for _, row in rows
                ),
            },
        }

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        sizes = {scheme: len(self._rows(scheme)) for scheme in self._files}
        shares = sizes if limit is None else even_shares(sizes, limit)
        for scheme, share in shares.items():
            rows = self._rows(scheme)
            for number in sample_ids(range(len(rows)), {}, share, seed):
                yield row_case(rows[number], scheme, setting, number, number in self._contested[scheme])

    def _rows(self, scheme: str) -> list[ReCoERow]:
        if scheme not in self._tables:
            self._tables[scheme] = read_rows(self._files[scheme], ROWS[scheme])
        return self._tables[scheme]

    @cached_property
    def _contested(self) -> dict[str, frozenset[int]]:
        return {scheme: contested(self._rows(scheme)) for scheme in self._files}

    def _find(self, asked: Sequence[str]) -> dict[str, Path]:
        """The files of the schemes asked for, or of all that are there."""
        if self._superlative:
            require(self.folder, [self._superlative], REMEDY)
        places = {scheme: self._place(scheme) for scheme in SCHEMES}
        found = {scheme: path for scheme, path in places.items() if path and (not asked or scheme in asked)}
        if missing := [scheme for scheme in asked or SCHEMES if scheme not in found]:
            names = [f"{scheme}.json or {AWSLABS.format(scheme=scheme)}" for scheme in missing]
            if asked or not found:
                raise MissingData(f"'{self.folder}' lacks {', '.join(names)}. {REMEDY}")
        return found

    def _place(self, scheme: str) -> Path | None:
        told = [self._superlative] if scheme == "superlative" and self._superlative else []
        names = [*told, f"{scheme}.json", AWSLABS.format(scheme=scheme)]
        return next((self.folder / name for name in names if (self.folder / name).is_file()), None)


def contested(rows: Sequence[ReCoERow]) -> frozenset[int]:
    """The places of the rows that edit a subject and relation which another row edits to another object.

    Such edits may contradict each other when they stand together; many are true of several objects (prizes won).
    """
    objects: dict[tuple[str, str], Counter[str]] = {}
    told = [{(t.subject.casefold(), t.relation.casefold(), t.object.casefold()) for t in triples_of(r)} for r in rows]
    for triples in told:
        for subject, relation, found in triples:
            objects.setdefault((subject, relation), Counter())[found] += 1
    own = [Counter((subject, relation) for subject, relation, _ in triples) for triples in told]
    return frozenset(
        place for place, pairs in enumerate(own) if any(len(objects[pair]) > count for pair, count in pairs.items())
    )


def even_shares(sizes: Mapping[str, int], limit: int) -> dict[str, int]:
    """How many to take of each, as evenly as the sizes allow; what one lacks the others give.

    >>> even_shares({"a": 1, "b": 9, "c": 9}, 6)
    {'a': 1, 'b': 3, 'c': 2}
    """
    shares = dict.fromkeys(sizes, 0)
    left = min(limit, sum(sizes.values()))
    while left:
        for name, size in sizes.items():
            if left and shares[name] < size:
                shares[name] += 1
                left -= 1
    return shares


def _schemes(told: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in told.split(",") if part.strip()))
    for name in names:
        if name not in SCHEMES:
            raise BadSettings(f"unknown scheme '{name}' of recoe: {nearest(name, list(SCHEMES))}")
    if not names:
        raise BadSettings(f"schemes='{told}': name at least one of {', '.join(SCHEMES)}.")
    return names
