"""Regular expressions in TOML files, as lists of the phrases that they match.

A pattern is one or several tables and matches what any entry of any of them matches. `form` is the
pattern around the entries of a table, which replace its `{}`; `<name>` stands for a fragment of the
table `fragments`.
"""

import re
import tomllib
from pathlib import Path
from typing import Any


class PatternFile:
    """The patterns of a TOML file."""

    def __init__(self, path: Path) -> None:
        self.tables: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))

    @classmethod
    def beside(cls, module: str) -> "PatternFile":
        """Read the TOML file with the name of a module and in its folder, given the module's
        `__file__`.
        """
        return cls(Path(module).with_suffix(".toml"))

    def read(self, name: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
        """Return the pattern with a name."""
        groups = []
        for table in self.tables[name]:
            entries = "|".join(table["any"])
            groups.append(table.get("form", "{}").replace("{}", entries))
        pattern = "|".join(groups)
        for fragment, text in self.tables.get("fragments", {}).items():
            pattern = pattern.replace(f"<{fragment}>", text)
        return re.compile(pattern, flags)
