"""Figures that no metric has stand beside the papers' too: types of error, perplexities, quality of triplets."""

from pathlib import Path
from typing import Any

import pytest

from emend.evals.papers.compare_published import PublishedLine, against
from emend.memory.errors import BadSettings
from tests.evals.command_line import emend
from tests.evals.made import record, write_run
from tests.paths import DATA


def ours(folder: Path, table: str) -> dict[tuple[str, str, str], PublishedLine]:
    lines = [line for line in against(folder, table).lines if line.editor]
    return {(line.data, line.method, line.metric): line for line in lines}


def test_akews_types_of_error_are_summed_as_its_table_sums_them(tmp_path: Path) -> None:
    of: dict[str, Any] = {
        "editor": "memit",
        "setting": "extract",
        "mode": "single",
        "gold": ("Paris",),
        "rival": "Rome",
    }
    answers = [("Rome", True), ("Oslo", True), ("Oslo", False), ("Bonn", False), ("Paris", True)]
    records = [
        record(str(n), answer=text, values={"em": float(text == "Paris")}, tags={"recoverable": tag}, **of)
        for n, (text, tag) in enumerate(answers)
    ]
    options = {"dataset": "counterfact"}
    lines = ours(write_run(tmp_path / "run", records, "akew", benchmark_options=options), "akew:4")
    means = {metric: (line.mean, line.n, line.published[""]) for (_, _, metric), line in lines.items()}
    assert means == {
        "triplet error": (50, 4, 22),
        "incomplete triplet": (50, 4, 14),
        "ambiguous triplet": (0, 4, 8),
        "editing error": (50, 4, 78),
        "old answer": (25, 4, 19),
        "irrelevant answer": (25, 4, 59),
    }
    assert {method for _, method, _ in lines} == {"MEMIT"}


def test_recoes_perplexities_stand_by_scheme_with_the_difference_as_the_paper_takes_it(tmp_path: Path) -> None:
    records = [
        record(f"{scheme}{n}", editor=editor, kind=f"{scheme}_facts", setting="atomic", values=values)
        for editor in ("unedited", "qlora")
        for scheme, n, values in (
            ("counting", 1, {"ppl_fact_before": 4.0, "ppl_counter_before": 7.0, "ppl_fact": 9.0, "ppl_counter": 2.0}),
            ("counting", 2, {"ppl_fact_before": 6.0, "ppl_counter_before": 9.0, "ppl_fact": 9.0, "ppl_counter": 2.0}),
            ("sorting", 1, {"ppl_fact_before": 5.0, "ppl_counter_before": 5.0, "ppl_fact": 8.0, "ppl_counter": 7.0}),
        )
    ]
    records.append(record("sorting2", editor="qlora", kind="sorting_facts", setting="atomic", unscored={"x": "no"}))
    lines = ours(write_run(tmp_path / "run", records, "recoe"), "recoe:6")
    assert lines["counting", "unedited", "PPL(F)"].mean == 5 and lines["counting", "QLoRA", "PPL(CF)"].mean == 2
    assert [lines[data, "unedited", "Δ"].mean for data in ("counting", "sorting", "average")] == [-3, 0, -1.5]
    assert [lines[data, "QLoRA", "Δ"].mean for data in ("counting", "sorting", "average")] == [7, 1, 4]
    sorting = lines["sorting", "QLoRA", "PPL(F)"]
    assert (sorting.n, sorting.unscored, sorting.published["Tulu 7B"]) == (1, 1, 17.53)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("switches", "method"),
    [
        ((), "Tool-based"),
        (("--validation", "off"), "Tool-based w/o TV"),
        (("--no-deduplication",), "Tool-based w/o SD"),
    ],
)
def test_docters_triplets_stand_beside_the_extraction_that_made_them(
    tmp_path: Path, switches: tuple[str, ...], method: str
) -> None:
    file = str(tmp_path / "t.jsonl")
    source = ("--benchmark", "docter", "--data", str(DATA / "docter"), "--benchmark-option", "blocks=edit_success")
    assert emend("extract", *source, *switches, "--embedding", "lexical", "--out", file) == 0
    options = {"blocks": "edit_success", "triples": file}
    config: dict[str, Any] = {"data": str(DATA / "docter"), "benchmark_options": options, "embedding": "lexical"}
    folder = write_run(tmp_path / "run", [record("1")], "docter", **config)
    lines = ours(folder, "docter:8" if switches else "docter:6")
    assert {(line.data, line.method) for line in lines.values()} == {("en", method)}
    assert {"#Tri", "Recall", "Precision", "F1"} <= {line.metric for line in lines.values()}
    with pytest.raises(BadSettings, match="--benchmark-option triples=FILE"):
        against(write_run(tmp_path / "other", [record("1")], "docter"), "docter:6")
