"""Splits a document into sentences, also where the space after a full stop was lost."""

import re

ABBREVIATIONS = frozenset("Dr Mr Mrs Ms Prof St Sr Jr Mt Ft vs No Inc Ltd Co Corp Gen Col Capt Rev Hon Gov Sen".split())
_END = re.compile(r"(?P<stop>[.!?]+)(?P<quote>[\"”’)\]]*)(?P<space>\s*)(?=(?P<next>[\"“(]*[A-Z0-9À-Þ]|[\"“(]*$))")
_DATELINE = re.compile(r"^[A-Z][\w.,’' ]{1,40}?\s*(?:\([^)]*\)\s*)?(?:-{1,2}|[–—])\s+(?=[A-Z\"“])")
_BRACKETED = re.compile(r"\s*\[[^\]]*\]")


def split_sentences(text: str) -> list[str]:
    """The sentences in order, without line ends, a news story's dateline and bracketed notes.

    A stop ends no sentence after an initial, a title or an abbreviation, nor inside a number or an address.
    """
    out: list[str] = []
    for line in _parted(_BRACKETED.sub("", text)).splitlines():
        out += _of_line(_DATELINE.sub("", " ".join(line.split()), count=1))
    return out


def _parted(text: str) -> str:
    """Line ends put back where a heading runs into a name: 'by StormActrius is', 'May 2023Raisio is'."""
    words = set(re.findall(r"\b[A-Z]\w+", text))

    def part(found: re.Match[str]) -> str:
        return f"{found[1]}\n{found[2]}" if found[2] in words else found.group()

    return re.sub(r"\b([A-Z]?[a-z]{2,}|[A-Z]\w*[a-z]{2}|\d{4})([A-Z][a-z]+)\b", part, text)


def _of_line(line: str) -> list[str]:
    out, start = [], 0
    for found in _END.finditer(line):
        if _ends(line, found):
            out.append(line[start : found.start("space")].strip())
            start = found.end("space")
    out.append(line[start:].strip())
    return [sentence for sentence in out if re.search(r"\w", sentence)]


def _ends(line: str, found: re.Match[str]) -> bool:
    """Whether the stop ends a sentence."""
    word = re.search(r"[\w.]*$", line[: found.start()])
    before = word.group() if word else ""
    if found["stop"] != "." or found["quote"]:
        return True
    if before in ABBREVIATIONS or re.fullmatch(r"(?:[A-Z]|[A-Z](?:\.[A-Z])+|[a-z])", before):
        return False
    lost = not found["space"] and bool(found["next"].strip('"“('))
    return not lost or bool(re.search(r"[a-z\d]{2}$", before)) and found["next"][-1].isupper()
