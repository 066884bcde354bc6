"""Commands that other packages bring by the entry point `emend.commands`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULE = '''
import sys

sys.stderr.write("imported ")

def greet(name: str) -> None:
    """Greet somebody."""
    print("hello", name)
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with an installed package that brings a command."""
    metadata = tmp_path / "greetings-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[emend.commands]\ngreet = greetings:greet\nbad = greetings:nothing\n")
    (tmp_path / "greetings.py").write_text(MODULE)
    return tmp_path


def call(package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(package)))}
    return subprocess.run([sys.executable, "-m", "emend", *words], env=env, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_a_command_of_another_package_is_listed_without_its_import_and_runs(package: Path) -> None:
    listed = call(package, "--help")
    assert "greet" in listed.stdout and "A command of greetings." in listed.stdout
    assert "imported" not in listed.stderr
    assert call(package, "greet", "Mira").stdout == "hello Mira\n"


@pytest.mark.slow
def test_a_command_that_its_package_lacks_is_refused_with_its_address(package: Path) -> None:
    refused = call(package, "bad")
    assert refused.returncode == 2 and "greetings:nothing" in refused.stderr
