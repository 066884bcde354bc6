"""Every `bash` block of README and docs is run, line by line, in a folder that has the files shown above it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
SHOWN = re.compile(r"^`([\w./]+\.py)`:\n\n```python\n(.*?)^```", re.M | re.S)


def commands(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    lines = [line for kind, body in BLOCK.findall(text) if kind == "bash" for line in body.splitlines()]
    return [line for line in lines if line.strip() and not line.startswith("#")]


RUNNER = """
import json, sys
from emend.evals.cli import main
for line in json.loads(sys.argv[1]):
    sys.argv = ["emend", *line]
    print("$", *sys.argv, flush=True)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""
"""One process for all commands of a page: they are the entry point's own, and the libraries load once."""


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda p: p.name)
def test_every_command_works(page: Path, tmp_path: Path) -> None:
    for name, body in SHOWN.findall(page.read_text(encoding="utf-8")):
        (tmp_path / name).write_text(body, encoding="utf-8")
    known = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    lines = []
    for line in commands(page):
        program, *arguments = shlex.split(line)
        if program == "make":
            assert set(arguments) <= set(known), line
            continue
        assert program == "emend", f"{page.name}: a bash block may hold `emend` and `make` commands only: {line}"
        if arguments[0] == "demo":
            arguments += ["--edits", "2"]  # the whole demo is run by `make demo`; here its command line is
        lines.append(arguments)
    surroundings = os.environ | {"PYTHONPATH": str(tmp_path), "NO_COLOR": "1", "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, json.dumps(lines)],
        cwd=tmp_path,
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.count("$ emend ") == len(lines)


def test_all_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
