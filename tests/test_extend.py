"""The examples of docs/how-to/extend.md pass the contract suites that the page recommends."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from emend.memory.retrieval.conformance import RetrieverContract

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "extend.md"
FILE = re.compile(r"^`([\w./]+)\.py`:\n\n```python\n(.*?)^```", re.M | re.S)


EXAMPLES = dict(FILE.findall(PAGE.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """A folder with the modules that the page shows, from which they can be imported."""
    folder = tmp_path_factory.mktemp("examples")
    for name, text in EXAMPLES.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder
    for name in EXAMPLES:
        sys.modules.pop(name, None)


class TestTheRetriever(RetrieverContract):
    @pytest.fixture(autouse=True)
    def _example(self, examples):
        self.module = importlib.import_module("my_retriever")

    def factory(self):
        return self.module.LongestOverlap


@pytest.mark.parametrize("module", sorted(name for name in EXAMPLES if name.startswith("test_")))
def test_the_suites_that_the_page_shows_pass(module, examples):
    suites = [value for name, value in vars(importlib.import_module(module)).items() if name.startswith("Test")]
    tests = [(suite, name) for suite in suites for name in dir(suite) if name.startswith("test_")]
    assert len(suites) == 1 and len(tests) > 5
    for suite, name in tests:
        getattr(suite(), name)()


@pytest.mark.slow
def test_the_script_of_the_page_on_python_runs(tmp_path, monkeypatch, capsys):
    page = PAGE.with_name("python.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(dict(FILE.findall(page))["docs_example"], "docs_example.py", "exec"), {"__name__": "docs_example"})
    assert "['retrieve', 'compose', 'respond']" in capsys.readouterr().out
