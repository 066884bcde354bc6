"""Every `bash` block of README and docs is run, line by line, in a folder that has the files shown above it."""

import multiprocessing
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.params import mostly_slow
from tests.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
SHOWN = re.compile(r"^`([\w./]+\.py)`:\n\n```python\n(.*?)^```", re.M | re.S)


def commands(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    lines = [line for kind, body in BLOCK.findall(text) if kind == "bash" for line in body.splitlines()]
    return [line for line in lines if line.strip() and not line.startswith("#")]


LIBRARIES = ["emend.evals.cli.main", "emend.evals.runner.run", "emend.agents.local.causal_lm"]
LIBRARIES += ["transformers.models.llama.modeling_llama", "sentence_transformers", "chromadb"]
"""Loaded once, in a process that does nothing else; the process of each page starts from there."""


def follow(folder: Path, told: Path, lines: list[list[str]]) -> None:
    """Runs the commands of a page one after another, all that they print going to the file `told`."""
    with told.open("wb", buffering=0) as out:
        os.dup2(out.fileno(), 1), os.dup2(out.fileno(), 2)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # not those of the tests
    os.chdir(folder)
    os.environ |= {"NO_COLOR": "1", "COLUMNS": "120"}
    from emend.evals.cli.main import main

    for line in lines:
        sys.argv = ["emend", *line]
        print("$", *sys.argv, flush=True)
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise


@pytest.fixture(scope="module")
def loaded() -> Any:
    """Makes processes that have the libraries already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    return context


@pytest.mark.parametrize("page", mostly_slow([p for p in PAGES if commands(p)], PAGES[0]), ids=lambda p: p.name)
def test_every_command_works(page: Path, tmp_path: Path, loaded: Any) -> None:
    for name, body in SHOWN.findall(page.read_text(encoding="utf-8")):
        (tmp_path / name).write_text(body, encoding="utf-8")
    known = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
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
    told = tmp_path / "told.txt"
    page_process = loaded.Process(target=follow, args=(tmp_path, told, lines))
    page_process.start()
    page_process.join(500)
    page_process.kill()  # one that has not ended in that time
    page_process.join()
    printed = told.read_text("utf-8")
    assert page_process.exitcode == 0, printed
    assert printed.count("$ emend ") == len(lines), printed


def test_all_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
