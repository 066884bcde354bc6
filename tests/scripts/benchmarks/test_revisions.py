"""The comparison of revisions covers everything that is built in, and finds each difference."""

import json
from pathlib import Path

from emend.editors.registry import EDITORS
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.streams.system import SYSTEMS
from scripts.benchmarks.revisions.jobs import EXTRA, all_jobs, missing_constructions
from scripts.benchmarks.revisions.outcomes import compare, first_difference, read_outcome


def test_each_editor_benchmark_construction_and_memory_system_has_a_job() -> None:
    jobs = list(all_jobs(None, 2))
    words = {word for job in jobs for command in job.commands for word in command}
    assert words >= EDITORS.builtin.keys()
    assert words >= BENCHMARKS.builtin.keys() - {"knowledge"}
    assert words >= SYSTEMS.builtin.keys() - {*EXTRA}
    assert missing_constructions(jobs) == []
    names = [job.name for job in jobs]
    assert len(names) == len(set(names))


def test_a_changed_number_is_a_difference_and_a_new_empty_field_is_none() -> None:
    before = {"a": {"value": 0.5, "steps": [{"node": "x"}]}, "b": {"value": 1}}
    renewed = {"a": {"value": 0.5, "steps": [{"node": "x", "tokens": []}]}, "b": {"value": 1}}
    assert compare(before, before).verdict == "equal"
    result = compare(before, renewed)
    assert result.conversions == ("steps.tokens",) and not result.differences and result.values == 3
    filled = {"a": {"value": 0.5, "steps": [{"node": "x", "tokens": [3]}]}, "b": {"value": 1}}
    assert [difference.key for difference in compare(before, filled).differences] == ["a"]
    lost = {"a": {"value": 0.25, "steps": [{"node": "x"}]}}
    assert [difference.key for difference in compare(before, lost).differences] == ["a", "b"]


def test_the_first_difference_is_told_with_its_path() -> None:
    assert first_difference({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 3}]}) == ".a[1].b: 2 | 3"
    long = "x" * 100
    assert first_difference({"a": long + "y"}, {"a": long + "z"}).endswith("xy | " + "x" * 40 + "z")


def test_clocks_paths_and_the_order_of_threads_are_left_out(tmp_path: Path) -> None:
    outcomes = []
    for name, order in (("one", 1), ("two", -1)):
        folder = tmp_path / name
        (folder / "out").mkdir(parents=True)
        lines = [{"probe": "p", "seconds": order, "answer": f"{folder}/x"}, {"probe": "q", "answer": "y"}]
        text = "".join(json.dumps(line) + "\n" for line in lines[::order])
        (folder / "out" / "records.jsonl").write_text(text)
        (folder / "out" / "card.md").write_text(f"Built 2026-01-0{2 + order}T00:00:00+00:00.")
        refused = {"code": 2, "out": "", "err": f"error: '{folder}' is no run"}
        outcomes.append(read_outcome(folder, ("out",), [refused]))
    assert outcomes[0] == outcomes[1] and len(outcomes[0]) == 4
    assert outcomes[0]["command 0 refused"] == "error: '.' is no run"
