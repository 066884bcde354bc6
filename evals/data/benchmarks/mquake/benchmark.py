"""MQuAKE: multi-hop questions whose answer follows from one to four edited facts.

"MQuAKE: Assessing Knowledge Editing in Language Models via Multi-Hop Questions" (Zhong et al. 2023); data:
github.com/princeton-nlp/MQuAKE, folder datasets/. A record is shown in `mquake.rows`.

Each record asks one thing in three ways and counts once if any of the three is answered. The answer is compared twice:
after normalisation (`em`) and character by character, as the released code does (`strict`); never by substring, because
many aliases have two letters ("it", "US").
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.base import Definition, FileBenchmark
from emend.evals.data.benchmarks.demonstrations import UniqueNames, of_unique_rows
from emend.evals.data.benchmarks.files import read_numbered, read_text, require
from emend.evals.data.benchmarks.mquake.cases import (
    ChainPrompting,
    chain_case,
    chain_demonstrations,
    chain_texts,
    edit_questions,
)
from emend.evals.data.benchmarks.mquake.rows import ChainRow
from emend.evals.data.benchmarks.rows import ASKED_BY_OTHER, contaminated_ids
from emend.evals.data.benchmarks.sampling import last_drawn, sample_by_rank
from emend.memory.errors import BadData
from emend.memory.json_files import read_json

DATASETS = {
    "CF": ("datasets/MQuAKE-CF.json", "MQuAKE-CF.json"),
    "CF-3k": ("datasets/MQuAKE-CF-3k.json", "MQuAKE-CF-3k.json", "mquake_cf_3k.sample.json"),
    "CF-3k-v2": ("datasets/MQuAKE-CF-3k-v2.json", "MQuAKE-CF-3k-v2.json"),
    "T": ("datasets/MQuAKE-T.json", "MQuAKE-T.json"),
}
"""File names of each data set; the first one found is read. The last of CF-3k is a part of it."""
MULTIHOP_SHOTS, RELATION_SHOTS = "prompts/multihop-prompts.txt", "prompts/rel-prompts.json"


class MQuAKE(FileBenchmark):
    """The benchmark; an edit is a triplet in one sentence, and all edits of a record are applied together.

    Options: `dataset` = `CF-3k` (default), `CF-3k-v2`, `CF` or `T`; `shots=paper` puts the paper's demonstrations
    before multi-hop questions (16) and unedited hops (8 of the same relation); `answers=old` takes the answers from
    before the edit as gold, which measures the unedited model's knowledge.

    One case per record: each edited fact as a cloze (`efficacy`), each unedited hop (`hop`), and the questions
    (`multihop`, or `multihop_contaminated` where an edit of another record of the file gives a hop another object, so
    that the answer cannot be reached with all edits applied; with a limit that other record may not be drawn).
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
        drawn = rows if limit is None else sample_by_rank(rows, lambda row: row.hops, limit, seed)
        prompting = self._prompting
        edits_of = edit_questions(drawn)
        return (chain_case(row, prompting, row.id in self._contaminated, edits_of) for row in drawn)

    def _from_rows(self, setting: str, seed: int) -> Iterator[Demonstration]:
        names = UniqueNames(map(chain_texts, self._rows.values()))
        rows = (self._rows[number] for number in last_drawn(self._rows, seed))
        return of_unique_rows(
            rows, names, lambda row: [edit.subject for edit in row.requested_rewrite], chain_demonstrations
        )

    def _records(self) -> Mapping[str, None]:
        return dict.fromkeys([self.file, *self._shot_files])

    def _counts(self) -> dict[str, Any]:
        rows = list(self._rows.values())
        edits_of = edit_questions(rows)
        tags = Counter(tag for row in rows for probe in chain_case(row, edits_of=edits_of).probes for tag in probe.tags)
        edits = [rewrite.edit.id for row in rows for rewrite in row.requested_rewrite]
        return {
            "part of the data set": self.file.endswith(".sample.json"),
            "cases": len(rows),
            "edits": len(edits),
            "different edits": len(set(edits)),
            "hops": dict(sorted(Counter(str(row.hops) for row in rows).items())),
            "dropped": {"questions that a record repeats": sum(len(r.questions) - len(set(r.questions)) for r in rows)},
            "tagged": {
                "contaminated (another record's edit changes a hop)": len(self._contaminated),
                "shared_form (a form stands for both answers, no flip can be seen)": tags["shared_form"],
                f"{ASKED_BY_OTHER} (an unedited hop that another record's edit asks)": tags[ASKED_BY_OTHER],
            },
        }

    @property
    def _shot_files(self) -> tuple[str, ...]:
        return (MULTIHOP_SHOTS, RELATION_SHOTS) if self.options["shots"] == "paper" else ()

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
    if not isinstance(content, dict) or not all(isinstance(block, str) for block in content.values()):
        raise BadData(f"{path.name}: an object of one text per relation expected. Fetch the file again.")
    return content
