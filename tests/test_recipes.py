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
BUCKET = "s3://BUCKET"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
STUB = '#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word" >> "$CALL"; done\n'


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
    """The words with which a script calls `emend`; the bucket is a folder, and so is /tmp."""
    programs, call = folder / "programs", folder / "call"
    programs.mkdir(exist_ok=True)
    (programs / "emend").write_text(STUB)
    (programs / "emend").chmod(0o700)
    call.unlink(missing_ok=True)
    env = {"PATH": f"{programs}:/usr/bin:/bin", "CALL": str(call)} | more
    subprocess.run(["bash", "-euc", script], env=env, cwd=folder, check=True, timeout=20)
    words = call.read_text().split("\0")[:-1]
    return [word.replace(BUCKET, f"file://{folder}/bucket").replace("/tmp/", f"{folder}/pods/") for word in words]


RECIPES: dict[str, Callable[[str, int], tuple[str, dict[str, str]]]] = {
    "slurm": slurm,
    "kubernetes": kubernetes,
    "skypilot": skypilot,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_evaluates_and_merges_all_shares(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    blocks = BLOCK.findall((ROOT / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8"))
    file = next(body for kind, body in blocks if kind in ("sh", "yaml"))
    for number in range(1, SHARES + 1):
        script, env = RECIPES[name](file, number)
        words = words_of(script, tmp_path, env)
        words[words.index("--limit") + 1] = "6"
        assert not emend(*words), shlex.join(words)
    merge = next(line for kind, body in blocks if not kind for line in body.splitlines() if line.startswith("emend"))
    words = words_of(merge, tmp_path, {})
    assert not emend(*words), merge
    merged = Manifest.read(tmp_path / words[-1])
    assert [part.number for part in merged.merged] == [1, 2, 3, 4]
    assert sum(part.finished for part in merged.merged) == merged.units == 12
