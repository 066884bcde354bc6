"""Items and rows of ReCoE's files from records composed over a table of facts, with retrieved
paragraphs as evidence.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.card import FilterCount, count_filter
from emend.evals.construction.sources.documents import DocumentFolder
from emend.evals.construction.sources.fact_graph import notes_on_table
from emend.evals.construction.sources.recoe_records import (
    ReasoningRecord,
    RecordComposer,
    parse_measure,
)
from emend.evals.construction.sources.stored_items import (
    KeptItem,
    SourceNotes,
    store_items,
    take_turns,
    write_json,
)
from emend.evals.data.benchmarks.recoe.rows import ROWS
from emend.evals.data.benchmarks.registry import BenchmarkFiles
from emend.evals.data.facts.fact_graph import FactGraph, read_fact_table
from emend.evals.data.facts.templates import TemplateBook, read_templates
from emend.graphs.construction.filters.name_forms import names_exactly
from emend.graphs.construction.reasoning.facts import sentence_of, triple_of
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import load_embedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.paths import cache_folder
from emend.memory.registry import nearest
from emend.memory.retrieval.compose import load_retriever

# Schemes whose rows list the facts by entity.
CHOICE_SCHEMES = ("superlative", "comparative", "sorting")
# Value of `built_by` in each row, which distinguishes the files from the paper's.
BUILT_BY = "emend build recoe"


class RecordWriter:
    """Converter of records to items.

    Args:
        graph: the facts.
        book: statement templates of the relations.
    """

    def __init__(self, graph: FactGraph, book: TemplateBook) -> None:
        self._graph, self._book = graph, book

    def item(self, record: ReasoningRecord) -> dict[str, Any]:
        """Return a record as an item: question, scheme, row, and the fields for its graph."""
        if record.scheme in CHOICE_SCHEMES:
            facts = self._choice_facts(record)
        else:
            facts = self._counted_facts(record)
        row = {
            "question": record.question,
            "answer": record.answer,
            "counterfactual_answer": record.counterfactual_answer,
            "answer_alias": self._aliases(record.answer),
            "counterfactual_answer_alias": self._aliases(record.counterfactual_answer),
            "built_by": BUILT_BY,
            **facts,
        }
        return {
            "text": record.question,
            "scheme": record.scheme,
            "row": row,
            **self._for_author(record),
        }

    def _for_author(self, record: ReasoningRecord) -> dict[str, Any]:
        """Return the fields that the graph uses to check a wording and debate it."""
        before = [(each.subject, each.relation, each.old) for each in record.altered]
        after = [(each.subject, each.relation, each.new) for each in record.altered]
        left = [
            (entity, relation, self._object(entity, relation))
            for entity, relation in record.unaltered
        ]
        facts = [*before, *left]
        changed = [*after, *left]
        sentences = [self._sentence(*fact)["sentence"] for fact in facts]
        statements = {
            sentence_of(statement): statement for statement in map(self._statement, facts + after)
        }
        labels = dict.fromkeys(
            self._graph.label(each) for subject, _, target in facts for each in (subject, target)
        )
        values = [self._graph.label(target) for _, _, target in facts]
        answers = [
            answer for answer in (record.answer, record.counterfactual_answer) if answer.isdigit()
        ]
        return {
            "answer": record.answer,
            "counterfactual_answer": record.counterfactual_answer,
            "facts": sentences,
            "counterfactual_facts": [self._sentence(*fact)["sentence"] for fact in changed],
            "statements": statements,
            "value_of": self._swapped(record),
            "names": [label for label in labels if names_exactly(record.question, label)],
            "hidden": [*(value for value in values if parse_measure(value)), *answers],
        }

    def _swapped(self, record: ReasoningRecord) -> dict[str, str]:
        """Return, for each counterfactual sentence with a swapped value, the original sentence of
        that value.
        """
        if record.scheme not in CHOICE_SCHEMES:
            return {}
        sentences = {
            each.old: self._sentence(each.subject, each.relation, each.old)["sentence"]
            for each in record.altered
        }
        return {
            self._sentence(each.subject, each.relation, each.new)["sentence"]: sentences[each.new]
            for each in record.altered
            if each.new in sentences
        }

    def _object(self, entity: str, relation: str) -> str:
        return str(self._graph.object_of(entity, relation))

    def _aliases(self, answer: str) -> list[str]:
        return list(self._graph.names(answer)[1:])

    def _choice_facts(self, record: ReasoningRecord) -> dict[str, Any]:
        """Return the facts of each entity, and counterfactuals of the two with swapped values."""
        swapped = {each.subject: each for each in record.altered}
        relation = record.altered[0].relation
        facts, counterfactuals = dict[str, Any](), dict[str, Any]()
        for place, entity in enumerate([*swapped, *(entity for entity, _ in record.unaltered)], 1):
            facts[f"entity{place}"] = self._graph.label(entity)
            facts[f"choice_{place}_facts"] = [
                self._fact(entity, relation, self._object(entity, relation))
            ]
            if entity in swapped:
                counterfactuals[f"choice_{place}_counterfactuals"] = [
                    self._fact(entity, relation, swapped[entity].new)
                ]
        return {
            "facts_per_choice": facts,
            "counterfactuals_per_choice": {**counterfactuals, "unchanged_facts": []},
        }

    def _counted_facts(self, record: ReasoningRecord) -> dict[str, Any]:
        """Return the altered facts before and after, and the facts of all counted entities."""
        before, after = [], []
        for alterations in record.alterations:
            before.append([self._sentence(a.subject, a.relation, a.old) for a in alterations])
            after.append([self._sentence(a.subject, a.relation, a.new) for a in alterations])
        others = [
            self._sentence(entity, relation, self._object(entity, relation))
            for entity, relation in record.unaltered
        ]
        if record.scheme == "counting":
            return {
                "facts": before[0],
                "counterfactual_facts": after[0],
                "extended_facts": [*before[0], *others],
            }
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
        statement = self._statement((subject, relation, target))
        sentence = sentence_of(statement)
        return {
            "sentence": sentence,
            "atomic_facts": [sentence],
            "atomic_triples": [triple_of(statement)],
        }

    def _statement(self, fact: tuple[str, str, str]) -> list[str]:
        """Return subject, predicate and object of a fact as text."""
        subject, relation, target = fact
        predicate = self._predicate(relation, target)
        return [self._graph.label(subject), predicate, self._graph.label(target)]

    def _predicate(self, relation: str, target: str) -> str:
        """Return the words between subject and object, so that the triple reads as a sentence."""
        cloze = self._book.templates(relation).cloze
        if cloze.startswith("{}"):
            return cloze.removeprefix("{}").strip()
        if parse_measure(target) is None:
            return f"has as its {relation}"
        return f"has {'an' if relation[:1].lower() in 'aeiou' else 'a'} {relation} of"


def write_rows(items: Sequence[KeptItem], folder: Path) -> BenchmarkFiles:
    """Write ReCoE's files, one per scheme."""
    rows: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for item in items:
        row = item.result.get("row", item.fields["row"])
        rows[item.fields["scheme"]].append({**row, "question": item.result["question"]})
    for scheme, each in rows.items():
        write_json(folder / f"{scheme}.json", each)
    return BenchmarkFiles(benchmark="recoe", files=tuple(f"{scheme}.json" for scheme in rows))


def drop_contradictions(
    items: Sequence[KeptItem], recipe: str, language: str
) -> tuple[Sequence[KeptItem], tuple[FilterCount, ...]]:
    """Drop items whose facts, after corrections, contradict those of an earlier item.

    Returns:
        The consistent items, and the count of the filter, which is empty without corrections.
    """
    if not any(item.result.get("corrections") for item in items):
        return items, ()
    stated, consistent, outcomes = dict[str, str](), list[KeptItem](), dict[str, list[bool]]()
    for number, item in enumerate(items):
        corrections = item.result.get("corrections", {})
        facts = {fact: corrections.get(fact, fact) for fact in item.fields["facts"]}
        agrees = all(stated.get(fact, text) == text for fact, text in facts.items())
        outcomes[str(number)] = [agrees]
        if agrees:
            stated.update(facts)
            consistent.append(item)
    rejects = "A corrected fact contradicts an earlier record."
    rejected = len(items) - len(consistent)
    return consistent, (count_filter("agreement", outcomes, rejected, rejects),)


# Number of paragraphs retrieved per fact.
PARAGRAPHS = 5
# Minimum number of words of a paragraph; shorter ones are headings.
SHORTEST = 3


def add_evidence(
    items: Sequence[dict[str, Any]], folder: str, retriever: str, notes: SourceNotes
) -> None:
    """Add the paragraphs retrieved for each fact of an item to its field `evidence`.

    Args:
        items: items with `facts`, modified in place.
        folder: folder of documents.
        retriever: name, composition or `module:attribute` of a retriever.
        notes: source notes, to which digests and unreadable documents are added.

    Raises:
        MissingData: the folder does not exist, or has no documents.
        BadSettings: the retriever is unknown, or the documents have no paragraphs.
    """
    documents, factory = DocumentFolder(folder), load_retriever(retriever)
    paragraphs = list(dict.fromkeys(_paragraphs(documents)))
    if not paragraphs:
        raise BadSettings(
            f"the documents of '{folder}' have no paragraph: name another folder with --documents."
        )
    from emend.memory.store.chroma import ChromaMemory

    with ChromaMemory(
        None, load_embedding("auto", cache_folder("vectors")), superseding="time"
    ) as memory:
        memory.add([Edit(form="document", text=text) for text in paragraphs])
        search = factory(memory.view()).search
        for item in items:
            item["evidence"] = {}
            for fact in item["facts"]:
                item["evidence"][fact] = [hit.entry.text for hit in search(fact, PARAGRAPHS)]
    notes.files.update(documents.digests())
    notes.unread.update(documents.unread)


def _paragraphs(documents: DocumentFolder) -> Iterator[str]:
    for part in documents.parts():
        for paragraph in part.text.split("\n\n"):
            text = " ".join(paragraph.split())
            if len(text.split()) >= SHORTEST:
                yield text


SCHEMES = tuple(ROWS)


def prepare_records(config: BuildConfig, out: Path) -> Path:
    """Compose the records, store them in the benchmark folder, and return their file; idempotent.

    Raises:
        BadSettings: a scheme is unknown, or the source is not a file of facts.
        BadData: a row or a template is invalid, or no record can be composed from the facts.
        RunRefused: the folder holds other records.
    """
    schemes, table = read_schemes(config.schemes), read_fact_table(config.source)
    user_templates = read_templates(Path(config.relations).expanduser()) if config.relations else {}
    composer = RecordComposer(table.graph, random.Random(config.seed), config.allow_conflicts)
    count = config.cases if config.limit is None else min(config.cases, config.limit)
    records = take_turns((composer.records(scheme, count) for scheme in schemes), count)
    if not records:
        raise BadData(
            f"the {len(table.graph)} facts of '{config.source}' form no question of "
            f"{', '.join(schemes)}: these need a relation whose objects are numbers of one unit, "
            "or a relation with one object for several entities."
        )
    writer = RecordWriter(table.graph, TemplateBook(user_templates, table.templates))
    by_scheme = Counter(record.scheme for record in records)
    counts = ", ".join(f"{scheme} {number}" for scheme, number in by_scheme.items())
    notes = replace(
        notes_on_table(config.source, table),
        name=f"{config.source}: {len(table.graph)} facts, {counts}",
    )
    items = [writer.item(each) for each in records]
    if config.documents:
        add_evidence(items, config.documents, config.retriever, notes)
    return store_items(items, notes, out)


def read_schemes(text: str) -> tuple[str, ...]:
    """Return the schemes of a comma-separated list, or all schemes if it is empty.

    Raises:
        BadSettings: a scheme is unknown.
    """
    schemes = tuple(part.strip() for part in text.split(",") if part.strip()) or SCHEMES
    for scheme in schemes:
        if scheme not in SCHEMES:
            raise BadSettings(
                f"--schemes {text}: there is no scheme '{scheme}': {nearest(scheme, list(SCHEMES))}"
            )
    return schemes
