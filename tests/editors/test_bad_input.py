"""Edits that cannot be solved are refused by name, and errors leave the model unchanged."""

import logging
from typing import Any, cast

import pytest
import torch

from emend.agents.llm import load_model
from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, CURRENCY, check_same, state_of
from emend.editors.numerics.architectures import find_architecture
from emend.editors.numerics.collect_covariance import collect_covariance, layer_file
from emend.editors.numerics.oom_retry import retry_on_oom
from emend.editors.registry import EDITORS
from emend.memory.errors import BadData, BadSettings, EmendError, ModelError
from tests.editors.writers import solve

AT_THE_SUBJECT = {"layers": [0], "v_num_grad_steps": 4, "prefixes": ["So. "], "covariance": "identity"}
SETTINGS: dict[str, dict[str, Any]] = {
    "ft": {"num_steps": 3},
    "lora": {"num_steps": 3, "lora_dropout": 0.0},
    "rome": AT_THE_SUBJECT,
    "memit": AT_THE_SUBJECT,
}
AT = ("rome", "memit")


def build(model, method, **more):
    return EDITORS.load(method)(EditorContext(model=model, settings=SETTINGS[method] | more))


@pytest.fixture
def model(random_model):
    """The small model, whose token budget is its own again afterwards."""
    made = random_model()
    budget = made.lm.batch_tokens
    yield made
    made.lm.batch_tokens = budget


@pytest.fixture
def short_of_memory(model):
    """Makes the next so many passes through the model run out of memory."""
    left = [0]

    def fail(*_: Any) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    handle = model.lm.model.base_model.register_forward_pre_hook(fail)
    yield lambda times: left.__setitem__(0, times)
    handle.remove()


@pytest.mark.parametrize("method", AT)
@pytest.mark.parametrize(
    "told",
    [
        {"prompt": "The capital of Veldania is"},
        {"subject": ""},
        {"subject": " "},
        {"prompt": "{} and {} are"},
        {"target_new": " "},
    ],
)
def test_an_edit_without_its_subject_in_its_prompt_or_without_target_is_refused(model, method, told):
    before = state_of(EditorContext(model))
    with pytest.raises(BadData, match=f"edit '{CAPITAL.id}' cannot be written at its subject.*Give all three"):
        build(model, method).solve([CURRENCY, CAPITAL.model_copy(update=told)])
    check_same(before, state_of(EditorContext(model)), "after the refusal")


@pytest.mark.parametrize("method", ["ft", "lora"])
def test_a_blank_target_cannot_be_trained_on(model, method):
    with pytest.raises(BadData, match="has no tokens: give one that is not empty"):
        build(model, method).solve([CAPITAL.model_copy(update={"target_new": " "})])


@pytest.mark.parametrize("method", sorted(SETTINGS))
def test_a_target_that_becomes_no_token_is_refused(model, method, monkeypatch):
    """Some tokenizers drop what they do not know; this one is made to, for one word."""
    plain = model.lm._encoder._all
    monkeypatch.setattr(model.lm._encoder, "_all", lambda texts: plain([text.replace(" Zvy", "") for text in texts]))
    with pytest.raises(BadData, match="target 'Zvy' adds no token"):
        build(model, method).solve([CAPITAL.model_copy(update={"target_new": "Zvy"})])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "broken", "words"),
    [
        ("ft", {"lr": 1e6}, "training overflowed at step 1 with a loss of nan at lr 1e"),
        ("lora", {"lr": 1e6}, r"training overflowed at step \d with a loss of nan"),
        ("ft", {"lr": 1e38}, r"training overflowed at step \d with a loss of .* at lr 1e.38"),
        ("rome", {"v_lr": 1e6, "clamp_norm_factor": 1e9}, r"failed at step 1, got losses \[nan"),
        ("memit", {"v_lr": 1e6, "clamp_norm_factor": 1e9}, r"failed at step 1, got losses \[nan"),
    ],
)
def test_overflow_ends_the_edit_with_step_and_loss_and_the_model_is_restored(random_model, method, broken, words):
    """In half precision, where they overflow soonest."""
    model: Any = load_model(f"hf:{random_model().lm.folder}", device="cpu", dtype="float16")
    before = state_of(EditorContext(model))
    with pytest.raises(ModelError, match=words), build(model, method, **broken).edit([CAPITAL]):
        pytest.fail("entered")
    check_same(before, state_of(EditorContext(model)), "after the error")
    with build(model, method).edit([CAPITAL]):
        assert model.lm.log_probs([(CAPITAL.cloze, CAPITAL.target_new)])[0].log_prob < 0


@pytest.mark.parametrize("method", sorted(SETTINGS))
def test_out_of_memory_halves_the_batch_says_so_and_gives_the_same_edit(
    model, method, short_of_memory, caplog, monkeypatch
):
    wanted = solve(build(model, method), [CAPITAL, CURRENCY])
    budget = model.lm.batch_tokens
    editor = build(model, method)
    short_of_memory(1)
    emptied: list[int] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(1))
    with caplog.at_level(logging.WARNING):
        found = solve(editor, [CAPITAL, CURRENCY])
    assert model.lm.batch_tokens == budget // 2
    assert f"continuing with batches of {budget // 2} tokens" in caplog.text
    assert bool(emptied) == torch.cuda.is_available()
    for name, delta in wanted.items():
        assert (found[name] - delta).norm() <= 1e-3 * delta.norm()


def test_statistics_count_every_token_once_though_memory_runs_out(model, short_of_memory, tmp_path):
    from safetensors.torch import load_file

    paths, texts = find_architecture(model.lm.model), ["The capital of France is Paris.", "Rome."] * 6
    collect_covariance(model.lm, paths, [0, 1], texts, tmp_path / "plain")
    budget = model.lm.batch_tokens
    short_of_memory(2)
    collect_covariance(model.lm, paths, [0, 1], texts, tmp_path / "short")
    assert model.lm.batch_tokens == budget // 4
    for layer in (0, 1):
        plain, short = (load_file(layer_file(tmp_path / name, layer))["moment"] for name in ("plain", "short"))
        torch.testing.assert_close(short, plain, rtol=1e-4, atol=1e-6)


def test_memory_that_is_never_enough_is_an_error_and_not_an_endless_loop(model, short_of_memory):
    editor = build(model, "ft")
    before, budget = state_of(editor.context), model.lm.batch_tokens
    short_of_memory(10**9)
    with pytest.raises(ModelError, match="out of memory with batches of .* tokens: use a smaller model"):
        editor.solve([CAPITAL])
    assert model.lm.batch_tokens == budget  # the next edit may be smaller
    short_of_memory(0)
    check_same(before, state_of(EditorContext(model)), "after the error")


def test_other_errors_are_not_retried_as_out_of_memory(model):
    calls = []

    def work():
        calls.append(1)
        raise RuntimeError("The size of tensor a (3) must match the size of tensor b (4)")

    with pytest.raises(RuntimeError, match="size of tensor"):
        retry_on_oom(model.lm, work)
    assert len(calls) == 1


def test_the_out_of_memory_error_of_a_cpu_is_recognised(model):
    more = iter([10**15, 1])

    def work():
        torch.empty(next(more))  # more than any machine has, then a little
        return "done"

    budget = model.lm.batch_tokens
    assert retry_on_oom(model.lm, work) == "done" and model.lm.batch_tokens == budget // 2


@pytest.mark.parametrize(
    ("method", "told", "said"),
    [
        ("memit", {"layers": [1, 0]}, r"from the lowest upwards, not to layers \[1, 0\]"),
        ("memit", {"layers": [1, -1]}, r"not to layers \[1, -1\] \(\[1, 1\] in this model\)"),
        ("rome", {"layers": [0, 1]}, r"writes to one layer, not to layers \[0, 1\]"),
        ("rome", {"contexts": [[0, 1]]}, "contexts"),
        ("rome", {"clamp_norm_factor": float("inf")}, "setting 'clamp_norm_factor' of editor 'rome' is not finite"),
        ("ft", {"layers": [9]}, "layer 9 does not exist in a model of 2 layers: .*--set EDITOR.layers"),
    ],
)
def test_settings_that_no_editor_can_follow_are_refused_before_any_work(model, method, told, said):
    with pytest.raises(BadSettings, match=said):
        build(model, method, **told)


def test_missing_statistics_and_contexts_longer_than_the_window_are_named_before_the_search(model, tmp_path):
    for method in AT:
        with pytest.raises(EmendError, match="no finished covariance"):
            build(model, method, covariance=str(tmp_path))
    editor = build(model, "rome", prefixes=[], context_template_length_params=[[5000, 1]])
    with pytest.raises(BadSettings, match="contexts of 5000 tokens from .*window of"):
        editor.solve([CAPITAL])


def test_an_edit_that_could_change_nothing_is_refused(model):
    said = r"can change nothing in layer 0: .*'identity'.* is below .*=0.5, the smallest is 1"
    shut, ajar = (
        cast(Any, EDITORS.load("alphaedit")(EditorContext(model=model, settings=AT_THE_SUBJECT | threshold)))
        for threshold in ({"nullspace_threshold": 0.5}, {"nullspace_threshold": 2.0})
    )
    with pytest.raises(BadSettings, match=said):
        shut.solve([CAPITAL])
    assert ajar.solve([CAPITAL])


@pytest.mark.parametrize("method", ["ft", "lora"])
def test_a_prompt_too_long_to_be_trained_on_whole_is_refused_by_its_id(model, method):
    long = CAPITAL.model_copy(update={"prompt": "{} " * 1 + "so " * 5000})
    with pytest.raises(BadData, match=f"edit '{CAPITAL.id}': .* tokens too long"):
        build(model, method).solve([long])


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"block": "model.layers.0"}, "'model.layers.0' as 'block': it has no {}"),
        ({"down_projection": "model.layers.{}.mlp"}, "it is a LlamaMLP, but a linear module is needed"),
        ({"down_projection": "model.layers.{}.mlp.up_proj"}, "gives 96 numbers, but the model is 64 wide|wide"),
        ({"head": "model.embed_tokens"}, "it is a Embedding, but a linear module"),
        ({"norm": "model.nosuch"}, "this model has no such module"),
        (
            {"norm": "model.layers.{}.input_layernorm"},
            "as 'norm': it has {} for a layer's number, but no layer has this module",
        ),
        ({"head": "model.layers.{}.mlp.gate_proj"}, "as 'head': it has {} for a layer's number"),
        ({"adds": "perhaps"}, "adds = 'perhaps': give true or false"),
    ],
)
def test_a_wrong_architecture_is_reported_with_the_reason(model, told, said):
    with pytest.raises(BadSettings, match=said):
        build(model, "rome", architecture=told)


def test_a_path_that_only_adapters_use_is_looked_at_for_them_alone(model):
    told = {"query": "model.layers.{}.input_layernorm"}
    with pytest.raises(BadSettings, match="it is a LlamaRMSNorm, but a linear module"):
        build(model, "lora", architecture=told)
    assert build(model, "rome", architecture=told)
