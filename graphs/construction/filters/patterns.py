"""Patterns for unusable authored texts: refusals, comments, instructions and markup."""

import re
import tomllib
from pathlib import Path

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def read_pattern(name: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Return the pattern with a name in the TOML file beside this module, for letters of any
    case.
    """
    groups = []
    for table in _TABLES[name]:
        entries = "|".join(table["any"])
        groups.append(table.get("form", "{}").replace("{}", entries))
    pattern = "|".join(groups)
    for fragment, text in _TABLES["fragments"].items():
        pattern = pattern.replace(f"<{fragment}>", text)
    return re.compile(pattern, re.IGNORECASE | flags)


REFUSAL, DENIAL, TALK = map(read_pattern, ("refusal", "denial", "talk"))
INSTRUCTION = read_pattern("instruction", re.MULTILINE)
MARKUP = read_pattern("markup", re.MULTILINE)
# Headings: a short line by itself that is not a sentence, followed by text.
HEADING = re.compile(r"(?:\A|\n\s*\n)[^\S\n]*[^\n]{1,80}[^\n.!?。！？…:;,\"'”’»)]\s*\n\s*\n")
# Quotations, in folded typography; their content is not checked.
QUOTATION = re.compile(r"\"[^\"\n]{1,400}\"|「[^」\n]{1,200}」")
# Most frequent words of languages with Latin letters.
USUAL_WORDS: dict[str, str] = _TABLES["usual_words"]
