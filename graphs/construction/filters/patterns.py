"""Patterns for unusable authored texts: refusals, comments, instructions and markup."""

import re

from emend.agents.parsing.patterns import PatternFile

_FILE = PatternFile.beside(__file__)
read_pattern = _FILE.read
REFUSAL, DENIAL, TALK = map(read_pattern, ("refusal", "denial", "talk"))
INSTRUCTION = read_pattern("instruction", re.IGNORECASE | re.MULTILINE)
MARKUP = read_pattern("markup", re.IGNORECASE | re.MULTILINE)
# Headings: a short line by itself that is not a sentence, followed by text.
HEADING = re.compile(r"(?:\A|\n\s*\n)[^\S\n]*[^\n]{1,80}[^\n.!?。！？…:;,\"'”’»)]\s*\n\s*\n")
# Quotations, in folded typography; their content is not checked.
QUOTATION = re.compile(r"\"[^\"\n]{1,400}\"|「[^」\n]{1,200}」")
# Most frequent words of languages with Latin letters.
USUAL_WORDS: dict[str, str] = _FILE.tables["usual_words"]
