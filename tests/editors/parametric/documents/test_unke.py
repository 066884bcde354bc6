"""UnKE: both stages are those of the published loop, a document follows its prompt, and all comes back."""

import pytest
import torch

from emend.editors.base import EditorContext
from emend.editors.numerics.training.window_search import search_windows
from emend.editors.parametric.documents.long_targets import long_targets
from emend.editors.parametric.documents.preserved_texts import draw_preserved
from emend.editors.parametric.documents.unke import Unke
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadData, BadSettings, MissingData
from tests.editors.parametric.documents.published import Published
from tests.fakes import SIZES
from tests.params import QUICK_ARCHITECTURES, first_quick, mostly_slow

SMALL = {"layers": [0], "clamp_norm_factor": 40.0, "v_num_grad_steps": 8, "lr": 1e-3, "optim_num_step": 4}
DOCUMENT = Edit(form="document", text="The river Tamsin is long. It rains in Ostrim, and the sun is cold.")
QUESTION = Edit(form="document", question="Where does it rain?", text="It rains in Ostrim, and the sun is cold.")
LINES = ("The sun is warm today.", "It is cold in the rain.", "The river flows to sea.")


def unke(model, **settings):
    return Unke(EditorContext(model, settings=SMALL | {"ex_data_num": 2} | settings))


def score(editor, edit):
    """The log-probability of a document behind its prompt."""
    (target,) = long_targets(editor.lm, [edit], "new_fact")
    ids = torch.tensor([target.ids])
    with torch.no_grad():
        log_probs = editor.lm.model(input_ids=ids, use_cache=False).logits[0].log_softmax(-1)
    return sum(float(log_probs[place - 1, target.ids[place]]) for place in range(target.start, len(target.ids)))


def added(editor, value):
    """Inside the `with`, the block's output has the change at its token."""

    def add(_, __, output):
        states = (output[0] if isinstance(output, tuple) else output).clone()
        states[:, value.place] += value.change
        return (states, *output[1:]) if isinstance(output, tuple) else states

    block = editor.lm.model.get_submodule(editor.paths.of_layer(0, "block"))
    return block.register_forward_hook(add)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow(sorted(set(SIZES) - {"opt"}), *QUICK_ARCHITECTURES))
def test_value_and_deltas_are_those_of_the_published_loop(architecture, random_model, tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(["It is so. It is so.", "So it is. So it is."]))
    editor = unke(random_model(architecture), preserved=str(file))
    published = Published(editor.lm, 0, editor.settings)
    (target,) = long_targets(editor.lm, [QUESTION], "new_fact")
    window = (target.start, len(target.ids))
    ((value,),) = search_windows(editor.lm, editor.paths, [target], [[window]], 0, editor.settings)
    change = published.compute_z(target.ids, [window])
    assert value.place == change[0][0] == target.start - 1
    assert (value.change - change[0][1]).norm() <= 1e-4 * change[0][1].norm()
    seed = int(content_id("draws", 0, [QUESTION.id]), 16) % 2**63
    texts = draw_preserved(editor.lm, editor.preserved, 2, seed)
    assert len({len(text) for text in texts}) == 1
    deltas = editor.solve([QUESTION])
    for name, delta in published.train(target.ids[: target.start], change, texts).items():
        # Softmax ignores a bias of attention's keys: its gradient is rounding, which Adam brings to full length.
        if not (name.endswith("bias") and "att" in name):
            ours = deltas[f"{editor.paths.of_layer(0, 'block')}.{name}"]
            assert (ours - delta).norm() <= 1e-4 * delta.norm(), name


@pytest.mark.slow
@pytest.mark.parametrize("edit", first_quick([QUESTION, DOCUMENT]), ids=["question", "bare"])
def test_a_target_becomes_nearly_as_probable_as_its_value_makes_it_and_all_comes_back(edit, random_model):
    editor = unke(random_model(), v_num_grad_steps=40, lr=1e-2, optim_num_step=150, ex_data_num=0)
    before = {name: tensor.clone() for name, tensor in editor.lm.model.state_dict().items()}
    unedited = score(editor, edit)
    (target,) = long_targets(editor.lm, [edit], "new_fact")
    ((value,),) = search_windows(editor.lm, editor.paths, [target], [editor.windows(target)], 0, editor.settings)
    with added(editor, value):
        reachable = score(editor, edit)
    with editor.edit([edit]):
        assert score(editor, edit) - unedited > 0.5 * (reachable - unedited) > 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in editor.lm.model.state_dict().items())


@pytest.mark.slow
def test_only_the_block_is_trained(random_model):
    editor = unke(random_model())
    block = editor.paths.of_layer(0, "block")
    assert {*editor.solve([DOCUMENT])} == {
        f"{block}.{name}" for name, _ in editor.lm.model.get_submodule(block).named_parameters()
    }


@pytest.mark.slow
def test_preserved_texts_move_less_than_without_them(random_model, tmp_path):
    model, file = random_model(), tmp_path / "texts.txt"
    file.write_text("\n".join(LINES))
    text = torch.tensor([model.lm.encode(LINES[0])])

    def moved(number):
        editor = unke(model, lr=5e-3, optim_num_step=60, preserved=str(file), ex_data_num=number)
        with torch.no_grad():
            before = model.lm.model(input_ids=text).logits
            with editor.edit([DOCUMENT]):
                return float((model.lm.model(input_ids=text).logits - before).norm())

    assert moved(3) < 0.5 * moved(0)


@pytest.mark.slow
def test_edits_given_together_and_in_a_sequence(random_model):
    editor = unke(random_model(), v_num_grad_steps=40, lr=1e-2, optim_num_step=100, ex_data_num=0)
    edits = [DOCUMENT, QUESTION]
    unedited = [score(editor, edit) for edit in edits]
    with editor.edit(edits):
        assert all(score(editor, edit) > least for edit, least in zip(edits, unedited, strict=True))
    with editor.sequence() as apply_more:
        apply_more([DOCUMENT])
        first = score(editor, QUESTION)
        apply_more([QUESTION])
        assert score(editor, QUESTION) > first
    assert [score(editor, edit) for edit in edits] == unedited


@pytest.mark.slow
def test_smaller_batches_give_the_same_deltas(own_model):
    editor = unke(own_model)
    whole = editor.solve([DOCUMENT, QUESTION])
    own_model.lm.batch_tokens = 16
    for name, delta in editor.solve([DOCUMENT, QUESTION]).items():
        assert torch.allclose(delta, whole[name], atol=2e-4), name


@pytest.mark.slow
def test_texts_are_preserved_from_a_file_or_of_the_model_itself(random_model, tmp_path):
    model, file = random_model(), tmp_path / "texts.txt"
    file.write_text("\n".join(LINES))
    editor = unke(model, preserved=str(file))
    assert editor.preserved == LINES
    own = unke(model)
    assert len(own.preserved) == 2 and own.fingerprint["preserved"] != editor.fingerprint["preserved"]
    assert own.preserved == unke(model).preserved
    with pytest.raises(BadData, match="ex_data_num"):
        unke(model, preserved=str(file), ex_data_num=4)
    with pytest.raises(MissingData, match="one text per line"):
        unke(model, preserved=str(tmp_path / "none.txt"))


def test_one_block_is_trained_and_a_text_has_a_target(random_model):
    with pytest.raises(BadSettings, match="layers"):
        unke(random_model(), layers=[0, 1])
    with pytest.raises(BadData, match="fewer than two tokens"):
        unke(random_model()).solve([Edit(form="document", text=" ")])
