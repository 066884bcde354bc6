"""ReCoE: questions that must be reasoned out, whose supporting facts are edited so that another answer follows.

"Propagation and Pitfalls: Reasoning-based Assessment of Knowledge Editing through Counterfactual Tasks" (Findings of
ACL 2024); data: github.com/awslabs/ReCoE and github.com/Wenyueh/RoCoE. The paper's code is not published, so these are
our choices: answers are compared in the canonical form of `metrics.recoe`, and where a form stands for both answers
("3" for -3 and for 3) no flip is counted, because none can be seen. A record, shortened (the other schemas are in
`recoe.rows`):

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
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import Definition, FileBenchmark
from emend.evals.data.benchmarks.demonstrations import ROWS as DEMONSTRATION_ROWS
from emend.evals.data.benchmarks.demonstrations import UniqueNames, of_first_rows
from emend.evals.data.benchmarks.files import read_rows, require
from emend.evals.data.benchmarks.options import flag, some_of
from emend.evals.data.benchmarks.recoe.cases import FACTS, ReCoEPrompting, question_demonstrations, row_case
from emend.evals.data.benchmarks.recoe.rows import PREFIX, ROWS, ReCoERow, atoms_of, triples_of
from emend.evals.data.benchmarks.sampling import even_shares, last_drawn, sample_ids
from emend.memory.errors import MissingData

SCHEMES = tuple(ROWS)
AWSLABS = "{scheme}/counterfactual_datapoints_verified_atomic.json"
"""A scheme's file in awslabs/ReCoE, under data/; Wenyueh/RoCoE has data/{scheme}.json."""


class ReCoE(FileBenchmark):
    """The benchmark: one case per record, its counterfactuals, its question, and the probability of its facts.

    The settings are forms of the counterfactuals: `atomic` facts (on which the paper fine-tunes), whole `sentence`s, or
    the atomic `triple`s (which the paper gives to MEMIT). Options: `schemes`, a comma list (those with a file by
    default); `superlative_file`, a file in the folder with records like superlative's; `prompting`, `direct` (by
    default) or `cot`, a chain of thought after two demonstrations per scheme, before the edit as after it;
    `perplexity=0` leaves the facts' probabilities out.

    The paper edits one scheme at a time, all its records at once: give `--benchmark-option schemes=counting`, for
    example. With several schemes in one run their facts are applied together. Its InputAug is the editor `in_context`.
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
        measured = flag(self.name, "perplexity", self.options["perplexity"])
        self._prompting = ReCoEPrompting(chain=self.options["prompting"] == "cot", perplexity=measured)
        schemes = (
            some_of(self.name, "schemes", self.options["schemes"], SCHEMES) if "schemes" in (options or {}) else ()
        )
        self._files = self._find(schemes)
        self._tables: dict[str, list[ReCoERow]] = {}

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        sizes = {scheme: len(self._rows(scheme)) for scheme in self._files}
        for scheme, share in (sizes if limit is None else even_shares(sizes, limit)).items():
            rows = self._rows(scheme)
            for index in sample_ids(range(len(rows)), {}, share, seed):
                yield row_case(rows[index], scheme, setting, index, index in self._contested[scheme], self._prompting)

    def metrics(self) -> Sequence[Metric]:
        """The paper's tables 4, 3 and 6, a column per scheme and their mean; then perplexities and hits."""
        measured = self._prompting.perplexity
        metrics = [metric for metric in self.definition.metrics if measured or FACTS not in metric.kinds[0]]
        return [column for metric in metrics for column in self._columns(metric)]

    def _columns(self, metric: Metric) -> Iterator[Metric]:
        """The metric over all schemes, or one per scheme and their mean where its name has a place for the scheme."""
        group = metric.group.format(asked=", chain of thought" if self._prompting.chain else "")
        kinds = tuple(metric.kinds[0].format(scheme=scheme) for scheme in self._files)
        if "{scheme}" not in metric.name:
            yield metric.model_copy(update={"kinds": kinds, "group": group})
            return
        for scheme, kind in zip(self._files, kinds, strict=True):
            name = metric.name.format(scheme=scheme)
            yield metric.model_copy(update={"name": name, "kinds": (kind,), "group": group})
        if len(kinds) > 1:
            mean = f"mean over the {len(kinds)} schemes at hand, without those where nothing is scored"
            mean_of = {"name": metric.name.format(scheme="mean"), "kinds": kinds, "group": group}
            yield metric.model_copy(update=mean_of | {"per": "kind", "summary": mean})

    def _from_rows(self, setting: str, seed: int) -> Iterator[Demonstration]:
        if self._prompting.chain:
            return
        tables = [self._rows(scheme) for scheme in self._files]
        rows = [row for table in tables for row in table]
        names = UniqueNames((row.asked, *atoms_of(row.facts), *atoms_of(row.known)) for row in rows)
        questions = Counter(row.asked for row in rows)
        for table in tables:
            fitting = (
                row
                for row in (table[index] for index in last_drawn(range(len(table)), seed))
                if (subjects := {triple.subject for triple in triples_of(row)})
                and questions[row.asked] == 1
                and names.has_all(subjects)
            )
            groups = (question_demonstrations(row, setting) for row in fitting)
            yield from of_first_rows(groups, max(1, DEMONSTRATION_ROWS // len(tables)))

    def _records(self) -> Mapping[str, int]:
        return {str(path.relative_to(self.folder)): len(self._rows(scheme)) for scheme, path in self._files.items()}

    def _counts(self) -> dict[str, Any]:
        rows = [row for scheme in self._files for row in self._rows(scheme)]
        triples = sum(len(fact.atomic_triples) for row in rows for fact in row.facts)
        return {
            "made anew": [scheme for scheme in self._files if any(row.built_by for row in self._rows(scheme))],
            "schemes without a file": [scheme for scheme in SCHEMES if scheme not in self._files],
            "options": {"prompting": self.options["prompting"], "perplexity": self._prompting.perplexity},
            "cases": len(rows),
            "atomic counterfactual facts": {
                scheme: sum(len(f.atomic_facts) for r in self._rows(scheme) for f in r.facts) for scheme in self._files
            },
            "dropped": {
                "triples without three parts": triples - sum(len(triples_of(row)) for row in rows),
                "records that repeat another": sum(
                    len(self._rows(scheme)) - len(set(self._rows(scheme))) for scheme in self._files
                ),
            },
            "repaired": {
                f"questions that begin with '{PREFIX}'": sum(row.question != row.asked for row in rows),
                "aliases under a misspelt key": sum(bool(row.misspelt_alias) for row in rows),
                "aliases left out, a number of another size": sum(row.wrong_aliases for row in rows),
            },
            "tagged": {
                "records without facts to compare with": sum(not row.known for row in rows),
                "contested (another record edits the same subject and relation to another object)": sum(
                    map(len, self._contested.values())
                ),
                "shared_form (a form stands for both answers, no flip can be seen)": sum(
                    bool(row.shared) for row in rows
                ),
            },
        }

    def _choices(self) -> list[str]:
        how = "directly, without examples"
        if self._prompting.chain:
            how = "through a chain of thought, after two solved chains per scheme that are Emend's"
        choices = [
            f"recoe: asked {how}, before as after the edit",
            "recoe: answers are compared after Emend's normalisation; the paper states none",
        ]
        if self._prompting.perplexity:
            choices.append(
                "recoe: perplexity is per token of each atomic fact, over all records, not those answered right"
            )
        if missing := [scheme for scheme in SCHEMES if scheme not in self._files]:
            choices.append(f"recoe: the mean is over {len(self._files)} of 6 schemes, without {', '.join(missing)}")
        return choices

    def _rows(self, scheme: str) -> list[ReCoERow]:
        if scheme not in self._tables:
            self._tables[scheme] = read_rows(self._files[scheme], ROWS[scheme], self.definition.remedy)
        return self._tables[scheme]

    @cached_property
    def _contested(self) -> dict[str, frozenset[int]]:
        """Contested records by scheme, over all schemes, whose edits are applied together in mode `all`."""
        keys = [(scheme, index) for scheme in self._files for index in range(len(self._rows(scheme)))]
        places = {keys[place] for place in contested([row for scheme in self._files for row in self._rows(scheme)])}
        return {scheme: frozenset(index for name, index in places if name == scheme) for scheme in self._files}

    def _find(self, schemes: Sequence[str]) -> dict[str, Path]:
        """Return the files of the given schemes, or of all that are in the folder."""
        if superlative := self.options["superlative_file"]:
            require(self.folder, [superlative], self.definition.remedy)
        paths = {scheme: self._path(scheme) for scheme in SCHEMES}
        files = {scheme: path for scheme, path in paths.items() if path and (not schemes or scheme in schemes)}
        if missing := [scheme for scheme in schemes or SCHEMES if scheme not in files]:
            names = [f"{scheme}.json or {AWSLABS.format(scheme=scheme)}" for scheme in missing]
            if schemes or not files:
                raise MissingData(f"'{self.folder}' lacks {', '.join(names)}. {self.definition.remedy}")
        return files

    def _path(self, scheme: str) -> Path | None:
        special = self.options["superlative_file"] if scheme == "superlative" else ""
        names = [special, f"{scheme}.json", AWSLABS.format(scheme=scheme)]
        return next((self.folder / name for name in names if name and (self.folder / name).is_file()), None)


def contested(rows: Sequence[ReCoERow]) -> frozenset[int]:
    """Indices of the rows that edit a subject and relation which another row edits to another object.

    Such edits may contradict each other when applied together; many are true of several objects (prizes won).
    """
    objects: dict[tuple[str, str], Counter[str]] = {}
    facts = [{(t.subject.casefold(), t.relation.casefold(), t.object.casefold()) for t in triples_of(r)} for r in rows]
    for triples in facts:
        for subject, relation, target in triples:
            objects.setdefault((subject, relation), Counter())[target] += 1
    keys = [Counter((subject, relation) for subject, relation, _ in triples) for triples in facts]
    return frozenset(
        index for index, pairs in enumerate(keys) if any(len(objects[pair]) > count for pair, count in pairs.items())
    )
