"""The manifest says from which checkout of Emend a run was made."""

import os
import subprocess
from pathlib import Path

import pytest

from emend.evals.log import manifest


def test_commit_and_changes_of_the_checkout_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    monkeypatch.setattr(manifest, "__file__", str(tmp_path / "evals" / "log" / "manifest.py"))
    assert manifest.git_state() is None
    git("init", "-q")
    assert manifest.git_state() is None, "there is no commit yet"
    git("commit", "-q", "--allow-empty", "-m", "x")
    assert manifest.git_state() == {"commit": git("rev-parse", "HEAD"), "changed": False}
    (tmp_path / "new.py").touch()
    assert manifest.git_state() == {"commit": git("rev-parse", "HEAD"), "changed": True}
    git("add", "new.py")
    os.utime(tmp_path / "new.py", (1, 1))
    index = (tmp_path / ".git" / "index").read_bytes()
    manifest.git_state()
    assert (tmp_path / ".git" / "index").read_bytes() == index, "a kill would leave the index locked"
