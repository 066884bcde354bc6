"""Causal tracing (Meng et al. 2022, section 2.1): the effect of each hidden state on the recall of a fact.

The subject's embeddings are blurred by noise, so that the model forgets the answer; then one clean state is restored at
one token and layer, and the probability of the answer that comes back is that state's indirect effect.
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
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Restored parts: the output of a block, or of the MLPs or attentions of `WINDOW` layers around it."""
SAMPLES = 10
"""Draws of noise for each fact, as in the published code."""
NOISE = 3.0
"""Standard deviation of the noise, over that of the embeddings of subjects (the paper's nu)."""
WINDOW = 10
"""Layers whose MLPs or attentions are restored together, as in the paper's figure 1 (f, g)."""


class TracedFact(NamedTuple):
    """Token ids of a prompt, the subject's places in it, and the id of the answer's first token."""

    ids: tuple[int, ...]
    subject: range
    answer: int


class CausalTrace(NamedTuple):
    """Probabilities of a fact's answer: clean, with a blurred subject, and with restored states.

    `restored` has by kind a matrix of shape (tokens, layers), float32, means over the draws of noise.
    """

    fact: TracedFact
    clean: float
    blurred: float
    restored: Mapping[Kind, Tensor]


def find_fact(lm: CausalLM, edit: Edit) -> TracedFact | None:
    """The fact that a model knows of an edit's prompt; None where its answer is not the edit's old one.

    The answer is the model's most likely next token. An edit without an old object has whatever the model says.

    Raises:
        BadData: the prompt has no place for the subject.
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
    """Standard deviation of the embeddings of all subjects' tokens."""
    ids = [fact.ids[place] for fact in facts for place in fact.subject]
    with torch.no_grad():
        vectors = lm.model.get_input_embeddings()(torch.tensor(ids, device=lm.device))
    return float(vectors.float().std())


class CausalTracer:
    """Traces facts of one model, whose weights stay as they are.

    Args:
        lm: the model.
        deviation: of the noise.
        seed: of the noise.
        architecture: module paths by name, for architectures that are not known.

    Raises:
        BadSettings: the architecture is not known.
    """

    def __init__(
        self, lm: CausalLM, deviation: float, seed: int = 0, architecture: Mapping[str, str | bool] | None = None
    ) -> None:
        self._lm, self._deviation, self._seed = lm, deviation, seed
        paths = find_architecture(lm.model, architecture, ("block", "down_projection", "query"))
        self.layers = resolve_layer(lm.model, -1) + 1
        self._modules = {kind: [self._module(paths, kind, layer) for layer in range(self.layers)] for kind in KINDS}
        self._returns_tuple = _returns_tuple(lm, self._modules["state"][0])

    def trace(self, fact: TracedFact) -> CausalTrace:
        """The probabilities with each state restored, one pass for each layer and kind."""
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
            restored = {
                kind: torch.stack(
                    [self._restore_each_token(fact, states, clean[kind], kind, layer) for layer in range(self.layers)],
                    dim=1,
                )
                for kind in KINDS
            }
        return CausalTrace(fact, float(probability), float(blurred.mean()), restored)

    def _restore_each_token(
        self, fact: TracedFact, states: Sequence[Tensor], clean: Sequence[Tensor], kind: Kind, layer: int
    ) -> Tensor:
        """Mean probabilities with the layers round this one restored at each token, shape (tokens,).

        Blocks below those layers are not computed again: the blurred `states` that leave them are known.
        """
        layers = range(layer, layer + 1) if kind == "state" else window(layer, self.layers)
        first = layers.start + (kind == "state")  # a whole block that is restored is not computed either
        tokens = len(fact.ids)
        size = max(1, self._lm.batch_tokens // (SAMPLES * tokens))
        parts = []
        for start in range(0, tokens, size):
            places = torch.arange(start, min(start + size, tokens), device=self._lm.device).repeat_interleave(SAMPLES)
            with ExitStack() as stack:
                if not first:
                    noise = self._noise(fact).repeat(len(places) // SAMPLES, 1, 1)
                    stack.enter_context(_blurred(self._lm.model.get_input_embeddings(), fact.subject, noise))
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
        """Inside the `with`, so many first blocks compute nothing, and these states leave them."""
        output = (states, None) if self._returns_tuple else states
        return replaced_forward({block: lambda *_, **__: output for block in self._modules["state"][:number]})

    def _probabilities(self, fact: TracedFact, rows: int) -> Tensor:
        """Probabilities of the answer in so many rows of the prompt."""
        ids = torch.tensor([fact.ids], device=self._lm.device).expand(rows, -1)
        lines = torch.arange(rows, device=self._lm.device)
        inputs = {"input_ids": ids, "use_cache": False}
        logits = logits_at(self._lm.model, self._lm.model, inputs, lines, torch.full_like(lines, len(fact.ids) - 1))
        return logits.softmax(-1)[:, fact.answer]

    def _noise(self, fact: TracedFact) -> Tensor:
        """Noise for the subject's embeddings, shape (draws, subject's tokens, width)."""
        width = self._lm.model.get_input_embeddings().weight.shape[1]
        seed = int(content_id("noise", self._seed, list(fact.ids)), 16) % 2**63
        with seeded_draws(self._lm.device, seed):
            noise = torch.randn(SAMPLES, len(fact.subject), width, device=self._lm.device)
        return noise * NOISE * self._deviation

    def _module(self, paths: Architecture, kind: Kind, layer: int) -> nn.Module:
        """The module whose output is restored; that of attention is the one that has the query's projection."""
        part = {"state": "block", "mlp": "down_projection", "attention": "query"}[kind]
        path = paths.of_layer(layer, part)
        module: nn.Module = self._lm.model.get_submodule(path.rpartition(".")[0] if kind == "attention" else path)
        return module


def window(layer: int, layers: int, size: int = WINDOW) -> range:
    """The layers round one that are restored together, fewer at the ends."""
    return range(max(0, layer - size // 2), min(layers, layer - (-size // 2)))


def _returns_tuple(lm: CausalLM, block: nn.Module) -> bool:
    """True for blocks such as GPT-J's, whose hidden states are the first of several outputs."""
    outputs: list[Any] = []
    with lm.lock, torch.no_grad(), block.register_forward_hook(lambda _, __, output: outputs.append(output)):
        lm.model(input_ids=torch.tensor([lm.encode("a")], device=lm.device))
    return isinstance(outputs[0], tuple)


@contextmanager
def _recorded(modules: Sequence[nn.Module], outputs: list[Tensor], tokens: int) -> Iterator[None]:
    """Inside the `with`, the modules' outputs are appended, each of shape (rows, tokens, width)."""

    def record(_: nn.Module, __: Any, output: Any) -> None:
        states = first_output(output)
        outputs.append(states.clone().view(-1, tokens, states.shape[-1]))

    with ExitStack() as hooks:
        for module in modules:
            hooks.enter_context(module.register_forward_hook(record))
        yield


def _patched(module: nn.Module, clean: Tensor, places: Tensor) -> AbstractContextManager[Any]:
    """Inside the `with`, the module's output is the clean one at one token of each row."""

    def patch(_: nn.Module, __: Any, output: Any) -> Any:
        states = first_output(output).clone()
        rows = states.view(len(places), -1, states.shape[-1])  # OPT's MLP has no dimension of rows
        rows[torch.arange(len(places)), places] = clean[places]
        return (states, *output[1:]) if isinstance(output, tuple) else states

    return module.register_forward_hook(patch)


def _blurred(embedding: nn.Module, subject: range, noise: Tensor) -> AbstractContextManager[Any]:
    """Inside the `with`, noise is added to the embeddings of the subject's tokens."""

    def blur(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        states = output.clone()
        states[:, subject.start : subject.stop] += noise.to(states.dtype)
        return states

    return embedding.register_forward_hook(blur)
