"""Models with layers of several kinds, or with recurrent states: editors of weights work, or say why not."""

from dataclasses import replace
from typing import Any

import pytest

from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, check_same, state_of
from emend.editors.numerics.architectures import ARCHITECTURES, LLAMA_LIKE, Architecture
from emend.editors.numerics.training.window_search import search_windows
from emend.editors.parametric.documents.long_targets import long_targets
from emend.editors.registry import EDITORS
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings
from tests.editors.numerics.test_value_search import ADA, EDITS, PLAN, change, plainly
from tests.editors.parametric.documents.published import Published
from tests.editors.writers import log_prob
from tests.fakes import SIZES, read_model, tiny_random_lm
from tests.params import first_quick, mostly_slow

SMALL: dict[str, Any] = {"intermediate_size": 64, "num_key_value_heads": 2}
LINEAR = {"linear_num_value_heads": 2, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
SSM = {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 8}
LATENT = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8}
EXPERTS = {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 16}
KINDS: dict[str, dict[str, Any]] = {
    "lfm2": SMALL | {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False},
    "qwen3_next": SMALL
    | LINEAR
    | {"head_dim": 16, "num_experts": 0, "layer_types": ["linear_attention", "full_attention"]},
    "falcon_h1": SMALL | SSM | {"mamba_chunk_size": 8},
    "mamba2": {"num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 1, "chunk_size": 8, "expand": 2},
    "deepseek_v3": LATENT | EXPERTS | {"intermediate_size": 64, "first_k_dense_replace": 1},
}
BARE = Architecture(**(LLAMA_LIKE.__dict__ | {"query": "", "value": ""}))
PATHS = {
    "lfm2": replace(BARE, down_projection="model.layers.{}.feed_forward.w2", norm="model.embedding_norm"),
    "qwen3_next": BARE,
    "falcon_h1": replace(
        BARE, down_projection="model.layers.{}.feed_forward.down_proj", norm="model.final_layernorm", adds=False
    ),
    "mamba2": Architecture(
        block="backbone.layers.{}",
        down_projection="backbone.layers.{}.mixer.out_proj",
        query="",
        value="",
        norm="backbone.norm_f",
        head="lm_head",
    ),
    "deepseek_v3": BARE,
}
RAIN = "It rains in Ostrim, and the sun is cold. The river Tamsin is long."
MIXED = ("lfm2", "qwen3_next", "falcon_h1", "mamba2")
WRITING = {
    "layers": [0],
    "v_num_grad_steps": 20,
    "v_lr": 0.5,
    "kl_factor": 0.0,
    "prefixes": ["So. "],
    "covariance": "identity",
}
SPREAD = WRITING | {"mom2_update_weight": 0.01}


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    """A function from a model type to a small random model, each made once."""
    made: dict[str, Any] = {}

    def make(kind: str) -> Any:
        if kind not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(SIZES, kind, KINDS[kind])
                made[kind] = read_model(tiny_random_lm(kind, tmp_path_factory.mktemp("models"), window=96), 4)
        return made[kind]

    yield make
    for model in made.values():
        model.close()


def build(model, method, **settings):
    return EDITORS.load(method)(EditorContext(model=model, settings=settings))


def given(kind, *names):
    """As a user gives them: those paths that are used, and no others."""
    told = PATHS[kind]
    return {name: getattr(told, name) for name in names} | ({} if told.adds else {"adds": False})


def at_the_subject(kind):
    return given(kind, "block", "down_projection", "norm", "head")


@pytest.mark.slow
@pytest.mark.parametrize("kind", MIXED)
def test_a_model_that_keeps_states_is_searched_through_as_plainly(model_of, kind, monkeypatch):
    lm, path = model_of(kind).lm, PATHS[kind].down_projection
    monkeypatch.setitem(ARCHITECTURES, kind, replace(PATHS[kind], query=path, value=path))
    delta, _, steps, loss = plainly(lm, ADA, PLAN, 0, "mlp")
    together = change(lm, EDITS)
    assert (together.change[0] - delta).norm() <= 1e-3 * delta.norm()
    assert together.steps[0] == steps and together.loss[0] == pytest.approx(loss, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", first_quick(MIXED))
@pytest.mark.parametrize(("method", "more"), [("rome", WRITING), ("memit", SPREAD)])
def test_locate_then_edit_needs_only_four_module_paths(model_of, kind, method, more):
    model = model_of(kind)
    before, weights = log_prob(model), state_of(EditorContext(model))
    with build(model, method, **more, architecture=at_the_subject(kind)).edit([CAPITAL]):
        assert log_prob(model) > before
    check_same(weights, state_of(EditorContext(model)), "after the edit")


@pytest.mark.slow
@pytest.mark.parametrize("kind", mostly_slow(MIXED, "lfm2"))
def test_windows_of_a_document_are_searched_through_as_in_the_published_loop(model_of, kind):
    model, settings = model_of(kind), {"layers": [0], "v_num_grad_steps": 6, "window_size": 9, "ex_data_num": 0}
    editor = build(model, "anyedit", **settings, architecture=at_the_subject(kind))
    (target,) = long_targets(model.lm, [Edit(form="document", text=RAIN)], "new_fact")
    windows = editor.windows(target)
    (values,) = search_windows(model.lm, editor.paths, [target], [windows], 0, editor.settings)
    changes = Published(model.lm, 0, editor.settings, editor.paths).compute_z(target.ids, windows)
    for value, (place, published) in zip(values, changes, strict=True):
        assert value.place == place and (value.change - published).norm() <= 1e-3 * published.norm()
    weights = state_of(EditorContext(model))
    with editor.edit([target.edit]):
        pass
    check_same(weights, state_of(EditorContext(model)), "after the edit")


def test_adapters_are_put_on_the_layers_that_have_the_matrices(model_of):
    model, paths = model_of("qwen3_next"), {name: getattr(LLAMA_LIKE, name) for name in ("query", "value")}
    editor: Any = build(model, "lora", num_steps=3, lora_dropout=0.0, architecture=paths)
    assert editor.paths == ["model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj"]
    before = log_prob(model)
    with editor.edit([CAPITAL]):
        assert log_prob(model) > before
    assert build(model, "lora", layers=[1], architecture=paths)
    said = r"q_proj' as 'query': this model has no such module in layer 0. Choose among the layers that have it \(1\)"
    with pytest.raises(BadSettings, match=said):
        build(model, "lora", layers=[0], architecture=paths)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "more"), [("rome", WRITING), ("memit", SPREAD), ("ft", {"num_steps": 2})])
def test_a_layer_of_experts_is_refused_before_any_work_though_the_first_is_none(model_of, method, more):
    model, paths = model_of("deepseek_v3"), at_the_subject("deepseek_v3")
    paths = paths if method != "ft" else given("deepseek_v3", "down_projection")
    said = r"no such module in layer 1. Choose among the layers that have it \(0\).* MLPs are 4 experts each"
    with pytest.raises(BadSettings, match=said):
        build(model, method, **more | {"layers": [1]}, architecture=paths)
    before = log_prob(model)
    with build(model, method, **more | {"layers": [0]}, architecture=paths).edit([CAPITAL]):
        assert log_prob(model) > before


def test_blocks_that_do_not_make_up_the_model_are_refused(random_model, monkeypatch):
    model = random_model()
    monkeypatch.setattr(model.lm.model.config, "model_type", "unheard_of")
    paths = {name: getattr(LLAMA_LIKE, name) for name in ("down_projection", "norm", "head")}
    with pytest.raises(BadSettings, match="'unheard_of' cannot be run separately, from layer 0 on: .*Correct block"):
        build(model, "rome", **WRITING, architecture=paths | {"block": "model.layers.{}.mlp"})
