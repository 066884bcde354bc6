"""Every `bash` block of README and docs is run, line by line, in a folder that has the files shown above it."""

import doctest
import re
import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from emend.agents.llm import load_model
from tests.evals.command_line import emend
from tests.evals.construction.authors import author, label
from tests.params import mostly_slow
from tests.paths import ROOT
from tests.provider.completions import CompletionsServer
from tests.provider.server import Provider

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
SERVER = "http://127.0.0.1:8000/v1"
"""The address of a model's server in the pages' commands."""
AUTHOR = "http://127.0.0.1:8001/v1"
"""The address of a chat model that writes and judges."""
SHOWN = re.compile(r"^`([\w./-]+\.(?:py|csv|toml|md|txt|jsonl|yaml))`:\n\n```\w+\n(.*?)^```", re.M | re.S)


def commands(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    lines = [line for kind, body in BLOCK.findall(text) if kind == "bash" for line in body.splitlines()]
    return [line for line in lines if line.strip() and not line.startswith("#")]


def served_commands(page: Path, request: pytest.FixtureRequest) -> list[str]:
    """The commands of a page, those for a model's server with the address of a stub."""
    lines = commands(page)
    if any(AUTHOR in line for line in lines):
        provider = Provider(author).__enter__()
        request.addfinalizer(lambda: provider.__exit__(None, None, None))
        request.getfixturevalue("keys")
        lines = [line.replace(AUTHOR, provider.openai) for line in lines]
    if not any(SERVER in line for line in lines):
        return lines
    model: Any = load_model("tiny", device="cpu")
    request.addfinalizer(model.close)
    server = CompletionsServer(model.lm).__enter__()
    request.addfinalizer(lambda: server.__exit__(None, None, None))
    return [line.replace(SERVER, server.address) for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("page", mostly_slow([p for p in PAGES if commands(p)], PAGES[0]), ids=lambda p: p.name)
def test_every_command_works(page: Path, tmp_path: Path, monkeypatch: Any, capfd: Any, request: Any) -> None:
    for name, body in SHOWN.findall(page.read_text(encoding="utf-8")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(body, encoding="utf-8")
        sys.modules.pop(Path(name).stem, None)  # another page's
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "path", list(sys.path))  # modules that a page shows are found in its folder
    for line in served_commands(page, request):
        program, *arguments = shlex.split(line)
        if program == "make":
            assert set(arguments) <= set(targets), line
            continue
        assert program == "emend", f"{page.name}: a bash block may hold `emend` and `make` commands only: {line}"
        if arguments[0] == "demo":
            arguments += ["--edits", "1"]  # the whole demo is run by `make demo`; here its command line is
        code, printed = emend(*arguments), capfd.readouterr()
        assert not code, f"{line}\n{printed.out}{printed.err}"
        if arguments[:2] == ["judge", "annotate"]:  # a person fills in the sheets
            for sheet in tmp_path.glob("*/annotator-*.csv"):
                label(sheet)


def test_all_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


EXCERPT = re.compile(r"^From \[`([\w./]+)`\]\([\w./]+\):\n\n```python\n(.*?)^```", re.M | re.S)
QUOTING = [page for page in PAGES if EXCERPT.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", QUOTING, ids=lambda page: page.name)
def test_code_that_a_page_quotes_is_that_of_the_file(page: Path) -> None:
    for path, excerpt in EXCERPT.findall(page.read_text(encoding="utf-8")):
        code = (ROOT / path).read_text(encoding="utf-8")
        assert [part for part in excerpt.split("...\n") if part not in code] == [], path


ROOMS = ("memory", "agents", "graphs", "editors", "evals")
EXAMPLES = [p for room in ROOMS for p in sorted((ROOT / room).rglob("*.py")) if ">>> " in p.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_in_a_docstring_is_true(path: Path) -> None:
    module = import_module(".".join(("emend", *path.relative_to(ROOT).with_suffix("").parts)))
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
