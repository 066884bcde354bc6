r"""AKEW: the same new facts as a sentence, as a paragraph, and as triplets that a language model read out of it.

"AKEW: Assessing Knowledge Editing in the Wild" (EMNLP 2024); data: github.com/BobXWu/AKEW, folder datasets/. Its
evaluation code was never published and the paper states no rule of matching, so two are reported: `em` (normalised, see
`metrics.text`) and `strict` (the rule of MeLLo's code). One record of MQuAKE-CF.json, invented, with
lists cut:

    {"case_id": 7, "requested_rewrite": [{"prompt": "{} was built in", "relation_id": "P17", "subject": "Pell Lock",
       "target_new": {"str": "Chile", "id": "Q298"}, "target_true": {"str": "Norway", "id": "Q20"},
       "question": "In which country was Pell Lock built?", "fact_new": "Pell Lock was built in Chile.",
       "fact_new_uns": "Chile, a long country by the sea, is home to Pell Lock, which ...", "verify_unsfact_GPT": true,
       "unsfact_triplets_GPT": [{"subject": "Pell Lock", "prompt": "{} opened in", "target": "1874"}]}],
     "questions": ["What is the capital of the country where Pell Lock was built?", "...", "..."], "answer": "Oslo",
     "answer_alias": [], "new_answer": "Santiago", "new_answer_alias": ["Santiago de Chile"],
     "single_hops": [...], "new_single_hops": [{"question": "In which country was Pell Lock built?",
       "cloze": "Pell Lock was built in", "answer": "Chile", "answer_alias": ["CL"]}, ...],
     "orig": {"new_triples": [["Q1", "P17", "Q298"], ["Q298", "P36", "Q2887"]], "edit_triples": [...], ...}}

In CounterFact.json and WikiUpdate.json `requested_rewrite` is one edit, not a list, with its own `answer_new`,
`answer_new_alias` (or `answer_new_aliases`), `answer_true`, `answer_true_alias` and `prompt_full`, and in the latter
`time_true` and `time_new`; they have no multi-hop question.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.benchmarks.akew.cases import case_of, shares, standing_together
from emend.evals.benchmarks.akew.rows import AkewRow, MultiHopRow, Rewrite
from emend.evals.benchmarks.chain_demonstrations import akew_examples
from emend.evals.benchmarks.demonstrations import Shown
from emend.evals.benchmarks.files import data_folder, read_numbered, require, sha256
from emend.evals.benchmarks.options import check_request, known_options, one_of
from emend.evals.case import Case, Metric
from emend.memory.edit import content_id

REMEDY = (
    "Get them with: emend data pull akew; or with: git clone https://github.com/BobXWu/AKEW, then give --data "
    "AKEW/datasets, or put that folder at $EMEND_DATA/akew."
)
FILES: dict[str, tuple[type[AkewRow], tuple[str, ...]]] = {
    "mquake_cf": (MultiHopRow, ("MQuAKE-CF.json", "mquake_cf.json")),
    "counterfact": (AkewRow, ("CounterFact.json", "counterfact.json", "counterfact.sample.json")),
    "wiki_update": (AkewRow, ("WikiUpdate.json", "wiki_update.json", "wiki_update.sample.json")),
}
"""Row and file names of each data set; a sample, the paper's printed examples, is read where there is nothing else."""
ASKS = ("cloze", "question")
OPTIONS = ("dataset", "ask")
DEMO_PARAGRAPH = (
    "Brazil, with its long Atlantic coast, is home to Orsa Lighthouse, a white tower that was finished in 1902. The "
    "lamp can be seen from thirty kilometres away, and the keeper's house now holds a small museum of sea charts."
)
DEMO_FACTS = {
    "struct": "Orsa Lighthouse is located in Brazil.",
    "unstruct": DEMO_PARAGRAPH,
    "extract": "Orsa Lighthouse stands on the coast of Brazil.",
}
CHOICES = [
    "akew: the paper states no rule of matching; both are reported, normalised and letter by letter",
    "akew: EditAcc counts every record's edits (the paper's count in single), EditAcc distinct the same edit once "
    "(in all); clean leaves out what other records' edits change",
]
EDITED = ("efficacy", "efficacy_contaminated", "efficacy_repeated")
ASKED_FAR = ("multihop", "multihop_contaminated")


def _metrics(rule: str, value: str) -> dict[str, tuple[Metric, ...]]:
    """Both tasks' columns under one rule of matching."""

    def metric(name: str, kinds: tuple[str, ...], per: str, summary: str) -> Metric:
        return Metric(name=name, value=value, kinds=kinds, scale=100, per=per, summary=summary, group=rule)

    suffix = "" if value == "em" else f" {value}"
    return {
        "edited": (
            metric(
                f"EditAcc{suffix}", EDITED, "record", "edits recalled, every record's (the paper's count in single)"
            ),
            metric(f"EditAcc distinct{suffix}", EDITED[:2], "record", "the same edit once (the paper's count in all)"),
            metric(f"EditAcc clean{suffix}", EDITED[:1], "record", "distinct, without edits that others contradict"),
        ),
        "multihop": (
            metric(f"MultiHop{suffix}", ASKED_FAR, "any", "records with any of three questions answered"),
            metric(f"MultiHop clean{suffix}", ASKED_FAR[:1], "any", "without records that other records' edits change"),
        ),
    }


RULES = (_metrics("normalised match", "em"), _metrics("strict match", "strict"))
HITS = (
    Metric(
        name="hit@1",
        value="hit@1",
        kinds=EDITED,
        scale=100,
        summary="the first entry found is of the edit asked for",
        group="retrieval",
    ),
)


class Akew:
    """The benchmark; settings are what the editor is given: `struct`, `unstruct` or `extract`. It is asked the same.

    Options: `dataset`, one of `mquake_cf` (default), `counterfact`, `wiki_update`; `ask`, `cloze` (default) or
    `question`, how an edit is asked.

    One case per record, with all its edits: a probe per edit, and in `mquake_cf` the three wordings of the multi-hop
    question. In `extract` every triplet is an edit by itself. Repeated edits and contaminated records are found among
    the records drawn, as it is their edits that stand together in mode `all`; in mode `single` nothing is contaminated.

    Raises:
        MissingData: the data set's file is absent.
        BadSettings: an option is unknown or its value impossible.
    """

    name: ClassVar[str] = "akew"
    settings: ClassVar[tuple[str, ...]] = ("struct", "unstruct", "extract")
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "single"

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        told = known_options(self.name, options, OPTIONS)
        self.dataset = _dataset(told.get("dataset", "mquake_cf"))
        self.ask = one_of(self.name, "ask", told.get("ask", "cloze"), ASKS)
        self.folder = data_folder(self.name, data)
        self._row, names = FILES[self.dataset]
        found = [name for name in names if (self.folder / name).is_file()]
        if not found:
            require(self.folder, names[:1], REMEDY)
        self.file = found[0]

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """The cases in the order of the file; with a limit a seeded sample, its hops in the proportion of the data.

        Raises:
            BadSettings: the setting is unknown, or the limit is below 1.
            BadData: a record is malformed.
        """
        check_request(self.name, setting, self.settings, limit, texts=True)
        rows = list(self._rows.values())
        if limit is not None and limit < len(rows):
            rows = _drawn(rows, limit, seed)
        return self._build(rows, setting)

    def _build(self, rows: Sequence[AkewRow], setting: str) -> Iterator[Case]:
        standing = standing_together(rows)
        for row in rows:
            yield case_of(row, setting, self.ask, standing)

    def metrics(self) -> Sequence[Metric]:
        """Editing and multi-hop accuracy in percent, by normalised match first, then by strict; then retrieval."""
        tasks = ("edited", "multihop") if self._row is MultiHopRow else ("edited",)
        return [metric for rule in RULES for task in tasks for metric in rule[task]] + list(HITS)

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Four hand-written ones about an invented place: retained, copied, and asked in other words.

        Behind them (`Shown.rows`) those of records that a limit leaves out, as far as there are any.
        """
        one_of(self.name, "setting", setting, self.settings)
        asked = (
            ("retain", "Brenholm Lighthouse is located in", "cloze", "Norway"),
            ("copy", "Orsa Lighthouse is located in", "cloze", "Brazil"),
            ("update", "The country where Orsa Lighthouse stands is", "cloze", "Brazil"),
            ("update", "In which country is Orsa Lighthouse?", "question", "Brazil"),
        )
        fact = DEMO_FACTS[setting]
        written = [Demonstration(kind=k, fact=fact, prompt=p, style=s, target=t) for k, p, s, t in asked]
        return Shown.of(written, lambda: akew_examples(self._rows.values(), setting, seed))

    @property
    def provenance(self) -> dict[str, Any]:
        """Source, sha256 and counts of the file, and what was dropped, repaired or tagged."""
        rows = list(self._rows.values())
        edits = [rewrite for row in rows for rewrite in row.requested_rewrite]
        standing = standing_together(rows)
        hops = Counter(row.hops for row in rows if row.hops)
        return {
            "source": "github.com/BobXWu/AKEW, folder datasets/",
            "files": {self.file: {"sha256": sha256(self.folder / self.file), "records": len(rows)}},
            "paper's examples only": self.file.endswith(".sample.json"),
            "choices": CHOICES,
            "options": {"dataset": self.dataset, "ask": self.ask},
            "cases": len(rows),
            "edits": len(edits),
            "distinct edits": len(edits) - len(standing.repeated),
            "hops": {str(n): count for n, count in sorted(hops.items())},
            "triplets": sum(len(edit.unsfact_triplets_GPT) for edit in edits),
            "dropped": {
                "triplets that lack a part or the subject's place": sum(
                    not triplet.whole for edit in edits for triplet in edit.unsfact_triplets_GPT
                )
            },
            "repaired": self._repaired(rows, edits),
            "tagged": {
                "contaminated (in mode all another record's edit changes an answer)": len(standing.contaminated),
                "recoverable (a triplet names subject and new target)": sum(edit.recoverable for edit in edits),
                "edits without any triplet": sum(not edit.triplets for edit in edits),
                "paragraphs that failed the authors' verification": sum(not e.verify_unsfact_GPT for e in edits),
            },
        }

    def _repaired(self, rows: Sequence[AkewRow], edits: Sequence[Rewrite]) -> dict[str, int]:
        return {
            f"edits asked otherwise, having no {self.ask}": sum(
                not (edit.question if self.ask == "question" else edit.prompt) for edit in edits
            ),
            "new facts put together, the record having none": sum(not edit.fact_new for edit in edits),
            "edits whose aliases come from the record's hops": sum(
                len(row.requested_rewrite) for row in rows if isinstance(row, MultiHopRow)
            ),
        }

    @cached_property
    def _rows(self) -> dict[int, AkewRow]:
        return dict(read_numbered(self.folder / self.file, self._row))


def _dataset(told: str) -> str:
    """The data set's name, however it is spelled: `MQuAKE-CF` is `mquake_cf`."""
    plain = {name.replace("_", ""): name for name in FILES}
    name = plain.get(told.lower().replace("-", "").replace("_", ""))
    return name or one_of("akew", "dataset", told.lower(), FILES)


def _drawn(rows: Sequence[AkewRow], limit: int, seed: int) -> list[AkewRow]:
    """`limit` rows in their order; MQuAKE's are sorted by hops, so that the first would be two-hop ones alone."""
    order = sorted(rows, key=lambda row: content_id("sample", seed, row.id))
    left = shares(Counter(row.hops for row in rows), limit)
    chosen: set[int] = set()
    for row in order:
        if left[row.hops]:
            left[row.hops] -= 1
            chosen.add(row.id)
    return [row for row in rows if row.id in chosen]
