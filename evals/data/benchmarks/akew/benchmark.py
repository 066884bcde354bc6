"""AKEW: the same new facts as a sentence, as a paragraph, and as triplets extracted from it by a
language model.

"AKEW: Assessing Knowledge Editing in the Wild" (EMNLP 2024); data: github.com/BobXWu/AKEW, folder
datasets/. Its evaluation code was never published and the paper defines no matching rule, so two
are reported: `em` (normalised) and `strict` (the rule of MeLLo's code), see `metrics.text`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.akew.cases import (
    case_of,
    edited_subjects,
    interference,
    record_demonstrations,
    record_texts,
)
from emend.evals.data.benchmarks.akew.rows import AkewRow, MultiHopRow
from emend.evals.data.benchmarks.base import Definition, FileBenchmark
from emend.evals.data.benchmarks.demonstration_rows import of_unique_rows
from emend.evals.data.benchmarks.rows import read_numbered, read_text, sample_in_shares

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
