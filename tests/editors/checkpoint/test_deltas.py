"""Weight deltas as files: small, exact, of one model alone, and reverted bit for bit."""

import json
import shutil
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from emend.agents.llm import load_model
from emend.editors.base import NO_COST, EditorContext
from emend.editors.checkpoint.deltas import (
    MANIFEST,
    TENSORS,
    check_weight_editor,
    new_folder,
    parse_dtype,
    read_delta,
    read_manifest,
    write_delta,
)
from emend.editors.checkpoint.edited_model import SUBFOLDER, revert, save_edited
from emend.editors.conformance import CAPITAL, CURRENCY, check_same, state_of
from emend.editors.numerics.apply_delta import applied
from emend.editors.numerics.low_rank import LowRankDelta
from emend.editors.numerics.tensor_files import sha256_of
from emend.editors.registry import EDITORS
from emend.memory.errors import BadData, BadSettings, MissingData
from tests.fakes import tiny_random_lm
from tests.params import mostly_slow

EDITS = (CAPITAL, CURRENCY)
AT_THE_SUBJECT = {"layers": [0], "v_num_grad_steps": 4, "prefixes": ["So. "], "covariance": "identity"}
SETTINGS: dict[str, dict[str, Any]] = {
    "ft": {"num_steps": 4, "lr": 1e-2},
    "lora": {"num_steps": 4},
    "rome": AT_THE_SUBJECT,
    "memit": AT_THE_SUBJECT | {"layers": [0, 1]},
}
PAIRS = [(edit.cloze, edit.target_new) for edit in EDITS]


def editor_of(model, method="rome"):
    return EDITORS.load(method)(EditorContext(model=model, settings=SETTINGS[method]))


def written(model, folder, method="rome"):
    editor = editor_of(model, method)
    return write_delta(folder, editor.solve(EDITS), editor, model.lm, EDITS, NO_COST, {"emend": "0"})


@pytest.fixture
def saved(random_model, tmp_path):
    """A model, and its edited copy's folder."""
    model = random_model()
    manifest = written(model, tmp_path / "delta")
    save_edited(model.lm, read_delta(tmp_path / "delta", model.lm), manifest, tmp_path / "edited")
    return model, tmp_path / "edited"


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(SETTINGS))
@pytest.mark.parametrize("architecture", mostly_slow(["llama", "gpt2"], "gpt2"))
def test_a_saved_model_scores_exactly_as_the_edited_one(random_model, tmp_path, method, architecture):
    model = random_model(architecture)
    before = state_of(EditorContext(model))
    with editor_of(model, method).edit(EDITS):
        live = model.lm.log_probs(PAIRS)
    manifest = written(model, tmp_path / "delta", method)
    delta = read_delta(tmp_path / "delta", model.lm)
    with applied(model.lm.model, delta):
        assert model.lm.log_probs(PAIRS) == live
    save_edited(model.lm, delta, manifest, tmp_path / "edited")
    check_same(before, state_of(EditorContext(model)), "after saving")
    again: Any = load_model(f"hf:{tmp_path / 'edited'}", device="cpu")
    assert again.lm.log_probs(PAIRS) == live != model.lm.log_probs(PAIRS)
    revert(tmp_path / "edited")
    back: Any = load_model(f"hf:{tmp_path / 'edited'}", device="cpu")
    check_same(before, state_of(EditorContext(back)), "after the revert")
    assert not (tmp_path / "edited" / SUBFOLDER).exists()


def test_methods_of_low_rank_keep_thin_matrices(random_model, tmp_path):
    model = random_model()
    written(model, tmp_path / "rome", "rome")
    written(model, tmp_path / "ft", "ft")
    thin, whole = (read_delta(tmp_path / name, model.lm) for name in ("rome", "ft"))
    (factors,) = thin.values()
    assert isinstance(factors, LowRankDelta)
    assert factors.left.shape == (32, 2) and factors.right.shape == (2, 64)
    assert [tuple(delta.shape) for delta in whole.values() if isinstance(delta, torch.Tensor)] == [(32, 64)]


def test_the_manifest_says_how_the_delta_came_about(random_model, tmp_path):
    model = random_model()
    manifest = written(model, tmp_path / "delta")
    assert read_manifest(tmp_path / "delta").model_dump_json() == manifest.model_dump_json()
    assert (manifest.method, manifest.edits, manifest.model) == ("rome", EDITS, model.lm.fingerprint)
    assert manifest.fingerprint["settings"]["v_num_grad_steps"] == 4 and parse_dtype(manifest) == "float32"


@pytest.mark.slow
def test_a_model_in_half_precision_is_saved_and_restored_as_such(random_model, tmp_path):
    model: Any = load_model(f"hf:{random_model().lm.folder}", device="cpu", dtype="bfloat16")
    before = state_of(EditorContext(model))
    manifest = written(model, tmp_path / "delta", "ft")
    delta = read_delta(tmp_path / "delta", model.lm)
    with applied(model.lm.model, delta):
        live = model.lm.log_probs(PAIRS)
    save_edited(model.lm, delta, manifest, tmp_path / "edited")
    assert json.loads((tmp_path / "edited/config.json").read_text())["dtype"] == "bfloat16"
    again: Any = load_model(f"hf:{tmp_path / 'edited'}", device="cpu", dtype=parse_dtype(manifest))
    assert again.lm.log_probs(PAIRS) == live
    revert(tmp_path / "edited")
    back: Any = load_model(f"hf:{tmp_path / 'edited'}", device="cpu", dtype="bfloat16")
    check_same(before, state_of(EditorContext(back)), "after the revert")


def test_a_saved_model_generates_and_ends_as_the_base_does(saved):
    model, folder = saved
    again: Any = load_model(f"hf:{folder}", device="cpu")
    assert again.lm.ends == model.lm.ends and again.lm.window == model.lm.window
    assert (folder / "tokenizer.json").read_bytes() == (model.lm.folder / "tokenizer.json").read_bytes()


def test_what_prepares_pictures_for_a_model_goes_with_it(tmp_path):
    folder = tiny_random_lm("llama", tmp_path, window=96)
    for name in ("preprocessor_config.json", "processor_config.json"):
        (folder / name).write_text(f'{{"kept": "{name}"}}')
    model: Any = load_model(f"hf:{folder}", device="cpu")
    manifest = written(model, tmp_path / "delta")
    save_edited(model.lm, read_delta(tmp_path / "delta", model.lm), manifest, tmp_path / "edited")
    for name in ("preprocessor_config.json", "processor_config.json"):
        assert (tmp_path / "edited" / name).read_bytes() == (folder / name).read_bytes()


def test_a_delta_for_another_model_is_refused_and_both_are_named(random_model, tmp_path):
    one, other = random_model(), random_model("qwen2")
    written(one, tmp_path / "delta")
    with pytest.raises(BadData, match=f"made for model {one.lm.fingerprint}, but this one is {other.lm.fingerprint}"):
        read_delta(tmp_path / "delta", other.lm)


@pytest.mark.parametrize("harm", ["left alone", "both forms", "nothing", "rank 0", "escape sequence"])
def test_tensors_that_no_editor_writes_are_refused(random_model, tmp_path, harm):
    model = random_model()
    written(model, tmp_path / "delta")
    file = tmp_path / "delta" / TENSORS
    held = load_file(file)
    left, right = sorted(held)
    path = left.removesuffix(":left")
    square = torch.zeros_like(model.lm.model.model.layers[0].self_attn.q_proj.weight)
    changed = {
        "left alone": {"model.layers.0.self_attn.q_proj:left": square},
        "both forms": held | {f"{path}.weight:whole": held[left] @ held[right]},
        "nothing": {},
        "rank 0": {left: held[left][:, :0], right: held[right][:0]},
        "escape sequence": {"\x1b[2J\n:whole": torch.zeros(1)},
    }[harm]
    save_file({name: tensor.contiguous() for name, tensor in changed.items()}, file)
    manifest = json.loads((tmp_path / "delta" / MANIFEST).read_text())
    (tmp_path / "delta" / MANIFEST).write_text(json.dumps(manifest | {"sha256": sha256_of(file)}))
    with pytest.raises(BadData) as caught:
        read_delta(tmp_path / "delta", model.lm)
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


@pytest.mark.parametrize("harm", ["cut", "changed", "absent", "not a manifest", "bad manifest"])
def test_a_damaged_delta_is_an_error_that_says_so(random_model, tmp_path, harm):
    model = random_model()
    written(model, tmp_path / "delta")
    file, manifest = tmp_path / "delta/delta.safetensors", tmp_path / "delta/manifest.json"
    whole = file.read_bytes()
    if harm == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif harm == "changed":
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif harm == "absent":
        file.unlink()
    elif harm == "not a manifest":
        manifest.unlink()
    else:
        manifest.write_text(manifest.read_text()[:-40])
    kind, words = {
        "not a manifest": (MissingData, "no delta in"),
        "bad manifest": (BadData, "is not a manifest of a delta"),
    }.get(harm, (BadData, "is damaged: its manifest names sha256"))
    with pytest.raises(kind, match=words):
        read_delta(tmp_path / "delta", model.lm)


def test_nothing_is_overwritten(random_model, tmp_path, saved):
    model, folder = saved
    with pytest.raises(BadSettings, match="is not empty"):
        written(model, tmp_path / "delta")
    with pytest.raises(BadSettings, match="is not empty"):
        save_edited(model.lm, read_delta(tmp_path / "delta", model.lm), read_manifest(tmp_path / "delta"), folder)


def test_a_folder_without_edits_cannot_be_reverted(random_model):
    with pytest.raises(MissingData, match="nothing to revert"):
        revert(random_model().lm.folder)


def test_weights_changed_after_the_edit_are_not_reverted(saved, tmp_path):
    _, folder = saved
    again: Any = load_model(f"hf:{folder}", device="cpu")
    with torch.no_grad():
        again.lm.model.model.layers[0].mlp.down_proj.weight[0, 0] += 1
    again.lm.model.save_pretrained(folder)
    with pytest.raises(BadData, match="was changed after the edits"):
        revert(folder)


def test_damaged_originals_are_not_restored(saved):
    _, folder = saved
    file = folder / SUBFOLDER / "originals.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(BadData, match="is damaged"):
        revert(folder)


def test_a_revert_that_was_interrupted_can_be_made_again(saved, tmp_path):
    model, folder = saved
    shutil.copytree(folder / SUBFOLDER, tmp_path / "kept")
    revert(folder)
    shutil.copytree(tmp_path / "kept", folder / SUBFOLDER)  # as if it had ended before this was taken away
    revert(folder)
    back: Any = load_model(f"hf:{folder}", device="cpu")
    check_same(state_of(EditorContext(model)), state_of(EditorContext(back)), "after both")


def test_an_editor_by_prompt_has_no_delta():
    with pytest.raises(BadSettings, match="editor 'rag' changes no weights"):
        check_weight_editor(EDITORS.load("rag"), "rag")


def test_a_manifest_of_another_format_is_refused(random_model, tmp_path):
    model = random_model()
    written(model, tmp_path / "delta")
    told = json.loads((tmp_path / "delta" / "manifest.json").read_text("utf-8"))
    (tmp_path / "delta" / "manifest.json").write_text(json.dumps(told | {"format": 99}), "utf-8")
    with pytest.raises(BadData, match="not a manifest of a delta: format: .*value 99"):
        read_delta(tmp_path / "delta", model.lm)


@pytest.mark.parametrize("content", ['{"config": {}}', '{"format": 1}', '{"format": 1', "\udcff", "[]"])
def test_a_file_that_is_no_manifest_is_an_error_of_one_line(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadData, match="manifest.json' is not a manifest of a delta: .*`emend edit --out`") as refused:
        read_manifest(tmp_path)
    assert "\n" not in str(refused.value) and "validation error" not in str(refused.value)


@pytest.mark.parametrize("there", [True, False])
def test_an_interrupted_save_leaves_nothing_behind(random_model, tmp_path, monkeypatch, there):
    model = random_model()
    manifest = written(model, tmp_path / "delta")
    delta = read_delta(tmp_path / "delta", model.lm)
    if there:
        (tmp_path / "edited").mkdir()
    before = state_of(EditorContext(model))

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(model.lm.model), "save_pretrained", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_edited(model.lm, delta, manifest, tmp_path / "edited")
    assert (tmp_path / "edited").exists() == there and not list(tmp_path.glob("edited/*"))
    check_same(before, state_of(EditorContext(model)), "after the interruption")
    monkeypatch.undo()
    save_edited(model.lm, delta, manifest, tmp_path / "edited")
    assert revert(tmp_path / "edited").sha256 == manifest.sha256


def test_originals_lie_there_before_the_edited_weights(random_model, tmp_path, monkeypatch):
    model = random_model()
    manifest = written(model, tmp_path / "delta")
    seen: list[set[str]] = []
    save = type(model.lm.model).save_pretrained

    def watched(self: Any, folder: Any, *told: Any, **more: Any) -> Any:
        seen.append({file.name for file in (folder / SUBFOLDER).iterdir()})
        return save(self, folder, *told, **more)

    monkeypatch.setattr(type(model.lm.model), "save_pretrained", watched)
    save_edited(model.lm, read_delta(tmp_path / "delta", model.lm), manifest, tmp_path / "edited")
    assert seen == [{"record.json", "originals.safetensors"}]


def test_of_two_saves_into_one_folder_the_second_is_refused_and_deletes_nothing(random_model, tmp_path):
    folder = tmp_path / "delta"
    with new_folder(folder) as draft:
        (draft / TENSORS).write_bytes(b"of the first")
        with pytest.raises(BadSettings, match="another process is writing to"):
            written(random_model(), folder)
    assert [path.name for path in folder.iterdir()] == [TENSORS]
    assert (folder / TENSORS).read_bytes() == b"of the first"


def test_of_saves_that_start_at_once_one_fills_the_folder(tmp_path):
    results: list[str] = []
    start = threading.Barrier(8)

    def save(number):
        start.wait(10)
        try:
            with new_folder(tmp_path / "delta") as draft:
                (draft / f"{number}.txt").touch()
        except BadSettings as error:
            results.append(str(error))

    for _ in range(20):
        results.clear()
        threads = [threading.Thread(target=save, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(results) == 7 and len(list((tmp_path / "delta").iterdir())) == 1
        shutil.rmtree(tmp_path / "delta")


def test_a_save_that_fails_deletes_only_its_own_files(tmp_path):
    def failing():
        with new_folder(tmp_path / "delta") as draft:
            (draft / TENSORS).touch()
            (tmp_path / "delta" / "log.txt").write_text("of someone else")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert [path.name for path in (tmp_path / "delta").iterdir()] == ["log.txt"]


def test_a_killed_save_leaves_no_delta_and_can_be_made_again(random_model, tmp_path):
    kill = (
        "import os, sys; from pathlib import Path; from emend.editors.checkpoint.deltas import new_folder\n"
        "with new_folder(Path(sys.argv[1])) as draft:\n"
        "    (draft / 'delta.safetensors').touch()\n"
        "    os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", kill, str(tmp_path / "delta")], timeout=60).returncode == -9
    with pytest.raises(MissingData):
        read_manifest(tmp_path / "delta")
    manifest = written(random_model(), tmp_path / "delta")
    assert read_manifest(tmp_path / "delta").sha256 == manifest.sha256
    assert sorted(path.name for path in (tmp_path / "delta").iterdir()) == [TENSORS, MANIFEST]


def test_of_two_reverts_the_second_is_refused_and_the_first_ends(saved, monkeypatch):
    model, folder = saved
    save = type(model.lm.model).save_pretrained
    refused: list[str] = []

    def save_and_revert_again(self: Any, *args: Any, **options: Any) -> Any:
        with pytest.raises(BadSettings, match="another process is reverting") as error:
            revert(folder)
        refused.append(str(error.value))
        return save(self, *args, **options)

    monkeypatch.setattr(type(model.lm.model), "save_pretrained", save_and_revert_again)
    revert(folder)
    assert len(refused) == 1 and not (folder / SUBFOLDER).exists() and not list(folder.glob(".*"))
    monkeypatch.undo()
    with pytest.raises(MissingData, match="nothing to revert"):
        revert(folder)
    back: Any = load_model(f"hf:{folder}", device="cpu")
    check_same(state_of(EditorContext(model)), state_of(EditorContext(back)), "after the first")
