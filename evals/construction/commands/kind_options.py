"""Options of `emend build` for each kind of benchmark."""

from collections.abc import Mapping
from dataclasses import dataclass

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.limits import Limits

TABLE_OF_FACTS = (
    "Table of facts: a .csv, .tsv, .jsonl, .json or .yaml file; emend build facts makes one."
)
TEMPLATES = "TOML file of relations with their templates; default: by rules."
# Options of every kind with an author, apart from the options of API calls.
AUTHORED = (
    "source",
    "model",
    "judge",
    "recipe",
    "language",
    "prompts",
    "limit",
    "seed",
    "concurrency",
    "workers",
    "fail_on_error",
    "overrides",
)
SELECTED = (
    "source",
    "model",
    "limit",
    "data",
    "benchmark_options",
    "seed",
    "concurrency",
    "workers",
    "fail_on_error",
    "overrides",
)


@dataclass(frozen=True)
class KindOptions:
    """Options of a kind of benchmark.

    Attributes:
        summary: one-line description of the benchmark.
        source: help of `--from`.
        particular: fields of `BuildConfig` that only this kind and a few others read.
        relations: help of `--relations`; empty if the kind has no such option.
        shared: fields of `BuildConfig` that most kinds read.
        is_composed: True if the items are composed by rules, so that the author is optional and
            `--cases` sets their number.
    """

    summary: str
    source: str
    particular: tuple[str, ...] = ()
    relations: str = ""
    shared: tuple[str, ...] = AUTHORED
    is_composed: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields of `BuildConfig` that are options of the kind."""
        return (*self.shared, *self.particular, *Limits.model_fields)

    @property
    def help_texts(self) -> Mapping[str, str]:
        """Help texts that replace the descriptions of fields, by field."""
        texts = {"source": self.source}
        if self.relations:
            texts["relations"] = self.relations
        if self.is_composed:
            texts["model"] = (
                "Author model, which paraphrases the items; default: the wording composed by rules."
            )
        if not self.is_reviewed:
            texts["model"] = "Model whose knowledge is tested; as in emend run --model."
        return texts

    @property
    def common(self) -> tuple[str, ...]:
        """Parameters of the first help panel, in order."""
        return (
            "source",
            "model",
            *(("judge",) if self.is_reviewed else ()),
            "out",
            *self.particular,
        )

    @property
    def is_reviewed(self) -> bool:
        """True if a judge and people can review the items."""
        return "judge" in self.shared


KIND_OPTIONS: Mapping[str, KindOptions] = {
    "akew": KindOptions(
        "Facts as a sentence, a paragraph and triplets (AKEW).",
        "File of facts, or a benchmark whose edits are the facts.",
    ),
    "wikiupdate": KindOptions(
        "Facts that changed in Wikidata, with the lead sections of their Wikipedia pages (AKEW).",
        "Source of updates: wikidata (queries its servers), a dump of Wikidata, or a .jsonl file "
        "of updates.",
        ("since", "contact", "relations", "leads"),
        relations="TOML file of Wikidata's relations; default: the shipped ones.",
    ),
    "questions": KindOptions(
        "Questions about your own documents, each with the sentence that states the answer.",
        "Folder of documents.",
    ),
    "facts": KindOptions(
        "A table of the facts stated in your own documents.",
        "Folder of documents.",
    ),
    "chains": KindOptions(
        "Multi-hop questions about chains of facts, with edits that change the answer (MQuAKE).",
        TABLE_OF_FACTS,
        ("hops", "edits", "cases", "allow_conflicts", "relations"),
        relations=TEMPLATES,
        is_composed=True,
    ),
    "docter": KindOptions(
        "Press documents about counterfactual facts, with reasoning questions (DocTER).",
        "CounterFact's file, or a file of facts with prompt and old_answer.",
        ("queries",),
    ),
    "elken": KindOptions(
        "News-style events that change facts (ELKEN).",
        TABLE_OF_FACTS,
        ("cases", "relations"),
        relations="TOML file of event types; default: the shipped ones.",
        is_composed=True,
    ),
    "tendencies": KindOptions(
        "Events about a topic, with questions about their likely effects (ELKEN).",
        "ELKEN's topics (the word topics), or a TOML file of topics.",
    ),
    "recoe": KindOptions(
        "Questions that need reasoning over several facts, filtered by a debate of models (ReCoE).",
        TABLE_OF_FACTS,
        ("cases", "schemes", "documents", "retriever", "allow_conflicts", "relations"),
        relations=TEMPLATES,
        is_composed=True,
    ),
    "fresh": KindOptions(
        "Facts of a benchmark that a model does not know, or those that it knows.",
        "Benchmark, file of facts, or folder of emend build.",
        ("fact", "keep"),
        shared=SELECTED,
    ),
}

# A kind from another package may read any field.
FOREIGN_KIND = KindOptions(
    "Your own kind, or a kind of another package.",
    "Source of the kind: a file, folder or benchmark.",
    tuple(
        name
        for name in BuildConfig.model_fields
        if name not in AUTHORED and name not in Limits.model_fields
    ),
)


def kinds_with(option: str) -> list[str]:
    """Return the kinds that have a field as an option."""
    return [name for name, options in KIND_OPTIONS.items() if option in options.fields]
