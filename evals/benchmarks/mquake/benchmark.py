"""MQuAKE: multi-hop questions whose answer follows from one to four edited facts.

"MQuAKE: Assessing Knowledge Editing in Language Models via Multi-Hop Questions" (Zhong et al. 2023); data:
github.com/princeton-nlp/MQuAKE, folder datasets/. A record in its schema stands in `mquake_rows`.

Each record asks one thing in three ways and counts once if any of the three is answered. The answer is compared twice:
after normalisation (`em`) and letter by letter, as the released code does (`strict`); never by substring, because many
aliases have two letters ("it", "US").
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.benchmarks.chain_demonstrations import mquake_examples
from emend.evals.benchmarks.demonstrations import Shown
from emend.evals.benchmarks.files import data_folder, read_numbered, require, sha256
from emend.evals.benchmarks.mquake.rows import Asking, ChainRow, chain_case, chain_edits, contaminated_ids
from emend.evals.benchmarks.options import check_request, known_options, one_of
from emend.evals.case import Case, Metric
from emend.memory.edit import content_id
from emend.memory.errors import BadData

DATASETS = {
    "CF": ("datasets/MQuAKE-CF.json", "MQuAKE-CF.json"),
    "CF-3k": ("datasets/MQuAKE-CF-3k.json", "MQuAKE-CF-3k.json", "mquake_cf_3k.sample.json"),
    "CF-3k-v2": ("datasets/MQuAKE-CF-3k-v2.json", "MQuAKE-CF-3k-v2.json"),
    "T": ("datasets/MQuAKE-T.json", "MQuAKE-T.json"),
}
"""The files of each data set, the first that is there being read; the last of CF-3k is a part of it."""
MULTIHOP_SHOTS, RELATION_SHOTS = "prompts/multihop-prompts.txt", "prompts/rel-prompts.json"
OPTIONS: dict[str, tuple[str, ...]] = {
    "dataset": tuple(DATASETS),
    "shots": ("none", "paper"),
    "answers": ("new", "old"),
}
DEFAULTS = {"dataset": "CF-3k", "shots": "none", "answers": "new"}
REMEDY = (
    "Get it with: emend data pull mquake; or with: git clone https://github.com/princeton-nlp/MQuAKE, then give --data "
    "MQuAKE, or put that folder at $EMEND_DATA/mquake."
)
CHOICES = [
    "mquake: answers are compared normalised, and letter by letter as in MeLLo's code; aliases never inside a reply",
]
MULTIHOP = ("multihop", "multihop_contaminated")
HOPS = ("efficacy", "hop")
GROUPS = {"normalised answers": "em", "answers letter by letter, as in the released code": "strict"}
COLUMNS = (
    ("Edit-wise", ("efficacy",), "record", "says the edited fact, asked in the edit's words"),
    ("Instance-wise", HOPS, "all", "knows every single hop of the chain"),
    ("Multi-hop", MULTIHOP, "any", "answers any of the three multi-hop questions"),
    ("Multi-hop, clean", ("multihop",), "any", "the same, without records that another record's edit contradicts"),
    ("Per-hop", HOPS, "record", "single hops, edited or not"),
)


class MQuAKE:
    """The benchmark; an edit is a triplet in one sentence, and all edits of a record stand together.

    Options: `dataset` = `CF-3k` (default), `CF-3k-v2`, `CF` or `T`; `shots=paper` puts the paper's solved examples
    before multi-hop questions (16) and unedited hops (8 of the same relation); `answers=old` takes the answers from
    before the edit as right, which is how the unedited model's knowledge is measured.

    One case per record: each edited fact as a cloze (`efficacy`), each unedited hop (`hop`), and the questions
    (`multihop`, or `multihop_contaminated` where an edit of another record of the file gives a hop another object, so
    that the answer cannot be reached with all edits standing; with a limit that other record may not be drawn).

    Raises:
        MissingData: the folder, the data set's file, or the paper's prompts are absent.
        BadSettings: an option is unknown or its value impossible.
    """

    name: ClassVar[str] = "mquake"
    settings: ClassVar[tuple[str, ...]] = ("triplet",)
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "all"  # the released code searches the edits of all records

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        self.options = DEFAULTS | known_options(self.name, options, OPTIONS)
        for option, value in self.options.items():
            one_of(self.name, option, value, OPTIONS[option])
        self.folder = data_folder(self.name, data)
        names = DATASETS[self.options["dataset"]]
        self.file = next((name for name in names if (self.folder / name).is_file()), names[0])
        require(self.folder, self._files(), REMEDY)

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """The cases in the order of the file; with a limit a seeded sample, hop counts in the file's proportion.

        Raises:
            BadSettings: the setting is unknown, or the limit is below 1.
            BadData: a record is malformed.
        """
        check_request(self.name, setting, self.settings, limit)
        rows = self._rows.values()
        drawn = list(rows) if limit is None else draw_by_hops(rows, limit, seed)
        asking, file = self._asking, Path(self.file).name
        return (chain_case(row, asking, row.id in self._contaminated, file) for row in drawn)

    def metrics(self) -> Sequence[Metric]:
        """The paper's three accuracies in percent, then clean and per hop, both ways of comparing; then hits."""
        told = [
            (name if value == "em" else f"{name} strict", value, kinds, per, summary, group)
            for group, value in GROUPS.items()
            for name, kinds, per, summary in COLUMNS
        ]
        told.append(("hit@1", "hit@1", ("efficacy",), "record", "the edit asked for was found first", "retrieval"))
        return [
            Metric(name=name, value=value, kinds=kinds, per=per, scale=100.0, summary=summary, group=group)
            for name, value, kinds, per, summary, group in told
        ]

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Three hand-written ones about invented people: the fact itself, a hop on from it, and another person.

        Behind them (`Shown.rows`) those of records that a limit leaves out, as far as there are any.
        """
        fact = "Orvin Tasker is a citizen of Iceland."
        two_hop = "What is the capital of the country of which Orvin Tasker is a citizen?"
        written = [
            Demonstration(kind="copy", fact=fact, prompt="Orvin Tasker is a citizen of", target="Iceland"),
            Demonstration(kind="update", fact=fact, prompt=two_hop, style="question", target="Reykjavík"),
            Demonstration(kind="retain", fact=fact, prompt="Petra Lindqvale is a citizen of", target="Sweden"),
        ]
        return Shown.of(written, lambda: mquake_examples(self._rows.values(), Path(self.file).name, seed))

    @property
    def provenance(self) -> dict[str, Any]:
        """Source, sha256 and counts of the file, what was dropped and what is tagged."""
        rows = list(self._rows.values())
        edits = [edit.id for row in rows for edit in chain_edits(row, self.file)]
        return {
            "source": "github.com/princeton-nlp/MQuAKE, folder datasets/",
            "files": {name: {"sha256": sha256(self.folder / name)} for name in self._files()},
            "choices": CHOICES,
            "options": dict(self.options),
            "part of the data set": self.file.endswith(".sample.json"),
            "cases": len(rows),
            "edits": len(edits),
            "different edits": len(set(edits)),
            "hops": dict(sorted(Counter(str(len(row.new_single_hops)) for row in rows).items())),
            "dropped": {"questions that a record repeats": sum(len(r.questions) - len(set(r.questions)) for r in rows)},
            "tagged": {"contaminated (another record's edit changes a hop)": len(self._contaminated)},
        }

    def _files(self) -> list[str]:
        return [self.file, *((MULTIHOP_SHOTS, RELATION_SHOTS) if self.options["shots"] == "paper" else ())]

    @cached_property
    def _rows(self) -> dict[int, ChainRow]:
        return read_numbered(self.folder / self.file, ChainRow)

    @cached_property
    def _contaminated(self) -> frozenset[int]:
        return contaminated_ids(self._rows.values())

    @property
    def _asking(self) -> Asking:
        old = self.options["answers"] == "old"
        if self.options["shots"] == "none":
            return Asking(old)
        return Asking(old, (self.folder / MULTIHOP_SHOTS).read_text("utf-8"), _blocks(self.folder / RELATION_SHOTS))


def draw_by_hops(rows: Iterable[ChainRow], limit: int, seed: int) -> list[ChainRow]:
    """`limit` rows in their order, two, three and four hops in the proportion of the file, which is sorted by them."""
    held = list(rows)
    groups: dict[int, list[ChainRow]] = {}
    for row in sorted(held, key=lambda row: content_id("sample", seed, row.id)):
        groups.setdefault(len(row.new_single_hops), []).append(row)
    ranked = sorted(
        ((rank + 0.5) / len(group), hops, row.id) for hops, group in groups.items() for rank, row in enumerate(group)
    )
    chosen = {number for _, _, number in ranked[:limit]}
    return [row for row in held if row.id in chosen]


def _blocks(path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise BadData(f"{path.name} is not JSON in UTF-8: {error}. Fetch the file again.") from error
    if not isinstance(content, dict) or not all(isinstance(block, str) for block in content.values()):
        raise BadData(f"{path.name}: an object of one text per relation expected. Fetch the file again.")
    return content
