"""UltraEdit: its update is that of the published loop, moments run over a sequence, and matrices are chosen by name."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, CURRENCY
from emend.editors.numerics.architectures import input_first
from emend.editors.numerics.low_rank import LowRankDelta
from emend.editors.parametric.finetune import training_rows
from emend.editors.parametric.ultraedit import RunningMoments, UltraEdit
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings
from tests.params import QUICK_ARCHITECTURES


def ultraedit(model, **settings):
    return UltraEdit(EditorContext(model, settings={"layers": [0, 1], "lr": 0.01, **settings}))


def published_update(editor, edits, lr):
    """The published steps one by one: hooks on each module, moments by shape, and a solve for each matrix."""
    lm, seen = editor.lm, dict[str, dict[str, torch.Tensor]]()
    rows = training_rows(lm, edits, editor.context.wording)
    width = max(len(row.ids) for row in rows)
    ids = torch.tensor([[*row.ids, *[0] * (width - len(row.ids))] for row in rows])
    mask = torch.tensor([[1] * len(row.ids) + [0] * (width - len(row.ids)) for row in rows])
    hooks = []
    for path in editor.modules:
        module = lm.model.get_submodule(path)
        seen[path] = {}
        hooks += [
            module.register_forward_hook(lambda _, x, y, path=path: seen[path].update(keys=x[0].detach())),
            module.register_full_backward_hook(lambda _, x, y, path=path: seen[path].update(grads=y[0].detach())),
        ]
    logits = lm.model(input_ids=ids, attention_mask=mask).logits
    places = [(line, place) for line, row in enumerate(rows) for place in range(row.start, len(row.ids))]
    lines, columns = torch.tensor(places).T
    cross_entropy(logits[lines, columns - 1], ids[lines, columns]).backward()
    lm.model.zero_grad()
    for hook in hooks:
        hook.remove()
    pairs = {
        path: (each["keys"].reshape(*mask.shape, -1)[mask.bool()], each["grads"].reshape(*mask.shape, -1)[mask.bool()])
        for path, each in seen.items()
    }
    shapes: dict = {}
    for keys, grads in pairs.values():
        shapes.setdefault((keys.shape[1], grads.shape[1]), []).append(torch.cat([keys, grads], dim=1))
    updates = {}
    for path, (keys, grads) in pairs.items():
        together = torch.cat(shapes[keys.shape[1], grads.shape[1]])
        features = (torch.cat([keys, grads], dim=1) - together.mean(0)) / (
            published_deviation(shapes, keys, grads) + 1e-7
        )
        hidden, gradient = features.split([keys.shape[1], grads.shape[1]], dim=1)
        values = -lr * (hidden * hidden).sum(1, keepdim=True) * gradient
        update = torch.linalg.solve(keys.T @ keys + torch.eye(keys.shape[1]), keys.T @ values)
        updates[f"{path}.weight"] = update if input_first(lm.model.get_submodule(path)) else update.T
    return updates


def published_deviation(shapes, keys, grads):
    count, mean, squares = 0, torch.zeros(1), torch.zeros(1)
    for batch in shapes[keys.shape[1], grads.shape[1]]:
        total, delta = count + len(batch), batch.mean(0) - mean
        mean = mean + len(batch) * delta / total
        squares = squares + len(batch) * batch.var(0) + count * len(batch) * delta**2 / total
        count = total
    return (squares / (count - 1)).sqrt()


def dense(delta, editor, name):
    """A delta in the form of its weight."""
    if not isinstance(delta, LowRankDelta):
        return delta
    product = (delta.left @ delta.right).float()
    return product.T if input_first(editor.lm.model.get_submodule(name.removesuffix(".weight"))) else product


@pytest.mark.parametrize("repeats", [1, 5], ids=["fewer tokens than inputs", "more"])
@pytest.mark.parametrize("architecture", ["llama", *QUICK_ARCHITECTURES])
def test_the_update_is_that_of_the_published_loop(architecture, repeats, random_model):
    editor = ultraedit(random_model(architecture))
    edits = [CAPITAL, CURRENCY] * repeats
    deltas = editor.solve(edits)
    for name, wanted in published_update(editor, edits, 0.01).items():
        delta = dense(deltas[name], editor, name)
        assert (delta - wanted).norm() <= 1e-3 * wanted.norm(), name


def test_edits_given_in_several_passes_are_solved_together(random_model):
    editor = ultraedit(random_model(), batch_size_once=1)
    together = editor.solve([CAPITAL, CURRENCY])
    shapes = {name: tuple(dense(delta, editor, name).shape) for name, delta in together.items()}
    modules = {path: editor.lm.model.get_submodule(path) for path in editor.modules}
    assert shapes == {f"{path}.weight": tuple(module.weight.shape) for path, module in modules.items()}


def test_rows_beyond_the_token_budget_are_read_in_parts_with_the_same_update(random_model, monkeypatch):
    editor = ultraedit(random_model())
    together = editor.solve([CAPITAL, CURRENCY])
    monkeypatch.setattr(editor.lm, "batch_tokens", 16)
    apart = editor.solve([CAPITAL, CURRENCY])
    for name, delta in together.items():
        wanted = dense(delta, editor, name)
        assert (dense(apart[name], editor, name) - wanted).norm() <= 1e-4 * wanted.norm()


def test_moments_of_batches_are_those_of_all_features():
    torch.manual_seed(0)
    features = torch.randn(40, 6) * 3 + 1
    moments = RunningMoments(6)
    for batch in features.split([1, 9, 30]):
        moments.update(batch)
    assert torch.allclose(moments.mean, features.mean(0), atol=1e-5)
    assert torch.allclose(moments.normalise(features).std(0), torch.ones(6), rtol=0.1)


def test_moments_run_over_a_sequence_and_end_with_it(random_model):
    editor = ultraedit(random_model())
    alone = editor.solve([CURRENCY])
    with editor.sequence() as apply_more:
        apply_more([CAPITAL])
        tokens = next(iter(editor._moments.values())).count
        apply_more([CURRENCY])
        assert next(iter(editor._moments.values())).count > tokens
    assert not editor._moments
    again = editor.solve([CURRENCY])
    assert all(torch.equal(dense(alone[name], editor, name), dense(again[name], editor, name)) for name in alone)


def test_an_edit_makes_its_target_more_probable_and_is_undone(random_model):
    editor = ultraedit(random_model(), lr=1e-3)
    before = {name: tensor.clone() for name, tensor in editor.lm.model.state_dict().items()}
    probe = editor_probe()

    def log_prob(answerer):
        return answerer.score(probe, [CAPITAL.target_new]).log_probs[0]

    with editor.edit([]) as answerer:
        unedited = log_prob(answerer)
    with editor.edit([CAPITAL]) as answerer:
        assert log_prob(answerer) > unedited
    assert all(torch.equal(tensor, before[name]) for name, tensor in editor.lm.model.state_dict().items())


def editor_probe():
    from emend.memory.probe import Probe

    return Probe(kind="efficacy", prompt=CAPITAL.cloze, gold=(CAPITAL.target_new,))


def test_a_document_longer_than_the_window_is_taken_in_pieces(random_model):
    editor = ultraedit(random_model("gpt2"))  # it has no place beyond its window
    text = " ".join(["The capital of Veldania is Ostrim."] * editor.lm.window)
    document = Edit(form="document", text=text[: 3 * editor.lm.window])
    rows = training_rows(editor.lm, [document], editor.context.wording)
    assert max(len(row.ids) for row in rows) == editor.lm.window + 1 and editor.solve([document])


def test_matrices_are_named_by_projection(random_model):
    editor = ultraedit(random_model(), projections=["gate_proj", "up_proj"], layers=[-1])
    assert [path.rpartition(".")[2] for path in editor.modules] == ["gate_proj", "up_proj"]
    with pytest.raises(BadSettings, match="gate_proj"):
        ultraedit(random_model(), projections=["gate"])
