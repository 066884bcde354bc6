"""DocTER: documents that state counterfactual facts, and questions about these facts.

"DocTER: Evaluating Document-based Knowledge Editing"; data: github.com/H-shw/DocTER-Data-and-Code,
folder data/. Deliberate differences from the released code: each prompt is its own retrieval query
(the code retrieves with the main prompt for paraphrases, and with the first locality prompt for all
ten). The reasoning prompt is unchanged, without the `additional_info` that the code loads but never
shows. The paper does not say how it parsed the choice of a model without probabilities; here the
reply must name the right target and not the other.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import Definition, FileBenchmark, flag, some_of
from emend.evals.data.benchmarks.demonstration_rows import UniqueNames, eligible, of_first_rows
from emend.evals.data.benchmarks.docter.cases import (
    EnglishTests,
    common_text,
    cross_case,
    english_case,
    row_demonstrations,
)
from emend.evals.data.benchmarks.docter.rows import (
    DocumentRow,
    EditRow,
    GoldFactRow,
    QueriesRow,
    ReasoningRow,
)
from emend.evals.data.benchmarks.rows import (
    NumberedRow,
    contested_keys,
    last_drawn,
    read_numbered,
    require,
    sample_ids,
)
from emend.memory.edit import Edit
from emend.memory.errors import BadData, BadSettings

SUCCESS, LOCALITY, REASONING = "edit_success_eval.json", "locality_eval.json", "reasoning_eval.json"
DOCUMENTS, FACTS = "en_doc.json", "gold_facts.json"
ENGLISH = {"edit_success": SUCCESS, "locality": LOCALITY, "reasoning": REASONING}
DIRECTIONS = {
    "cross_en_zh": ("en->zh", "crosslingual_en_doc.json", "cross_zh_eval.json"),
    "cross_zh_en": ("zh->en", "crosslingual_zh_doc.json", "cross_en_eval.json"),
}
ROWS: dict[str, type[NumberedRow]] = {
    SUCCESS: EditRow,
    LOCALITY: QueriesRow,
    REASONING: ReasoningRow,
    DOCUMENTS: DocumentRow,
    FACTS: GoldFactRow,
    **{documents: DocumentRow for _, documents, _ in DIRECTIONS.values()},
    **{queries: QueriesRow for _, _, queries in DIRECTIONS.values()},
}
# Blocks with each kind of probe.
BLOCKS_OF = {
    "efficacy": {"edit_success"},
    "paraphrase": {"edit_success"},
    "neighborhood": {"locality"},
    "reasoning": {"reasoning"},
    "cross_lingual": {*DIRECTIONS},
}
# Settings with one direction each, for runs of both: documents of both directions state the same
# facts, so in a shared memory each query would retrieve the document in its own language.
APART = {f"doc_{block.removeprefix('cross_')}": block for block in DIRECTIONS}


class DocTER(FileBenchmark):
    """DocTER; in setting `doc` the edit is the document, in `gold` the gold triplet.

    The paper's settings `llm` and `tool` need triplets extracted from the documents, which the
    authors have not published: `emend extract` makes them, and the option `triples` names its file.

    Options: `blocks`, a comma list of `edit_success`, `locality`, `reasoning` (these three by
    default), `cross_en_zh` (English documents, Chinese queries) and `cross_zh_en`;
    `strip_distractor=1` retrieves with the last sentence of a paraphrase only. To run both
    directions with separate memories, give `--setting doc_en_zh --setting doc_zh_en`.

    One case per id: its edit, query, 2 paraphrases, 10 neighbours and, for 583 ids up to 1060 at
    most, a reasoning question. An id without a question in the chosen blocks is left out. A
    retriever searches the edits of the drawn cases, so a smaller limit makes retrieval easier.
    """

    name: ClassVar[str] = "docter"
    settings: ClassVar[tuple[str, ...]] = ("doc", "gold", *APART)
    wording: ClassVar[str] = "based_on_facts"
    mode: ClassVar[str] = "all"  # one store holds all documents, as in the paper
    definition = Definition.beside(__file__)
    defaults = {"blocks": ",".join(ENGLISH), "strip_distractor": "0"}

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__(data, options)
        self.blocks = some_of(self.name, "blocks", self.options["blocks"], [*ENGLISH, *DIRECTIONS])
        self.strip_distractor = flag(
            self.name, "strip_distractor", self.options["strip_distractor"]
        )
        self._crosses = [block for block in DIRECTIONS if block in self.blocks]
        self._tables: dict[str, dict[int, Any]] = {}
        require(self.folder, self._test_files, self.definition.remedy)

    def _build(self, setting: str, limit: int | None, seed: int) -> Iterator[Case]:
        """Yield the cases in the order of the file, with the cross-lingual ones last.

        With a limit, English and cross-lingual cases share it in proportion.
        """
        crosses, base = self._directions(setting)
        require(self.folder, self._edit_files(base, crosses), self.definition.remedy)
        english, labels = [] if setting in APART else self._english_ids, self._labels
        crossed = {block: list(self._queries(block)) for block in crosses}
        total = len(english) + sum(map(len, crossed.values()))
        if limit is not None and limit < total:
            share = limit - min(len(english), round(limit * len(english) / total))
            english = sample_ids(english, limit - share, seed, labels)
            crossed = {block: sample_ids(ids, share, seed) for block, ids in crossed.items()}
        return self._cases(base, english, crossed)

    def _measures(self, metric: Metric) -> bool:
        return not BLOCKS_OF[metric.kinds[0]].isdisjoint(self.blocks)

    def _from_rows(self, setting: str, seed: int, count: int) -> Iterator[Demonstration]:
        """Return demonstrations from the ids drawn last; none with cross-lingual blocks, whose
        documents state the same facts.

        Unique names are looked for in the query, since documents have no subject field.
        """
        if self._crosses:
            return iter(())
        tests = {number: self._rows(SUCCESS)[number] for number in self._english_ids}
        neighbours, questions = (
            self._rows(name) if (self.folder / name).is_file() else {}
            for name in (LOCALITY, REASONING)
        )
        names = UniqueNames(
            _texts(tests.get(number), neighbours.get(number), questions.get(number))
            for number in {*tests, *neighbours, *questions}
        )
        rows = (tests[number] for number in last_drawn(tests, seed))
        groups = (
            eligible(
                row_demonstrations(
                    row,
                    neighbours.get(row.id),
                    self._edit(setting, DOCUMENTS, SUCCESS, row.id).text,
                ),
                names,
            )
            for row in rows
            if names.has_in(row.query)
        )
        return of_first_rows(groups, count)

    def _records(self) -> Mapping[str, int]:
        names = dict.fromkeys([*self._test_files, *self._edit_files("doc", self._crosses), FACTS])
        return {name: len(self._rows(name)) for name in names if (self.folder / name).is_file()}

    def _counts(self) -> dict[str, Any]:
        labels = Counter(
            self._labels[number] for number in self._english_ids if number in self._labels
        )
        queries = [
            query
            for block in self._crosses
            for row in self._queries(block).values()
            for query in row.query
        ]
        return {
            "options": {"blocks": ",".join(self.blocks), "strip_distractor": self.strip_distractor},
            "cases": len(self._english_ids)
            + sum(len(self._queries(block)) for block in self._crosses),
            "reasoning labels": dict(sorted(labels.items())),
            "dropped": {"reasoning questions without a document": self._orphans},
            "repaired": {
                "cross-lingual queries with white space at an end": sum(
                    query != query.strip() for query in queries
                )
            },
            "tagged": {"duplicate_query (asked with unlike altered targets)": len(self._contested)},
        }

    def _cases(
        self, base: str, english: list[int], crossed: Mapping[str, list[int]]
    ) -> Iterator[Case]:
        for number in english:
            edit = self._edit(base, DOCUMENTS, SUCCESS, number)
            tests = EnglishTests(*(self._block(block).get(number) for block in ENGLISH))
            yield english_case(edit, number, tests, self._contested, self.strip_distractor)
        for block, ids in crossed.items():
            direction, documents, queries = DIRECTIONS[block]
            for number in ids:
                edit = self._edit(base, documents, queries, number, direction[:2])
                yield cross_case(edit, self._rows(queries)[number], direction)

    def _edit(
        self, base: str, documents: str, tests: str, number: int, language: str = "en"
    ) -> Edit:
        name = documents if base == "doc" else FACTS
        row: DocumentRow | GoldFactRow | None = self._rows(name).get(number)
        if row is None:
            raise BadData(
                f"{tests}, record with id {number}, field 'id': {name} has no record with id "
                f"{number}, so the fact of the question is missing; value {number}. Fetch the "
                "files of one version together."
            )
        if isinstance(row, DocumentRow):
            return row.edit(language)
        return row.edit()

    def stated_facts(self) -> dict[tuple[str, Hashable], tuple[str, str]]:
        """Return the facts of Chinese documents by language and number, each as the first Chinese
        query with its answer and the subject shared by all queries; empty without their file.
        """
        queries = DIRECTIONS["cross_en_zh"][2]
        if "cross_zh_en" not in self.blocks or not (self.folder / queries).is_file():
            return {}
        facts: dict[tuple[str, Hashable], tuple[str, str]] = {}
        for number, row in self._rows(queries).items():
            texts = [text.strip() for text in row.query]
            statement = f"{texts[0]}{row.altered_target}"
            facts["zh", str(number)] = (statement, common_text(texts))
        return facts

    @property
    def _test_files(self) -> list[str]:
        files = [file for block, file in ENGLISH.items() if block in self.blocks]
        if files and SUCCESS not in files:
            files.insert(0, SUCCESS)  # its ids are those of the English cases
        return files + [DIRECTIONS[block][2] for block in self._crosses]

    def _directions(self, setting: str) -> tuple[list[str], str]:
        """Return the directions whose documents are applied together, and the form of the edits,
        `doc` or `gold`.

        Raises:
            BadSettings: the setting does not fit the blocks.
        """
        if (block := APART.get(setting)) is not None:
            if block not in self.blocks:
                raise BadSettings(
                    f"setting '{setting}' of docter needs block {block}: add it to the blocks."
                )
            return [block], "doc"
        if len(self._crosses) > 1:
            raise BadSettings(
                f"setting '{setting}' of docter with both cross-lingual blocks: their documents "
                "state the same facts in two languages, so that in one memory each query would "
                "find the document of its own language; give --setting "
                f"{' --setting '.join(APART)}, or one of the blocks."
            )
        if setting == "gold" and "cross_zh_en" in self._crosses:
            raise BadSettings(
                "setting 'gold' with block cross_zh_en: the gold triplets are English only; use "
                "setting 'doc'."
            )
        return self._crosses, setting

    def _edit_files(self, base: str, crosses: Sequence[str]) -> list[str]:
        if base != "doc":
            return [FACTS]
        english = [DOCUMENTS] if ENGLISH.keys() & set(self.blocks) else []
        return [*english, *(DIRECTIONS[block][1] for block in crosses)]

    def _rows(self, name: str) -> dict[int, Any]:
        if name not in self._tables:
            rows: dict[int, Any] = read_numbered(self.folder / name, ROWS[name])
            self._tables[name] = _by_document(rows) if name == REASONING else rows
        return self._tables[name]

    def _queries(self, block: str) -> dict[int, QueriesRow]:
        return self._rows(DIRECTIONS[block][2])

    def _block(self, block: str) -> dict[int, Any]:
        """Return the rows of an English block by the id of their document; empty if the block is
        not asked.
        """
        if block in self.blocks:
            return self._rows(ENGLISH[block])
        return {}

    @cached_property
    def _english_ids(self) -> list[int]:
        known = {number for block in ENGLISH for number in self._block(block)}
        if known:
            return [number for number in self._rows(SUCCESS) if number in known]
        return []

    def _choices(self) -> list[str]:
        lost = (
            f"docter: {len(self._orphans)} reasoning questions are left out, since their "
            "documents are not in the files"
        )
        return [*super()._choices(), *([lost] if self._orphans else [])]

    @property
    def _orphans(self) -> list[int]:
        """Ids, as in the file, of reasoning questions whose document is missing."""
        known = {*self._english_ids}
        return sorted(
            row.id for document, row in self._block("reasoning").items() if document not in known
        )

    @cached_property
    def _labels(self) -> dict[int, str]:
        return {number: row.label for number, row in self._block("reasoning").items()}

    @cached_property
    def _contested(self) -> frozenset[str]:
        return contested_keys(
            (row.query, row.altered_target) for row in self._block("edit_success").values()
        )


def _texts(
    row: EditRow | None, neighbours: QueriesRow | None, question: ReasoningRow | None
) -> Iterator[str]:
    """Yield the texts of one id that name its edited subject and its questions."""
    if row:
        yield from (row.query, *row.paraphrase_query)
    if neighbours:
        yield from neighbours.query
    if question:
        yield question.src


def _by_document(rows: Mapping[int, ReasoningRow]) -> dict[int, ReasoningRow]:
    """Return the questions by the id of their document.

    Raises:
        BadData: all questions have the same label, as in the first or second half of the file, so
            that a constant answer would always be correct; or two questions are about the same
            document.
    """
    labels = {row.label for row in rows.values()}
    if len(labels) == 1:
        raise BadData(
            f"{REASONING}, records 0 to {len(rows) - 1}, field 'label': all labels are the same, "
            f"value '{labels.pop()}', so that a constant answer would be right every time; the "
            "file is sorted by label. Take the whole file, or leave the block out: "
            "--benchmark-option blocks=edit_success,locality."
        )
    by_document: dict[int, ReasoningRow] = {}
    for row in rows.values():
        if (other := by_document.setdefault(row.document, row)) is not row:
            raise BadData(
                f"{REASONING}, records with the ids {other.id} and {row.id}, field 'id': both are "
                f"about document {row.document}, as a False question's is that of the next id. "
                "Remove one of the two records."
            )
    return by_document
