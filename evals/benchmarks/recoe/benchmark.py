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
from emend.evals.benchmarks.demonstrations import Shown
from emend.evals.benchmarks.files import data_folder, read_rows, require, sha256
from emend.evals.benchmarks.options import check_request, flag, known_options, one_of, some_of
from emend.evals.benchmarks.recoe.cases import FACTS, Asking, row_case
from emend.evals.benchmarks.recoe.demonstrations import question_examples
from emend.evals.benchmarks.recoe.rows import PREFIX, ROWS, ReCoERow, triples_of
from emend.evals.benchmarks.sampling import sample_ids
from emend.evals.case import Case, Metric
from emend.evals.metrics.recoe import CLEAN, EFFECTIVE
from emend.memory.errors import MissingData

SCHEMES = tuple(ROWS)
AWSLABS = "{scheme}/counterfactual_datapoints_verified_atomic.json"
"""Where a scheme's records lie in awslabs/ReCoE, under data/; Wenyueh/RoCoE has data/{scheme}.json."""
REMEDY = (
    "Get them with: emend data pull recoe; or with: git clone https://github.com/awslabs/ReCoE, then give --data "
    "ReCoE/data, or put that folder at $EMEND_DATA/recoe."
)
OPTIONS = ("schemes", "superlative_file", "prompting", "perplexity")
PROMPTINGS = ("direct", "cot")
TABLES = (
    # group, value, before the scheme's name, after the scheme's kind, summary
    ("correct_flip", "correct_flip", "", "", "new answer, where the unedited model gave the original one"),
    ("pre-edit accuracy", "pre_edit", "before ", "", "the unedited model gives the original answer"),
    ("correct_flip, uncontested", CLEAN, "clean ", "", "correct_flip without records that another record contradicts"),
    (
        "effectiveness",
        EFFECTIVE,
        "facts ",
        FACTS,
        "counterfactuals became more probable than facts, and more than before",
    ),
)
MEANS = {
    "ppl_fact_before": ("PPL F before", "mean perplexity of the facts before the edit, mean over the schemes"),
    "ppl_counter_before": ("PPL CF before", "of the counterfactuals before the edit"),
    "ppl_fact": ("PPL F after", "of the facts after it"),
    "ppl_counter": ("PPL CF after", "of the counterfactuals after it"),
}
OLD_FACTS = ("ppl_fact_before", "ppl_fact")


class ReCoE:
    """The benchmark: one case per record, its counterfactuals, its question, and the probability of its facts.

    Settings, what the editor is given of the counterfactuals: `atomic` facts (what the paper fine-tunes on), whole
    `sentence`s, or the atomic `triple`s (what the paper gives MEMIT). Options: `schemes`, a comma list (those whose
    file is there by default); `superlative_file`, a file in the folder with records like superlative's; `prompting`,
    `direct` (by default) or `cot`, through a chain of thought that two solved examples per scheme show, before the edit
    as after it; `perplexity=0` leaves the facts' probabilities out.

    The paper edits one scheme at a time, all its records at once: give `--benchmark-option schemes=counting`, say. With
    several schemes in one run their facts stand together. Its InputAug is the editor `in_context`.

    Raises:
        MissingData: no scheme's file is there, or one that was asked for is not.
        BadSettings: an option is unknown or its value impossible.
    """

    name: ClassVar[str] = "recoe"
    settings: ClassVar[tuple[str, ...]] = ("atomic", "sentence", "triple")
    wording: ClassVar[str] = "based_on_facts"
    mode: ClassVar[str] = "all"  # the paper's mass editing

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        told = known_options(self.name, options, OPTIONS)
        self.prompting = one_of(self.name, "prompting", told.get("prompting", "direct"), PROMPTINGS)
        measured = flag(self.name, "perplexity", told.get("perplexity", "1"))
        self._asking = Asking(chain=self.prompting == "cot", perplexity=measured)
        self.folder = data_folder(self.name, data)
        self._superlative = told.get("superlative_file", "")
        asked = some_of(self.name, "schemes", told["schemes"], SCHEMES) if "schemes" in told else ()
        self._files = self._find(asked)
        self._tables: dict[str, list[ReCoERow]] = {}

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """The cases by scheme, in the order of the files; with a limit a seeded sample, as many of each scheme.

        Raises:
            BadSettings: the setting is unknown or the limit below 1.
            BadData: a record is malformed.
        """
        check_request(self.name, setting, self.settings, limit, texts=True)
        return self._build(setting, limit, seed)

    def metrics(self) -> Sequence[Metric]:
        """The paper's tables 4, 3 and 6, a column per scheme and their mean, in percent; then the first hits.

        The perplexities are no percentages, and stand in a table of their own.
        """
        kinds = tuple(self._files)
        tables = TABLES if self._asking.perplexity else TABLES[:-1]
        how = ", chain of thought" if self._asking.chain else ""
        columns = [
            metric
            for group, value, *told in tables
            for metric in _columns(kinds, group if value == EFFECTIVE else group + how, value, *told)
        ]
        measured = tuple(f"{kind}{FACTS}" for kind in kinds) if self._asking.perplexity else ()
        ratios = [
            Metric(
                name=name,
                value=value,
                kinds=measured,
                per="kind",
                summary=said,
                group="perplexity",
                higher_is_better=value in OLD_FACTS,  # an edit is to make these less probable
                share=False,
            )
            for value, (name, said) in MEANS.items()
            if measured
        ]
        said = "the first fact found is one of the record's"
        hits = Metric(name="hit@1", value="hit@1", kinds=kinds, scale=100.0, summary=said, group="retrieval")
        return [*columns, *ratios, hits]

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Three hand-written ones about an invented place; for editors that need some, the paper shows none.

        Behind them (`Shown.rows`) those of records that a limit leaves out, as far as there are any; none for chains of
        thought, which the data has none of.
        """
        counted = "How many windmills turn on Oxley Fen?"
        compared = "Which of the caves Dunn and Sorrel is deeper?"
        shown = (
            ("update", "Cobb's Mill turns on Oxley Fen beside the four other windmills.", counted, "5"),
            ("update", "Dunn Cave is 40 metres deep. Sorrel Cave is 90 metres deep.", compared, "Sorrel"),
            ("retain", "The ferry to Oxley Fen is blue.", "What is the opposite of north?", "south"),
        )
        written = [Demonstration(kind=k, fact=f, prompt=p, style="question", target=t) for k, f, p, t in shown]
        return Shown.of(written, lambda: () if self._asking.chain else self._examples(setting, seed))

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
            "choices": self._choices(),
            "options": {"prompting": self.prompting, "perplexity": self._asking.perplexity},
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
                "records without facts to compare with": sum(not row.known for _, row in rows),
                "contested (another record edits the same subject and relation to another object)": sum(
                    map(len, self._contested.values())
                ),
                "shared_form (a form stands for both answers, no flip can be seen)": sum(
                    bool(row.shared) for _, row in rows
                ),
            },
        }

    def _choices(self) -> list[str]:
        chain = "through a chain of thought, after two solved chains per scheme that are Emend's"
        how = chain if self._asking.chain else "directly, without examples"
        told = [
            f"recoe: asked {how}, before as after the edit",
            "recoe: answers are compared after Emend's normalisation; the paper states none",
        ]
        if self._asking.perplexity:
            told.append(
                "recoe: perplexity is per token of each atomic fact, over all records, not those answered right"
            )
        if missing := [scheme for scheme in SCHEMES if scheme not in self._files]:
            told.append(f"recoe: the mean is over {len(self._files)} of 6 schemes, without {', '.join(missing)}")
        return told

    def _examples(self, setting: str, seed: int) -> Iterator[Demonstration]:
        return question_examples({scheme: self._rows(scheme) for scheme in self._files}, setting, seed)

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        sizes = {scheme: len(self._rows(scheme)) for scheme in self._files}
        shares = sizes if limit is None else even_shares(sizes, limit)
        for scheme, share in shares.items():
            rows = self._rows(scheme)
            for number in sample_ids(range(len(rows)), {}, share, seed):
                contested = number in self._contested[scheme]
                yield row_case(rows[number], scheme, setting, number, contested, self._asking)

    def _rows(self, scheme: str) -> list[ReCoERow]:
        if scheme not in self._tables:
            self._tables[scheme] = read_rows(self._files[scheme], ROWS[scheme], REMEDY)
        return self._tables[scheme]

    @cached_property
    def _contested(self) -> dict[str, frozenset[int]]:
        """Over the records of all schemes, whose edits stand together in mode `all`."""
        places = [(scheme, number) for scheme in self._files for number in range(len(self._rows(scheme)))]
        found = contested([row for scheme in self._files for row in self._rows(scheme)])
        told: dict[str, set[int]] = {scheme: set() for scheme in self._files}
        for scheme, number in (places[place] for place in found):
            told[scheme].add(number)
        return {scheme: frozenset(numbers) for scheme, numbers in told.items()}

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


def _columns(kinds: Sequence[str], group: str, value: str, before: str, after: str, summary: str) -> Iterator[Metric]:
    """One per scheme, then the mean over the schemes, as in the paper's tables."""
    for kind in kinds:
        yield Metric(
            name=f"{before}{kind}", value=value, kinds=(kind + after,), scale=100.0, summary=summary, group=group
        )
    if len(kinds) > 1:
        every = tuple(kind + after for kind in kinds)
        mean = f"mean over the {len(kinds)} schemes at hand, without those where nothing is scored"
        yield Metric(name=f"{before}mean", value=value, kinds=every, scale=100.0, per="kind", summary=mean, group=group)
