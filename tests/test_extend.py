"""The examples of docs/how-to/extend.md pass the contract suites that the page recommends."""

import importlib
import json
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import emend
from emend import extend
from emend.evals.construction.items.job import load_job
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.judging.study import draw, load_study
from emend.memory.errors import BadSettings
from emend.memory.registry import trust_names
from emend.memory.retrieval.conformance import RetrieverContract

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "extend.md"
FILE = re.compile(r"^`([\w./]+)\.py`:\n\n```python\n(.*?)^```", re.M | re.S)
OTHER_FILE = re.compile(r"^`([\w./]+\.(?:csv|toml|html))`:\n\n```\w+\n(.*?)^```", re.M | re.S)


EXAMPLES = dict(FILE.findall(PAGE.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """A folder with the modules that the page shows, from which they can be imported."""
    folder = tmp_path_factory.mktemp("examples")
    for name, text in EXAMPLES.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    for name, text in OTHER_FILE.findall(PAGE.read_text(encoding="utf-8")):
        (folder / name).write_text(text, encoding="utf-8")
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


def test_every_stable_name_can_be_imported():
    assert all(getattr(extend, name) for name in extend.__all__)
    assert set(extend.__all__) <= set(dir(extend))


def test_examples_are_as_short_as_they_are_said_to_be():
    page = PAGE.read_text(encoding="utf-8")
    description = re.search(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    lengths = {name: len([line for line in text.splitlines() if line.strip()]) for name, text in EXAMPLES.items()}
    assert description is not None and len(description[1].splitlines()) <= 25
    assert lengths["my_scorer"] <= 15 and lengths["my_graph_editor"] <= 25 and lengths["my_memory"] <= 6


def test_a_run_scores_by_the_protocol_of_the_page(examples, tmp_path):
    result = emend.run(
        "tinyworld",
        editors=["unedited", "rag"],
        model="tiny",
        limit=2,
        protocols="my_scorer:Starts",
        embedding="lexical",
        out=tmp_path / "run",
    )
    starts = [metric for metric in result.report.metrics if metric.value == "starts"]
    assert starts and {metric.protocol for metric in starts} == {"starts"}
    assert all(metric.higher_is_better and metric.is_right for metric in starts)


@pytest.mark.parametrize("name", ["my_scorer:Strats", "my_scorer:ABC", "contians", "my_retriever:LongestOverlap"])
def test_a_wrong_scorer_is_refused_before_the_model_is_loaded(name, examples, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "emend.evals.evaluate.setup.run_setup.load_model_and_policy", lambda config: pytest.fail("loaded")
    )
    with pytest.raises(BadSettings, match="contains|Starts|Scorer|scorer"):
        emend.run("tinyworld", editors=["unedited"], model="tiny", protocols=name, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


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


@pytest.fixture
def page_package(examples, monkeypatch):
    """The page as an installed package announces it, beside one that cannot be imported and one that is none."""
    pytest.importorskip("starlette", reason="the extra 'view' is not installed")
    from emend.evals.show.view.environment import environment
    from emend.evals.show.view.pages.registry import PAGES

    names = {"kinds": "my_page:KINDS", "torn": "my_page:NO", "bare": "my_page:count_kinds"}
    points = {name: EntryPoint(name, path, "emend.pages") for name, path in names.items()}
    monkeypatch.setitem(vars(PAGES), "plugins", points)
    environment.cache_clear()
    yield
    environment.cache_clear()


@pytest.mark.slow
def test_a_page_has_a_tab_in_the_viewer_and_in_an_export(page_package, tmp_path):
    from emend.evals.show.view.export import export_folder

    run = tmp_path / "words"
    emend.run("tinyworld", editors=["unedited"], model="tiny", limit=1, perplexity_text="none", out=run)
    export_folder([run], tmp_path / "pages", "all")
    folder = next((tmp_path / "pages" / "run").iterdir())
    page = (folder / "kinds.html").read_text("utf-8")
    assert "<title>Kinds of words" in page and re.search(r"<li>efficacy: \d", page)
    assert 'href="../../run/' in page and ">Kinds</a>" in (folder / "index.html").read_text("utf-8")
    assert "my_page:NO" in (folder / "torn.html").read_text("utf-8")
    assert "emend.extend.RunPage" in (folder / "bare.html").read_text("utf-8")


def test_a_construction_makes_a_benchmark_whose_card_counts_its_filter(examples, tmp_path):
    facts = examples / "my_facts.csv"
    card = emend.build("my_construction:HEADLINES", facts, "my_model:LastFact", out=tmp_path / "headlines")
    assert card.items == 2 and card.kept_share.mean == 1.0
    assert [(each.name, each.reached, each.passed.mean) for each in card.filters] == [("answer", 2, 1.0)]
    assert [each.name for each in card.prompts] == ["headline"]
    rows = [json.loads(line) for line in (tmp_path / "headlines" / "facts.jsonl").read_text().splitlines()]
    assert [(row["document"], row["answer"]) for row in rows] == [("Ostrim", "Ostrim"), ("Tarn", "Tarn")]
    benchmark, settings = load_benchmark(str(tmp_path / "headlines"), None, {})
    assert len(list(benchmark.cases(settings[0]))) == 2


def test_a_folder_does_not_bring_the_code_of_its_construction(examples, tmp_path, monkeypatch):
    out = tmp_path / "headlines"
    emend.build("my_construction:HEADLINES", examples / "my_facts.csv", "my_model:LastFact", out=out)
    monkeypatch.setattr("emend.memory.registry._trusted", {})
    with pytest.raises(BadSettings, match="--trust my_construction:HEADLINES"):
        load_job(out / "run", {})


@pytest.mark.parametrize("name", ["my_construction:HEADLINE", "my_construction:build", "my_scorer:Starts", "headlines"])
def test_a_wrong_construction_is_refused_before_its_source_is_read(name, examples, tmp_path):
    with pytest.raises(BadSettings, match="HEADLINE|BuildKind|cannot build 'headlines'"):
        emend.build(name, tmp_path / "no.csv", "my_model:LastFact", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_error_of_a_construction_names_it(examples, tmp_path):
    with pytest.raises(BadSettings, match="my_construction:HEADLINES.*no.csv"):
        emend.build("my_construction:HEADLINES", tmp_path / "no.csv", "my_model:LastFact", out=tmp_path / "out")


@pytest.fixture
def study(examples):
    """The study of the page, whose source the user has named."""
    trust_names(["my_labels:WRONG", "my_labels:wrong_answers"])
    return load_study(str(examples / "my_study.toml"))


@pytest.mark.slow
def test_a_source_of_items_gives_a_study_its_sample(study, tmp_path):
    run = tmp_path / "run"
    emend.run("tinyworld", editors=["unedited"], model="tiny", limit=2, perplexity_text="none", out=run)
    sample = draw([run], study)
    assert list(sample.strata) == ["unedited"] and len(sample.items) == 2
    assert all({*item.parts} == {"question", "right", "answer"} for item in sample.items)


def test_a_wrong_source_of_items_is_refused_before_a_run_is_read(study, tmp_path):
    for name in ("my_labels:wrong_answers", "my_labels:RIGHT", "items"):
        with pytest.raises(BadSettings, match="LabelSource|my_labels:RIGHT|known|did you mean"):
            draw([tmp_path / "no-run"], study.model_copy(update={"source": name}))
