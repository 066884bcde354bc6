"""DocTER: documents that state counterfactual facts, and what a model should then say.

"DocTER: Evaluating Document-based Knowledge Editing"; data: github.com/H-shw/DocTER-Data-and-Code, folder data/.
Where we differ from the released code, on purpose: every prompt is retrieved for by itself (the code retrieves for a
paraphrase with the main prompt, and for ten locality prompts with the first). Its reasoning prompt is kept, without the
`additional_info` that the code loads and never shows. The paper does not say how it read the choice of a model without
probabilities; here its reply must name the right target and not the other.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.benchmarks.demonstrations import Shown
from emend.evals.benchmarks.docter.columns import BLOCK_OF, COLUMNS
from emend.evals.benchmarks.docter.demonstrations import document_examples
from emend.evals.benchmarks.docter.rows import (
    DocumentRow,
    EditRow,
    EnglishTests,
    FactRow,
    QueriesRow,
    ReasoningRow,
    cross_case,
    document_edit,
    english_case,
    triplet_edit,
)
from emend.evals.benchmarks.files import NumberedRow, data_folder, read_numbered, require, sha256
from emend.evals.benchmarks.options import check_request, flag, known_options, one_of, some_of, way_to_triplets
from emend.evals.benchmarks.sampling import sample_ids
from emend.evals.case import Case, Metric
from emend.memory.edit import Edit
from emend.memory.errors import BadData, BadSettings

SUCCESS, LOCALITY, REASONING = "edit_success_eval.json", "locality_eval.json", "reasoning_eval.json"
DOCUMENTS, FACTS = "en_doc.json", "gold_facts.json"
REMEDY = (
    "Get them with: emend data pull docter; or with: git clone https://github.com/H-shw/DocTER-Data-and-Code, then put "
    "the files of its folder data/ into one folder and give --data FOLDER, or put it at $EMEND_DATA/docter "
    "(gold_facts.json, which the setting 'gold' needs, is the join of their ids with CounterFact's records)."
)
ENGLISH = ("edit_success", "locality", "reasoning")
DIRECTIONS = {
    "cross_en_zh": ("en->zh", "crosslingual_en_doc.json", "cross_zh_eval.json"),
    "cross_zh_en": ("zh->en", "crosslingual_zh_doc.json", "cross_en_eval.json"),
}
OPTIONS = ("blocks", "strip_distractor")
ROWS: dict[str, type[NumberedRow]] = {
    SUCCESS: EditRow,
    LOCALITY: QueriesRow,
    REASONING: ReasoningRow,
    DOCUMENTS: DocumentRow,
    FACTS: FactRow,
    **{documents: DocumentRow for _, documents, _ in DIRECTIONS.values()},
    **{queries: QueriesRow for _, _, queries in DIRECTIONS.values()},
}
DEMO_DOCUMENT = (
    "On a bare hill above the fishing town stands Tarnfield Observatory, whose copper dome has watched the southern "
    "sky since 1911. Its founders wanted dry air and found it in Portugal, where the first survey of double stars was "
    "made. School classes now sleep under the dome once a year."
)


CHOICES = [
    "docter: probabilities are compared in log space; as the released code computes them they stand apart",
    "docter: every prompt is retrieved for by itself; the released code retrieves for paraphrases with the main prompt",
]
UNPUBLISHED = ("llm", "tool")
"""The paper's settings of extracted triplets."""
APART = {f"doc_{block.removeprefix('cross_')}": block for block in DIRECTIONS}
"""Settings of one direction each, for runs of both: their documents state the same facts in two languages, so that in
one memory each query would find the document of its own language."""


class DocTER:
    """The benchmark; in setting `doc` the edit is the document, in `gold` the gold triplet.

    The paper's settings `llm` and `tool` need triplets taken out of the documents: `emend extract` takes them, and the
    option `triples` gives the file that it writes.

    Options: `blocks`, a comma list of `edit_success`, `locality`, `reasoning` (these three by default), `cross_en_zh`
    (English documents, Chinese queries) and `cross_zh_en`; `strip_distractor=1` asks a retriever for the last sentence
    of a paraphrase only. Both directions are run at once by `--setting doc_en_zh --setting doc_zh_en`, apart.

    One case per id: its edit, query, 2 paraphrases, 10 neighbours and, for 574 ids up to 1059, a reasoning question. An
    id about which the chosen blocks ask nothing is no case. A retriever searches the edits of the cases drawn, so a
    smaller limit makes retrieval easier.

    Raises:
        MissingData: the folder, or a file that the blocks need, is absent.
        BadSettings: an option is unknown or its value impossible.
    """

    name: ClassVar[str] = "docter"
    settings: ClassVar[tuple[str, ...]] = ("doc", "gold", *APART)
    wording: ClassVar[str] = "based_on_facts"
    mode: ClassVar[str] = "all"  # one store holds all documents, as in the paper

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        told = known_options(self.name, options, OPTIONS)
        self.blocks = some_of(self.name, "blocks", told.get("blocks", ",".join(ENGLISH)), [*ENGLISH, *DIRECTIONS])
        self.strip_distractor = flag(self.name, "strip_distractor", told.get("strip_distractor", "0"))
        self._english = bool(set(ENGLISH) & set(self.blocks))
        self._crosses = [block for block in DIRECTIONS if block in self.blocks]
        self.folder = data_folder(self.name, data)
        self._tables: dict[str, dict[int, Any]] = {}
        require(self.folder, self._test_files(), REMEDY)

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """The cases in the order of the file, the cross-lingual ones last.

        With a limit, a seeded sample (`sample_ids`); English and cross-lingual cases share it in proportion.

        Raises:
            BadSettings: the setting is unknown or its data unpublished, or the limit is below 1.
            MissingData: a file of the setting is absent.
            BadData: a record is malformed, or an id has no edit.
        """
        if setting in UNPUBLISHED:
            raise BadSettings(
                f"setting '{setting}' of docter needs triplets taken out of the documents, and the paper's own are not "
                f"published: {way_to_triplets(self.name, setting)}; or use 'doc' (the documents) or 'gold' (the gold "
                "triplets)."
            )
        check_request(self.name, setting, self.settings, limit, texts=True)
        crosses, base = self._stand(setting)
        require(self.folder, self._edit_files(base, crosses), REMEDY)
        english, labels = [] if setting in APART else self._english_ids, self._labels
        crossed = {block: list(self._queries(block)) for block in crosses}
        total = len(english) + sum(map(len, crossed.values()))
        if limit is not None and limit < total:
            share = limit - min(len(english), round(limit * len(english) / total))
            english = sample_ids(english, labels, limit - share, seed)
            crossed = {block: sample_ids(ids, {}, share, seed) for block, ids in crossed.items()}
        return self._build(base, english, crossed)

    def metrics(self) -> Sequence[Metric]:
        """The paper's columns in its order, then reasoning by label, replies of models without probabilities, hits."""
        asked = {*self.blocks, *(["cross"] if self._crosses else [])}
        return [metric for metric in COLUMNS if BLOCK_OF[metric.kinds[0]] in asked]

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Two hand-written ones about an invented place: the new fact is said, another subject's is kept.

        Behind them (`Shown.rows`) those of the ids drawn last; none with cross-lingual blocks, which state their facts.
        """
        one_of(self.name, "setting", setting, self.settings)
        fact = DEMO_DOCUMENT if setting.startswith("doc") else "Tarnfield Observatory is located in Portugal."
        asked = (
            ("update", "The country where Tarnfield Observatory stands is", "Portugal"),
            ("retain", "Brenholm Observatory is located in", "Norway"),
        )
        written = [Demonstration(kind=k, fact=fact, prompt=p, target=t) for k, p, t in asked]
        return Shown.of(written, lambda: () if self._crosses else self._examples(setting, seed))

    @property
    def provenance(self) -> dict[str, Any]:
        """Source, sha256 and records of each file, and what was dropped, repaired or tagged, with counts."""
        edits = [*self._edit_files("doc", self._crosses), FACTS]
        names = dict.fromkeys(name for name in [*self._test_files(), *edits] if (self.folder / name).is_file())
        labels = Counter(self._labels[number] for number in self._english_ids if number in self._labels)
        return {
            "source": "github.com/H-shw/DocTER-Data-and-Code, folder data/",
            "files": {name: {"sha256": sha256(self.folder / name), "records": len(self._rows(name))} for name in names},
            "options": {"blocks": ",".join(self.blocks), "strip_distractor": self.strip_distractor},
            "choices": CHOICES,
            "cases": len(self._english_ids) + sum(len(self._queries(block)) for block in self._crosses),
            "reasoning labels": dict(sorted(labels.items())),
            "dropped": {"reasoning questions without a document": sorted(self._labels.keys() - set(self._english_ids))},
            "repaired": {"cross-lingual queries with white space at an end": self._padded()},
            "tagged": {"duplicate_query (asked with unlike altered targets)": len(self._contested)},
        }

    def _examples(self, base: str, seed: int) -> Iterator[Demonstration]:
        tests = {number: self._rows(SUCCESS)[number] for number in self._english_ids}
        beside, asked = (self._rows(n) if (self.folder / n).is_file() else {} for n in (LOCALITY, REASONING))
        return document_examples(tests, beside, asked, partial(self._edit, base, DOCUMENTS, SUCCESS), seed)

    def _build(self, base: str, english: list[int], crossed: Mapping[str, list[int]]) -> Iterator[Case]:
        for number in english:
            edit = self._edit(base, DOCUMENTS, SUCCESS, number)
            tests = EnglishTests(
                success=self._test("edit_success", SUCCESS, number),
                locality=self._test("locality", LOCALITY, number),
                reasoning=self._test("reasoning", REASONING, number),
            )
            yield english_case(edit, number, tests, self._contested, self.strip_distractor)
        for block, ids in crossed.items():
            direction, documents, queries = DIRECTIONS[block]
            for number in ids:
                edit = self._edit(base, documents, queries, number, direction[:2])
                yield cross_case(edit, self._rows(queries)[number], direction)

    def _edit(self, base: str, documents: str, tests: str, number: int, language: str = "en") -> Edit:
        name = documents if base == "doc" else FACTS
        row = self._rows(name).get(number)
        if row is None:
            raise BadData(
                f"{tests}, record with id {number}, field 'id': {name} has no record with id {number}, so nothing "
                f"states what is asked; value {number}. Fetch the files of one version together."
            )
        return document_edit(row, language) if base == "doc" else triplet_edit(row)

    def _test(self, block: str, file: str, number: int) -> Any:
        return self._rows(file).get(number) if block in self.blocks else None

    def _test_files(self) -> list[str]:
        files = {"edit_success": SUCCESS, "locality": LOCALITY, "reasoning": REASONING}
        needed = [file for block, file in files.items() if block in self.blocks]
        if needed and SUCCESS not in needed:
            needed.insert(0, SUCCESS)  # its ids are the English cases
        return needed + [DIRECTIONS[block][2] for block in self._crosses]

    def _stand(self, setting: str) -> tuple[list[str], str]:
        """The directions whose documents stand together in a setting, and whether they are documents or triplets.

        Raises:
            BadSettings: the setting does not go with the blocks.
        """
        if (block := APART.get(setting)) is not None:
            if block not in self.blocks:
                raise BadSettings(f"setting '{setting}' of docter asks what block {block} holds: add it to the blocks.")
            return [block], "doc"
        if len(self._crosses) > 1:
            raise BadSettings(
                f"setting '{setting}' of docter with both cross-lingual blocks: their documents state the same facts "
                "in two languages, so that in one memory each query would find the document of its own language; give "
                f"--setting {' --setting '.join(APART)}, or one of the blocks."
            )
        if setting == "gold" and "cross_zh_en" in self._crosses:
            raise BadSettings(
                "setting 'gold' with block cross_zh_en: the gold triplets are English only; use setting 'doc'."
            )
        return self._crosses, setting

    def _edit_files(self, base: str, crosses: Sequence[str]) -> list[str]:
        if base != "doc":
            return [FACTS]
        return [*([DOCUMENTS] if self._english else []), *(DIRECTIONS[block][1] for block in crosses)]

    def _rows(self, name: str) -> dict[int, Any]:
        if name not in self._tables:
            self._tables[name] = read_numbered(self.folder / name, ROWS[name])
            if name == REASONING:
                _two_labels(self._tables[name])
        return self._tables[name]

    def _queries(self, block: str) -> dict[int, QueriesRow]:
        return self._rows(DIRECTIONS[block][2])

    @cached_property
    def _english_ids(self) -> list[int]:
        if not self._english:
            return []
        asked = [
            file
            for file in self._test_files()
            if file in (LOCALITY, REASONING) or "edit_success" in self.blocks and file == SUCCESS
        ]
        return [n for n in self._rows(SUCCESS) if any(n in self._rows(file) for file in asked)]

    @cached_property
    def _labels(self) -> dict[int, str]:
        if "reasoning" not in self.blocks:
            return {}
        return {number: row.label for number, row in self._rows(REASONING).items()}

    @cached_property
    def _contested(self) -> frozenset[str]:
        if "edit_success" not in self.blocks:
            return frozenset()
        targets: dict[str, set[str]] = {}
        for row in self._rows(SUCCESS).values():
            targets.setdefault(row.query, set()).add(row.altered_target)
        return frozenset(query for query, asked in targets.items() if len(asked) > 1)

    def _padded(self) -> int:
        rows = [row for block in self._crosses for row in self._queries(block).values()]
        return sum(query != query.strip() for row in rows for query in row.query)


def _two_labels(rows: Mapping[int, ReasoningRow]) -> None:
    """That a constant answer is not always right.

    Raises:
        BadData: all questions have one label, as those of the file's first or second half have.
    """
    labels = {row.label for row in rows.values()}
    if len(labels) == 1:
        raise BadData(
            f"{REASONING}, records 0 to {len(rows) - 1}, field 'label': only one label is there, value "
            f"'{labels.pop()}', so that a constant answer would be right every time; the file is sorted by label. "
            "Take the whole file, or leave the block out: --benchmark-option blocks=edit_success,locality."
        )
