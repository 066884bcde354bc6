"""MQuAKE: multi-hop questions whose answers follow from one to four edited facts.

"MQuAKE: Assessing Knowledge Editing in Language Models via Multi-Hop Questions" (Zhong et al.
2023); data: github.com/princeton-nlp/MQuAKE, folder datasets/. A record is shown below.

Each record has three paraphrases of a question and counts as right if any of them is answered
correctly. The answer is compared twice: after normalisation (`em`) and character by character, as
the released code does (`strict`); never by substring, because many aliases have two letters ("it",
"US").

A shortened row (`requested_rewrite` is a list here, but a dict in files in CounterFact's format):

    {"case_id": 7, "requested_rewrite": [{"prompt": "{} is a citizen of", "relation_id": "P27",
      "subject": "Ida Holt",
      "target_new": {"str": "Iceland", "id": "Q189"}, "target_true": {"str": "Norway", "id": "Q20"},
      "question": "What is the country of citizenship of Ida Holt?"}],
     "questions": ["What is the capital of the country of which Ida Holt is a citizen?", ..],
     "answer": "Oslo", "answer_alias": ["Christiania"], "new_answer": "Reykjavík",
       "new_answer_alias": [],
     "single_hops": [{"question": .., "cloze": .., "answer": "Norway", "answer_alias": [..]}, ..],
     "new_single_hops": [{"question": .., "cloze": .., "answer": "Iceland", "answer_alias": [..]},
       ..],
     "orig": {"new_triples": [["Q1", "P27", "Q189"], ["Q189", "P36", "Q1764"]],
              "edit_triples": [["Q1", "P27", "Q189"]], ..}}
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.base import Definition, FileBenchmark
from emend.evals.data.benchmarks.counterfact import WikidataRewrite
from emend.evals.data.benchmarks.demonstration_rows import of_unique_rows
from emend.evals.data.benchmarks.rows import (
    ASKED_BY_OTHER,
    ChainTriples,
    HopRow,
    NumberedRow,
    Tags,
    Text,
    aliases_field,
    contaminated_ids,
    golds,
    read_numbered,
    read_text,
    require,
    sample_by_rank,
)
from emend.evals.metrics.hops import distinct_golds
from emend.evals.metrics.text.exact import normalise
from emend.memory.edit import Edit
from emend.memory.errors import BadData
from emend.memory.json_files import read_json
from emend.memory.probe import Probe


def _listed(value: object) -> object:
    if isinstance(value, dict):
        return [value]
    return value


class ChainRewrite(WikidataRewrite):
    """One edit of a chain; in some files the aliases belong to the edit instead of the hop."""

    question: str = ""
    answer_new_alias: tuple[str, ...] = aliases_field("answer_new_alias")
    answer_true_alias: tuple[str, ...] = aliases_field("answer_true_alias")

    @property
    def edit(self) -> Edit:
        """The edit in one sentence."""
        true = self.target_true.label
        return Edit.from_triplet(
            self.triplet, self.prompt, question=self.question, target_true=true
        )

    @property
    def cloze(self) -> str:
        """The prompt with the subject filled in."""
        return self.prompt.replace("{}", self.subject, 1)


class ChainHop(HopRow):
    """One hop of a chain, as a question and as a cloze."""

    question: Text
    cloze: Text


class ChainRow(NumberedRow):
    """A row of any MQuAKE file; `answer_extended` (MQuAKE-T) has further correct answers from
    before the edit.
    """

    id: int = Field(validation_alias="case_id")
    requested_rewrite: Annotated[
        tuple[ChainRewrite, ...], BeforeValidator(_listed), Field(min_length=1)
    ]
    questions: Annotated[tuple[Text, ...], Field(min_length=1)]
    answer: Text
    answer_alias: tuple[str, ...] = aliases_field("answer_alias")
    answer_extended: tuple[str, ...] = ()
    new_answer: Text
    new_answer_alias: tuple[str, ...] = aliases_field("new_answer_alias")
    orig: ChainTriples
    single_hops: tuple[ChainHop, ...]
    new_single_hops: tuple[ChainHop, ...]

    @field_validator("new_single_hops")
    @classmethod
    def _hop_per_triple(
        cls, hops: tuple[ChainHop, ...], info: ValidationInfo
    ) -> tuple[ChainHop, ...]:
        orig = info.data.get("orig")
        if orig and len(hops) != len(orig.new_triples):
            raise ValueError(f"{len(hops)} hops but {len(orig.new_triples)} in 'orig.new_triples'")
        return hops

    @property
    def hops(self) -> int:
        """Number of hops of the questions."""
        return len(self.new_single_hops)

    def is_edited(self, hop: ChainHop) -> bool:
        """Return True if an edit of the row asks about the hop."""
        return any(
            rewrite.cloze == hop.cloze or rewrite.question == hop.question
            for rewrite in self.requested_rewrite
        )


SCORERS = ("exact_match", "strict_match")


@dataclass(frozen=True)
class ChainPrompting:
    """Demonstrations for the questions, and which answers are gold.

    If `old` is True, the answers from before the edit are gold. `multihop` has the demonstrations
    for multi-hop questions, `relations` those for single hops by relation; "" and {} for none.
    """

    old: bool = False
    multihop: str = ""
    relations: Mapping[str, str] = field(default_factory=dict)


def chain_case(
    row: ChainRow,
    prompting: ChainPrompting | None = None,
    contaminated: bool = False,
    edits_of: Mapping[str, Collection[int]] | None = None,
) -> Case:
    """Return the edits of one row, each edited fact, each unedited hop, and each distinct multi-hop
    question.

    Args:
        row: the record.
        prompting: demonstrations and choice of gold; None for zero-shot with the new answers.
        contaminated: True if another record's edit changes a hop of this one, so that the answer
            cannot be reached with both applied; its multi-hop questions get a separate kind, so
            that they can be left out.
        edits_of: questions and clozes of all edits (`edit_questions`); an unedited hop that is
            asked by another row's edit is tagged `asked_by_other_edit`, as it is in scope if all
            edits are applied.
    """
    how = prompting or ChainPrompting()
    edits = tuple(rewrite.edit for rewrite in row.requested_rewrite)
    hops = row.single_hops if how.old else row.new_single_hops
    probes = [
        _edit_probe(e, rewrite, hops, how)
        for e, rewrite in zip(edits, row.requested_rewrite, strict=True)
    ]
    probes += _hop_probes(row, hops, how, edits_of or {})
    probes += _multihop_probes(row, tuple(edit.id for edit in edits), how, contaminated)
    tags: Tags = {
        "case_id": row.id,
        "hops": row.hops,
        "edits": len(edits),
        "contaminated": contaminated,
    }
    hop_golds = distinct_golds(golds(hop.answer, hop.answer_alias) for hop in hops)
    return Case(edits=edits, probes=tuple(probes), hop_golds=hop_golds, tags=tags)


def chain_demonstrations(row: ChainRow) -> Iterator[Demonstration]:
    """Yield each edit as a cloze and as a question, and each unedited hop.

    Multi-hop questions are not shown, since other records share their later hops.
    """
    for edit in (rewrite.edit for rewrite in row.requested_rewrite):
        text, target = edit.text, edit.target_new
        yield Demonstration(kind="copy", fact=text, prompt=edit.cloze, target=target)
        if edit.question:
            yield Demonstration(
                kind="update", fact=text, prompt=edit.question, style="question", target=target
            )
        for hop in row.new_single_hops:
            if not row.is_edited(hop):
                yield Demonstration(
                    kind="retain",
                    fact=text,
                    prompt=hop.question,
                    style="question",
                    target=hop.answer,
                )


def edited_subjects(row: ChainRow) -> list[str]:
    """Return the subjects of a row's edits."""
    return [edit.subject for edit in row.requested_rewrite]


def chain_texts(row: ChainRow) -> Iterator[str]:
    """Yield the texts of a row that name its edited subjects and its questions."""
    for rewrite in row.requested_rewrite:
        yield from (rewrite.subject, rewrite.question)
    yield from row.questions
    yield from (hop.question for hop in (*row.single_hops, *row.new_single_hops))


def _edit_probe(
    edit: Edit, rewrite: ChainRewrite, hops: Sequence[ChainHop], how: ChainPrompting
) -> Probe:
    """Return the edit's cloze as a probe, with aliases from the hop that has the same question or
    cloze.
    """
    target, rival = rewrite.target_new.label, rewrite.target_true.label
    if how.old:
        own_aliases = rewrite.answer_true_alias
    else:
        own_aliases = rewrite.answer_new_alias
    if how.old:
        target, rival = rival, target
    same = [
        hop
        for hop in hops
        if edit.question and hop.question == edit.question or hop.cloze == edit.cloze
    ]
    aliases = [alias for hop in same if hop.answer == target for alias in hop.answer_alias]
    answers = golds(target, [*own_aliases, *aliases])
    tags: dict[str, Any] = {"tags": shared} if (shared := _shared([rival], answers)) else {}
    return Probe(
        kind="efficacy",
        prompt=edit.cloze,
        gold=answers,
        rival=rival,
        edit_ids=(edit.id,),
        scorers=SCORERS,
        subject=edit.subject,
        **tags,
    )


def _hop_probes(
    row: ChainRow,
    hops: Sequence[ChainHop],
    how: ChainPrompting,
    edits_of: Mapping[str, Collection[int]],
) -> list[Probe]:
    """Return the hops of the chain that no edit of the row asks about."""
    relations = [relation for _, relation, _ in row.orig.new_triples]
    probes = []
    for n, hop in enumerate(hops):
        if row.is_edited(hop):
            continue
        tags: Tags = {"n": n}
        if {*edits_of.get(hop.question.lower(), ())} - {row.id}:
            tags[ASKED_BY_OTHER] = True
        shots = ""
        if n < len(relations):
            shots = how.relations.get(relations[n], "")
        probes.append(
            Probe(
                kind="hop",
                **_with_shots(hop.question, shots),
                gold=golds(hop.answer, hop.answer_alias),
                in_scope=False,
                scorers=SCORERS,
                tags=tags,
            )
        )
    return probes


def _multihop_probes(
    row: ChainRow, edit_ids: tuple[str, ...], how: ChainPrompting, contaminated: bool
) -> Iterator[Probe]:
    old = golds(row.answer, [*row.answer_alias, *row.answer_extended])
    new = golds(row.new_answer, row.new_answer_alias)
    tags: Tags = {
        "hops": row.hops,
        **({"contaminated": True} if contaminated else {}),
        **_shared(old, new),
    }
    for n, question in enumerate(dict.fromkeys(row.questions)):
        yield Probe(
            kind="multihop_contaminated" if contaminated else "multihop",
            **_with_shots(question, how.multihop),
            gold=old if how.old else new,
            rival=new[0] if how.old else old[0],
            edit_ids=edit_ids,
            scorers=SCORERS,
            tags=tags | {"n": n},
        )


def _shared(old: Sequence[str], new: Sequence[str]) -> Tags:
    """Return the tag `shared_form` if the old and new answers have a normalised form in common, so
    that no flip can be detected.
    """
    shared = set(map(normalise, old)) & set(map(normalise, new))
    if shared:
        return {"shared_form": min(shared)}
    return {}


def edit_questions(rows: Iterable[ChainRow]) -> dict[str, set[int]]:
    """Return the questions and clozes of all edits in lower case, each with the ids of the rows
    that contain the edit.
    """
    edits_of: dict[str, set[int]] = {}
    for row in rows:
        for rewrite in row.requested_rewrite:
            for text in filter(None, (rewrite.question, rewrite.cloze)):
                edits_of.setdefault(text.lower(), set()).add(row.id)
    return edits_of


def _with_shots(question: str, shots: str) -> dict[str, Any]:
    if not shots:
        return {"prompt": question, "style": "question", "query": question}
    return {"prompt": f"{shots.rstrip()}\nQ: {question} A:", "style": "raw", "query": question}


# File names of each dataset; the first file found is read. The last name of CF-3k is a subset.
DATASETS = {
    "CF": ("datasets/MQuAKE-CF.json", "MQuAKE-CF.json"),
    "CF-3k": ("datasets/MQuAKE-CF-3k.json", "MQuAKE-CF-3k.json", "mquake_cf_3k.sample.json"),
    "CF-3k-v2": ("datasets/MQuAKE-CF-3k-v2.json", "MQuAKE-CF-3k-v2.json"),
    "T": ("datasets/MQuAKE-T.json", "MQuAKE-T.json"),
}
MULTIHOP_SHOTS, RELATION_SHOTS = "prompts/multihop-prompts.txt", "prompts/rel-prompts.json"


class MQuAKE(FileBenchmark):
    """MQuAKE; an edit is a triplet in one sentence, and all edits of a record are applied together.

    Options: `dataset` = `CF-3k` (default), `CF-3k-v2`, `CF` or `T`; `shots=paper` puts the paper's
    demonstrations before multi-hop questions (16) and unedited hops (8 of the same relation);
    `answers=old` takes the answers from before the edit as gold, which measures the unedited
    model's knowledge.

    One case per record: each edited fact as a cloze (`efficacy`), each unedited hop (`hop`), and
    the questions (`multihop`, or `multihop_contaminated` where an edit of another record of the
    file gives a hop another object, so that the answer cannot be reached with all edits applied;
    with a limit that other record may not be drawn).
    """

    name: ClassVar[str] = "mquake"
    settings: ClassVar[tuple[str, ...]] = ("triplet",)
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "all"  # the released code searches the edits of all records
    has_texts = False
    definition = Definition.beside(__file__)
    defaults = {"dataset": "CF-3k", "shots": "none", "answers": "new"}
    values = {"dataset": tuple(DATASETS), "shots": ("none", "paper"), "answers": ("new", "old")}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        self.file = self.first_file(DATASETS[self.options["dataset"]])
        require(self.folder, self._shot_files, self.definition.remedy)

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        rows = list(self._rows.values())
        if limit is None:
            drawn = rows
        else:
            drawn = sample_by_rank(rows, lambda row: row.hops, limit, seed)
        prompting = self._prompting
        edits_of = edit_questions(drawn)
        return (chain_case(row, prompting, row.id in self._contaminated, edits_of) for row in drawn)

    def _from_rows(self, setting: str, seed: int, count: int) -> Iterator[Demonstration]:
        return of_unique_rows(
            self._rows, seed, chain_texts, edited_subjects, chain_demonstrations, count=count
        )

    def _records(self) -> Mapping[str, None]:
        return dict.fromkeys([self.file, *self._shot_files])

    def _counts(self) -> dict[str, Any]:
        rows = list(self._rows.values())
        edits_of = edit_questions(rows)
        tags = Counter(
            tag
            for row in rows
            for probe in chain_case(row, edits_of=edits_of).probes
            for tag in probe.tags
        )
        edits = [rewrite.edit.id for row in rows for rewrite in row.requested_rewrite]
        return {
            "part of the data set": self.file.endswith(".sample.json"),
            "cases": len(rows),
            "edits": len(edits),
            "different edits": len(set(edits)),
            "hops": dict(sorted(Counter(str(row.hops) for row in rows).items())),
            "dropped": {
                "questions that a record repeats": sum(
                    len(r.questions) - len(set(r.questions)) for r in rows
                )
            },
            "tagged": {
                "contaminated (another record's edit changes a hop)": len(self._contaminated),
                "shared_form (a form stands for both answers, no flip can be seen)": tags[
                    "shared_form"
                ],
                f"{ASKED_BY_OTHER} (an unedited hop that another record's edit asks)": tags[
                    ASKED_BY_OTHER
                ],
            },
        }

    @property
    def _shot_files(self) -> tuple[str, ...]:
        if self.options["shots"] == "paper":
            return (MULTIHOP_SHOTS, RELATION_SHOTS)
        return ()

    @cached_property
    def _rows(self) -> dict[int, ChainRow]:
        return read_numbered(self.folder / self.file, ChainRow)

    @cached_property
    def _contaminated(self) -> frozenset[int]:
        return contaminated_ids({number: row.orig for number, row in self._rows.items()})

    @property
    def _prompting(self) -> ChainPrompting:
        old = self.options["answers"] == "old"
        if not self._shot_files:
            return ChainPrompting(old)
        multihop = read_text(self.folder / MULTIHOP_SHOTS)
        return ChainPrompting(old, multihop, _read_shots(self.folder / RELATION_SHOTS))


def _read_shots(path: Path) -> dict[str, str]:
    content = read_json(path, links=True)
    if not isinstance(content, dict) or not all(
        isinstance(block, str) for block in content.values()
    ):
        raise BadData(
            f"{path.name}: an object of one text per relation expected. Fetch the file again."
        )
    return content
