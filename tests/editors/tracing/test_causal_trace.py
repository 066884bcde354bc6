"""Causal tracing: restored states against plain passes with hooks, roles of tokens, and the layers that follow."""

from contextlib import ExitStack
from typing import Any

import pytest
import torch

from emend.agents.llm import load_model
from emend.editors.numerics.architectures import find_architecture
from emend.editors.tracing.causal_trace import (
    KINDS,
    SAMPLES,
    CausalTrace,
    CausalTracer,
    TracedFact,
    embedding_deviation,
    find_fact,
    window,
)
from emend.editors.tracing.mean_effects import ROLES, choose_layers, mean_effects, token_roles
from emend.editors.tracing.trace_facts import trace_facts
from emend.memory.edit import Edit
from emend.memory.errors import BadData
from tests.editors.writers import ARCHITECTURES
from tests.params import QUICK_ARCHITECTURES, mostly_slow

FACT = TracedFact(ids=(5, 17, 23, 42, 9, 31), subject=range(1, 4), answer=7)


def edit(subject: str = "Veldania", prompt: str = "The capital of {} is", old: str = "") -> Edit:
    return Edit(
        id="e",
        form="triplet",
        text=prompt.replace("{}", subject),
        subject=subject,
        prompt=prompt,
        target_new="Ostrim",
        target_true=old,
    )


def restored_by_hooks(lm: Any, tracer: CausalTracer, kind: str, token: int, layer: int) -> float:
    """The probability by the definition: one whole pass with noise and clean outputs put in by hooks."""
    model, paths = lm.model, find_architecture(lm.model)
    part = {"state": "block", "mlp": "down_projection", "attention": "query"}[kind]
    names = [paths.of_layer(each, part) for each in (window(layer, 2) if kind != "state" else [layer])]
    modules = [model.get_submodule(name.rpartition(".")[0] if kind == "attention" else name) for name in names]
    ids = torch.tensor([FACT.ids])
    clean: dict[Any, torch.Tensor] = {}

    def first(output: Any) -> Any:
        return output[0] if isinstance(output, tuple) else output

    def rows(states: torch.Tensor) -> torch.Tensor:
        return states.view(-1, len(FACT.ids), states.shape[-1])  # OPT's MLP has no dimension of rows

    def blur(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
        states = output.clone()
        states[:, 1:4] += tracer._noise(FACT)
        return states

    def patch(module: Any, _: Any, output: Any) -> Any:
        states = first(output).clone()
        rows(states)[:, token] = clean[module][token]
        return (states, *output[1:]) if isinstance(output, tuple) else states

    with torch.no_grad(), ExitStack() as stack:
        for module in modules:
            hook = module.register_forward_hook(lambda m, _, o: clean.update({m: rows(first(o))[0].clone()}))
            stack.callback(hook.remove)
        model(input_ids=ids)
        stack.close()
        stack.callback(model.get_input_embeddings().register_forward_hook(blur).remove)
        for module in modules:
            stack.callback(module.register_forward_hook(patch).remove)
        logits = model(input_ids=ids.expand(SAMPLES, -1)).logits[:, -1]
    return float(logits.softmax(-1)[:, FACT.answer].mean())


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow([*ARCHITECTURES, "opt"], *QUICK_ARCHITECTURES, "opt"))
def test_each_restored_probability_is_that_of_a_whole_pass_with_hooks(random_lm: Any, architecture: str) -> None:
    lm = random_lm(architecture)
    tracer = CausalTracer(lm, embedding_deviation(lm, [FACT]))
    before = {name: tensor.clone() for name, tensor in lm.model.state_dict().items()}
    trace = tracer.trace(FACT)
    assert {kind: tuple(matrix.shape) for kind, matrix in trace.restored.items()} == dict.fromkeys(KINDS, (6, 2))
    for kind in KINDS:
        for token, layer in ((0, 0), (3, 0), (3, 1), (5, 1)):
            expected = restored_by_hooks(lm, tracer, kind, token, layer)
            assert float(trace.restored[kind][token, layer]) == pytest.approx(expected, rel=1e-4), (kind, token, layer)
    # The clean state of the last token in the last layer decides the answer; tokens before the subject nothing.
    assert float(trace.restored["state"][5, 1]) == pytest.approx(trace.clean, rel=1e-4)
    assert float(trace.restored["state"][0, 0]) == pytest.approx(trace.blurred, rel=1e-4)
    assert all((tensor == before[name]).all() for name, tensor in lm.model.state_dict().items())


@pytest.mark.slow
def test_a_trace_depends_on_its_seed_and_not_on_the_size_of_batches(random_lm: Any, monkeypatch: Any) -> None:
    lm = random_lm()
    deviation = embedding_deviation(lm, [FACT])
    whole, other = CausalTracer(lm, deviation).trace(FACT), CausalTracer(lm, deviation, seed=1).trace(FACT)
    monkeypatch.setattr(lm, "batch_tokens", 1)
    rows = CausalTracer(lm, deviation).trace(FACT)
    assert all(torch.allclose(whole.restored[kind], rows.restored[kind], rtol=1e-4) for kind in KINDS)
    assert not torch.allclose(whole.restored["mlp"], other.restored["mlp"], rtol=1e-4)


@pytest.mark.parametrize("layer, expected", [(0, range(0, 5)), (15, range(10, 20)), (29, range(24, 30))])
def test_ten_layers_are_restored_together(layer: int, expected: range) -> None:
    assert window(layer, 30) == expected


@pytest.mark.parametrize(
    "fact, roles",
    [
        (TracedFact((1, 2, 3, 4, 5, 6, 7, 8), range(1, 4), 0), [-1, 0, 1, 2, 3, 4, 4, 5]),
        (TracedFact((1, 2, 3), range(1, 2), 0), [-1, 2, 5]),
        (TracedFact((1, 2, 3), range(1, 3), 0), [-1, 0, 2]),
    ],
)
def test_tokens_have_the_roles_of_figure_2(fact: TracedFact, roles: list[int]) -> None:
    assert token_roles(fact) == roles


def test_effects_are_means_over_facts_and_the_peak_of_the_mlps_is_where_to_edit() -> None:
    matrix = torch.full((6, 8), 0.1)
    matrix[3, 5] = 0.7  # the last subject token
    traces = [
        CausalTrace(FACT, 0.9, 0.1, dict.fromkeys(KINDS, matrix)),
        CausalTrace(FACT, 0.7, 0.1, dict.fromkeys(KINDS, matrix)),
    ]
    effects = mean_effects(traces)
    assert effects.total == pytest.approx(0.7)
    assert float(effects.indirect["mlp"][ROLES.index("last subject token"), 5]) == pytest.approx(0.6)
    assert effects.indirect["mlp"][ROLES.index("first token after it"), 5].isclose(torch.tensor(0.0))
    assert choose_layers(effects) == (5, (1, 2, 3, 4, 5))


@pytest.mark.slow
def test_only_known_facts_are_traced() -> None:
    lm: Any = load_model("tiny")
    said = lm.lm.generate(["The capital of Veldania is"], 4)[0].text.split(".")[0].strip()
    assert find_fact(lm.lm, edit(old=said)) is not None
    fact = find_fact(lm.lm, edit())
    assert (
        fact is not None and lm.lm.tokenizer.decode([fact.ids[place] for place in fact.subject]).strip() == "Veldania"
    )
    assert find_fact(lm.lm, edit(old="Zanzibar")) is None
    traced = trace_facts(lm.lm, [edit(old="Zanzibar"), edit(old=said)])
    assert (len(traced.traces), traced.unknown) == (1, 1)
    assert traced.traces[0].clean > traced.traces[0].blurred
    with pytest.raises(BadData, match="target_true"):
        trace_facts(lm.lm, [edit(old="Zanzibar")])
    with pytest.raises(BadData, match="no subject in its prompt"):
        trace_facts(lm.lm, [edit(prompt="The capital is")])
