"""Filters of Wikipedia leads as the document of a fact, each of which returns why they are
rejected, or an empty text.
"""

import re
from collections.abc import Mapping

from emend.graphs.construction.filters.patterns import MARKUP, read_pattern
from emend.graphs.construction.filters.texts import (
    FINAL,
    TEXT_FILTERS,
    AuthoredDraft,
    TextFilter,
    find_foreign_language,
)

# Pronunciation in square brackets, after the name of its language.
_PHONETIC = re.compile(r"(?<=[:;,(])\s?\[[^\]\n]*\]")
# Wiki markup.
_SOURCE = re.compile(
    r"\[\[|\]\]|\{\{|\}\}|'''|<ref\b|&(?:#\d+|[a-z]+);|^=+[^=\n]+=+\s*$", re.MULTILINE
)
_REDIRECT = read_pattern("page_redirect", re.IGNORECASE | re.MULTILINE)
_SEVERAL = read_pattern("page_of_several")
_NOTICE = read_pattern("page_notice")
_ERROR = read_pattern("page_error")


def find_no_page(draft: AuthoredDraft) -> str:
    """The lead is a redirect, a disambiguation page, a notice to editors or a server error."""
    kinds = {
        "a redirect": _REDIRECT,
        "a list of things of one name": _SEVERAL,
        "a notice to editors": _NOTICE,
        "an error": _ERROR,
    }
    return next(
        (
            f"the page is or has {kind}"
            for kind, pattern in kinds.items()
            if pattern.search(draft.text)
        ),
        "",
    )


def find_page_markup(draft: AuthoredDraft) -> str:
    """The lead has markup, lists, tables or placeholders."""
    text = _PHONETIC.sub("", draft.text)
    hit = _SOURCE.search(text) or MARKUP.search(text)
    return f"the lead is not running text: '{hit[0].strip()[:40]}'" if hit else ""


def find_cut_lead(draft: AuthoredDraft) -> str:
    """A lead ends in the middle of a sentence."""
    paragraphs = [part for part in re.split(r"\n\s*\n", draft.text) if part.strip()]
    if any(not FINAL.search(part) for part in paragraphs):
        return "a lead ends within a sentence"
    return ""


# In the order in which they are applied.
PAGE_FILTERS: Mapping[str, TextFilter] = {
    "empty": TEXT_FILTERS["empty"],
    "instruction": TEXT_FILTERS["instruction"],
    "page": find_no_page,
    "markup": find_page_markup,
    "language": find_foreign_language,
    "subject": TEXT_FILTERS["subject"],
    "new_object": TEXT_FILTERS["new_object"],
    "cut_off": find_cut_lead,
}
