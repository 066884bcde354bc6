"""DocTER: documents that state counterfactual facts, and what a model should then say.

"DocTER: Evaluating Document-based Knowledge Editing"; data: github.com/H-shw/DocTER-Data-and-Code, folder data/.
Where we differ from the released code, on purpose: every prompt is retrieved for by itself (the code retrieves for a
paraphrase with the main prompt, and for ten locality prompts with the first). Its reasoning prompt is kept, without the
`additional_info` that the code loads and never shows.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.benchmarks.docter_rows import (
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
from emend.evals.benchmarks.sampling import sample_ids
from emend.evals.case import Case, Metric
from emend.memory.edit import Edit
from emend.memory.errors import BadData, BadSettings
from emend.memory.registry import nearest

SUCCESS, LOCALITY, REASONING = "edit_success_eval.json", "locality_eval.json", "reasoning_eval.json"
DOCUMENTS, FACTS = "en_doc.json", "gold_facts.json"
REMEDY = (
    "Get them with: git clone https://github.com/H-shw/DocTER-Data-and-Code, then give --data "
    "DocTER-Data-and-Code/data, or put that folder at $EMEND_DATA/docter (gold_facts.json, which the setting 'gold' "
    "needs, is the join of their ids with CounterFact's records)."
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


def _metric(name: str, value: str, kind: str, summary: str) -> Metric:
    return Metric(name=name, value=value, kinds=(kind,), scale=100.0, summary=summary)


METRICS = (
    _metric("ES", "success", "efficacy", "new target more probable than the old, query"),
    _metric("NEM", "magnitude", "efficacy", "by how much, as a share of the larger surprise"),
    _metric("PS", "success", "paraphrase", "new target more probable than the old, paraphrases"),
    _metric("NPM", "magnitude", "paraphrase", "by how much"),
    _metric("NS", "success", "neighborhood", "old target more probable, other subjects"),
    _metric("NNM", "magnitude", "neighborhood", "by how much"),
    _metric("Acc", "acc", "reasoning", "yes/no questions that need the new fact"),
)
CROSS_METRICS = (
    _metric("CES", "success", "cross_lingual", "new target more probable, other language"),
    _metric("CEM", "magnitude", "cross_lingual", "by how much"),
)
HIT_METRICS = (
    _metric("hit@1 query", "hit@1", "efficacy", "the edit was found first, query"),
    _metric("hit@1 paraphrase", "hit@1", "paraphrase", "the edit was found first, paraphrases"),
)


class DocTER:
    """The benchmark; in setting `doc` the edit is the document, in `gold` the gold triplet.

    Options: `blocks`, a comma list of `edit_success`, `locality`, `reasoning` (these three by default) and one of
    `cross_en_zh` (English documents, Chinese queries) and `cross_zh_en`; `strip_distractor=1` asks a retriever for the
    last sentence of a paraphrase only.

    One case per id: its edit, query, 2 paraphrases, 10 neighbours and, for 574 ids up to 1059, a reasoning question. An
    id about which the chosen blocks ask nothing is no case. A retriever searches the edits of the cases drawn, so a
    smaller limit makes retrieval easier.

    Raises:
        MissingData: the folder, or a file that the blocks need, is absent.
        BadSettings: an option is unknown or its value impossible.
    """

    name: ClassVar[str] = "docter"
    settings: ClassVar[tuple[str, ...]] = ("doc", "gold")
    wording: ClassVar[str] = "based_on_facts"
    mode: ClassVar[str] = "all"  # one store holds all documents, as in the paper

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        told = dict(options or {})
        for option in told:
            if option not in OPTIONS:
                raise BadSettings(f"unknown option '{option}' of docter: {nearest(option, list(OPTIONS))}")
        self.blocks = _blocks(told.get("blocks", ",".join(ENGLISH)))
        self.strip_distractor = _flag("strip_distractor", told.get("strip_distractor", "0"))
        self._cross = next((DIRECTIONS[name] for name in self.blocks if name in DIRECTIONS), None)
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
        self._check(setting)
        english, crossed = self._english_ids, self._crossed_ids
        total = len(english) + len(crossed)
        if limit is not None and limit < total:
            if limit < 1:
                raise BadSettings(f"limit={limit}: at least 1 case is needed.")
            share = limit - min(len(english), round(limit * len(english) / total))
            english = sample_ids(english, self._labels, limit - share, seed)
            crossed = sample_ids(crossed, {}, share, seed)
        return self._build(setting, english, crossed)

    def metrics(self) -> Sequence[Metric]:
        """The paper's columns in its order, in percent, then how often the retriever's first hit was the edit."""
        english = tuple(m for m in METRICS if _block_of(m) in self.blocks)
        hits = HIT_METRICS if "edit_success" in self.blocks else ()
        return english + (CROSS_METRICS if self._cross else ()) + hits

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Two hand-written ones about an invented place: the new fact is said, another subject's is kept."""
        self._check(setting)
        fact = DEMO_DOCUMENT if setting == "doc" else "Tarnfield Observatory is located in Portugal."
        asked = (
            ("update", "The country where Tarnfield Observatory stands is", "Portugal"),
            ("retain", "Brenholm Observatory is located in", "Norway"),
        )
        return [Demonstration(kind=k, fact=fact, prompt=p, target=t) for k, p, t in asked]

    @property
    def provenance(self) -> dict[str, Any]:
        """Source, sha256 and records of each file, and what was dropped, repaired or tagged, with counts."""
        edits = [name for name in self._edit_files("doc") + [FACTS] if (self.folder / name).is_file()]
        names = dict.fromkeys([*self._test_files(), *edits])
        labels = Counter(self._labels[number] for number in self._english_ids if number in self._labels)
        return {
            "source": "github.com/H-shw/DocTER-Data-and-Code, folder data/",
            "files": {name: {"sha256": sha256(self.folder / name), "records": len(self._rows(name))} for name in names},
            "options": {"blocks": ",".join(self.blocks), "strip_distractor": self.strip_distractor},
            "cases": len(self._english_ids) + len(self._crossed_ids),
            "reasoning labels": dict(sorted(labels.items())),
            "dropped": {"reasoning questions without a document": sorted(self._labels.keys() - set(self._english_ids))},
            "repaired": {"cross-lingual queries with white space at an end": self._padded()},
            "tagged": {"duplicate_query (asked with unlike altered targets)": len(self._contested)},
        }

    def _build(self, setting: str, english: list[int], crossed: list[int]) -> Iterator[Case]:
        for number in english:
            edit = self._edit(setting, DOCUMENTS, number)
            tests = EnglishTests(
                success=self._test("edit_success", SUCCESS, number),
                locality=self._test("locality", LOCALITY, number),
                reasoning=self._test("reasoning", REASONING, number),
            )
            yield english_case(edit, number, tests, self._contested, self.strip_distractor)
        if self._cross:
            direction, documents, queries = self._cross
            for number in crossed:
                edit = self._edit(setting, documents, number, direction[:2])
                yield cross_case(edit, self._rows(queries)[number], direction)

    def _edit(self, setting: str, documents: str, number: int, language: str = "en") -> Edit:
        name = documents if setting == "doc" else FACTS
        row = self._rows(name).get(number)
        if row is None:
            raise BadData(
                f"{name}: no record with id {number}, which the tests ask about. "
                "Fetch the files of one version together."
            )
        return document_edit(row, language) if setting == "doc" else triplet_edit(row)

    def _test(self, block: str, file: str, number: int) -> Any:
        return self._rows(file).get(number) if block in self.blocks else None

    def _test_files(self) -> list[str]:
        files = {"edit_success": SUCCESS, "locality": LOCALITY, "reasoning": REASONING}
        needed = [file for block, file in files.items() if block in self.blocks]
        if needed and SUCCESS not in needed:
            needed.insert(0, SUCCESS)  # its ids are the English cases
        return needed + ([self._cross[2]] if self._cross else [])

    def _check(self, setting: str) -> None:
        if setting in ("llm", "tool"):
            raise BadSettings(
                f"setting '{setting}' of docter needs the triplets that the paper extracted, and they are not "
                "published: use 'doc' (the documents) or 'gold' (the gold triplets)."
            )
        if setting not in self.settings:
            raise BadSettings(f"unknown setting '{setting}' of docter: {nearest(setting, list(self.settings))}")
        if setting == "gold" and self._cross and self._cross[0] == "zh->en":
            raise BadSettings(
                "setting 'gold' with block cross_zh_en: the gold triplets are English only; use setting 'doc'."
            )
        require(self.folder, self._edit_files(setting), REMEDY)

    def _edit_files(self, setting: str) -> list[str]:
        if setting == "gold":
            return [FACTS]
        english = [DOCUMENTS] if set(ENGLISH) & set(self.blocks) else []
        return english + ([self._cross[1]] if self._cross else [])

    def _rows(self, name: str) -> dict[int, Any]:
        if name not in self._tables:
            self._tables[name] = read_numbered(self.folder / name, ROWS[name])
        return self._tables[name]

    @cached_property
    def _english_ids(self) -> list[int]:
        if not set(ENGLISH) & set(self.blocks):
            return []
        asked = [
            file
            for file in self._test_files()
            if file in (LOCALITY, REASONING) or "edit_success" in self.blocks and file == SUCCESS
        ]
        return [n for n in self._rows(SUCCESS) if any(n in self._rows(file) for file in asked)]

    @cached_property
    def _crossed_ids(self) -> list[int]:
        return list(self._rows(self._cross[2])) if self._cross else []

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
        rows = self._rows(self._cross[2]).values() if self._cross else ()
        return sum(query != query.strip() for row in rows for query in row.query)


def _block_of(metric: Metric) -> str:
    blocks = {"neighborhood": "locality", "reasoning": "reasoning"}
    return blocks.get(metric.kinds[0], "edit_success")


def _blocks(told: str) -> tuple[str, ...]:
    known = [*ENGLISH, *DIRECTIONS]
    names = tuple(dict.fromkeys(part.strip() for part in told.split(",") if part.strip()))
    if "cross" in names or set(DIRECTIONS) <= set(names):
        raise BadSettings(
            f"blocks='{told}': the two cross-lingual directions state the same facts in two languages, so that in one "
            "memory each query would find the document of its own language; choose cross_en_zh or cross_zh_en."
        )
    for name in names:
        if name not in known:
            raise BadSettings(f"unknown block '{name}' of docter: {nearest(name, known)}")
    if not names:
        raise BadSettings(f"blocks='{told}': name at least one of {', '.join(known)}.")
    return names


def _flag(option: str, told: str) -> bool:
    if told.lower() not in ("0", "1", "true", "false"):
        raise BadSettings(f"{option}='{told}': give 1 (yes) or 0 (no).")
    return told.lower() in ("1", "true")
