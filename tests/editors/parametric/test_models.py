"""ROME, R-ROME, MEMIT and AlphaEdit on models of other number formats and shapes, and in sequences."""

from typing import Any

import pytest
import torch

from emend.agents.llm import load_model
from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, CURRENCY, check_same, state_of
from emend.editors.numerics.apply_delta import DeltaStack
from emend.editors.numerics.architectures import ARCHITECTURES as ARCHITECTURE_TABLE
from emend.editors.numerics.architectures import NAMES, architecture_of
from emend.editors.numerics.suffix_forward import _check_adds
from emend.editors.parametric.alphaedit import AlphaEdit
from emend.editors.parametric.memit import Memit
from emend.editors.parametric.rome import Rome, RRome
from emend.memory.errors import BadSettings
from tests.editors.writers import ARCHITECTURES, SAME_SUBJECT, editor, solve


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("architecture", ["llama", "gemma2"])
def test_models_in_half_precision_take_edits(architecture, dtype, random_model):
    model: Any = load_model(f"hf:{random_model(architecture).lm.folder}", device="cpu", dtype=dtype)
    before = state_of(EditorContext(model))
    for method in (Rome, RRome, Memit, AlphaEdit):
        made = editor(method, model, **({"nullspace_threshold": 10.0} if method is AlphaEdit else {}))
        with made.edit([CAPITAL]):
            now = state_of(made.context)
            assert any(not torch.equal(value, now[name]) for name, value in before.items())
        check_same(before, state_of(made.context), "after the edit")
    model.close()


@pytest.mark.parametrize("method", [Rome, Memit])
def test_an_unknown_architecture_with_a_norm_behind_its_mlp_is_told_to_set_adds(method, random_model, monkeypatch):
    model = random_model("gemma2")
    wanted = solve(editor(method, model), [CAPITAL])
    monkeypatch.setattr(model.lm.model.config, "model_type", "unheard_of")
    given = {name: getattr(ARCHITECTURE_TABLE["gemma2"], name) for name in NAMES}
    with pytest.raises(BadSettings, match=r"down_proj' gives does not reach.*'unheard_of'. Add adds = false"):
        editor(method, model, architecture=given)
    found = solve(editor(method, model, architecture=given | {"adds": "false"}), [CAPITAL])
    assert all(torch.equal(delta, wanted[name]) for name, delta in found.items())


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "opt"])
def test_the_table_says_of_each_architecture_whether_its_blocks_add_what_the_mlp_gives(architecture, random_model):
    lm = random_model(architecture).lm
    paths = architecture_of(lm.model)
    if paths.adds:
        _check_adds(lm, paths)
        return
    with pytest.raises(BadSettings, match="Add adds = false"):
        _check_adds(lm, paths)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_alphaedit_protects_the_edited_models_keys_and_runs_no_pass_after_applying(
    architecture, random_model, monkeypatch
):
    """So that no call fails whose edit stands."""
    model = random_model(architecture)
    alpha = editor(AlphaEdit, model, layers=[0, 1], nullspace_threshold=10.0, L2=1.0)
    plain, handles = DeltaStack.add, []

    def add(self, deltas):
        plain(self, deltas)
        handles.append(model.lm.model.base_model.register_forward_pre_hook(lambda *_: pytest.fail("a pass")))

    monkeypatch.setattr(DeltaStack, "add", add)
    with alpha.sequence() as grow:
        for edits in ([CAPITAL], [CURRENCY, SAME_SUBJECT]):
            grow(edits)
            handles.pop().remove()
            for layer in (0, 1):
                now = alpha.keys_at(edits, layer).double()
                assert torch.equal(alpha._protected[layer][-len(edits) :], now)
        assert [len(keys) for keys in alpha._protected.values()] == [3, 3]
        monkeypatch.setattr(DeltaStack, "add", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            grow([CAPITAL])
        assert [len(keys) for keys in alpha._protected.values()] == [3, 3]
