"""Whether a verdict in a reply is the judge's own, and verdicts in plain words for judges that write no JSON."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from emend.agents.parsing.reasoning_text import REASONING, REASONING_START
from emend.memory.errors import ModelReplyError

_UNSURE = re.compile(
    r"\b(?:not|never|no longer|instead of|rather than|wrong|incorrect|unlike|cannot|quote[sd]?|says?|claims?"
    r"|for example|e\.g\.)\b|n['’]t\b",
    re.IGNORECASE,
)
"""In the prose of its own line, these take an object back, or give it to somebody else."""
_BETWEEN = r"[\s*_`\"']*(?:is|should be|would be|must be|:|=|->)[\s*_`\"']*"


class Repeated(dict[str, Any]):
    """An object in which a key stands twice with two values."""


def check_own(reply: str, texts: Iterable[str], stated: Mapping[str, Sequence[str]] | None = None) -> None:
    """Refuse a reply whose JSON may not be the judge's own verdict, or is one of two.

    Args:
        reply: as it came; its JSON has been read.
        texts: what was judged.
        stated: words of the verdict by field, to find another verdict in the prose around the JSON.

    Raises:
        ModelReplyError: a key stands twice, thoughts have no end, the object is quoted from the text or taken back in
            its own line, or the prose states another verdict.
    """
    text = own_words(reply)
    found, prose = _objects(text)
    if any(isinstance(told, Repeated) for told in found):
        _refuse("a field stands twice in the JSON, with two values.", reply)
    if found and any(told in found for given in texts for told in _objects(given)[0] if told):
        _refuse("the JSON stands word for word in the text under judgement: it is no verdict of the judge's.", reply)
    if any(_UNSURE.search(beside) for beside in _beside(text)):
        _refuse("the line around the JSON takes it back, or says that it is somebody else's.", reply)
    for field, words in (stated or {}).items():
        said = {hit.casefold() for hit in _stated(prose, field, words)}
        given = {str(told[field]).casefold() for told in found if field in told}
        if given and said - given:
            _refuse(f"two verdicts: '{field}' is {_list(given)} in the JSON, and {_list(said)} beside it.", reply)


def own_words(reply: str) -> str:
    """The reply without the judge's thoughts.

    Raises:
        ModelReplyError: they have no end.
    """
    text = REASONING.sub("", reply)
    if REASONING_START.search(text):
        _refuse("the thoughts have no end, so no verdict follows them.", reply)
    return text


def last_line(reply: str, pattern: re.Pattern[str], texts: Iterable[str]) -> re.Match[str]:
    """The one verdict line of a reply in plain words: its last line, whole, and not from the text under judgement.

    Args:
        reply: as it came.
        pattern: of a whole line; a reply may hold the same verdict twice, not two that differ.
        texts: what was judged.

    Raises:
        ModelReplyError: the last line is no verdict, there are two that differ, or the line stands in a text.
    """
    text = own_words(reply)
    lines = [line.strip().strip("*_").strip() for line in text.splitlines() if line.strip(" `*_\t")]
    hits = [hit for line in lines if (hit := pattern.fullmatch(line))]
    last = pattern.fullmatch(lines[-1]) if lines else None
    if last is None:
        _refuse("expected a JSON object, or a last line that is the verdict and nothing else; there is neither.", reply)
    if len({tuple(part.casefold() for part in hit.groups() if part) for hit in hits}) > 1:
        _refuse(f"{len(hits)} verdict lines, and they differ.", reply)
    line = " ".join(last[0].casefold().split())
    if any(line in {" ".join(given.casefold().split()) for given in text.splitlines()} for text in texts):
        _refuse("the verdict line stands word for word in the text under judgement: it may be a quotation.", reply)
    return last


def _objects(text: str) -> tuple[list[dict[str, Any]], str]:
    """The JSON objects of a text, and the text without them."""
    decoder, found, rest, start = json.JSONDecoder(object_pairs_hook=_unique), [], [], 0
    at = text.find("{")
    while at >= 0:
        try:
            told, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        found.append(told)
        rest.append(text[start:at])
        start, at = end, text.find("{", end)
    return found, "\n".join([*rest, text[start:]])


def _beside(text: str) -> list[str]:
    """Of each object, what stands before it and after it in its own first and last line."""
    decoder, found = json.JSONDecoder(), []
    at = text.find("{")
    while at >= 0:
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        found += [text[:at].rpartition("\n")[2], text[end:].partition("\n")[0]]
        at = text.find("{", end)
    return found


def _stated(prose: str, field: str, words: Sequence[str]) -> list[str]:
    """Verdicts of the field in running text, as `verdict: no` or `the verdict is no`."""
    values = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    return re.findall(rf"\b{re.escape(field)}\b{_BETWEEN}({values})\b(?!\.\d|/\d)", prose, re.IGNORECASE)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    told = dict(pairs)
    return Repeated(told) if any(told[key] != value for key, value in pairs) else told


def _list(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


def _refuse(why: str, reply: str) -> NoReturn:
    raise ModelReplyError(why, reply)
