"""Bounds on the text that a tokenizer file makes of one character, and on its expressions.

A `tokenizer.json` may chain replacements that each double the text, so that a few hundred bytes
from a stranger use up the memory; added tokens are normalised so already when it is loaded.
"""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emend.memory.embeddings.tokenizer_patterns import check_patterns
from emend.memory.errors import ModelError

# Maximum size of a tokenizer file; the largest published ones have 35 MB.
LARGEST = 200_000_000
# Maximum number of characters that the steps may make of one. ALBERT's, the longest chain of a
# well-known model, reach 648 by this count, and 18 in fact.
LIMIT = 1_000
# Most characters that a step makes of one, by type; other types keep the length.
FACTORS = {
    "NFC": 3,
    "NFD": 4,
    "NFKC": 18,
    "NFKD": 18,
    "Lowercase": 2,
    "BertNormalizer": 3,
    "ByteLevel": 4,
    "Metaspace": 2,
}
PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
# Types with fields of their own, by a field that also marks them in files without types.
TYPES = {
    "normalizers": "Sequence",
    "pretokenizers": "Sequence",
    "processors": "Sequence",
    "decoders": "Sequence",
    "content": "Replace",
    "prepend": "Prepend",
    "single": "TemplateProcessing",
    "precompiled_charsmap": "Precompiled",
}
UNTYPED_FACTOR = 4
# Found in each regular expression that can match nothing, where a replacement is then inserted.
_MAY_BE_EMPTY = re.compile(r"[*?^$|]|\{[0,]|\(\)|\\[^sSwWdDhHRXNOpPtnrfvxu\W]|^$")


def check_tokenizers(folder: Path) -> None:
    """Check the tokenizer files in a folder, and in its subfolders if it lists modules.

    Raises:
        ModelError: as for `check_tokenizer`, or a file is larger than `LARGEST`.
    """
    files = folder.rglob if (folder / "modules.json").exists() else folder.glob
    for file in files("tokenizer*.json"):
        if file.is_file():
            if file.stat().st_size > LARGEST:
                raise ModelError(f"{file} has more than {LARGEST:,} bytes: it is no tokenizer.")
            check_tokenizer(file.read_bytes(), file)


def check_tokenizer(content: bytes, file: Path) -> None:
    """Check a tokenizer file. One that is not JSON is left to the library that reads it.

    Raises:
        ModelError: it makes more than `LIMIT` characters of one, its steps cannot be read, or its
            regular expressions take too long.
    """
    try:
        fields = json.loads(content, parse_int=float)
    except (ValueError, RecursionError):
        return
    patterns: list[str] = []
    for part in PARTS:
        try:
            steps = list(_flat(fields.get(part) if isinstance(fields, dict) else None))
            is_refused = growth(steps) > LIMIT
            patterns += _patterns(steps)
        except (TypeError, AttributeError, LookupError, ValueError, RecursionError) as error:
            raise ModelError(
                f"the {part} in {file} cannot be read ({type(error).__name__}: {error}): save the "
                "tokenizer again with `tokenizer.save_pretrained`."
            ) from error
        if is_refused:
            raise ModelError(
                f"the {part} in {file} can make more than {LIMIT:,} characters of one, which would "
                "use up the memory: take the tokenizer from the model's publisher."
            )
    check_patterns(patterns, file)


def growth(steps: list[dict[str, Any]]) -> float:
    """Return an upper bound of the number of characters that the steps make of one."""
    # from the last step to the first: what becomes of a character, and of any other
    lengths: dict[str, float] = {}
    other = 1.0
    for step in reversed(steps):
        if _type(step) != "Replace":
            factor = _factor(step)
            if factor > 1:
                other, lengths = factor * max([other, *lengths.values()]), {}
            continue
        length = sum(lengths.get(char, other) for char in step["content"])
        if text := step["pattern"].get("String"):
            for char in text:
                lengths[char] = max(lengths.get(char, other), length / len(text))
            continue
        inserted = length if _MAY_BE_EMPTY.search(step["pattern"].get("Regex", "")) else 0.0
        lengths = {char: max(each, length) + inserted for char, each in lengths.items()}
        other = max(other, length) + inserted
    return max([other, *lengths.values()])


def _patterns(steps: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the regular expressions of the steps."""
    for step in steps:
        pattern = step.get("pattern")
        if isinstance(pattern, dict) and "Regex" in pattern:
            yield str(pattern["Regex"])


def _flat(step: Any) -> Iterator[dict[str, Any]]:
    """Yield the steps of nested sequences in order."""
    if step is None:
        return
    if _type(step) != "Sequence":
        yield step
        return
    for field, name in TYPES.items():
        for inner in step.get(field, ()) if name == "Sequence" else ():
            yield from _flat(inner)


def _type(step: dict[str, Any]) -> str | None:
    marked = (name for field, name in TYPES.items() if field in step)
    return step.get("type") or next(marked, None)


def _factor(step: dict[str, Any]) -> float:
    match _type(step):
        case None:
            return UNTYPED_FACTOR
        case "Prepend":
            return len(step["prepend"])
        case "TemplateProcessing":
            return max(_template_length(step, name) for name in ("single", "pair"))
        case "Precompiled":
            return _longest_mapping(step["precompiled_charsmap"])
        case name:
            return FACTORS.get(name, 1)


def _template_length(step: dict[str, Any], name: str) -> float:
    """Return the number of texts and special tokens in a template."""
    length = 0
    for piece in step.get(name) or ():
        special = piece.get("SpecialToken") or {}
        ids = step.get("special_tokens", {}).get(special.get("id"), {}).get("ids", [0])
        length += len(ids)
    return length


def _longest_mapping(charsmap: str) -> float:
    """Return the longest text of SentencePiece's map of characters, whose texts follow its trie."""
    content = base64.b64decode(charsmap or "")
    start = 4 + int.from_bytes(content[:4], "little")
    texts = content[start:].decode("utf-8", "replace").split("\0")
    return max(map(len, texts))
