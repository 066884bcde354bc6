"""The files of the recipes for launchers: every share is run by its own script, and the shares merge."""

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from emend.evals.log.manifest import Manifest
from tests.evals.command_line import emend
from tests.paths import ROOT

SHARES = 4
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
STUB = """#!/bin/sh
for word in "$@"; do
    printf "%s\\0" "$word" >> "$CALL"
    [ "$last" = --out ] && mkdir -p "$HERE/${word#/tmp/}" && touch "$HERE/${word#/tmp/}/made"
    last=$word
done
"""
COPY = """#!/bin/sh
shift 2
while case $1 in --exclude) shift 2;; --*) shift;; *) false;; esac; do :; done
folder() { path=${1#*://}; echo "$HERE/${path#/tmp/}"; }
from=$(folder "$1") to=$(folder "$2")
mkdir -p "$from" "$to" && cp -r "$from/." "$to"
"""
"""What `aws s3 sync` does; a bucket is a folder, and /tmp the working folder."""


def slurm(file: str, number: int) -> tuple[str, dict[str, str]]:
    assert f"--array=1-{SHARES}\n" in file
    return file, {"SLURM_ARRAY_TASK_ID": str(number)}


def kubernetes(file: str, number: int) -> tuple[str, dict[str, str]]:
    spec = yaml.safe_load(file)["spec"]
    container = spec["template"]["spec"]["containers"][0]
    given = {item["name"]: item["value"] for item in container["env"]}
    assert (spec["completions"], spec["completionMode"], given["SHARES"]) == (SHARES, "Indexed", str(SHARES))
    assert container["command"] == ["bash", "-euc"]
    return container["args"][0], given | {"JOB_COMPLETION_INDEX": str(number - 1)}


def skypilot(file: str, number: int) -> tuple[str, dict[str, str]]:
    task = yaml.safe_load(file)
    assert task["envs"]["SHARES"] == SHARES
    return task["run"], {name: str(value) for name, value in task["envs"].items()} | {"SHARE": str(number)}


def words_of(script: str, folder: Path, more: dict[str, str]) -> list[str]:
    """The words with which a script calls `emend`; buckets and /tmp are folders."""
    programs, call = folder / "programs", folder / "call"
    programs.mkdir(exist_ok=True)
    for name, text in (("emend", STUB), ("aws", COPY)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o700)
    call.unlink(missing_ok=True)
    env = {"PATH": f"{programs}:/usr/bin:/bin", "CALL": str(call), "HERE": str(folder)} | more
    subprocess.run(["bash", "-euc", script], env=env, cwd=folder, check=True, timeout=120)
    words = call.read_text().split("\0")[:-1]
    return [word.removeprefix("/tmp/") for word in words]


RECIPES: dict[str, Callable[[str, int], tuple[str, dict[str, str]]]] = {
    "slurm": slurm,
    "kubernetes": kubernetes,
    "skypilot": skypilot,
}
IN_BUCKETS = ("kubernetes", "skypilot")


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_evaluates_and_merges_all_shares(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    blocks = _blocks(name)
    for number in range(1, SHARES + 1):
        script, env = RECIPES[name](_file(blocks), number)
        words = words_of(script, tmp_path, env)
        words[words.index("--limit") + 1] = "6"
        folder = words.index("--out") + 1
        (tmp_path / words[folder] / "made").unlink()
        if name in IN_BUCKETS:
            words[folder] = f"BUCKET/runs/{words[folder]}"
            (tmp_path / words[folder] / "made").unlink()
        assert not emend(*words), shlex.join(words)
    words = words_of(_merge(blocks), tmp_path, {})
    (tmp_path / words[-1] / "made").unlink()
    assert not emend(*words), shlex.join(words)
    merged = Manifest.read(tmp_path / words[-1])
    assert [part.number for part in merged.merged] == [1, 2, 3, 4]
    assert sum(part.finished for part in merged.merged) == merged.units == 12


@pytest.mark.parametrize("name", IN_BUCKETS)
def test_a_share_is_copied_to_the_bucket_and_the_next_machine_has_it(name: str, tmp_path: Path) -> None:
    script, env = RECIPES[name](_file(_blocks(name)), 1)
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    words_of(script, first, env)
    assert (first / "BUCKET" / "runs" / "x.1" / "made").exists()
    (first / "BUCKET" / "runs" / "x.1" / "before").touch()
    (first / "BUCKET").rename(second / "BUCKET")
    words_of(script, second, env)
    assert (second / "x.1" / "before").exists()


def _blocks(name: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8"))


def _file(blocks: list[tuple[str, str]]) -> str:
    return next(body for language, body in blocks if language in ("sh", "yaml"))


def _merge(blocks: list[tuple[str, str]]) -> str:
    lines = next(body for language, body in blocks if not language and "emend merge" in body).splitlines()
    return "\n".join(line for line in lines if line.startswith(("aws", "emend")))
