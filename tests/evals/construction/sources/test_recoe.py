"""From a table of facts to ReCoE's files, and a run on them."""

import csv
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.build import build
from emend.evals.construction.estimate import estimate_build
from emend.evals.construction.sources.recoe import SCHEMES
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.evaluate.run import run
from emend.evals.results.aggregate.rows import report
from emend.graphs.construction.reasoning.samples import ENDING, sample
from emend.memory.errors import BadData, BadSettings, RunRefused
from tests.evals.construction.sources.test_recoe_records import RIVERS, TOWNS
from tests.provider.protocols import Asked
from tests.provider.server import Provider


def config(folder: Path, facts: Any = (*RIVERS, *TOWNS), **fields: Any) -> BuildConfig:
    file = folder / "facts.csv"
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([("subject", "relation", "object"), *facts])
    return BuildConfig.model_validate({"source": str(file), "cases": 18, **fields})


def test_the_folder_is_recoe_with_all_schemes(tmp_path: Path):
    card = build("recoe", config(tmp_path), tmp_path / "out")
    assert card.models == {} and card.items == 18
    benchmark, _ = load_benchmark(str(tmp_path / "out"), None, {})
    cases = list(benchmark.cases("triple"))
    assert len(cases) == 18 and all(edit.form == "triplet" for case in cases for edit in case.edits)
    row = json.loads((tmp_path / "out" / "superlative.json").read_bytes())[0]
    changed = [fact for facts in row["counterfactuals_per_choice"].values() for fact in facts]
    assert len(changed) == 2 and len(row["facts_per_choice"]) == 8
    assert all(fact["atomic_facts"] == [fact["fact"]] and " has a length of " in fact["fact"] for fact in changed)


def test_schemes_are_chosen_and_unknown_ones_refused(tmp_path: Path):
    build("recoe", config(tmp_path, schemes="sorting, counting", cases=4), tmp_path / "out")
    assert {path.stem for path in (tmp_path / "out").glob("*ing.json")} == {"sorting", "counting"}
    with pytest.raises(BadSettings, match="superlative"):
        build("recoe", config(tmp_path, schemes="superlatives"), tmp_path / "other")


def models(provider: Provider) -> dict[str, str]:
    return {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}


def questions(folder: Path) -> list[str]:
    files = (folder / f"{scheme}.json" for scheme in SCHEMES)
    return [row["question"] for file in files if file.exists() for row in json.loads(file.read_bytes())]


def test_without_an_author_nothing_is_estimated_to_cost(tmp_path: Path):
    estimate = estimate_build("recoe", config(tmp_path))
    assert estimate.items == 18 and estimate.roles == ()


def test_an_author_words_the_questions_and_a_debate_tries_them(tmp_path: Path):
    build("recoe", config(tmp_path), tmp_path / "plain")

    def misread_totals(asked: Asked) -> str:
        is_debate = "Answer the question by the facts alone" in asked.prompt
        return "So I think.\nAnswer: 7" if is_debate and "total" in asked.prompt else sample(asked.prompt)

    with Provider(misread_totals) as provider:
        card = build("recoe", config(tmp_path, **models(provider)), tmp_path / "out")
    plain, worded = questions(tmp_path / "plain"), questions(tmp_path / "out")
    totals = sum("total" in question for question in plain)
    assert card.dropped == {"debate": totals} and totals > 0
    assert len(worded) == len(plain) - totals
    assert all(question.replace(ENDING, "") in plain and ENDING in question for question in worded)


@pytest.mark.slow
@pytest.mark.parametrize("documents", [False, True])
def test_the_calls_estimated_are_those_sent(tmp_path: Path, documents: bool):
    (tmp_path / "documents").mkdir()
    text = "\n\n".join(f"{name} is a river whose length was measured as {value}." for name, _, value in RIVERS)
    (tmp_path / "documents" / "rivers.txt").write_text(text)
    options = {"documents": str(tmp_path / "documents")} if documents else {}
    with Provider(lambda asked: sample(asked.prompt)) as provider:
        fields = config(tmp_path, **models(provider), **options, cases=12)
        estimate = estimate_build("recoe", fields)
        assert provider.count == 0
        build("recoe", fields, tmp_path / "out")
    for role in estimate.roles:
        sent = [request.body for request in provider.requests if request.body["model"] == role.role]
        assert len(sent) > 0 and role.calls == pytest.approx(len(sent), rel=0.5 if documents else 0.1)


def test_facts_that_the_documents_contradict_drop_their_questions(tmp_path: Path):
    (tmp_path / "documents").mkdir()
    text = f"# Rivers\n\n{RIVERS[0][0]} is a river of merely four kilometres, a brook that few people know by name.\n"
    (tmp_path / "documents" / "a.md").write_text(text)

    def contradict(asked: Asked) -> str:
        is_asked = "Are the paragraphs consistent" in asked.prompt
        statement = asked.prompt.rpartition("Statement: ")[2]
        return "False" if is_asked and statement.startswith("River") else sample(asked.prompt)

    with Provider(contradict) as provider:
        options = {"documents": str(tmp_path / "documents"), "schemes": "superlative,counting", "cases": 8}
        fields = config(tmp_path, **models(provider), **options, recipe="best")
        card = build("recoe", fields, tmp_path / "out")
        bodies = [json.dumps(request.body) for request in provider.requests]
    assert any("merely four kilometres" in body for body in bodies)
    assert card.dropped == {"verified": 4} and card.source["files"]["a.md"]


def test_the_paper_corrects_what_the_documents_contradict_in_all_files(tmp_path: Path):
    (tmp_path / "documents").mkdir()
    text = (
        "All rivers were measured anew: each is ten times as long as it was said to be in the older books about them."
    )
    (tmp_path / "documents" / "a.md").write_text(f"# Rivers\n\n{text}\n")

    def correct(asked: Asked) -> str:
        statement = asked.prompt.rpartition("Statement: ")[2].partition("\n")[0]
        if "Are the paragraphs consistent" in asked.prompt:
            return "False"
        if "The paragraphs contradict the statement" in asked.prompt:
            return statement.replace(" km", "0 km")
        return sample(asked.prompt)

    with Provider(correct) as provider:
        options = {"documents": str(tmp_path / "documents"), "schemes": "superlative,comparative", "cases": 8}
        card = build("recoe", config(tmp_path, **models(provider), **options, recipe="paper"), tmp_path / "out")
    text = "".join(file.read_text() for file in (tmp_path / "out").glob("*ive.json"))
    lengths = [int(number) for number in re.findall(r"has a length of;? (\d+) km", text)]
    assert len(lengths) > 8 and min(lengths) >= 1000  # as counterfactuals and in triples, too
    counts = {count.name: count for count in card.filters}
    assert counts["verified"].rejected == counts["agreement"].rejected == 0 and counts["agreement"].reached == 8


def test_a_table_without_numbers_and_shared_objects_gives_no_question(tmp_path: Path):
    with pytest.raises(BadData, match="numbers of one unit"):
        build("recoe", config(tmp_path, [("Ana", "mother", "Ines"), ("Tom", "mother", "Eva")]), tmp_path / "out")


def test_other_records_do_not_overwrite_a_folder(tmp_path: Path):
    build("recoe", config(tmp_path), tmp_path / "out")
    build("recoe", config(tmp_path), tmp_path / "out")
    with pytest.raises(RunRefused, match="another --out"):
        build("recoe", config(tmp_path, seed=1), tmp_path / "out")


@pytest.mark.parametrize("name", ["items.jsonl", "items-source.json"])
def test_a_pipe_in_the_folder_is_named_and_not_waited_for(tmp_path: Path, name: str):
    build("recoe", config(tmp_path), tmp_path / "out")
    (tmp_path / "out" / name).unlink()
    os.mkfifo(tmp_path / "out" / name)
    try:
        build("recoe", config(tmp_path), tmp_path / "out")
    except BadData as error:
        assert name in str(error)
    else:
        assert (tmp_path / "out" / name).is_file()  # replaced


@pytest.mark.slow
def test_a_run_fills_every_column_of_the_papers_tables(tmp_path: Path):
    build("recoe", config(tmp_path), tmp_path / "out")
    benchmark, _ = load_benchmark(str(tmp_path / "out"), None, {})
    cases = list(benchmark.cases("sentence"))
    questions = {case.probes[0].prompt: case for case in cases}

    def believe(asked: Asked) -> str:
        """The new answer where the edits stand in the prompt, the old one where they do not."""
        case = next(case for question, case in questions.items() if question in asked.prompt)
        question, is_edited = case.probes[0], all(edit.text in asked.prompt for edit in case.edits)
        return question.gold[0] if is_edited else str(question.rival)

    fields = {
        "benchmark": str(tmp_path / "out"),
        "editors": ("in_context",),
        "settings": ("sentence",),
        "mode": "single",
    }
    with Provider(believe) as provider:
        run(RunConfig.model_validate(fields | {"model": f"openai:m@{provider.openai}"}), tmp_path / "served")
    run(RunConfig.model_validate(fields | {"model": "tiny"}), tmp_path / "local")
    columns = {row.metric: (row.mean, row.n) for row in report(tmp_path / "served").rows}
    assert {columns[name] for name in SCHEMES} == {(100.0, 3)} and columns["mean"] == (100.0, 18)
    assert {columns[f"before {name}"] for name in SCHEMES} == {(100.0, 3)}
    columns = {row.metric: (row.mean, row.n) for row in report(tmp_path / "local").rows}
    assert all(columns[f"facts {name}"][1] == 3 and columns[f"facts {name}"][0] is not None for name in SCHEMES)
