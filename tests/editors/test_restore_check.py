"""An editor that does not restore the model is detected."""

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from emend.agents.llm import load_model
from emend.editors.answerers import direct_answerer
from emend.editors.parametric.finetune import FineTuning
from emend.editors.restore_check import RestoreCheck
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.records import read_records
from emend.memory.errors import BadSettings
from tests.evals.toys import ScriptedModel


def tensors(model: Any) -> dict[str, torch.Tensor]:
    return dict(model.lm.model.named_parameters())


def test_a_model_that_was_put_back_passes(random_model):
    model = random_model()
    check = RestoreCheck(model).check
    kept = {name: tensor.detach().clone() for name, tensor in tensors(model).items()}
    with torch.no_grad():
        for tensor in tensors(model).values():
            tensor.add_(1)
        for name, tensor in tensors(model).items():
            tensor.copy_(kept[name])
    check("mine")
    assert all(torch.equal(tensor, kept[name]) for name, tensor in tensors(model).items())


@pytest.mark.parametrize("model", [ScriptedModel(), SimpleNamespace(lm=SimpleNamespace(model="a server's")), None])
def test_what_has_no_weights_here_is_never_found_changed(model):
    untouched = RestoreCheck(model)
    untouched.check("mine")
    assert untouched._before == {}


def test_one_row_that_is_not_as_it_was_is_named_to_the_last_bit(own_model):
    check = RestoreCheck(own_model).check
    name = next(name for name, tensor in tensors(own_model).items() if tensor.dim() == 2)
    with torch.no_grad():
        row = tensors(own_model)[name][-1]
        row.copy_(torch.nextafter(row, torch.full_like(row, 9.0)))
    with pytest.raises(BadSettings, match=f"editor 'mine' did not put the model back .*: {name} differ"):
        check("mine")


@pytest.mark.parametrize(
    ("left", "named"),
    [("hook", "hooks of"), ("module", "adapter.weight"), ("type", "and .* more"), ("number", "norm.weight differ")],
)
def test_whatever_else_is_left_in_a_model_is_found_too(own_model, left, named):
    check = RestoreCheck(own_model).check
    inner = own_model.lm.model
    if left == "hook":
        inner.base_model.register_forward_hook(lambda *_: None)
    elif left == "module":
        inner.add_module("adapter", torch.nn.Linear(2, 2))
    elif left == "number":  # the second of few, of which every one is compared
        inner.get_parameter("model.norm.weight").data[1] += 1
    else:
        inner.to(torch.bfloat16)
    with pytest.raises(BadSettings, match=named):
        check("mine")


class Littering(FineTuning):
    """Writes to the weights, and leaves it at that."""

    name: ClassVar[str] = "ft"

    @contextmanager
    def edit(self, edits):
        with torch.no_grad():
            for tensor in self.lm.model.parameters():
                tensor.add_(1e-4)
        yield direct_answerer(self.context.model, self.context.wording)


@pytest.mark.slow
def test_a_run_ends_at_the_editor_that_does_not_undo_its_edits(tmp_path: Path):
    config = RunConfig(
        benchmark="tinyworld", editors=(f"{__name__}:Littering",), mode="single", limit=3, perplexity_text="none"
    )
    for done in (1, 2):  # what stood while it was asked is right; the next one is asked of a model read anew
        with pytest.raises(BadSettings, match=r"Littering' did not put the model back .* more differ from before"):
            run(config, tmp_path / "run", model=load_model("tiny"))
        assert len({record.unit for record in read_records(tmp_path / "run")}) == done
