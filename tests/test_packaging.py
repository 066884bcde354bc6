"""The wheel holds all that the repository holds, and works where the repository is not."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from emend.memory.distribution import DISTRIBUTION
from tests.paths import ROOT

ROOTS = ("agents", "graphs", "memory", "editors", "evals")
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]


def run(*command: str | Path, cwd: Path) -> str:
    """What a command says; it must exit 0, and sees no PYTHONPATH."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{command} exits {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def repository_files() -> list[str]:
    """What a clean clone would hold: all files that git knows or would add."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that a clean copy builds; a stale build/ or *.egg-info cannot help it."""
    copy, out = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("dist")
    for name in repository_files():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", out, cwd=copy)
    return next(out.glob("emend_eval-*.whl"))


@pytest.fixture(scope="module")
def emend(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fresh environment's programs, with the wheel and our third-party packages.

    A .pth file lends it the packages of this environment. The .pth files of that folder, which the
    editable Emend needs, are not read from there, so the only Emend to be found is the wheel's.
    """
    home = tmp_path_factory.mktemp("elsewhere") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home.parent)
    scheme = {"base": str(home), "platbase": str(home)}
    programs = Path(sysconfig.get_path("scripts", "venv", scheme))
    pip = (sys.executable, "-m", "pip", "--python", programs / "python")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=home.parent)
    lent = Path(sysconfig.get_path("purelib", "venv", scheme)) / "lent.pth"
    lent.write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return programs


def test_every_package_is_listed() -> None:
    values = {
        "emend." + ".".join(folder.relative_to(ROOT).parent.parts)
        for root in ROOTS
        for folder in (ROOT / root).rglob("__init__.py")
    }
    assert values | {"emend"} == set(SETUPTOOLS["packages"])


@pytest.mark.parametrize("pattern", SETUPTOOLS["package-data"]["*"])
def test_every_data_pattern_matches_something(pattern: str) -> None:
    folders = [ROOT.joinpath(*(name.split(".")[1:] or ["emend"])) for name in SETUPTOOLS["packages"]]
    assert any(any(folder.glob(pattern)) for folder in folders)


def test_wheel_holds_every_file_of_the_packages_and_no_other(wheel: Path) -> None:
    files = [name for name in repository_files() if name.split("/")[0] in (*ROOTS, "emend")]
    ours = {name if name.startswith("emend/") else f"emend/{name}" for name in files}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == ours


@pytest.mark.slow
def test_wheel_is_the_one_imported(emend: Path, tmp_path: Path) -> None:
    code = "import emend.memory as m; print(m.__file__)"
    where = Path(run(emend / "python", "-c", code, cwd=tmp_path).strip())
    assert where.is_relative_to(emend.parent)


@pytest.mark.slow
def test_wheel_says_help(emend: Path, tmp_path: Path) -> None:
    assert "demo" in run(emend / "emend", "--help", cwd=tmp_path)


@pytest.mark.slow
def test_wheel_runs_the_demo(emend: Path, tmp_path: Path) -> None:
    """The real thing: the embedded model, edited and measured from the wheel alone."""
    run(emend / "emend", "demo", "--edits", "5", "--out", tmp_path / "out", cwd=tmp_path)
    assert any((tmp_path / "out").iterdir())


def pins(name: str) -> dict[str, str]:
    """The pinned versions in a file of requirements, by canonical name."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    pairs = (re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", line) for line in lines)
    return {re.sub(r"[-_.]+", "-", pair[1]).lower(): pair[2] for pair in pairs if pair}


def test_every_tested_version_is_there_with_hashes() -> None:
    hashed, tested = pins("requirements-hashes.txt"), pins("constraints.txt")
    assert {name: hashed.get(name) for name in tested} == tested
    text = (ROOT / "requirements-hashes.txt").read_text("utf-8")
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.M)[1:]
    assert len(entries) == len(hashed) and all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text, "an index or an address"


@pytest.mark.slow
def test_the_list_of_dependencies_is_valid_cyclonedx(tmp_path: Path) -> None:
    pytest.importorskip("cyclonedx_py", reason="cyclonedx-bom is not installed: pip install 'emend-eval[dev]'")
    recipe = next(line for line in (ROOT / "Makefile").read_text("utf-8").splitlines() if "cyclonedx-py" in line)
    words = recipe.split()[1:]
    words[words.index("dist/emend.cdx.json")], words[-1] = str(tmp_path / "emend.cdx.json"), sys.prefix
    run(sys.executable, "-m", "cyclonedx_py", *words, cwd=ROOT)
    listed = json.loads((tmp_path / "emend.cdx.json").read_text("utf-8"))
    names = {part["name"]: part["version"] for part in listed["components"]}
    assert listed["bomFormat"] == "CycloneDX" and listed["metadata"]["component"]["name"] == DISTRIBUTION
    assert {"torch", "transformers", "chromadb", "langgraph"} <= names.keys() and all(names.values())
