"""Mean lengths of DocTER's texts (section 4.2), and the topics of its documents (Figure 3)."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from emend.evals.data.data_table import DataFigure, DataTable
from emend.evals.data.token_count import TokenCount

# Rows of DocTER by file.
Files = Mapping[str, Sequence[Any]]


def lengths(table: Mapping[str, Any], rows: Files, tokens: TokenCount | None) -> DataTable:
    """Return the number of texts, and their mean length in words and in tokens.

    Words are split at white space, and not counted in Chinese. The paper's means are set beside
    those by its own tokenizer alone.
    """
    published = tokens is not None and tokens.sha256 == table["sha256"]
    figures: list[DataFigure] = []
    for entry in table["entries"]:
        texts = list(_texts(entry, rows))
        printed = entry.get("printed", {})
        words = [len(text.split()) for text in texts] if entry["language"] != "zh" else []
        counts = tokens.counts(texts) if tokens else []
        paper = printed.get("tokens") if published else None
        figures += [
            DataFigure(row=entry["name"], column="texts", here=len(texts) or None),
            DataFigure(row=entry["name"], column="words", here=_mean(words), digits=2),
            DataFigure(
                row=entry["name"], column="tokens", here=_mean(counts), paper=paper, digits=2
            ),
        ]
    note = _tokenizer_note(table, tokens, published)
    return DataTable(title=table["title"], figures=tuple(figures), notes=(note, *table["notes"]))


def topics(table: Mapping[str, Any], rows: Files) -> DataTable:
    """Return how many of the documents are about each of the paper's six topics.

    A document's topic is that of the cloze of its fact (gold_facts.json): the first topic of the
    table of which a pattern is in the cloze. Clozes without one are counted apart.
    """
    documents = {row.id for file in table["documents"] for row in rows.get(file, ())}
    facts = [row for row in rows.get(table["facts"], ()) if row.id in documents]
    counted = Counter(topic_of(row.prompt_template, table["topics"]) for row in facts)
    figures: list[DataFigure] = []
    for topic in (*table["order"], table["none"]):
        if topic == table["none"] and not counted[topic]:
            continue
        number: int | None = counted[topic] if facts else None
        share = 100 * counted[topic] / len(facts) if facts else None
        figures += [
            DataFigure(row=topic, column="documents", here=number),
            DataFigure(row=topic, column="percent", here=share, digits=1),
        ]
    missing = len(documents) - len({row.id for row in facts})
    notes = list(table["notes"])
    if missing:
        notes.insert(0, f"{missing:,} documents have no fact in {table['facts']}")
    return DataTable(title=table["title"], figures=tuple(figures), notes=tuple(notes))


def topic_of(cloze: str, patterns: Mapping[str, Sequence[str]]) -> str:
    """Return the first topic of which a pattern is in the cloze; "no topic" without one."""
    for topic, expressions in patterns.items():
        if any(re.search(expression, cloze) for expression in expressions):
            return topic
    return "no topic"


def _texts(entry: Mapping[str, Any], rows: Files) -> Iterator[str]:
    """Yield the texts of an entry's field in its files."""
    for file in entry["files"]:
        for row in rows.get(file, ()):
            value = getattr(row, entry["field"])
            if isinstance(value, str):
                yield value
            else:
                yield from value


def _mean(counts: Iterable[int]) -> float | None:
    numbers = list(counts)
    if numbers:
        return fmean(numbers)
    return None


def _tokenizer_note(table: Mapping[str, Any], tokens: TokenCount | None, published: bool) -> str:
    if published:
        return f"tokens: by {table['tokenizer']}, the paper's, with the begin token"
    if tokens:
        return f"tokens: by {tokens.name}, which is not the paper's, so nothing is compared"
    return (
        "tokens: no tokenizer; emend data pull docter fetches the paper's (InternLM-7B), or name "
        "one: --tokenizer FILE"
    )
