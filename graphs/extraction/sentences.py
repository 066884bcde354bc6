"""Sentence splitting, even if the space after a full stop is missing."""

import re

from emend.memory.text_pieces import CLOSERS, SENTENCE_ENDS

ABBREVIATIONS = frozenset(
    "Dr Mr Mrs Ms Prof St Sr Jr Mt Ft vs No Inc Ltd Co Corp Gen Col Capt Rev Hon Gov Sen".split()
)
_END = re.compile(
    r"(?P<stop>[.!?]+)(?P<quote>[\"”’)\]]*)(?P<space>\s*)(?=(?P<next>[\"“(]*[A-Z0-9À-Þ]|[\"“(]*$))"
)
_OTHER_SCRIPT = re.compile(rf"([{SENTENCE_ENDS}][{CLOSERS}]*)\s*")
_DATELINE = re.compile(r"^[A-Z][\w.,’' ]{1,40}?\s*(?:\([^)]*\)\s*)?(?:-{1,2}|[–—])\s+(?=[A-Z\"“])")
# Number of characters read before a full stop; unbounded, a line of initials would take minutes.
_LONGEST_WORD = 64
_BRACKETED = re.compile(r"\s*\[[^\]]{0,1000}\]")


def split_sentences(text: str) -> list[str]:
    """Return the sentences in order, without line breaks, datelines of news stories and bracketed
    notes.

    A full stop after an initial, a title or an abbreviation, or inside a number or address, does
    not end a sentence.
    """
    out: list[str] = []
    for line in _parted(_OTHER_SCRIPT.sub(r"\1\n", _BRACKETED.sub("", text))).splitlines():
        out += _of_line(_DATELINE.sub("", " ".join(line.split()), count=1))
    return out


def _parted(text: str) -> str:
    """Insert line breaks between a heading and a name without a space: 'by StormActrius is'."""
    words = set(re.findall(r"\b[A-Z]\w+", text))

    def part(match: re.Match[str]) -> str:
        return f"{match[1]}\n{match[2]}" if match[2] in words else match.group()

    return re.sub(r"\b([A-Z]?[a-z]{2,}|[A-Z]\w*[a-z]{2}|\d{4})([A-Z][a-z]+)\b", part, text)


def _of_line(line: str) -> list[str]:
    out, start = [], 0
    for match in _END.finditer(line):
        if _ends(line, match):
            out.append(line[start : match.start("space")].strip())
            start = match.end("space")
    out.append(line[start:].strip())
    return [sentence for sentence in out if re.search(r"\w", sentence)]


def _ends(line: str, match: re.Match[str]) -> bool:
    """Return whether the full stop ends a sentence."""
    word = re.search(r"[\w.]*$", line[max(0, match.start() - _LONGEST_WORD) : match.start()])
    before = word.group() if word else ""
    if match["stop"] != "." or match["quote"]:
        return True
    if before in ABBREVIATIONS or re.fullmatch(r"(?:[A-Z]|[A-Z](?:\.[A-Z])+|[a-z])", before):
        return False
    lost = not match["space"] and bool(match["next"].strip('"“('))
    return not lost or bool(re.search(r"[a-z\d]{2}$", before)) and match["next"][-1].isupper()
