"""ReCoE: reasoning questions whose supporting facts are edited so that another answer follows.

"Propagation and Pitfalls: Reasoning-based Assessment of Knowledge Editing through Counterfactual
Tasks" (Findings of ACL 2024); data: github.com/awslabs/ReCoE and github.com/Wenyueh/RoCoE. The
paper's code is not published, so these are our own choices: answers are compared in the canonical
form of `metrics.published.recoe`, and if both answers have the same form ("3" for -3 and 3), no
flip is counted, because it cannot be detected.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import Definition, FileBenchmark, flag, some_of
from emend.evals.data.benchmarks.demonstration_rows import UniqueNames, of_first_rows
from emend.evals.data.benchmarks.recoe.cases import (
    FACTS,
    atoms_of,
    question_demonstrations,
    row_case,
    triples_of,
)
from emend.evals.data.benchmarks.recoe.rows import PREFIX, ROWS, ReCoERow
from emend.evals.data.benchmarks.rows import even_shares, last_drawn, read_rows, require, sample_ids
from emend.memory.errors import MissingData

SCHEMES = tuple(ROWS)
# File of a scheme below data/ in awslabs/ReCoE; in Wenyueh/RoCoE it is data/{scheme}.json.
AWSLABS = "{scheme}/counterfactual_datapoints_verified_atomic.json"


class ReCoE(FileBenchmark):
    """ReCoE; one case per record with its counterfactuals, its question, and the probability of its
    facts.

    The settings are forms of the counterfactuals: `atomic` facts (on which the paper fine-tunes),
    whole `sentence`s, or the atomic `triple`s (which the paper gives to MEMIT). Options: `schemes`,
    a comma list (those with a file by default); `superlative_file`, a file in the folder with
    records like superlative's; `prompting`, `direct` (by default) or `cot`, a chain of thought
    after two demonstrations per scheme, before the edit as after it; `perplexity=0` leaves the
    facts' probabilities out.

    The paper edits one scheme at a time, all its records at once: give `--benchmark-option
    schemes=counting`, for example. With several schemes in one run their facts are applied
    together. Its InputAug is the editor `in_context`.
    """

    name: ClassVar[str] = "recoe"
    settings: ClassVar[tuple[str, ...]] = ("atomic", "sentence", "triple")
    wording: ClassVar[str] = "based_on_facts"
    mode: ClassVar[str] = "all"  # the paper's mass editing
    definition = Definition.beside(__file__)
    defaults = {"schemes": "", "superlative_file": "", "prompting": "direct", "perplexity": "1"}
    values = {"prompting": ("direct", "cot")}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        self._chain = self.options["prompting"] == "cot"
        self._perplexity = flag(self.name, "perplexity", self.options["perplexity"])
        if "schemes" in (options or {}):
            schemes = some_of(self.name, "schemes", self.options["schemes"], SCHEMES)
        else:
            schemes = ()
        self._files = self._find(schemes)
        self._tables: dict[str, list[ReCoERow]] = {}

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        sizes = {scheme: len(self._rows(scheme)) for scheme in self._files}
        parts = {"chain": self._chain, "perplexity": self._perplexity}
        for scheme, share in (sizes if limit is None else even_shares(sizes, limit)).items():
            rows, conflicts = self._rows(scheme), self._contested[scheme]
            for index in sample_ids(range(len(rows)), share, seed):
                yield row_case(
                    rows[index], scheme, setting, index, contested=index in conflicts, **parts
                )

    def metrics(self) -> Sequence[Metric]:
        """Return the paper's tables 4, 3 and 6, with a column per scheme and their mean; then
        perplexities and hits.
        """
        metrics = [
            metric
            for metric in self.definition.metrics
            if self._perplexity or FACTS not in metric.kinds[0]
        ]
        return [column for metric in metrics for column in self._columns(metric)]

    def _columns(self, metric: Metric) -> Iterator[Metric]:
        """Yield the metric over all schemes, or one per scheme and their mean if its name has a
        scheme placeholder.
        """
        group = metric.group.format(asked=", chain of thought" if self._chain else "")
        kinds = tuple(metric.kinds[0].format(scheme=scheme) for scheme in self._files)
        if "{scheme}" not in metric.name:
            yield metric.model_copy(update={"kinds": kinds, "group": group})
            return
        for scheme, kind in zip(self._files, kinds, strict=True):
            name = metric.name.format(scheme=scheme)
            yield metric.model_copy(update={"name": name, "kinds": (kind,), "group": group})
        if len(kinds) > 1:
            mean = f"mean over the {len(kinds)} schemes of the run, without unscored ones"
            mean_of = {"name": metric.name.format(scheme="mean"), "kinds": kinds, "group": group}
            yield metric.model_copy(update=mean_of | {"per": "kind", "summary": mean})

    def _from_rows(self, setting: str, seed: int, count: int) -> Iterator[Demonstration]:
        if self._chain:
            return
        tables = [self._rows(scheme) for scheme in self._files]
        rows = [row for table in tables for row in table]
        names = UniqueNames((row.asked, *atoms_of(row.facts), *atoms_of(row.known)) for row in rows)
        questions = Counter(row.asked for row in rows)

        def groups(table: Sequence[ReCoERow]) -> Iterator[list[Demonstration]]:
            for index in last_drawn(range(len(table)), seed):
                row = table[index]
                subjects = {triple.subject for triple in triples_of(row)}
                if subjects and questions[row.asked] == 1 and names.has_all(subjects):
                    yield question_demonstrations(row, setting)

        per_table = 0
        if count:
            per_table = max(1, count // len(tables))
        for table in tables:
            yield from of_first_rows(groups(table), per_table)

    def _records(self) -> Mapping[str, int]:
        return {
            str(path.relative_to(self.folder)): len(self._rows(scheme))
            for scheme, path in self._files.items()
        }

    def _counts(self) -> dict[str, Any]:
        rows: list[ReCoERow] = []
        made_anew, atomic_facts, doubled = list[str](), dict[str, int](), 0
        for scheme in self._files:
            of_scheme = self._rows(scheme)
            rows += of_scheme
            if any(row.built_by for row in of_scheme):
                made_anew.append(scheme)
            atomic_facts[scheme] = sum(len(f.atomic_facts) for r in of_scheme for f in r.facts)
            doubled += len(of_scheme) - len(set(of_scheme))
        triples = sum(len(fact.atomic_triples) for row in rows for fact in row.facts)
        return {
            "made anew": made_anew,
            "schemes without a file": [scheme for scheme in SCHEMES if scheme not in self._files],
            "options": {"prompting": self.options["prompting"], "perplexity": self._perplexity},
            "cases": len(rows),
            "atomic counterfactual facts": atomic_facts,
            "dropped": {
                "triples without three parts": triples - sum(len(triples_of(row)) for row in rows),
                "records that repeat another": doubled,
            },
            "repaired": {
                f"questions that begin with '{PREFIX}'": sum(
                    row.question != row.asked for row in rows
                ),
                "aliases under a misspelt key": sum(bool(row.misspelt_alias) for row in rows),
                "aliases left out, a number of another size": sum(
                    row.wrong_aliases for row in rows
                ),
            },
            "tagged": {
                "records without facts to compare with": sum(not row.known for row in rows),
                "contested (another record edits the same subject and relation to another "
                "object)": sum(map(len, self._contested.values())),
                "shared_form (a form stands for both answers, no flip can be seen)": sum(
                    bool(row.shared) for row in rows
                ),
            },
        }

    def _choices(self) -> list[str]:
        how = "directly, without examples"
        if self._chain:
            how = "through a chain of thought, after two solved chains per scheme that are Emend's"
        choices = [
            f"recoe: asked {how}, before as after the edit",
            "recoe: answers are compared after Emend's normalisation; the paper does not state one",
        ]
        if self._perplexity:
            choices.append(
                "recoe: perplexity is per token of each atomic fact, over all records, not those "
                "answered right"
            )
        if missing := [scheme for scheme in SCHEMES if scheme not in self._files]:
            choices.append(
                f"recoe: the mean is over {len(self._files)} of 6 schemes, without "
                f"{', '.join(missing)}"
            )
        return choices

    def _rows(self, scheme: str) -> list[ReCoERow]:
        if scheme not in self._tables:
            self._tables[scheme] = read_rows(
                self._files[scheme], ROWS[scheme], self.definition.remedy
            )
        return self._tables[scheme]

    @cached_property
    def _contested(self) -> dict[str, frozenset[int]]:
        """Contested records by scheme, found over all schemes, whose edits are applied together in
        mode `all`.
        """
        rows: list[ReCoERow] = []
        keys: list[tuple[str, int]] = []
        for scheme in self._files:
            of_scheme = self._rows(scheme)
            rows += of_scheme
            keys += [(scheme, index) for index in range(len(of_scheme))]
        indices: dict[str, set[int]] = {scheme: set() for scheme in self._files}
        for position in contested(rows):
            scheme, index = keys[position]
            indices[scheme].add(index)
        return {scheme: frozenset(members) for scheme, members in indices.items()}

    def _find(self, schemes: Sequence[str]) -> dict[str, Path]:
        """Return the files of the given schemes, or of all that are in the folder."""
        if superlative := self.options["superlative_file"]:
            require(self.folder, [superlative], self.definition.remedy)
        paths = {scheme: self._path(scheme) for scheme in SCHEMES}
        files = {
            scheme: path
            for scheme, path in paths.items()
            if path and (not schemes or scheme in schemes)
        }
        if missing := [scheme for scheme in schemes or SCHEMES if scheme not in files]:
            names = [f"{scheme}.json or {AWSLABS.format(scheme=scheme)}" for scheme in missing]
            if schemes or not files:
                raise MissingData(
                    f"'{self.folder}' lacks {', '.join(names)}. {self.definition.remedy}"
                )
        return files

    def _path(self, scheme: str) -> Path | None:
        special = ""
        if scheme == "superlative":
            special = self.options["superlative_file"]
        names = [special, f"{scheme}.json", AWSLABS.format(scheme=scheme)]
        return next(
            (self.folder / name for name in names if name and (self.folder / name).is_file()), None
        )


def contested(rows: Sequence[ReCoERow]) -> frozenset[int]:
    """Return the indices of rows whose edited subject and relation another row edits to a different
    object.

    Such edits may contradict each other if applied together; many relations have several true
    objects (prizes won).
    """
    objects: dict[tuple[str, str], Counter[str]] = {}
    pairs_of_rows: list[Counter[tuple[str, str]]] = []
    for row in rows:
        facts = {
            (triple.subject.casefold(), triple.relation.casefold(), triple.object.casefold())
            for triple in triples_of(row)
        }
        for subject, relation, target in facts:
            objects.setdefault((subject, relation), Counter())[target] += 1
        pairs_of_rows.append(Counter((subject, relation) for subject, relation, _ in facts))
    return frozenset(
        index
        for index, pairs in enumerate(pairs_of_rows)
        for pair, count in pairs.items()
        if len(objects[pair]) > count
    )
