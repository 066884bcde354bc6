"""Checks that a verdict is the judge's own and not quoted, and parsing of verdicts in plain
words.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from emend.agents.parsing.json_objects import ScannedObject, scan_objects
from emend.agents.parsing.reply_marks import has_open_reasoning, strip_marks
from emend.memory.errors import ModelReplyError
from emend.memory.typography import fold_text

# Words that, in the same line as a JSON object, retract it or attribute it to somebody else.
_UNSURE = re.compile(
    r"\b(?:not|never|no longer|instead of|rather "
    r"than|wrong|incorrect|unlike|cannot|quote[sd]?|says?|claims?"
    r"|for example|e\.g\.)\b|n['’]t\b",
    re.IGNORECASE,
)
_BETWEEN = r"[\s*_`\"']*(?:is|should be|would be|must be|:|=|->)[\s*_`\"']*"


class Repeated(dict[str, Any]):
    """A JSON object with a duplicate key that has two values."""


def check_own(
    reply: str, texts: Iterable[str], stated: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Reject a reply whose JSON may not be the judge's own verdict, or that has two verdicts.

    Args:
        reply: the raw reply, whose JSON has been parsed.
        texts: the texts under judgement.
        stated: the words of the verdict by field, to detect another verdict in the prose around the
            JSON.

    Raises:
        ModelReplyError: a key occurs twice, thoughts have no end, the object is quoted from the
            text or retracted in its own line, or the prose states another verdict.
    """
    text = own_words(reply)
    objects, prose = _objects(text)
    if any(isinstance(value, Repeated) for value in objects):
        _refuse("a field stands twice in the JSON, with two values.", reply)
    if objects and any(
        value in objects for judged in texts for value in _objects(judged)[0] if value
    ):
        _refuse(
            "the JSON stands word for word in the text under judgement: it is not a verdict of "
            "the judge's.",
            reply,
        )
    if any(_UNSURE.search(beside) for beside in _beside(text)):
        _refuse(
            "the line around the JSON takes it back, or says that it is somebody else's.", reply
        )
    for field, words in (stated or {}).items():
        in_prose = {hit.casefold() for hit in _stated(prose, field, words)}
        in_json = {str(value[field]).casefold() for value in objects if field in value}
        if in_json and in_prose - in_json:
            _refuse(
                f"two verdicts: '{field}' is {_list(in_json)} in the JSON, and "
                f"{_list(in_prose)} beside it.",
                reply,
            )


def own_words(reply: str) -> str:
    """Return the reply without the judge's thoughts.

    Raises:
        ModelReplyError: they have no end.
    """
    if has_open_reasoning(reply):
        _refuse("the thoughts have no end, so no verdict follows them.", reply)
    return strip_marks(reply)


def last_line(reply: str, pattern: re.Pattern[str], texts: Iterable[str]) -> re.Match[str]:
    """Return the verdict line of a reply in plain words: the whole last line, which must not be
    quoted from a judged text.

    Args:
        reply: the raw reply.
        pattern: pattern of a whole line; a reply may repeat its verdict, but not give two.
        texts: the texts under judgement.

    Raises:
        ModelReplyError: the last line is not a verdict, there are two different verdicts, or a
            text contains the line.
    """
    text = own_words(reply)
    lines = [_plain(line) for line in text.splitlines() if line.strip(" `*_\t")]
    hits = [hit for line in lines if (hit := pattern.fullmatch(line))]
    last = pattern.fullmatch(lines[-1]) if lines else None
    if last is None:
        _refuse(
            "expected a JSON object, or a last line that is the verdict and nothing else; "
            "there is neither.",
            reply,
        )
    if len({tuple(part.casefold() for part in hit.groups() if part) for hit in hits}) > 1:
        _refuse(f"{len(hits)} verdict lines, and they differ.", reply)
    line = fold_text(last[0])
    if any(line in {fold_text(_plain(row)) for row in text.splitlines()} for text in texts):
        _refuse(
            "the verdict line stands word for word in the text under judgement: it may be a "
            "quotation.",
            reply,
        )
    return last


def _plain(line: str) -> str:
    """Return the line without heading and emphasis marks."""
    return re.sub(r"^#+\s+", "", line.strip()).replace("*", "").strip("_ ")


def _objects(text: str) -> tuple[list[dict[str, Any]], str]:
    """Return the JSON objects of a text, and the text without them."""
    scanned = _scan(text)
    ends = zip(
        [0, *(each.end for each in scanned)],
        [*(each.start for each in scanned), len(text)],
        strict=True,
    )
    return [each.value or {} for each in scanned], "\n".join(text[end:start] for end, start in ends)


def _beside(text: str) -> list[str]:
    """Return the texts before and after each JSON object in its first and last line."""
    return [
        part
        for each in _scan(text)
        for part in (text[: each.start].rpartition("\n")[2], text[each.end :].partition("\n")[0])
    ]


def _scan(text: str) -> list[ScannedObject]:
    """Return each outermost JSON object of a text."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique, strict=False)
    return [each for each in scan_objects(text, decoder) if each.value is not None]


def _stated(prose: str, field: str, words: Sequence[str]) -> list[str]:
    """Return the verdicts of a field in prose, such as `verdict: no` or `the verdict is no`."""
    values = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    return re.findall(
        rf"\b{re.escape(field)}\b{_BETWEEN}({values})\b(?!\.\d|/\d)", prose, re.IGNORECASE
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    return Repeated(unique) if any(unique[key] != value for key, value in pairs) else unique


def _list(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


def _refuse(why: str, reply: str) -> NoReturn:
    raise ModelReplyError(why, reply)
