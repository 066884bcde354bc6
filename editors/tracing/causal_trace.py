"""Causal tracing (Meng et al. 2022, section 2.1): the effect of each hidden state on fact recall.

Noise corrupts the embeddings of the subject, so that the model forgets the answer. Then one clean
state is restored, at one token and layer; the increase in the answer's probability is the indirect
effect of that state.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.architectures import Architecture, find_architecture, resolve_layer
from emend.editors.numerics.locate import subject_tokens
from emend.editors.numerics.passes import first_output, light_passes, logits_at, replaced_forward
from emend.editors.numerics.seeded_draws import seeded_draws
from emend.memory.edit import Edit, content_id

Kind = Literal["state", "mlp", "attention"]
# Restored outputs: of one block, or of the MLPs or attentions of `WINDOW` layers around it.
KINDS: tuple[Kind, ...] = get_args(Kind)
# Noise samples per fact, as in the published code.
SAMPLES = 10
# Standard deviation of the noise, relative to that of the subjects' embeddings (nu in the paper).
NOISE = 3.0
# Number of layers whose MLPs or attentions are restored together, as in figure 1 (f, g) of the
# paper.
WINDOW = 10


class TracedFact(NamedTuple):
    """Token ids of a prompt, the subject's positions, and the id of the answer's first token."""

    ids: tuple[int, ...]
    subject: range
    answer: int


class CausalTrace(NamedTuple):
    """Probabilities of a fact's answer: clean, with a corrupted subject, and with restored states.

    `restored` maps each kind to a float32 matrix of shape (tokens, layers), averaged over the noise
    samples.
    """

    fact: TracedFact
    clean: float
    blurred: float
    restored: Mapping[Kind, Tensor]


def find_fact(lm: CausalLM, edit: Edit) -> TracedFact | None:
    """Return the fact that a model knows for an edit's prompt; None if it answers something else.

    The model's answer is its most likely next token, which must be the first token of the edit's
    old object. For an edit without an old object, any answer counts as known.

    Raises:
        BadData: the prompt has no placeholder for the subject.
        BadSettings: the tokenizer gives no offsets.
    """
    ids, subject = subject_tokens(lm, edit)
    with lm.lock, light_passes(lm.model), torch.no_grad():
        logits = lm.model(input_ids=torch.tensor([ids], device=lm.device)).logits[0, -1]
    answer = int(logits.argmax())
    if edit.target_true:
        pair = lm.encode_pair(edit.cloze, edit.target_true)
        if pair.ids[pair.start] != answer:
            return None
    return TracedFact(ids, subject, answer)


def embedding_deviation(lm: CausalLM, facts: Sequence[TracedFact]) -> float:
    """Return the standard deviation of the embeddings of all subject tokens."""
    ids = [fact.ids[place] for fact in facts for place in fact.subject]
    with torch.no_grad():
        vectors = lm.model.get_input_embeddings()(torch.tensor(ids, device=lm.device))
    return float(vectors.float().std())


class CausalTracer:
    """Causal tracer of facts in one model, whose weights are not changed.

    Args:
        lm: the model.
        deviation: standard deviation of the subjects' embeddings, which scales the noise.
        seed: seed of the noise.
        architecture: module paths by name, for unknown architectures.

    Raises:
        BadSettings: the architecture is unknown.
    """

    def __init__(
        self,
        lm: CausalLM,
        deviation: float,
        seed: int = 0,
        architecture: Mapping[str, str | bool] | None = None,
    ) -> None:
        self._lm, self._deviation, self._seed = lm, deviation, seed
        paths = find_architecture(lm.model, architecture, ("block", "down_projection", "query"))
        self.layers = resolve_layer(lm.model, -1) + 1
        self._modules = {}
        for kind in KINDS:
            modules = [self._module(paths, kind, layer) for layer in range(self.layers)]
            self._modules[kind] = modules
        self._returns_tuple = _returns_tuple(lm, self._modules["state"][0])

    def trace(self, fact: TracedFact) -> CausalTrace:
        """Return the answer's probabilities with each state restored, layer by layer."""
        with self._lm.lock, light_passes(self._lm.model), torch.no_grad():
            clean: dict[Kind, list[Tensor]] = {kind: [] for kind in KINDS}
            with ExitStack() as stack:
                for kind in KINDS:
                    stack.enter_context(_recorded(self._modules[kind], clean[kind], len(fact.ids)))
                probability = self._probabilities(fact, 1)
            states: list[Tensor] = []
            embedding = self._lm.model.get_input_embeddings()
            recorded = _recorded(self._modules["state"], states, len(fact.ids))
            with _blurred(embedding, fact.subject, self._noise(fact)), recorded:
                blurred = self._probabilities(fact, SAMPLES)
            restored = {}
            for kind in KINDS:
                by_layer = [
                    self._restore_each_token(fact, states, clean[kind], kind, layer)
                    for layer in range(self.layers)
                ]
                restored[kind] = torch.stack(by_layer, dim=1)
        return CausalTrace(fact, float(probability), float(blurred.mean()), restored)

    def _restore_each_token(
        self,
        fact: TracedFact,
        states: Sequence[Tensor],
        clean: Sequence[Tensor],
        kind: Kind,
        layer: int,
    ) -> Tensor:
        """Return the mean probability for each token at which these layers are restored.

        The shape is (tokens,). Blocks below the restored layers are skipped, since the corrupted
        `states` that leave them are already known.
        """
        layers = range(layer, layer + 1) if kind == "state" else window(layer, self.layers)
        # a restored block is not computed either
        first = layers.start + (kind == "state")
        tokens = len(fact.ids)
        size = max(1, self._lm.batch_tokens // (SAMPLES * tokens))
        parts = []
        for start in range(0, tokens, size):
            places = torch.arange(
                start, min(start + size, tokens), device=self._lm.device
            ).repeat_interleave(SAMPLES)
            with ExitStack() as stack:
                if not first:
                    noise = self._noise(fact).repeat(len(places) // SAMPLES, 1, 1)
                    stack.enter_context(
                        _blurred(self._lm.model.get_input_embeddings(), fact.subject, noise)
                    )
                else:
                    known = states[first - 1].repeat(len(places) // SAMPLES, 1, 1)
                    if kind == "state":
                        known[torch.arange(len(places)), places] = clean[layer][0, places]
                    stack.enter_context(self._known_blocks(first, known))
                for each in layers if kind != "state" else ():
                    stack.enter_context(_patched(self._modules[kind][each], clean[each][0], places))
                parts.append(self._probabilities(fact, len(places)))
        return torch.cat(parts).view(tokens, SAMPLES).mean(1).cpu()

    def _known_blocks(self, number: int, states: Tensor) -> AbstractContextManager[None]:
        """Make these states the output of the first `number` blocks inside the `with`."""
        output = (states, None) if self._returns_tuple else states
        return replaced_forward(
            {block: lambda *_, **__: output for block in self._modules["state"][:number]}
        )

    def _probabilities(self, fact: TracedFact, rows: int) -> Tensor:
        """Return the probability of the answer in each of `rows` copies of the prompt."""
        ids = torch.tensor([fact.ids], device=self._lm.device).expand(rows, -1)
        lines = torch.arange(rows, device=self._lm.device)
        inputs = {"input_ids": ids, "use_cache": False}
        logits = logits_at(
            self._lm.model, self._lm.model, inputs, lines, torch.full_like(lines, len(fact.ids) - 1)
        )
        return logits.softmax(-1)[:, fact.answer]

    def _noise(self, fact: TracedFact) -> Tensor:
        """Return noise for the subject's embeddings, shape (samples, subject tokens, width)."""
        width = self._lm.model.get_input_embeddings().weight.shape[1]
        seed = int(content_id("noise", self._seed, list(fact.ids)), 16) % 2**63
        with seeded_draws(self._lm.device, seed):
            noise = torch.randn(SAMPLES, len(fact.subject), width, device=self._lm.device)
        return noise * NOISE * self._deviation

    def _module(self, paths: Architecture, kind: Kind, layer: int) -> nn.Module:
        """Return the module whose output is restored; for attention, the whole attention."""
        part = {"state": "block", "mlp": "down_projection", "attention": "query"}[kind]
        path = paths.of_layer(layer, part)
        module: nn.Module = self._lm.model.get_submodule(
            path.rpartition(".")[0] if kind == "attention" else path
        )
        return module


def window(layer: int, layers: int, size: int = WINDOW) -> range:
    """Return the layers around one layer that are restored together, fewer at the ends."""
    return range(max(0, layer - size // 2), min(layers, layer - (-size // 2)))


def _returns_tuple(lm: CausalLM, block: nn.Module) -> bool:
    """Return True for blocks such as GPT-J's, which return hidden states first in a tuple."""
    outputs: list[Any] = []
    with (
        lm.lock,
        torch.no_grad(),
        block.register_forward_hook(lambda _, __, output: outputs.append(output)),
    ):
        lm.model(input_ids=torch.tensor([lm.encode("a")], device=lm.device))
    return isinstance(outputs[0], tuple)


@contextmanager
def _recorded(modules: Sequence[nn.Module], outputs: list[Tensor], tokens: int) -> Iterator[None]:
    """Append the output of each module inside the `with`, shape (rows, tokens, width)."""

    def record(_: nn.Module, __: Any, output: Any) -> None:
        states = first_output(output)
        outputs.append(states.clone().view(-1, tokens, states.shape[-1]))

    with ExitStack() as hooks:
        for module in modules:
            hooks.enter_context(module.register_forward_hook(record))
        yield


def _patched(module: nn.Module, clean: Tensor, places: Tensor) -> AbstractContextManager[Any]:
    """Replace the module's output inside the `with` by the clean one, at one token in each row."""

    def patch(_: nn.Module, __: Any, output: Any) -> Any:
        states = first_output(output).clone()
        rows = states.view(len(places), -1, states.shape[-1])  # OPT's MLP has no batch dimension
        rows[torch.arange(len(places)), places] = clean[places]
        return (states, *output[1:]) if isinstance(output, tuple) else states

    return module.register_forward_hook(patch)


def _blurred(embedding: nn.Module, subject: range, noise: Tensor) -> AbstractContextManager[Any]:
    """Add noise to the embeddings of the subject's tokens inside the `with`."""

    def blur(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        states = output.clone()
        states[:, subject.start : subject.stop] += noise.to(states.dtype)
        return states

    return embedding.register_forward_hook(blur)
