"""AKEW: the same new facts as a sentence, as a paragraph, and as triplets extracted from it by a
language model.

"AKEW: Assessing Knowledge Editing in the Wild" (EMNLP 2024); data: github.com/BobXWu/AKEW, folder
datasets/. Its evaluation code was never published and the paper defines no matching rule, so two
are reported: `em` (normalised) and `strict` (the rule of MeLLo's code), see `metrics.text`. An
invented record of MQuAKE-CF.json, with shortened lists:

    {"case_id": 7, "requested_rewrite": [{"prompt": "{} was built in", "relation_id": "P17",
      "subject": "Pell Lock",
       "target_new": {"str": "Chile", "id": "Q298"}, "target_true": {"str": "Norway", "id": "Q20"},
       "question": "In which country was Pell Lock built?",
         "fact_new": "Pell Lock was built in Chile.",
       "fact_new_uns": "Chile, a long country by the sea, is home to Pell Lock, which ...",
         "verify_unsfact_GPT": true,
       "unsfact_triplets_GPT": [{"subject": "Pell Lock", "prompt": "{} opened in",
         "target": "1874"}]}],
     "questions": ["What is the capital of the country where Pell Lock was built?", "...", "..."],
       "answer": "Oslo",
     "answer_alias": [], "new_answer": "Santiago", "new_answer_alias": ["Santiago de Chile"],
     "single_hops": [...], "new_single_hops": [{"question": "In which country was Pell Lock built?",
       "cloze": "Pell Lock was built in", "answer": "Chile", "answer_alias": ["CL"]}, ...],
     "orig": {"new_triples": [["Q1", "P17", "Q298"], ["Q298", "P36", "Q2887"]],
       "edit_triples": [...], ...}}

In CounterFact.json and WikiUpdate.json `requested_rewrite` is one edit, not a list, with its own
`answer_new`, `answer_new_alias` (or `answer_new_aliases`), `answer_true`, `answer_true_alias` and
`prompt_full`, and WikiUpdate.json also `time_true` and `time_new`; neither file has multi-hop
questions.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import Definition, FileBenchmark
from emend.evals.data.benchmarks.demonstration_rows import of_unique_rows
from emend.evals.data.benchmarks.rows import (
    BenchmarkRow,
    ChainTriples,
    HopRow,
    NumberedRow,
    Tags,
    Text,
    WikidataEntity,
    aliases_field,
    chain_fields,
    check_slot,
    contaminated_ids,
    contested_keys,
    golds,
    read_numbered,
    read_text,
    sample_in_shares,
)
from emend.evals.metrics.hops import distinct_golds
from emend.memory.edit import Edit, Triplet
from emend.memory.probe import Probe

Key = tuple[str, str]


class AkewTriplet(BenchmarkRow):
    """A triplet extracted by a language model, possibly incomplete; `prompt` has a `{}` for the
    subject.
    """

    subject: str | None = None
    prompt: str | None = None
    target: str | None = None

    @property
    def complete(self) -> bool:
        """True if all three parts exist and the prompt has exactly one slot for the subject."""
        return all(part and part.strip() for part in (self.subject, self.prompt, self.target)) and (
            str(self.prompt).count("{}") == 1
        )

    @property
    def parts(self) -> tuple[str, str, str]:
        """Subject, prompt and target; "" for a missing part."""
        return self.subject or "", self.prompt or "", self.target or ""

    @property
    def text(self) -> str:
        """The triplet as one line of text."""
        subject, prompt, target = self.parts
        return f"{prompt.replace('{}', subject, 1)} {target}"


class ValidPeriod(BenchmarkRow):
    """Period in which a target of WikiUpdate is valid."""

    start_time: str | None = None
    end_time: str | None = None


class AkewRewrite(BenchmarkRow):
    """One edit; only CounterFact and WikiUpdate have aliases, only WikiUpdate has times."""

    subject: Text
    prompt: str = ""
    question: str = ""
    relation: str = ""
    relation_id: str | None = None
    target_new: WikidataEntity
    target_true: WikidataEntity | None = None
    fact_new: str = ""
    fact_new_uns: Text
    unsfact_triplets_GPT: tuple[AkewTriplet, ...]
    verify_unsfact_GPT: bool = True
    answer_new: str = ""
    answer_new_alias: tuple[str, ...] = Field(
        (), validation_alias=aliases_field("answer_new_alias")
    )
    time_new: ValidPeriod | None = None

    @field_validator("prompt")
    @classmethod
    def _one_slot(cls, prompt: str) -> str:
        if prompt:
            return check_slot(prompt)
        return prompt

    @model_validator(mode="after")
    def _askable(self) -> "AkewRewrite":
        if not (self.prompt or self.question or self.relation):
            raise ValueError("one of prompt, question and relation is needed")
        return self

    @property
    def old_label(self) -> str | None:
        """The old target; None if the record has none."""
        if self.target_true:
            return self.target_true.label
        return None

    @property
    def since(self) -> str | None:
        """Start of the new target's validity, if the record gives it."""
        if self.time_new:
            return self.time_new.start_time
        return None

    @property
    def cloze_prompt(self) -> str:
        """The cloze with `{}`; if the record has none, one made from the relation's name, else
        "".
        """
        return self.prompt or (f"The {self.relation} of {{}} is" if self.relation else "")

    @property
    def cloze(self) -> str:
        """The cloze with the subject filled in."""
        return self.cloze_prompt.replace("{}", self.subject, 1)

    @property
    def fact(self) -> str:
        """The new fact in one sentence: the record's own, or else made from cloze and target."""
        return self.fact_new or f"{self.cloze or self.question} {self.target_new.label}."

    @property
    def key(self) -> Key:
        """Subject and relation: two edits with the same key and different targets contradict each
        other.
        """
        return self.subject, self.relation_id or self.cloze or self.question

    @property
    def content(self) -> tuple[str, str, str]:
        """Subject, relation and new target, which identify an edit."""
        return *self.key, self.target_new.label

    @property
    def triplets(self) -> tuple[AkewTriplet, ...]:
        """The complete extracted triplets."""
        return tuple(row for row in self.unsfact_triplets_GPT if row.complete)

    @property
    def recoverable(self) -> bool:
        """True if an extracted triplet names both the subject and the new target, ignoring case."""
        return any(self.is_named_in(row.text) for row in self.triplets)

    def is_named_in(self, text: str) -> bool:
        """Return True if a text names the subject and the new target, ignoring case."""
        lowered = text.lower()
        return self.subject.lower() in lowered and self.target_new.label.lower() in lowered


class AkewRow(NumberedRow):
    """A record of CounterFact.json or WikiUpdate.json, where `requested_rewrite` is one edit, not a
    list.
    """

    id: int = Field(validation_alias="case_id")
    requested_rewrite: tuple[AkewRewrite, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _normalise(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        record = dict(values)
        if isinstance(record.get("requested_rewrite"), dict):
            record["requested_rewrite"] = [record["requested_rewrite"]]
        if "case_id" not in record and (
            number := re.search(r"\d+", str(record.get("paper_example", "")))
        ):
            # examples printed in the paper have no `case_id`
            record["case_id"] = int(number.group())
        return record

    @property
    def hops(self) -> int:
        """Number of hops of the questions; 0 in a dataset without questions."""
        return 0

    def aliases(self, rewrite: AkewRewrite) -> tuple[str, ...]:
        """Return further correct answers about an edit."""
        return (rewrite.answer_new, *rewrite.answer_new_alias)


class MultiHopRow(AkewRow):
    """A record of MQuAKE-CF.json: one to four edits, and three paraphrases of one multi-hop
    question, or only one.
    """

    questions: Annotated[tuple[Text, ...], Field(min_length=1, max_length=3)]
    answer: Text
    new_answer: Text
    new_answer_alias: tuple[str, ...] = ()
    new_single_hops: tuple[HopRow, ...] = Field(min_length=1)
    orig: ChainTriples

    @field_validator("questions")
    @classmethod
    def _one_or_three(cls, questions: tuple[str, ...]) -> tuple[str, ...]:
        if len(questions) == 2:
            raise ValueError("three wordings of the question expected, or one")
        return questions

    @property
    def hops(self) -> int:
        """Number of hops of the questions."""
        return len(self.new_single_hops)

    def aliases(self, rewrite: AkewRewrite) -> tuple[str, ...]:
        """Return answer and aliases of the hop that asks about the edit, since edits have no
        aliases here.
        """
        hops = (hop for hop in self.new_single_hops if hop.question == rewrite.question)
        return (
            *super().aliases(rewrite),
            *(name for hop in hops for name in (hop.answer, *hop.answer_alias)),
        )


SCORERS = ("exact_match", "strict_match")


@dataclass(frozen=True)
class Interference:
    """Interference between the edits of all drawn records when they are applied together."""

    repeated: frozenset[tuple[int, int]] = frozenset()
    """(record id, index of the edit) of edits that an earlier record contains too."""
    contested: frozenset[Key] = frozenset()
    """Subjects and relations that are edited to different targets."""
    contaminated: frozenset[int] = frozenset()
    """Ids of records with an answer that is changed by another record's edit."""


def interference(rows: Sequence[AkewRow]) -> Interference:
    """Find repeated edits, and records whose answers change if other records' edits are also
    applied.
    """
    edits: set[tuple[str, str, str]] = set()
    repeated: set[tuple[int, int]] = set()
    for row in rows:
        for index, rewrite in enumerate(row.requested_rewrite):
            if rewrite.content in edits:
                repeated.add((row.id, index))
            edits.add(rewrite.content)
    contested = contested_keys(
        (edit.key, edit.target_new.label) for row in rows for edit in row.requested_rewrite
    )
    contaminated = {
        row.id for row in rows for rewrite in row.requested_rewrite if rewrite.key in contested
    }
    chains = contaminated_ids({row.id: row.orig for row in rows if isinstance(row, MultiHopRow)})
    return Interference(frozenset(repeated), contested, chains | contaminated)


def edits_of(rewrite: AkewRewrite, setting: str) -> tuple[Edit, ...]:
    """Return the edits of a setting: the `struct` sentence, the `unstruct` text, or one edit per
    `extract` triplet.
    """
    if setting == "struct":
        return (_structured(rewrite),)
    if setting == "unstruct":
        return (Edit(form="document", text=rewrite.fact_new_uns, time=rewrite.since),)
    parts = (row.parts for row in rewrite.triplets)
    triplets = [
        (Triplet(subject=s, relation=" ".join(p.replace("{}", "").split()), object=o), p)
        for s, p, o in parts
    ]
    return tuple(
        Edit.from_triplet(triplet, prompt, time=rewrite.since) for triplet, prompt in triplets
    )


def _structured(rewrite: AkewRewrite) -> Edit:
    new = rewrite.target_new
    relation = rewrite.relation or rewrite.prompt or rewrite.question
    ids = {"relation_id": rewrite.relation_id, "object_id": new.id}
    return Edit(
        form="triplet",
        text=rewrite.fact,
        subject=rewrite.subject,
        prompt=rewrite.cloze_prompt,
        question=rewrite.question,
        target_new=new.label,
        target_true=rewrite.old_label or "",
        triplets=(Triplet(subject=rewrite.subject, relation=relation, object=new.label, **ids),),
        time=rewrite.since,
    )


def case_of(row: AkewRow, setting: str, ask: str, others: Interference, chains: str = "") -> Case:
    """Return a record's edits, a probe for each, and the paraphrases of its multi-hop question if
    it has one.

    Args:
        row: the record.
        setting: `struct`, `unstruct` or `extract`.
        ask: form of the questions about an edit, `cloze` or `question`; the other form if the
            record lacks it.
        others: interference between the edits of the drawn records.
        chains: solved chains of thought to show before a multi-hop question; "" to ask it directly.
    """
    groups = [edits_of(rewrite, setting) for rewrite in row.requested_rewrite]
    edits = tuple({edit.id: edit for group in groups for edit in group}.values())
    probes = []
    for index, (rewrite, group) in enumerate(zip(row.requested_rewrite, groups, strict=True)):
        kind = "efficacy"
        if rewrite.key in others.contested:
            kind = "efficacy_contaminated"
        if (row.id, index) in others.repeated:
            kind = "efficacy_repeated"
        probes.append(
            _edit_probe(rewrite, row.aliases(rewrite), kind, [e.id for e in group], ask, setting)
        )
    contaminated = row.id in others.contaminated
    if isinstance(row, MultiHopRow):
        probes += _multihop_probes(row, tuple(edit.id for edit in edits), contaminated, chains)
    tags: Tags = {
        "akew_id": row.id,
        "edits": len(row.requested_rewrite),
        "contaminated": contaminated,
    }
    if not isinstance(row, MultiHopRow):
        return Case(edits=edits, probes=tuple(probes), tags=tags)
    tags["hops"] = row.hops
    answers = distinct_golds(golds(hop.answer, hop.answer_alias) for hop in row.new_single_hops)
    return Case(edits=edits, probes=tuple(probes), hop_golds=answers, tags=tags)


def record_demonstrations(row: AkewRow, setting: str) -> Iterator[Demonstration]:
    """Yield each edit as a cloze and as a question, and each hop that no edit asks about."""
    for rewrite in row.requested_rewrite:
        if not (text := _edit_text(rewrite, setting)):
            continue
        target = rewrite.target_new.label
        if rewrite.cloze:
            yield Demonstration(kind="copy", fact=text, prompt=rewrite.cloze, target=target)
        if rewrite.question:
            yield Demonstration(
                kind="update", fact=text, prompt=rewrite.question, style="question", target=target
            )
        for hop in row.new_single_hops if isinstance(row, MultiHopRow) else ():
            if all(hop.question != other.question for other in row.requested_rewrite):
                yield Demonstration(
                    kind="retain",
                    fact=text,
                    prompt=hop.question,
                    style="question",
                    target=hop.answer,
                )


def edited_subjects(row: AkewRow) -> list[str]:
    """Return the subjects of a record's edits."""
    return [edit.subject for edit in row.requested_rewrite]


def record_texts(row: AkewRow) -> Iterator[str]:
    """Yield the texts of a record that name its edited subjects and its questions."""
    for rewrite in row.requested_rewrite:
        yield from (rewrite.subject, rewrite.question)
    if isinstance(row, MultiHopRow):
        yield from row.questions
        yield from (hop.question for hop in row.new_single_hops)


def _edit_text(rewrite: AkewRewrite, setting: str) -> str:
    """Return the text of the edit; in `extract` the first triplet that names subject and new
    target, else "".
    """
    texts = [edit.text for edit in edits_of(rewrite, setting)]
    if setting != "extract":
        return texts[0]
    return next(filter(rewrite.is_named_in, texts), "")


def _edit_probe(
    rewrite: AkewRewrite,
    aliases: Collection[str],
    kind: str,
    edit_ids: Collection[str],
    ask: str,
    setting: str,
) -> Probe:
    cloze = bool(rewrite.cloze) and (ask == "cloze" or not rewrite.question)
    return Probe(
        kind=kind,
        prompt=rewrite.cloze if cloze else rewrite.question,
        style="cloze" if cloze else "question",
        gold=golds(rewrite.target_new.label, aliases),
        rival=rewrite.old_label,
        edit_ids=tuple(dict.fromkeys(edit_ids)),
        scorers=SCORERS,
        subject=rewrite.subject,
        tags={"recoverable": rewrite.recoverable} if setting == "extract" else {},
    )


def _multihop_probes(
    row: MultiHopRow, edit_ids: tuple[str, ...], contaminated: bool, chains: str
) -> list[Probe]:
    return [
        Probe(
            kind="multihop_contaminated" if contaminated else "multihop",
            **chain_fields(question, chains),
            gold=golds(row.new_answer, row.new_answer_alias),
            rival=row.answer,
            edit_ids=edit_ids,
            scorers=SCORERS,
            tags={"n": n, "hops": row.hops},
        )
        for n, question in enumerate(row.questions)
    ]


# Row model and file names of each dataset, in the order of preference; last, a sample with the
# examples printed in the paper.
FILES: dict[str, tuple[type[AkewRow], tuple[str, ...]]] = {
    "mquake_cf": (MultiHopRow, ("MQuAKE-CF.json", "mquake_cf.json")),
    "counterfact": (AkewRow, ("CounterFact.json", "counterfact.json", "counterfact.sample.json")),
    "wiki_update": (AkewRow, ("WikiUpdate.json", "wiki_update.json", "wiki_update.sample.json")),
}
# MQuAKE's five solved chains of thought, in this folder or in MQuAKE's folder beside it.
CHAINS = ("prompts/multihop-cot-prompts.txt", "../mquake/prompts/multihop-cot-prompts.txt")


class Akew(FileBenchmark):
    """AKEW; the settings `struct`, `unstruct` and `extract` differ in the form of the edits, not in
    the questions.

    Options: `dataset`, one of `mquake_cf` (default), `counterfact`, `wiki_update`; `ask`, `cloze`
    (default) or `question`, the form of the questions about an edit; `prompting`, `direct`
    (default) or `cot`: multi-hop questions are asked for a chain of thought after the five solved
    ones of MQuAKE, as the paper asks FT, LoRA, ROME and MEMIT.

    One case per record, with all its edits: a probe per edit, and in `mquake_cf` the three wordings
    of the multi-hop question. In `extract` every triplet is an edit by itself. Repeated edits and
    contaminated records are determined among the drawn records, whose edits are applied together in
    mode `all`; in mode `single` nothing is contaminated.
    """

    name: ClassVar[str] = "akew"
    settings: ClassVar[tuple[str, ...]] = ("struct", "unstruct", "extract")
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "single"
    definition = Definition.beside(__file__)
    defaults = {"dataset": "mquake_cf", "ask": "cloze", "prompting": "direct"}
    values = {"dataset": tuple(FILES), "ask": ("cloze", "question"), "prompting": ("direct", "cot")}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, {key: _plain(value) for key, value in (options or {}).items()})
        self._row, names = FILES[self.options["dataset"]]
        self.file = self.first_file(names)
        chained = self._row is MultiHopRow and self.options["prompting"] == "cot"
        self._chains = (self.first_file(CHAINS),) if chained else ()

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        rows = list(self._rows.values())
        if limit is not None and limit < len(rows):
            rows = sample_in_shares(rows, lambda row: row.hops, limit, seed)
        others = interference(rows)
        chains = "".join(read_text(self.folder / name).strip() for name in self._chains)
        return (case_of(row, setting, self.options["ask"], others, chains) for row in rows)

    def _measures(self, metric: Metric) -> bool:
        return self._row is MultiHopRow or not metric.kinds[0].startswith("multihop")

    def _from_rows(self, setting: str, seed: int, count: int) -> Iterator[Demonstration]:
        return of_unique_rows(
            self._rows,
            seed,
            record_texts,
            edited_subjects,
            lambda row: record_demonstrations(row, setting),
            count=count,
        )

    def _records(self) -> Mapping[str, int | None]:
        return {self.file: len(self._rows), **dict.fromkeys(self._chains)}

    def _choices(self) -> list[str]:
        prompting = [
            "akew: multi-hop questions are asked for a chain of thought after MQuAKE's "
            "five solved ones"
        ]
        return [*super()._choices(), *(prompting if self._chains else [])]

    def _counts(self) -> dict[str, Any]:
        rows = list(self._rows.values())
        edits = [rewrite for row in rows for rewrite in row.requested_rewrite]
        triplets = [triplet for edit in edits for triplet in edit.unsfact_triplets_GPT]
        others = interference(rows)
        hops = Counter(row.hops for row in rows if row.hops)
        ask = self.options["ask"]
        return {
            "paper's examples only": self.file.endswith(".sample.json"),
            "cases": len(rows),
            "edits": len(edits),
            "distinct edits": len(edits) - len(others.repeated),
            "hops": {str(n): count for n, count in sorted(hops.items())},
            "triplets": len(triplets),
            "dropped": {
                "triplets that lack a part or the subject's place": sum(
                    not triplet.complete for triplet in triplets
                )
            },
            "repaired": {
                f"edits asked otherwise, having no {ask}": sum(
                    not (edit.question if ask == "question" else edit.prompt) for edit in edits
                ),
                "new facts put together, the record having none": sum(
                    not edit.fact_new for edit in edits
                ),
                "edits whose aliases come from the record's hops": sum(
                    len(row.requested_rewrite) for row in rows if isinstance(row, MultiHopRow)
                ),
            },
            "tagged": {
                "contaminated (in mode all another record's edit changes an answer)": len(
                    others.contaminated
                ),
                "recoverable (a triplet names subject and new target)": sum(
                    edit.recoverable for edit in edits
                ),
                "edits without any triplet": sum(not edit.triplets for edit in edits),
                "paragraphs that failed the authors' verification": sum(
                    not e.verify_unsfact_GPT for e in edits
                ),
            },
        }

    @cached_property
    def _rows(self) -> dict[int, AkewRow]:
        return dict(read_numbered(self.folder / self.file, self._row))


def _plain(value: str) -> str:
    """Return the dataset's name for any of its spellings: `MQuAKE-CF` is `mquake_cf`."""
    names = {name.replace("_", ""): name for name in FILES}
    return names.get(value.lower().replace("-", "").replace("_", ""), value)
