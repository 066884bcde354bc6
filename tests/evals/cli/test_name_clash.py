"""`emend doctor` says whether the import and the command `emend` are this project's."""

import stat
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from emend.evals.cli.commands import doctor
from emend.evals.cli.commands.doctor import _names, command_clash, import_clash

STRANGER = "#!/usr/bin/python3\nimport sys\nfrom emend.cli import main\nsys.exit(main())\n"
OURS = "#!/usr/bin/python3\nimport sys\nfrom emend.evals.cli.main import main\nsys.exit(main())\n"


def program(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "emend"
    path.write_text(text, "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def metadata(folder: Path, entry_point: str) -> None:
    info = folder / "emend-0.5.6.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: emend\nVersion: 0.5.6\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[console_scripts]\nemend = {entry_point}\n", "utf-8")


def findings() -> dict[str, tuple[str, str]]:
    return {check: (status, detail) for _, check, status, detail, *_ in _names()}


def test_another_project_s_command_first_on_path_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = program(tmp_path / "theirs", STRANGER), program(tmp_path / "ours", OURS)
    monkeypatch.setenv("PATH", f"{theirs.parent}:{ours.parent}")
    status, detail = findings()["command emend"]
    assert status == "broken" and str(theirs) in detail and "python -m emend" in detail
    monkeypatch.setenv("PATH", f"{ours.parent}:{theirs.parent}")
    assert findings()["command emend"] == ("ok", str(ours))


def test_no_command_on_path_is_absent_with_the_way_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    status, detail = findings()["command emend"]
    assert status == "absent" and "python -m emend" in detail


def test_an_overwritten_command_is_to_be_installed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert "--force-reinstall --no-deps emend-eval" in command_clash(program(tmp_path, STRANGER))


def test_a_command_of_bytes_that_are_no_text_is_another_s(tmp_path: Path) -> None:
    path = tmp_path / "emend"
    path.write_bytes(b"\x7fELF\x00\xff" * 100)
    assert "another project's command" in command_clash(path)


def test_the_other_distribution_beside_ours_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata(tmp_path, "emend.cli:main")
    monkeypatch.syspath_prepend(str(tmp_path))
    status, detail = findings()["import emend"]
    assert status == "broken" and "pip uninstall emend" in detail and "--force-reinstall" in detail


def test_a_checkout_installed_under_the_former_name_is_no_other_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata(tmp_path, doctor.ENTRY_POINT)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert import_clash() == ""


@pytest.mark.parametrize(("file", "remedy"), [("/theirs/emend.py", "rename it"), (None, "--force-reinstall")])
def test_an_import_that_is_another_package_is_broken(
    monkeypatch: pytest.MonkeyPatch, file: str | None, remedy: str
) -> None:
    assert import_clash() == ""
    other = ModuleType("emend")
    other.__file__ = file
    monkeypatch.setitem(sys.modules, "emend", other)
    assert remedy in import_clash() and (file or "__init__.py") in import_clash()
