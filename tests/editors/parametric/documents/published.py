"""The published loops of UnKE and AnyEdit written out, for whole texts through the whole model and one edit alone."""

from copy import deepcopy
from typing import Any

import torch
from torch.nn.functional import mse_loss

from emend.editors.numerics.architectures import find_architecture


class Published:
    """Both stages of the published code, on one model and layer."""

    def __init__(self, lm, layer, settings, paths=None):
        paths = paths or find_architecture(lm.model)
        self.lm, self.settings = lm, settings
        self.block = lm.model.get_submodule(paths.of_layer(layer, "block"))

    def run(self, ids, change, calls=None):
        """Log-probabilities at every place of one text, with changes of the block's output by place."""

        def add(_, args, kwargs, output):
            states = (output[0] if isinstance(output, tuple) else output).clone()
            if calls is not None:
                calls.append((args, kwargs, states.detach().clone()))
            for place, delta in change:
                states[0, place] += delta
            return (states, *output[1:]) if isinstance(output, tuple) else states

        with self.block.register_forward_hook(add, with_kwargs=True):
            return self.lm.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].log_softmax(-1)

    def compute_z(self, ids, windows):
        """Place and change of each window, in order."""
        settings, found = self.settings, list[Any]()
        for first, end in windows:
            calls: list[Any] = []
            with torch.no_grad():
                self.run(ids[: end - 1], found, calls)
            original = calls[0][2][0, first - 1]
            delta = torch.zeros_like(original, requires_grad=True)
            optimizer = torch.optim.Adam([delta], lr=settings.v_lr)
            for step in range(settings.v_num_grad_steps):
                optimizer.zero_grad()
                log_probs = self.run(ids[: end - 1], [*found, (first - 1, delta)])
                nll = -sum(log_probs[place - 1, ids[place]] for place in range(first, end)) / (end - first)
                loss = nll + settings.v_weight_decay * delta.norm() / original.norm() ** 2
                if loss < settings.stop_loss or step == settings.v_num_grad_steps - 1:
                    break
                loss.backward(inputs=[delta])
                optimizer.step()
                limit = settings.clamp_norm_factor * original.norm()
                if delta.norm() > limit:
                    with torch.no_grad():
                        delta.mul_(limit / delta.norm())
            found.append((first - 1, delta.detach().clone()))
        return found

    def train(self, ids, change, preserved):
        """The deltas of the block's parameters; the preserved texts are of one length, and need no padding."""
        edited, others = list[Any](), list[Any]()
        with torch.no_grad():
            self.run(ids, [], edited)
            for text in preserved:
                self.run(text, [], others)
        goal = edited[0][2]
        for place, delta in change:
            goal[0, place] += delta
        block = deepcopy(self.block)
        norms = [name for name, _ in block.named_parameters() if "norm" in name or "ln_" in name]
        optimizer = torch.optim.AdamW(
            [
                {"params": [p for name, p in block.named_parameters() if name not in norms], "weight_decay": 0.01},
                {"params": [p for name, p in block.named_parameters() if name in norms], "weight_decay": 0.0},
            ],
            lr=self.settings.lr,
        )

        def output(args, kwargs):
            result = block(*args, **kwargs)
            return result[0] if isinstance(result, tuple) else result

        for _ in range(self.settings.optim_num_step):
            optimizer.zero_grad()
            loss = mse_loss(output(*edited[0][:2]), goal)
            if others:
                outputs = torch.cat([output(args, kwargs) for args, kwargs, _ in others])
                loss = loss + mse_loss(outputs, torch.cat([states for *_, states in others]))
            loss.backward()
            optimizer.step()
        before = dict(self.block.named_parameters())
        return {name: (after - before[name]).detach() for name, after in block.named_parameters()}
