"""AnyEdit: windows' values and both base editors' deltas are those of the published loop."""

import pytest
import torch

from emend.editors.base import EditorContext
from emend.editors.numerics.architectures import find_architecture
from emend.editors.numerics.training.window_search import search_windows
from emend.editors.parametric.documents.anyedit import AnyEdit
from emend.editors.parametric.documents.long_targets import long_targets
from emend.editors.parametric.documents.unke import Unke
from emend.memory.edit import Edit
from emend.memory.errors import BadSettings
from tests.editors.parametric.documents.published import Published
from tests.editors.writers import dense
from tests.fakes import SIZES
from tests.params import QUICK_ARCHITECTURES, first_quick, mostly_slow

SMALL = {
    "layers": [0],
    "clamp_norm_factor": 40.0,
    "v_num_grad_steps": 8,
    "lr": 1e-3,
    "optim_num_step": 4,
    "ex_data_num": 0,
    "window_size": 9,
    "covariance": "identity",
}
QUESTION = Edit(form="document", question="Where does it rain?", text="It rains in Ostrim, and the sun is cold.")
DOCUMENT = Edit(form="document", text="The river Tamsin is long. It rains in Ostrim, and the sun is cold.")


def anyedit(model, **settings):
    return AnyEdit(EditorContext(model, settings=SMALL | settings))


@pytest.mark.slow
@pytest.mark.parametrize("overlap", first_quick([3, 0]), ids=["overlapping", "apart"])
@pytest.mark.parametrize("architecture", mostly_slow(sorted(set(SIZES) - {"opt"}), *QUICK_ARCHITECTURES))
def test_values_and_deltas_are_those_of_the_published_loop(architecture, overlap, random_model):
    editor = anyedit(random_model(architecture), overlap=overlap)
    published = Published(editor.lm, 0, editor.settings)
    (target,) = long_targets(editor.lm, [QUESTION], "new_fact")
    windows = editor.windows(target)
    assert len(windows) > 2
    (values,) = search_windows(editor.lm, editor.paths, [target], [windows], 0, editor.settings)
    changes = published.compute_z(target.ids, windows)
    for value, (place, change) in zip(values, changes, strict=True):
        assert value.place == place and (value.change - change).norm() <= 2e-4 * change.norm()
    deltas = editor.solve([QUESTION])
    for name, delta in published.train(target.ids, [(value.place, value.change) for value in values], []).items():
        # Softmax ignores a bias of attention's keys: its gradient is rounding, which Adam brings to full length.
        if not (name.endswith("bias") and "att" in name):
            ours = deltas[f"{editor.paths.of_layer(0, 'block')}.{name}"]
            assert (ours - delta).norm() <= 1e-4 * delta.norm(), name


def published_memit(editor, ids, values, weight):
    """The published least squares of all layers, with the other tokens' keys beside the covariance."""
    model, paths = editor.lm.model, find_architecture(editor.lm.model)
    deltas, last = {}, model.get_submodule(paths.of_layer(editor.layers[-1], "block"))
    originals = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for number, layer in enumerate(editor.layers):
        path = paths.of_layer(layer, "down_projection")
        module, seen = model.get_submodule(path), dict[str, torch.Tensor]()
        hooks = [
            module.register_forward_pre_hook(lambda _, x, seen=seen: seen.update(keys=x[0][0].double())),
            last.register_forward_hook(
                lambda _, __, y, seen=seen: seen.update(states=(y[0] if isinstance(y, tuple) else y)[0].double())
            ),
        ]
        with torch.no_grad():
            model(input_ids=torch.tensor([ids]))
        for hook in hooks:
            hook.remove()
        at = [value.place for value in values]
        others = [place for place in range(len(ids)) if place not in at]
        keys, kept = seen["keys"][at].T, seen["keys"][others].T
        goal = torch.stack([(value.original + value.change).double() for value in values])
        residual = (goal - seen["states"][at]) / (len(editor.layers) - number)
        matrix = weight * torch.eye(len(keys), dtype=torch.float64) + kept @ kept.T + keys @ keys.T
        update = residual.T @ torch.linalg.solve(matrix, keys).T
        deltas[f"{path}.weight"] = update
        with torch.no_grad():
            module.weight += update.float().reshape(module.weight.shape)
    model.load_state_dict(originals)
    return deltas


def test_least_squares_into_several_layers_are_those_of_the_published_loop(own_model):
    editor = anyedit(own_model, base="memit", layers=[0, 1], mom2_update_weight=10.0)
    (target,) = long_targets(editor.lm, [QUESTION], "new_fact")
    (values,) = search_windows(editor.lm, editor.paths, [target], [editor.windows(target)], 1, editor.settings)
    deltas = editor.solve([QUESTION])
    for name, delta in published_memit(editor, target.ids, values, 10.0).items():
        assert (dense(editor.lm.model, name, deltas[name]) - delta).norm() <= 1e-3 * delta.norm(), name


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow(sorted(set(SIZES) - {"opt"}), *QUICK_ARCHITECTURES))
def test_values_are_written_by_least_squares_and_all_comes_back(architecture, random_model):
    editor = anyedit(random_model(architecture), base="memit", mom2_update_weight=1e-3)
    before = {name: tensor.clone() for name, tensor in editor.lm.model.state_dict().items()}
    (target,) = long_targets(editor.lm, [DOCUMENT], "new_fact")
    (values,) = search_windows(editor.lm, editor.paths, [target], [editor.windows(target)], 0, editor.settings)
    with editor.edit([DOCUMENT]):
        _, residual = editor._keys_and_residual([target.ids], [values], 0)
    if editor.paths.adds:  # else a norm is between the change and the residual
        assert residual.norm() < 0.7 * torch.stack([value.change for value in values]).norm()
    assert all(torch.equal(tensor, before[name]) for name, tensor in editor.lm.model.state_dict().items())


def test_one_window_and_the_prompt_alone_is_unke(random_model):
    model = random_model()
    editor = anyedit(model, window_size=999)
    settings = {name: value for name, value in SMALL.items() if name not in ("window_size", "covariance")}
    unke = Unke(EditorContext(model, settings=settings | {"stop_loss": editor.settings.stop_loss}))
    (target,) = long_targets(editor.lm, [DOCUMENT], "new_fact")
    assert editor.windows(target) == unke.windows(target)


def test_settings_that_cannot_be_are_refused(random_model):
    with pytest.raises(BadSettings, match=r"anyedit.base=memit"):
        anyedit(random_model(), layers=[0, 1])
    with pytest.raises(BadSettings, match=r"sort them"):
        anyedit(random_model(), base="memit", layers=[1, 0])
    with pytest.raises(BadSettings, match=r"anyedit.layers=\[1\]"):
        anyedit(random_model("gemma2"), base="memit", layers=[0, 1])
    with pytest.raises(BadSettings, match=r"smaller anyedit.overlap"):
        anyedit(random_model(), overlap=9)
    with pytest.raises(BadSettings, match=r"base"):
        anyedit(random_model(), base="rome")


def test_the_base_is_part_of_the_fingerprint(random_model):
    one, other = anyedit(random_model()), anyedit(random_model(), base="memit")
    assert one.fingerprint != other.fingerprint and "covariance" in other.fingerprint
