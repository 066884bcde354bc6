"""The distribution has a name of its own, which every text that says how to install it uses."""

import re
import subprocess
import tomllib

import pytest

from emend.memory.distribution import DISTRIBUTION, install_command
from tests.paths import ROOT

STRANGER = re.compile(r"(?<![\w.-])emend(\[[a-z]|==|>=|~=)|pip3? (install|download)( -\S+)* ['\"]?emend\b(?!-eval)")
"""A requirement on the distribution `emend`, or a command that installs it, which is another project's."""


def test_the_name_in_code_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == DISTRIBUTION
    assert project["scripts"] == {"emend": "emend.evals.cli.main:main"}


def test_an_install_command_names_the_distribution_and_existing_extras() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    sources = [path.read_text("utf-8") for room in ("memory", "agents", "graphs", "editors", "evals")
               for path in (ROOT / room).rglob("*.py")]  # fmt: skip
    named = {extra for text in sources for extra in re.findall(r"install_command\([\"'](\w+)[\"']\)", text)}
    assert install_command("view") == f"pip install '{DISTRIBUTION}[view]'"
    assert len(named) >= 10 and named <= extras.keys()


@pytest.mark.parametrize(
    "text", ["pip install 'emend[view]'", "pip install emend", "pip download -q emend", "emend==0.1", '"emend[all]"']
)
def test_the_check_below_sees_the_name_of_the_other_project(text: str) -> None:
    assert STRANGER.search(text) and not STRANGER.search(text.replace("emend", DISTRIBUTION))


@pytest.mark.slow
def test_no_text_installs_the_other_project() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    exempt = "tests/memory/test_distribution.py"
    assert [
        f"{name}: {line.strip()}"
        for name in listed.splitlines()
        if name != exempt
        and (ROOT / name).is_file()
        and re.search(r"(^|/)[^.]*$|\.(py|md|toml|txt|yml|yaml|ipynb|cff|html|sh)$", name)
        for line in (ROOT / name).read_text("utf-8", errors="replace").splitlines()
        if STRANGER.search(line)
    ] == []
