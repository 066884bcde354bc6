"""ReCoE: reasoning questions whose supporting facts are edited so that another answer follows.

"Propagation and Pitfalls: Reasoning-based Assessment of Knowledge Editing through Counterfactual
Tasks" (Findings of ACL 2024); data: github.com/awslabs/ReCoE and github.com/Wenyueh/RoCoE. The
paper's code is not published, so these are our own choices: answers are compared in the canonical
form of `metrics.published.recoe`, and if both answers have the same form ("3" for -3 and 3), no
flip is counted, because it cannot be detected. A shortened record (the other schemas follow):

    {"question": "How many lighthouses stand on the isle of Torvay?", "answer": "5",
      "counterfactual_answer": "4",
     "answer_alias": ["five"], "counterfactual_answer_alias": ["four"], "domain": "geography",
     "counterfactual_facts": [{"original_output": "...",
       "sentence": "Kelp Light stands on the isle of Marn.",
        "atomic_facts": ["Kelp Light stands on the isle of Marn"],
        "atomic_triples": ["(Kelp Light; stands on; the isle of Marn)"]}], "facts": [...],
          "extended_facts": [...]}

Superlative, comparative and sorting (sorting has no aliases; only the two swapped choices have
counterfactuals):

    {"question": "Which of the two lakes Brisko and Halmen is deeper?", "answer": "Brisko",
     "counterfactual_answer": "Halmen", "answer_alias": ["Lake Brisko"],
       "counterfactual_answer_alias": ["Lake Halmen"],
     "facts_per_choice": {"entity1": "Brisko", "choice_1_facts": [...], ...},
     "counterfactuals_per_choice": {"choice_1_counterfactuals": [{"fact": "Lake Brisko is 40 m
       deep.",
        "atomic_facts": ["Lake Brisko is 40 m deep."],
          "atomic_triples": ["(Lake Brisko; is deep; 40 m)"]}], ...,
        "unchanged_facts": ["Both lakes lie in Norrland."]}}

Counting has `counterfactual_facts`, a list of facts with `sentence` for `fact`; aggregation and
subtraction have `indirect_counterfactual_fact`, a list of such lists, one per altered sub-question
(and direct ones, which state the counts and are not edited).

The paper publishes no prompt for its chain-of-thought runs; the lines `Question:`, `Thoughts:` and
`Answer:` are taken from its printed examples (Figures 13 and 14), and demonstrated answers have the
form of the scheme's answers in the data.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AliasChoices, BeforeValidator, Field

from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import Definition, FileBenchmark, flag, some_of
from emend.evals.data.benchmarks.demonstration_rows import UniqueNames, of_first_rows
from emend.evals.data.benchmarks.rows import (
    COT_PROMPT,
    BenchmarkRow,
    Tags,
    chain_fields,
    even_shares,
    last_drawn,
    read_rows,
    require,
    sample_ids,
)
from emend.evals.metrics.published.recoe import number, shared_forms
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData, MissingData
from emend.memory.probe import Probe

# Prefix of six comparative questions, which is removed.
PREFIX = "Question:"
_CHOICE = re.compile(r"choice_\d+_(?:counterfactuals|facts)")


def _number_as_text(value: object) -> object:
    plain = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if plain else value.strip() if isinstance(value, str) else value


def _listed(value: object) -> object:
    if isinstance(value, str | int):
        return [value]
    return value or []


def _flat(value: object) -> object:
    """Flatten facts in nested lists, or by choice, to one list; other values are kept and fail the
    validation.
    """
    if isinstance(value, dict) and not {"fact", "sentence"} & value.keys():
        return [
            fact
            for key, facts in value.items()
            if _CHOICE.fullmatch(key)
            for fact in _leaves(facts)
        ]
    if isinstance(value, list):
        return list(_leaves(value))
    return value


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


Text = Annotated[str, BeforeValidator(_number_as_text), Field(min_length=1)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_listed)]


class CounterfactualRow(BenchmarkRow):
    """A counterfactual: the sentence, its atomic facts, and their triples in the form "(subject;
    relation; object)".
    """

    sentence: Text = Field(validation_alias=AliasChoices("sentence", "fact"))
    atomic_facts: Texts = ()
    atomic_triples: Texts = ()


Facts = Annotated[tuple[CounterfactualRow, ...], BeforeValidator(_flat)]
Edited = Annotated[Facts, Field(min_length=1)]


class ReCoERow(BenchmarkRow):
    """Fields of all schemas; answers may be whole numbers."""

    question: Text
    answer: Text
    counterfactual_answer: Text
    answer_alias: Texts = ()
    counterfactual_answer_alias: Texts = ()
    misspelt_alias: Texts = Field(default=(), validation_alias="counterfactual_answer_aias")
    facts: Facts
    """Counterfactuals, which become the edits."""
    known: Facts = ()
    """Facts that support the original answer."""
    built_by: str = ""
    """Command that made the row; empty for rows of the paper."""

    @property
    def asked(self) -> str:
        """The question, without the prefix of six questions."""
        return self.question.removeprefix(PREFIX).lstrip()

    @property
    def originals(self) -> tuple[str, ...]:
        """The original answer and its aliases."""
        return _answers(self.answer, self.answer_alias)

    @property
    def golds(self) -> tuple[str, ...]:
        """The counterfactual answer and its aliases."""
        return _answers(
            self.counterfactual_answer, (*self.counterfactual_answer_alias, *self.misspelt_alias)
        )

    @property
    def wrong_aliases(self) -> int:
        """Number of aliases that are dropped because they are not the number of their answer,
        ignoring the sign.
        """
        originals = {self.answer, *self.answer_alias}
        golds = {
            self.counterfactual_answer,
            *self.counterfactual_answer_alias,
            *self.misspelt_alias,
        }
        return len(originals) + len(golds) - len(self.originals) - len(self.golds)

    @property
    def shared(self) -> set[str]:
        """Canonical forms that both answers share."""
        return shared_forms(self.originals, self.golds)


class ChoiceRow(ReCoERow):
    """A row of superlative, comparative or sorting; only the two swapped choices have
    counterfactuals.
    """

    facts: Edited = Field(validation_alias="counterfactuals_per_choice")
    known: Facts = Field(default=(), validation_alias="facts_per_choice")


class CountingRow(ReCoERow):
    """A row of counting; usually one member is altered."""

    facts: Edited = Field(validation_alias="counterfactual_facts")
    known: Facts = Field(default=(), validation_alias="facts")


class ComposedRow(ReCoERow):
    """A row of aggregation or subtraction; the paper edits its indirect facts."""

    facts: Edited = Field(validation_alias="indirect_counterfactual_fact")
    known: Facts = Field(default=(), validation_alias="indirect_fact")


# Row model of each scheme, in the order of the paper's tables.
ROWS: dict[str, type[ReCoERow]] = {
    "superlative": ChoiceRow,
    "comparative": ChoiceRow,
    "counting": CountingRow,
    "sorting": ChoiceRow,
    "aggregation": ComposedRow,
    "subtraction": ComposedRow,
}


def parse_triple(text: str) -> Triplet | None:
    """Parse a text like "(s; r; o)"; None if it does not have three parts.

    >>> parse_triple("(Dune (1965);  is by ; Herbert)").subject
    'Dune (1965)'
    """
    inner = text.strip()
    if inner.startswith("("):
        closed = inner.endswith(")") and inner.count("(") <= inner.count(")")
        inner = inner[1:-1] if closed else inner[1:]
    parts = [" ".join(part.split()) for part in inner.split(";")]
    if len(parts) != 3 or not all(parts):
        return None
    return Triplet(subject=parts[0], relation=parts[1], object=parts[2])


def triples_of(row: ReCoERow) -> list[Triplet]:
    """Return the complete triples of the row's counterfactuals."""
    parsed = (parse_triple(text) for fact in row.facts for text in fact.atomic_triples)
    return [triple for triple in parsed if triple is not None]


def edits_of(row: ReCoERow, setting: str) -> tuple[Edit, ...]:
    """Return the row's counterfactuals as distinct edits: `atomic` facts, whole `sentence`s, or
    `triple`s.
    """
    if setting == "triple":
        edits = [Edit.from_triplet(triple, f"{{}} {triple.relation}") for triple in triples_of(row)]
    elif setting == "sentence":
        edits = [Edit(form="document", text=_as_sentence(fact.sentence)) for fact in row.facts]
    else:
        edits = [Edit(form="facts", text=text) for text in atoms_of(row.facts)]
    return tuple({edit.id: edit for edit in edits}.values())


def atoms_of(facts: tuple[CounterfactualRow, ...]) -> tuple[str, ...]:
    """Return the distinct atomic facts as sentences; the whole sentence for a fact without atomic
    facts.
    """
    texts = (text for fact in facts for text in fact.atomic_facts or (fact.sentence,))
    return tuple(dict.fromkeys(map(_as_sentence, texts)))


def _answers(answer: str, aliases: tuple[str, ...]) -> tuple[str, ...]:
    # The data has the alias "3" for -3, which is kept; one record has "thirty" for 24, which is
    # dropped.
    size = number(answer)
    right = (alias for alias in aliases if size is None or abs(number(alias) or 0) == abs(size))
    return tuple(dict.fromkeys((answer, *right)))


def _as_sentence(text: str) -> str:
    # Prompts concatenate facts, and many lack a final full stop.
    if text.endswith((".", "!", "?")):
        return text
    return f"{text}."


@cache
def shots(scheme: str) -> str:
    """Return the scheme's demonstrations, separated by blank lines."""
    table = tomllib.loads(Path(__file__).with_name("recoe_shots.toml").read_text("utf-8"))
    return "\n\n".join(
        f"{COT_PROMPT.format(question=shot['question'])} {shot['thoughts']}\nAnswer: "
        f"{shot['answer']}"
        for shot in table[scheme]
    )


# Suffix of the kind of probes that measure the perplexity of a record's facts.
FACTS = "_facts"


def row_case(
    row: ReCoERow,
    scheme: str,
    setting: str,
    index: int,
    *,
    contested: bool = False,
    chain: bool = False,
    perplexity: bool = True,
) -> Case:
    """Return a row as a case: its counterfactuals as edits, its question with the counterfactual
    answer, and its facts.

    Args:
        row: the row.
        scheme: key of `ROWS`, used as the probe's kind.
        setting: `atomic`, `sentence` or `triple`.
        index: index of the row in the file.
        contested: True if another record edits a fact of this one to another object; adds a tag.
        chain: ask for a chain of thought instead of a direct answer.
        perplexity: also measure the perplexity of the facts.

    Raises:
        BadData: the setting is `triple` and the row has no triple.
    """
    edits = edits_of(row, setting)
    if not edits:
        triples = [text for fact in row.facts for text in fact.atomic_triples]
        raise BadData(
            f"{scheme}, record {index}, field 'atomic_triples': no '(subject; relation; object)' "
            f"there; value {triples}. Use --setting atomic or correct the record."
        )
    tags: Tags = {"contested": True} if contested else {}
    probes = [_question_probe(row, scheme, edits, chain, tags)]
    if perplexity and row.known:
        probes.append(_facts_probe(row, scheme, edits, tags))
    return Case(edits=edits, probes=tuple(probes), tags={"scheme": scheme, "record": index})


def _question_probe(
    row: ReCoERow, scheme: str, edits: tuple[Edit, ...], chain: bool, tags: Tags
) -> Probe:
    return Probe(
        kind=scheme,
        **chain_fields(row.asked, shots(scheme) if chain else ""),
        gold=row.golds,
        rival=row.answer,
        rival_aliases=row.originals[1:],
        edit_ids=tuple(edit.id for edit in edits),
        scorers=("correct_flip",),
        tags=tags | ({"shared_form": min(row.shared)} if row.shared else {}),
    )


def _facts_probe(row: ReCoERow, scheme: str, edits: tuple[Edit, ...], tags: Tags) -> Probe:
    """Return a probe with the counterfactual facts as gold and the replaced facts as choices; no
    text is generated.
    """
    return Probe(
        kind=f"{scheme}{FACTS}",
        prompt="",
        gold=atoms_of(row.facts),
        choices=atoms_of(row.known),
        edit_ids=tuple(edit.id for edit in edits),
        scorers=("effectiveness",),
        query=row.asked,
        tags=tags,
    )


def question_demonstrations(row: ReCoERow, setting: str) -> list[Demonstration]:
    """Return the row's question and the first counterfactual with a cloze; the data has no `retain`
    questions.

    The shown fact consists of all counterfactuals of the row, since its answer follows from all of
    them.
    """
    edits = edits_of(row, setting)
    text = " ".join(edit.text for edit in edits)
    question = Demonstration(
        kind="update", fact=text, prompt=row.asked, style="question", target=row.golds[0]
    )
    copied = next((edit for edit in edits if edit.cloze and edit.target_new), None)
    if copied is None:
        return [question]
    return [
        Demonstration(kind="copy", fact=text, prompt=copied.cloze, target=copied.target_new),
        question,
    ]


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
            for index in sample_ids(range(len(rows)), {}, share, seed):
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
