"""Filters of Wikipedia leads as the document of a fact, each of which returns why they are
rejected, or an empty text.
"""

import re
from collections.abc import Mapping

from emend.graphs.construction.filters.patterns import MARKUP
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
_REDIRECT = re.compile(
    r"^\s*#\s*(?:redirect|weiterleitung|redirection|redirecci[oó]n|重定向|転送)"
    r"|^\W*redirected from\b",
    re.IGNORECASE | re.MULTILINE,
)
_SEVERAL = re.compile(
    r"\b(?:may|can|could|might) (?:also )?(?:refer to|mean|stand for)\b|\(disambiguation\)"
    r"|\bis (?:also )?the name of (?:several|various|many)\b"
    r"|\bthere (?:are|is more than one) [^.]{0,30}\b(?:called|named|of (?:this|that) name)\b"
    r"|\b(?:kann (?:auch )?(?:stehen für|bedeuten)|bezeichnet:|steht für:)"
    r"|\bpeut (?:aussi )?(?:désigner|faire référence)|\bpuede (?:también )?(?:referirse|hacer "
    r"referencia)"
    r"|可以指|可能是指|消歧义|曖昧さ回避",
    re.IGNORECASE,
)
_NOTICE = re.compile(
    r"\b(?:this|the \w+ of this) (?:\w+ "
    r")?(?:article|section|biography|page|list|stub|entry)\b[^.]{0,90}"
    r"\b(?:citations?|verif\w+|sources?|issues|improv\w+|neutral\w+|disputed|clean-?up|outdated|"
    r"updated|expan\w+|"
    r"references|deleted|merged|rewritten|last edited|incomplete|wrong)\b|\bcitation needed\b"
    r"|\b(?:please|help us)(?: help)?(?: to)? (?:improve|update|expand|add|complete)\b|\byou can "
    r"help\b",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"\A\W*(?:error\b|[45]\d\d (?:error|not found|forbidden|bad|internal|service|gateway|too "
    r"many)\b)"
    r"|\b(?:page|article)\b[^.]{0,60}\b(?:not found|does not exist|is missing|was deleted)\b"
    r"|\bask(?:ed)? for it to be created\b|\bno (?:lead|extract|article|page|text) (?:is |was "
    r")?(?:available|found)\b"
    r"|\b(?:access|permission) denied\b|\btoo many requests\b|\bbad gateway\b|\brequest timed out\b"
    r"|\bsomething went wrong\b|\btry again later\b",
    re.IGNORECASE,
)


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
