"""Records composed of a table of facts with paragraphs as their evidence, as items and as rows of ReCoE's files."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from emend.evals.build.sources.fact_graph import FactGraph, TemplateBook, read_fact_table, read_templates
from emend.evals.build.sources.questions import DocumentFolder
from emend.evals.build.sources.recoe_records import ReasoningRecord, RecordComposer, parse_measure
from emend.evals.build.sources.stored_items import KeptItem, store_items, take_turns, write_json
from emend.evals.config.task_config import BuildConfig
from emend.evals.data.benchmarks.recoe import ROWS
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.graphs.construction.filters.name_forms import names_exactly
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import load_embedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.paths import cache_folder
from emend.memory.registry import nearest
from emend.memory.retrieval.compose import load_retriever

CHOICE_SCHEMES = ("superlative", "comparative", "sorting")
"""Schemes whose rows have the facts of each entity apart."""
LIMITS = (
    "Questions name the entities that they are about, since a table may not have all there are.",
    "Values are swapped or altered within the table; whether a reader would believe them is not checked.",
    "Questions are composed by rules; an author words them anew, and a debate tries them, with --model alone.",
)
BUILT_BY = "emend build recoe"
"""Stands in each row, so that a file says among the paper's that it was made anew."""


class RecordWriter:
    """Writes records as items.

    Args:
        graph: the facts.
        book: the templates of their statements.
    """

    def __init__(self, graph: FactGraph, book: TemplateBook) -> None:
        self._graph, self._book = graph, book

    def item(self, record: ReasoningRecord) -> dict[str, Any]:
        """A record as an item: its question, its scheme and its row."""
        facts = self._choice_facts(record) if record.scheme in CHOICE_SCHEMES else self._counted_facts(record)
        row = {
            "question": record.question,
            "answer": record.answer,
            "counterfactual_answer": record.counterfactual_answer,
            "answer_alias": self._aliases(record.answer),
            "counterfactual_answer_alias": self._aliases(record.counterfactual_answer),
            "built_by": BUILT_BY,
            **facts,
        }
        return {"text": record.question, "scheme": record.scheme, "row": row, **self._for_author(record)}

    def _for_author(self, record: ReasoningRecord) -> dict[str, Any]:
        """The fields by which a wording of the question is checked and tried."""
        before = [(each.subject, each.relation, each.old) for each in record.altered]
        after = [(each.subject, each.relation, each.new) for each in record.altered]
        left = [(entity, relation, self._object(entity, relation)) for entity, relation in record.unaltered]
        facts = [*before, *left]
        labels = dict.fromkeys(self._graph.label(each) for subject, _, target in facts for each in (subject, target))
        values = [self._graph.label(target) for _, _, target in facts]
        answers = [answer for answer in (record.answer, record.counterfactual_answer) if answer.isdigit()]
        return {
            "answer": record.answer,
            "counterfactual_answer": record.counterfactual_answer,
            "facts": [self._sentence(*fact)["sentence"] for fact in facts],
            "counterfactual_facts": [self._sentence(*fact)["sentence"] for fact in (*after, *left)],
            "names": [label for label in labels if names_exactly(record.question, label)],
            "hidden": [*(value for value in values if parse_measure(value)), *answers],
        }

    def _object(self, entity: str, relation: str) -> str:
        return str(self._graph.object_of(entity, relation))

    def _aliases(self, answer: str) -> list[str]:
        return list(self._graph.names(answer)[1:])

    def _choice_facts(self, record: ReasoningRecord) -> dict[str, Any]:
        """The facts of each entity, and the counterfactuals of the two that swap their values."""
        swapped = {each.subject: each for each in record.altered}
        relation = record.altered[0].relation
        facts, counterfactuals = dict[str, Any](), dict[str, Any]()
        for place, entity in enumerate([*swapped, *(entity for entity, _ in record.unaltered)], 1):
            facts[f"entity{place}"] = self._graph.label(entity)
            facts[f"choice_{place}_facts"] = [self._fact(entity, relation, self._object(entity, relation))]
            if entity in swapped:
                counterfactuals[f"choice_{place}_counterfactuals"] = [self._fact(entity, relation, swapped[entity].new)]
        return {
            "facts_per_choice": facts,
            "counterfactuals_per_choice": {**counterfactuals, "unchanged_facts": []},
        }

    def _counted_facts(self, record: ReasoningRecord) -> dict[str, Any]:
        """The altered facts before and after, and those of all that are counted."""
        before = [
            [self._sentence(each.subject, each.relation, each.old) for each in part] for part in record.alterations
        ]
        after = [
            [self._sentence(each.subject, each.relation, each.new) for each in part] for part in record.alterations
        ]
        others = [
            self._sentence(entity, relation, self._object(entity, relation)) for entity, relation in record.unaltered
        ]
        if record.scheme == "counting":
            return {"facts": before[0], "counterfactual_facts": after[0], "extended_facts": [*before[0], *others]}
        return {
            "indirect_fact": before,
            "indirect_counterfactual_fact": after,
            "direct_fact": [],
            "direct_counterfactual_fact": [],
            "extended_facts": [[*before[0], *others]],
        }

    def _fact(self, subject: str, relation: str, target: str) -> dict[str, Any]:
        fields = self._sentence(subject, relation, target)
        return {"fact": fields.pop("sentence"), "links": [], **fields}

    def _sentence(self, subject: str, relation: str, target: str) -> dict[str, Any]:
        label, value = self._graph.label(subject), self._graph.label(target)
        predicate = self._predicate(relation, target)
        sentence = f"{label} {predicate} {value}."
        return {
            "sentence": sentence,
            "atomic_facts": [sentence],
            "atomic_triples": [f"({label}; {predicate}; {value})"],
        }

    def _predicate(self, relation: str, target: str) -> str:
        """The words between subject and object, since ReCoE's triples read as sentences."""
        cloze = self._book.templates(relation).cloze
        if cloze.startswith("{}"):
            return cloze.removeprefix("{}").strip()
        if parse_measure(target) is None:
            return f"has as its {relation}"
        return f"has {'an' if relation[:1].lower() in 'aeiou' else 'a'} {relation} of"


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write a file for each scheme."""
    rows: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for item in items:
        rows[item.fields["scheme"]].append({**item.fields["row"], "question": item.result["question"]})
    for scheme, each in rows.items():
        write_json(folder / f"{scheme}.json", each)
    return BenchmarkFiles(benchmark="recoe", files=tuple(f"{scheme}.json" for scheme in rows))


PARAGRAPHS = 5
"""Paragraphs that are retrieved for a fact."""
SHORTEST = 3
"""Words of a paragraph; shorter ones are headings."""


def add_evidence(items: Sequence[dict[str, Any]], folder: str, retriever: str) -> dict[str, str]:
    """Give each item the paragraphs that the retriever finds for its facts, as `evidence`.

    Args:
        items: with their `facts`.
        folder: of documents.
        retriever: name, composition or `module:attribute`.

    Returns:
        The sha256 of each document.

    Raises:
        MissingData: there is no such folder, or no document in it.
        BadSettings: there is no such retriever, or the documents have no paragraph.
    """
    documents, factory = DocumentFolder(folder), load_retriever(retriever)
    paragraphs = list(dict.fromkeys(_paragraphs(documents)))
    if not paragraphs:
        raise BadSettings(f"the documents of '{folder}' have no paragraph: name another folder with --documents.")
    from emend.memory.store.chroma import ChromaMemory

    with ChromaMemory(None, load_embedding("auto", cache_folder("vectors")), superseding="time") as memory:
        memory.add([Edit(form="document", text=text) for text in paragraphs])
        search = factory(memory.view()).search
        for item in items:
            item["evidence"] = {fact: [hit.entry.text for hit in search(fact, PARAGRAPHS)] for fact in item["facts"]}
    return documents.digests()


def _paragraphs(documents: DocumentFolder) -> Iterator[str]:
    for part in documents.parts():
        for paragraph in part.text.split("\n\n"):
            text = " ".join(paragraph.split())
            if len(text.split()) >= SHORTEST:
                yield text


SCHEMES = tuple(ROWS)


def prepare_records(config: BuildConfig, out: Path) -> Path:
    """Compose the records into the benchmark's folder, and return their file; the same call again changes nothing.

    Raises:
        BadSettings: a scheme is unknown, or the source is no file of facts.
        BadData: a row or a template is wrong, or the facts give no record.
        RunRefused: the folder holds other records.
    """
    schemes, table = read_schemes(config.schemes), read_fact_table(config.source)
    user_templates = read_templates(Path(config.relations).expanduser()) if config.relations else {}
    composer = RecordComposer(table.graph, random.Random(config.seed), config.allow_conflicts)
    count = config.cases if config.limit is None else min(config.cases, config.limit)
    records = take_turns((composer.records(scheme, count) for scheme in schemes), count)
    if not records:
        raise BadData(
            f"the {len(table.graph)} facts of '{config.source}' give no question of {', '.join(schemes)}: these "
            "need a relation whose objects are numbers of one unit, or one whose object several entities have."
        )
    writer = RecordWriter(table.graph, TemplateBook(user_templates, table.templates))
    counts = ", ".join(f"{scheme} {number}" for scheme, number in Counter(each.scheme for each in records).items())
    notes = replace(table.notes, name=f"{config.source}: {len(table.graph)} facts, {counts}")
    items = [writer.item(each) for each in records]
    if config.documents:
        notes.files.update(add_evidence(items, config.documents, config.retriever))
    return store_items(items, notes, out)


def read_schemes(text: str) -> tuple[str, ...]:
    """The schemes of a comma list; all of them for an empty text.

    Raises:
        BadSettings: one is unknown.
    """
    schemes = tuple(part.strip() for part in text.split(",") if part.strip()) or SCHEMES
    for scheme in schemes:
        if scheme not in SCHEMES:
            raise BadSettings(f"--schemes {text}: there is no scheme '{scheme}': {nearest(scheme, list(SCHEMES))}")
    return schemes
