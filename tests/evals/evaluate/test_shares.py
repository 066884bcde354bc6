"""Shares of a run, evaluated apart and merged, make the run that would have been made whole."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emend.editors.base import NO_COST, Answerer, EditCost
from emend.evals.config.division import Share
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.merge import merge
from emend.evals.jobs.partition import Partition
from emend.evals.log.lines import BASELINE, CASES, COSTS, ERRORS, EVENTS, RECORDS
from emend.evals.log.manifest import MANIFEST, Manifest
from emend.evals.log.records import read_lines
from emend.evals.results.aggregate.rows import report
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadData, BadSettings, RunRefused, TooManyFailures
from tests.evals.command_line import caller
from tests.evals.toy_runs import go, records, steps_of, untimed_records
from tests.evals.toys import BENCHMARK, EDITOR, FLEETING_EDITOR, HEAVY, HeavyEditor, ScriptedModel, ToyAnswerer

AHEAD = "tests.evals.evaluate.test_shares:AheadEditor"
MODES: dict[str, dict[str, Any]] = {
    "single": {"editors": ("unedited", EDITOR, HEAVY), "settings": ("plain", "loud"), "repeats": 2, "limit": 4},
    "ahead": {"editors": (AHEAD, EDITOR), "mode": "single", "benchmark_options": {"cases": "40"}},
    "batch": {"editors": (EDITOR, HEAVY), "mode": "batch:3", "benchmark_options": {"cases": "11"}},
    "all": {"editors": ("unedited", EDITOR, HEAVY), "mode": "all", "benchmark_options": {"twice": "yes"}},
    "sequential": {"editors": (FLEETING_EDITOR, EDITOR), "mode": "sequential", "reevaluate_at": "2,end", "repeats": 3},
}


class ChunkAnswerer(ToyAnswerer):
    """Tells in its prompts with what its edits were solved."""

    chunk = ""

    def _prompt(self, probe: Any) -> str:
        return f"[{self.chunk}] {super()._prompt(probe)}"


class AheadEditor(HeavyEditor):
    """Solves ahead, and answers by everything that was solved together."""

    name = "ahead"
    solved: Sequence[Sequence[Edit]] = ()

    def presolve(self, groups: Sequence[Sequence[Edit]]) -> EditCost:
        self.solved = groups
        return NO_COST

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        answerer = ChunkAnswerer(self.context.model, edits)
        answerer.chunk = content_id([[edit.id for edit in group] for group in self.solved])
        yield answerer


def go_shares(tmp_path: Path, of: int, **changed: Any) -> list[Path]:
    """Folders of all shares of a run."""
    folders = [tmp_path / f"{of}.{number}" for number in range(1, of + 1)]
    for number, folder in enumerate(folders, 1):
        go(folder, share=f"{number}/{of}", **changed)
    return folders


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run of ten cases in three shares, to look at or to copy."""
    return go_shares(
        tmp_path_factory.mktemp("three"), 3, editors=("unedited", EDITOR), benchmark_options={"cases": "10"}
    )


@pytest.fixture
def shares(three: list[Path], tmp_path: Path) -> list[Path]:
    """The same, to change."""
    return [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in three]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_merged_shares_are_the_whole_run(tmp_path: Path, mode: str) -> None:
    whole = go(tmp_path / "whole", **MODES[mode])
    for of in (2, 3):
        folders = go_shares(tmp_path, of, **MODES[mode])
        merged = merge(folders[::-1], tmp_path / f"merged.{of}")
        assert (merged.units, merged.finished, merged.failed, merged.missing) == (whole.units, whole.units, 0, ())
        for name in (untimed_records, steps_of):
            assert name(tmp_path / f"merged.{of}") == name(tmp_path / "whole")
        units = [Manifest.read(folder).units for folder in folders]
        assert sum(units) == whole.units and min(units) > 0
    two, three = ([(item.unit, item.probe) for item in records(tmp_path / f"merged.{of}")] for of in (2, 3))
    assert two == three != []
    keys = [sorted(line["key"] for line in read_lines(tmp_path / name, BASELINE)) for name in ("merged.3", "whole")]
    assert keys[0] == keys[1]


@pytest.mark.parametrize("of", range(1, 8))
@pytest.mark.parametrize("size", [1, 3])
def test_every_portion_is_dealt_once_and_evenly(of: int, size: int) -> None:
    ids = {"a": [f"a{n}" for n in range(20)], "b": [f"b{n}" for n in range(11)]}
    partitions = [Partition.of(Share(number, of), ids, size) for number in range(1, of + 1)]
    for name, items in ids.items():
        parts = [list(partition.pick(name, items)) for partition in partitions]
        assert sorted(item for part in parts for item in part) == sorted(items)
        assert [len(part) for part in parts] == [partition.count(name, len(items)) for partition in partitions]
    portions = [sum(int(mask.sum()) for mask in partition.portions.values()) for partition in partitions]
    assert max(portions) - min(portions) <= 1


def test_a_case_stays_with_its_share_when_others_are_added_before_it() -> None:
    ids = [f"case {n}" for n in range(50)]
    first, second = (set(Partition.of(Share(1, 2), {"a": names}).pick("a", names)) for names in (ids, ids[::-1]))
    assert first == second


def test_the_deal_is_that_of_earlier_versions_whose_shares_are_merged_with_new_ones() -> None:
    ids = {"a": tuple("abcdefg"), "b": tuple("ab")}
    partitions = [Partition.of(Share(number, 3), ids) for number in (1, 2, 3)]
    assert ["".join(partition.pick("a", ids["a"])) for partition in partitions] == ["bdg", "ef", "ac"]
    assert ["".join(partition.pick("b", ids["b"])) for partition in partitions] == ["", "b", "a"]


def test_a_share_cannot_be_dealt_nothing(tmp_path: Path) -> None:
    for more, words in (
        ({"limit": 2}, "2 cases"),
        (MODES["sequential"], "6 passes"),
        (MODES["ahead"], "3 portions of 16"),
    ):
        with pytest.raises(BadSettings, match=words):
            go(tmp_path / "x", share="1/7", **more)
        assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "1/0", "-1/3", "1/2/3", "a/b", "²/3", "1/1001", "1/99999"])
def test_a_share_is_numbered_from_1(text: str) -> None:
    with pytest.raises(BadSettings, match="--share"):
        RunConfig(benchmark=BENCHMARK, editors=(EDITOR,), share=text)


def test_limits_are_divided_among_the_shares() -> None:
    whole = {"rpm": 30.0, "tpm": 1000.0, "max_cost": 6.0, "max_calls": 8}
    policies = [
        RunConfig.model_validate({"benchmark": BENCHMARK, "editors": (EDITOR,), "share": f"{n}/3"} | whole)
        for n in (1, 2, 3)
    ]
    limits = [Share(n, 3).limits(config) for n, config in enumerate(policies, 1)]
    assert [each["max_calls"] for each in limits] == [3, 3, 2]
    assert {(each["rpm"], each["max_cost"]) for each in limits} == {(10.0, 2.0)}
    assert sum(each["tpm"] for each in limits) == pytest.approx(1000)
    with pytest.raises(BadSettings, match="--max-calls 2"):
        RunConfig(benchmark=BENCHMARK, editors=(EDITOR,), share="1/3", max_calls=2)


@pytest.mark.slow
def test_merging_twice_gives_the_same_bytes(three: list[Path], tmp_path: Path) -> None:
    merge(three, tmp_path / "a")
    merge(three[::-1], tmp_path / "b")
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names == {MANIFEST, CASES, RECORDS, EVENTS, ERRORS, COSTS, BASELINE, "run.lock"}
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in names)


@pytest.mark.slow
def test_a_merged_run_is_a_run(three: list[Path], tmp_path: Path) -> None:
    merge(three, tmp_path / "x")
    again = go(tmp_path / "x", editors=("unedited", EDITOR), benchmark_options={"cases": "10"})
    assert (again.finished, again.skipped) == (0, 20)
    go(tmp_path / "whole", editors=("unedited", EDITOR), benchmark_options={"cases": "10"})
    merged, whole = report(tmp_path / "x"), report(tmp_path / "whole")
    assert merged.rows == whole.rows and merged.missing == 0
    assert merged.notes == ("merged from 3 of 3 shares",)
    assert merged.spent is not None and merged.spent.processes == 3
    assert {line["share"] for line in read_lines(tmp_path / "x", COSTS)} == {1, 2, 3}


def test_an_interrupted_share_is_resumed_or_refused(three: list[Path], shares: list[Path], tmp_path: Path) -> None:
    lines = (shares[1] / RECORDS).read_bytes().splitlines(keepends=True)
    (shares[1] / RECORDS).write_bytes(b"".join(lines[:-1]) + lines[-1][:50])
    before = {path.name: path.read_bytes() for path in shares[1].iterdir()}
    with pytest.raises(BadSettings, match="emend resume"):
        merge(shares, tmp_path / "x")
    assert merge(shares, tmp_path / "partial", partial=True).finished == 19
    assert any("share 2" in note for note in report(tmp_path / "partial").notes)
    assert {path.name: path.read_bytes() for path in shares[1].iterdir()} == before
    go(shares[1], share="2/3", editors=("unedited", EDITOR), benchmark_options={"cases": "10"})
    merge(shares, tmp_path / "x")
    merge(three, tmp_path / "undisturbed")
    assert untimed_records(tmp_path / "x") == untimed_records(tmp_path / "undisturbed")


def test_a_missing_share_is_refused_or_marked_and_resumed(three: list[Path], tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"missing shares: 2 \(of 3\)"):
        merge([three[0], three[2]], tmp_path / "x")
    assert not (tmp_path / "x").exists()
    assert merge([three[0], three[2]], tmp_path / "x", partial=True).missing == (2,)
    assert "missing: 2" in report(tmp_path / "x").notes[0]
    go(tmp_path / "x", editors=("unedited", EDITOR), benchmark_options={"cases": "10"})
    assert report(tmp_path / "x").notes[0] == "merged from 2 of 3 shares; other units were evaluated afterwards"
    merge(three, tmp_path / "all")
    assert untimed_records(tmp_path / "x") == untimed_records(tmp_path / "all")


@pytest.mark.slow
def test_other_shares_are_refused(three: list[Path], tmp_path: Path) -> None:
    go(tmp_path / "whole")
    other = go_shares(tmp_path, 3, editors=("unedited", EDITOR), benchmark_options={"cases": "10"}, seed=1)
    for folders, words in (
        ([*three, three[0]], "both share 1 of 3"),
        ([three[0], three[1], other[2]], "seed: was 0, now 1"),
        ([*three[:2], tmp_path / "whole"], "not a share"),
        ([], "no share is given"),
    ):
        with pytest.raises(BadSettings, match=words):
            merge(folders, tmp_path / "x")
    with pytest.raises(RunRefused, match="other files"):
        merge(three, tmp_path / "whole")


def test_a_merge_killed_while_it_wrote_its_manifest_is_done_again(three: list[Path], tmp_path: Path) -> None:
    merge(three, tmp_path / "undisturbed")
    merge(three, tmp_path / "killed")
    manifest = (tmp_path / "killed" / MANIFEST).read_bytes()
    (tmp_path / "killed" / MANIFEST).unlink()
    (tmp_path / "killed" / f"{MANIFEST}.0123abcd.new").write_bytes(manifest[:100])
    merge(three, tmp_path / "killed")
    names = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("killed", "undisturbed")]
    assert names[0] == names[1]
    assert Manifest.read(tmp_path / "killed").merged == Manifest.read(tmp_path / "undisturbed").merged


def _change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_records_that_were_copied_from_another_run_are_reported(shares: list[Path], caplog: Any) -> None:
    report(shares[1])
    assert "another run" not in caplog.text
    with (shares[1] / RECORDS).open("ab") as file:
        file.write((shares[0] / RECORDS).read_bytes())
    report(shares[1])
    assert "records of another run" in caplog.text and str(shares[1]) in caplog.text


def test_units_of_another_share_are_refused(shares: list[Path], tmp_path: Path) -> None:
    with (shares[0] / RECORDS).open("ab") as file:
        file.write((shares[1] / RECORDS).read_bytes())
    with pytest.raises(BadData, match="occurs twice"):
        merge(shares, tmp_path / "x")


@pytest.mark.parametrize("name", [MANIFEST, CASES, RECORDS, EVENTS, ERRORS, COSTS, BASELINE])
def test_a_damaged_or_foreign_file_is_refused(shares: list[Path], tmp_path: Path, name: str) -> None:
    path = shares[1 if name != CASES else 0] / name
    path.write_bytes(b'{"no": "such line"}\n[]\n' + path.read_bytes())
    with pytest.raises(BadData, match=name):
        merge(shares, tmp_path / "x")
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("secret")
    with pytest.raises(BadData, match=name):
        merge(shares, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def _rewrite(path: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Change each line of a file, or leave it out."""
    lines = (change(json.loads(line)) for line in path.read_text().splitlines())
    path.write_text("".join(json.dumps(line) + "\n" for line in lines if line is not None))


def _make_units_of_one_record(shares: list[Path]) -> None:
    _rewrite(shares[1] / RECORDS, lambda line: line | {"of": 1})


def _leave_out_probes(shares: list[Path]) -> None:
    (probe,) = {json.loads(line)["probe"] for line in (shares[1] / RECORDS).read_text().splitlines()[1:2]}
    _rewrite(shares[1] / RECORDS, lambda line: None if line["probe"] == probe else line | {"of": line["of"] - 1})


def _double_each_record(shares: list[Path]) -> None:
    path = shares[1] / RECORDS
    path.write_bytes(b"".join(2 * line for line in path.read_bytes().splitlines(keepends=True)))


def _double_the_records(shares: list[Path]) -> None:
    path = shares[1] / RECORDS
    path.write_bytes(2 * path.read_bytes())


def _replace_a_case(shares: list[Path]) -> None:
    _rewrite(shares[0] / CASES, lambda line: line | {"case": "0" * 16} if line["number"] == 3 else line)


@pytest.mark.parametrize(
    "tamper",
    [
        _make_units_of_one_record,
        _leave_out_probes,
        _double_each_record,
        _double_the_records,
        _replace_a_case,
    ],
)
@pytest.mark.parametrize("partial", [False, True])
def test_a_tampered_share_is_refused(
    shares: list[Path], tmp_path: Path, tamper: Callable[[list[Path]], None], partial: bool
) -> None:
    tamper(shares)
    with pytest.raises(BadData, match=RECORDS):
        merge(shares, tmp_path / "x", partial)
    assert not (tmp_path / "x").exists()


def test_failures_costs_and_versions_keep_their_share(shares: list[Path], tmp_path: Path) -> None:
    go_shares(tmp_path / "f", 2, model=ScriptedModel(fail_on="Land3"), fail_on_error="false")
    folders = [tmp_path / "f" / "2.1", tmp_path / "f" / "2.2"]
    merged = merge(folders, tmp_path / "f" / "x")
    assert (merged.finished, merged.failed) == (5, 1)
    (failure,) = read_lines(tmp_path / "f" / "x", ERRORS)
    assert failure["share"] in (1, 2)
    content = json.loads((shares[2] / MANIFEST).read_text())
    content["versions"]["torch"] = "0.0.1"
    (shares[2] / MANIFEST).write_text(json.dumps(content))
    with pytest.raises(BadSettings, match="torch.*--any-versions"):
        merge(shares, tmp_path / "x")
    notes = merge(shares, tmp_path / "x", any_versions=True).notes
    assert any("torch" in note and "0.0.1 (share 3)" in note for note in notes)


def test_answers_of_the_unedited_model_that_differ_are_counted(shares: list[Path], tmp_path: Path) -> None:
    line = json.loads((shares[0] / BASELINE).read_text().splitlines()[0])
    line["answer"]["text"] = "Red"
    with (shares[1] / BASELINE).open("a") as file:
        file.write(json.dumps(line) + "\n")
    assert any("1 answers of the unedited model differ" in note for note in merge(shares, tmp_path / "x").notes)


def test_shares_in_which_too_much_fails_end_with_that(tmp_path: Path) -> None:
    with pytest.raises(TooManyFailures):
        go_shares(tmp_path, 2, model=ScriptedModel(fail_on="Land"), fail_on_error="true")


def test_the_command_line_merges(three: list[Path], tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    call = caller(monkeypatch, capsys, "merge")
    result = call(*three[:2], "--out", tmp_path / "x", "--partial")
    assert (result.code, "2 of 3 shares; missing: 3" in result.out) == (0, True)
    refused = call(*three[:2], "--out", tmp_path / "y")
    assert refused.code == 2 and "--partial" in refused.err
