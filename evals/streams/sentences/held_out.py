"""Held-out wordings of generated sentences, from `held_out.toml`.

No extractor was developed on them.
"""

from functools import cache

from emend.evals.streams.sentences.templates import SentenceTemplates, read_tables


@cache
def held_out_templates() -> SentenceTemplates:
    """Return the templates of the file, at least eight of each kind."""
    tables = read_tables("held_out")
    return SentenceTemplates.of(tables, tables["statements"])
