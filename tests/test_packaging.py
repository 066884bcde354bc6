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
import yaml

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
    """The wheel made from the sdist of a clean copy; a stale build/ or *.egg-info cannot help it."""
    copy, out = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("dist")
    for name in repository_files():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    run(sys.executable, "-m", "build", "--no-isolation", "-o", out, cwd=copy)
    return next(out.glob("emend_eval-*.whl"))


def environment(home: Path, *wheels: Path) -> Path:
    """The folder of a fresh environment's programs, with the wheels in that order and our third-party packages.

    A .pth file lends it the packages of this environment. The .pth files of that folder, which the
    editable Emend needs, are not read from there, so the only Emend to be found is the wheel's.
    """
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home.parent)
    scheme = {"base": str(home), "platbase": str(home)}
    programs = Path(sysconfig.get_path("scripts", "venv", scheme))
    for wheel in wheels:
        pip(programs, "install", "--no-deps", "--no-index", wheel)
    lent = Path(sysconfig.get_path("purelib", "venv", scheme)) / "lent.pth"
    lent.write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return programs


def pip(programs: Path, *words: str | Path) -> None:
    run(sys.executable, "-m", "pip", "--python", programs / "python", *words, "--quiet", cwd=programs.parent)


@pytest.fixture(scope="module")
def emend(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fresh environment's programs, with the wheel."""
    return environment(tmp_path_factory.mktemp("elsewhere") / "venv", wheel)


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """A wheel of another project with the same import and command, as the index has one under the name `emend`."""
    info = "emend-0.5.6.dist-info"
    files = {
        "emend/__init__.py": "",
        "emend/cli.py": "def main() -> None:\n    print('refactoring')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: emend\nVersion: 0.5.6\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nemend = emend.cli:main\n",
    }
    path = tmp_path / "emend-0.5.6-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))
    return path


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


def files_of_packages() -> set[str]:
    return {name for name in repository_files() if name.split("/")[0] in (*ROOTS, "emend")}


def test_every_file_of_a_package_is_a_module_or_matches_a_data_pattern() -> None:
    folders = [ROOT.joinpath(*(name.split(".")[1:] or ["emend"])) for name in SETUPTOOLS["packages"]]
    patterns = ("*.py", *SETUPTOOLS["package-data"]["*"])
    packed = {str(file.relative_to(ROOT)) for each in folders for pattern in patterns for file in each.glob(pattern)}
    assert files_of_packages() - packed == set()


@pytest.mark.slow
def test_wheel_holds_every_file_of_the_packages_and_no_other(wheel: Path) -> None:
    ours = {name if name.startswith("emend/") else f"emend/{name}" for name in files_of_packages()}
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


NAMES = (
    "from emend.evals.cli.commands.doctor import _names; import json; "
    "print(json.dumps({check: [status, detail] for _, check, status, detail, *_ in _names()}))"
)


def names(programs: Path, folder: Path) -> dict[str, list[str]]:
    """What the doctor finds out about the names, with these programs first on PATH."""
    code = f"import os; os.environ['PATH'] = {str(programs)!r} + os.pathsep + os.environ['PATH']; {NAMES}"
    found: dict[str, list[str]] = json.loads(run(programs / "python", "-c", code, cwd=folder))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("is_first", [True, False])
def test_beside_the_other_project_happens_what_the_page_says(
    wheel: Path, stranger: Path, tmp_path: Path, is_first: bool
) -> None:
    programs = environment(tmp_path / "venv", *((wheel, stranger) if is_first else (stranger, wheel)))
    said = run(programs / "emend", "--help", cwd=tmp_path)
    assert ("refactoring" in said) == is_first and ("demo" in said) != is_first
    assert "demo" in run(programs / "python", "-m", "emend", "--help", cwd=tmp_path)
    results = names(programs, tmp_path)
    assert results["import emend"][0] == "broken" and "pip uninstall emend" in results["import emend"][1]
    assert results["command emend"][0] == ("broken" if is_first else "ok")

    pip(programs, "uninstall", "--yes", "emend")
    assert not (programs / "emend").exists()
    assert "--force-reinstall" in names(programs, tmp_path)["import emend"][1]
    pip(programs, "install", "--force-reinstall", "--no-deps", "--no-index", wheel)
    assert {status for status, _ in names(programs, tmp_path).values()} == {"ok"}
    assert "demo" in run(programs / "emend", "--help", cwd=tmp_path)


def test_the_image_has_all_packages_and_runs_the_demo_when_it_is_built() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    copied = {name for word, rest in lines if word == "COPY" for name in rest.split()[:-1]}
    assert copied >= {*ROOTS, "emend", "pyproject.toml", "constraints.txt"} and all(
        (ROOT / name).exists() for name in copied
    )
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    commands = [rest for word, rest in lines if word == "RUN"]
    assert any("download.pytorch.org/whl/cpu" in command for command in commands)
    assert "emend demo" in commands[-1] and "emend doctor" in commands[-1]


def test_the_citation_and_the_project_have_the_same_version_and_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert citation["cff-version"] == "1.2.0" and citation["authors"] and citation["title"] and citation["message"]


def test_workflows_publish_without_a_token_and_run_files_that_exist() -> None:
    flows = {path.name: yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")}
    publish = flows["release.yml"]["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"} and publish["needs"] == "build"
    assert not any("secrets." in json.dumps(step) for step in publish["steps"])
    steps = [step for flow in flows.values() for job in flow["jobs"].values() for step in job["steps"]]
    scripts = {word for step in steps for word in step.get("run", "").split() if word.startswith(".ci/")}
    assert {".ci/packages", ".ci/audit"} <= scripts
    assert all(os.access(ROOT / script, os.X_OK) for script in scripts)


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
    pytest.importorskip("cyclonedx_py", reason="cyclonedx-bom is not installed: pip install cyclonedx-bom")
    recipe = next(line for line in (ROOT / "Makefile").read_text("utf-8").splitlines() if "/cyclonedx-py" in line)
    words = recipe.split()[1:]
    words[words.index("dist/emend.cdx.json")], words[-1] = str(tmp_path / "emend.cdx.json"), sys.prefix
    run(sys.executable, "-m", "cyclonedx_py", *words, cwd=ROOT)
    listed = json.loads((tmp_path / "emend.cdx.json").read_text("utf-8"))
    names = {part["name"]: part["version"] for part in listed["components"]}
    assert listed["bomFormat"] == "CycloneDX" and listed["metadata"]["component"]["name"] == DISTRIBUTION
    assert {"torch", "transformers", "chromadb", "langgraph"} <= names.keys() and all(names.values())


def test_the_package_is_found_beside_a_checkout_of_its_name(tmp_path: Path) -> None:
    if not Path(sysconfig.get_path("purelib"), "emend_checkout.pth").exists():
        pytest.skip("this environment was not made by `make`")
    (tmp_path / "emend").symlink_to(ROOT)
    assert "function run" in run(sys.executable, "-c", "import emend; print(emend.run)", cwd=tmp_path)
