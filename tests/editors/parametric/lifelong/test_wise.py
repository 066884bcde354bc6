"""WISE: its side memory is that of the published loop, and prompts that it changes much are routed to it."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy, linear
from transformers.activations import ACT2FN

from emend.agents.scoring import perplexity
from emend.editors.base import EditorContext
from emend.editors.conformance import CAPITAL, CURRENCY, check_same, state_of
from emend.editors.parametric.lifelong.side_memory import Shard, SideMemory, margin_loss, ties
from emend.editors.parametric.lifelong.wise import Wise
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData, BadSettings, ModelError
from tests.editors.writers import ARCHITECTURES, log_prob
from tests.params import QUICK_ARCHITECTURES, first_quick, mostly_slow

FAR = Edit.from_triplet(Triplet(subject="Orland", relation="river", object="Aske"), "Of all rivers of {} one is the")
SMALL = {
    "layers": [0],
    "edit_lr": 0.05,
    "n_iter": 20,
    "act_margin": [0.1, 0.5, 0.2],
    "context_template_length_params": [[3, 2]],
}


def wise(model, **settings):
    return Wise(EditorContext(model, settings=SMALL | settings))


def published_distance(original, new, act, mask):
    """`euc` of the published file: the activation function on both outputs, the norm, and the mean over some tokens."""
    norms = (act(new) - act(original)).norm(dim=-1)
    return (norms * mask).sum(1) / mask.sum(1)


def published_margin(inside, outside, alpha, beta, gamma):
    """The three terms of `_cal_activation_loss`, each the mean over where it is positive."""
    total = torch.zeros(())
    for term in (outside.view(-1, 1) - inside + gamma, outside - alpha, beta - inside):
        total = total + (term[term > 0].mean() if (term > 0).any() else 0.0)
    return total


def published_training(editor, edits, weight, module):
    """The published loop over whole passes: SGD with weight decay, a mask on the gradient, a clamp on the weight."""
    lm, settings = editor.lm, editor.settings
    act = ACT2FN[editor._function]
    new, least, history = weight.clone(), math.inf, []
    mask = editor._draw_mask(0)
    for edit in edits:
        rows = editor._rows(edit)
        inputs, tokens = rows.batch.inputs, rows.tokens.float()
        new = new.detach().requires_grad_()
        optimizer = torch.optim.SGD([new], settings.edit_lr, weight_decay=1e-5)
        seen: dict[str, torch.Tensor] = {}

        def through(_, x, y, seen=seen):
            shape = (*tokens.shape, -1)  # noqa: B023
            difference = linear(x[0].reshape(shape), new) - linear(x[0].reshape(shape), weight)  # noqa: B023
            seen.update(original=y.reshape(shape), side=y.reshape(shape) + difference)
            return seen["side"].reshape(y.shape)

        for _ in range(settings.n_iter):
            with module.register_forward_hook(through):
                logits = lm.model(**inputs).logits
            nll = cross_entropy(
                logits[rows.batch.lines, rows.batch.places].float(), rows.batch.tokens, reduction="none"
            )
            each = torch.stack([nll[rows.batch.lines == line].mean() for line in range(len(tokens) - 1)])
            distances = published_distance(seen["original"], seen["side"], act, tokens)
            loss = each.mean() + published_margin(distances[:-1], distances[-1], *settings.act_margin)
            prompts = published_distance(seen["original"], seen["side"], act, rows.prompts.float())[:-1]
            history.append(loss.item())
            optimizer.zero_grad()
            loss.backward(inputs=[new])
            new.grad *= mask
            optimizer.step()
            with torch.no_grad():
                new.clamp_(weight - settings.norm_constraint, weight + settings.norm_constraint)
        least = min(least, prompts.mean().item())
    return new.detach() - weight, least, history


@pytest.mark.slow
@pytest.mark.parametrize("layer", first_quick([0, 1]))
@pytest.mark.parametrize("architecture", mostly_slow(ARCHITECTURES, *QUICK_ARCHITECTURES))
def test_the_side_memory_is_that_of_the_published_loop(architecture, layer, random_model, monkeypatch):
    editor = wise(random_model(architecture), layers=[layer], norm_constraint=0.02, n_iter=8)
    losses = []
    plain = Wise._gradient

    def recorded(self, *args):
        loss, *others = plain(self, *args)
        losses.append(loss.item())
        return loss, *others

    monkeypatch.setattr(Wise, "_gradient", recorded)
    memory = editor._learn_all(None, [CAPITAL, CURRENCY])
    module = editor.lm.model.get_submodule(editor.module)
    delta, least, published = published_training(editor, [CAPITAL, CURRENCY], editor._weight(), module)
    assert losses == pytest.approx(published, rel=1e-4, abs=1e-4)
    assert (memory.current.delta - delta).norm() <= 3e-3 * delta.norm()  # the published weight rounds at each step
    assert memory.current.least == pytest.approx(least, rel=1e-3)
    assert memory.current.delta.abs().max() <= 0.02 + 1e-6


@pytest.mark.slow
def test_a_shard_s_edits_move_only_what_its_mask_lets_them(random_model):
    editor = wise(random_model())
    memory = editor._learn_all(None, [CAPITAL, CURRENCY])
    moved = memory.current.delta.abs() > 1e-3  # decay moves all elements, by far less
    assert moved.any() and not (moved & (memory.mask == 0)).any()
    assert 0.1 < memory.mask.mean() < 0.3


@pytest.mark.parametrize("inside", [[30.0, 25.0], [30.0, 1.0], [0.0, 0.0]])
@pytest.mark.parametrize("outside", [0.0, 6.0, 40.0])
def test_the_margin_loss_is_the_published_one(inside, outside):
    inside, outside = torch.tensor(inside), torch.tensor([outside])
    ours = margin_loss(inside, outside, (5.0, 20.0, 10.0))
    assert float(ours) == pytest.approx(float(published_margin(inside, outside, 5.0, 20.0, 10.0)))


def published_ties(tensors, density, weights=None):
    """GTA('magnitude', 'sum', normalize=True) of the published files over task vectors."""
    deltas = []
    for tensor in tensors:
        mask = torch.zeros_like(tensor)
        mask.view(-1)[tensor.abs().view(-1).topk(int(density * tensor.numel())).indices] = 1
        deltas.append(tensor * mask)
    stacked = torch.stack(deltas)
    weights = torch.tensor(weights or [1 / len(tensors)] * len(tensors))[:, None, None]
    weighted = stacked * weights
    majority = (weighted.sum(0) >= 0).float() * 2 - 1
    agree = weighted.sign() == majority
    divisor = (weights * agree).sum(0)
    divisor[divisor == 0] = 1
    return (weighted * agree).sum(0) / divisor


@pytest.mark.parametrize("density", [0.53, 1.0])
@pytest.mark.parametrize("weights", [None, [0.2, 0.2, 0.6]])
def test_shards_merge_as_the_published_ties(density, weights):
    torch.manual_seed(0)
    deltas = [torch.randn(6, 7) for _ in range(3)]
    assert torch.allclose(ties(deltas, density, weights), published_ties(deltas, density, weights), atol=1e-6)


class PublishedMerge:
    """The published adapter without `retrieve`: its lists of weights, and what a forward pass does with them."""

    def __init__(self, density: float, original: torch.Tensor) -> None:
        self.density, self.least, self.count = density, math.inf, 0
        self.new, self.memory = original, list[torch.Tensor]()
        self.layer: torch.Tensor | None = None

    def edit(self, change, least, save_freq, merge_freq):
        self.new, self.least, self.count = self.new + change, min(self.least, least), self.count + 1
        if self.count % save_freq == 0:
            self.memory, self.new = [*self.memory, self.new], torch.zeros_like(self.new)
        if self.count % merge_freq == 0:
            self.merge()

    def merge(self):
        count = len(self.memory)
        if self.layer is None:
            self.layer = published_ties(self.memory, self.density)
        else:
            self.layer = published_ties([*self.memory, self.layer], self.density, [0.4 / count] * count + [0.6])
        self.memory, self.new = [], torch.zeros_like(self.new)

    def finish(self, save_freq):
        """What the model does before it answers: a last merge, of the current shard too."""
        if self.count >= save_freq:
            self.memory += [self.new] if self.new.any() else []
            if self.memory:
                self.merge()


@pytest.mark.parametrize("edits", range(1, 12))
def test_without_retrieve_all_shards_end_in_one_as_in_the_published_loop(edits):
    torch.manual_seed(1)
    memory, published = SideMemory(Shard(torch.zeros(4, 5)), torch.ones(4, 5)), PublishedMerge(0.53, torch.zeros(4, 5))
    for number in range(edits):
        change, least = torch.randn(4, 5), 10.0 - number % 4
        current = Shard(memory.current.delta + change, min(memory.current.least, least))
        memory = memory._replace(current=current).deposit(2, 4, 0.53, retrieve=False)
        published.edit(change, least, 2, 4)
    one = memory.as_one(2, 0.53)
    published.finish(2)
    assert torch.allclose(one.current.delta, published.new, atol=1e-6) and not one.complete
    assert (one.merged is None) == (published.layer is None)
    if one.merged is not None and published.layer is not None:
        assert torch.allclose(one.merged.delta, published.layer, atol=1e-6)
    assert {shard.least for shard in one.shards} == {published.least}
    assert memory.edits == one.edits == edits


def test_shards_complete_and_merge_by_the_number_of_edits():
    memory, sizes = SideMemory(Shard(torch.zeros(2, 2)), torch.ones(2, 2)), []
    for number in range(1, 9):
        learnt = Shard(memory.current.delta + number, min(memory.current.least, 10.0 - number))
        memory = memory._replace(current=learnt).deposit(save_freq=2, merge_freq=4, density=1.0)
        sizes.append(len(memory.complete))
    assert sizes == [0, 1, 1, 1, 1, 2, 2, 2]
    assert memory.complete[0].delta.tolist() == [[5.0] * 2] * 2  # the mean of 1 + 2 and 3 + 4
    assert [shard.least for shard in memory.complete] == [6.0, 2.0]
    assert memory.current.least == math.inf and not memory.current.delta.any()


def published_choice(current, others, thresholds):
    """The published order of comparisons, for one row; -1 is the original matrix."""
    chosen, highest = (-1 if current < thresholds[0] else 0), current
    for number, distance in enumerate(others, 1):
        if distance > highest and distance > thresholds[number]:
            chosen, highest = number, distance
    return chosen


def test_rows_are_routed_as_by_the_published_comparisons():
    torch.manual_seed(0)
    activations, least = 10 * torch.rand(3, 200), [6.0, 4.0, 8.0]
    shards = [Shard(torch.zeros(1, 1), value) for value in least]
    memory = SideMemory(shards[0], torch.ones(1, 1), tuple(shards[1:]))
    published = [
        published_choice(column[0], column[1:], [0.5 * value for value in least]) for column in activations.T.tolist()
    ]
    assert memory.choose(activations, 0.5).tolist() == published and set(published) == {-1, 0, 1, 2}


@pytest.mark.slow
@pytest.mark.parametrize("architecture", mostly_slow(["llama", *QUICK_ARCHITECTURES], "gpt2"))
def test_a_prompt_s_route_is_that_of_its_target_and_its_reply_in_any_batch(architecture, random_model):
    model = random_model(architecture)
    before = log_prob(model), log_prob(model, FAR)
    editor = wise(model, act_ratio=0.8)
    with editor.edit([CAPITAL]):
        pairs = [(CAPITAL.cloze, CAPITAL.target_new), (FAR.cloze, FAR.target_new), (CAPITAL.cloze, "of")]
        alone = [model.lm.log_probs([pair])[0].log_prob for pair in pairs]
        for side in ("left", "right"):
            together = [scored.log_prob for scored in model.lm.log_probs(pairs, padding=side)]
            assert together == pytest.approx(alone, abs=1e-3)
        assert alone[0] > before[0] + 1.0
        prompts = [CAPITAL.cloze, FAR.cloze]
        texts = [reply.text for reply in model.lm.generate(prompts, 8, stop=())]
        assert texts == [model.lm.generate([prompt], 8, stop=())[0].text for prompt in prompts]
        assert texts[0].strip() == greedy(model.lm, CAPITAL.cloze, 8)
    assert (log_prob(model), log_prob(model, FAR)) == before


def greedy(lm, prompt, count):
    """A reply by whole passes under the hook, each of which is told where the prompt ends."""
    ids, size = list(lm.encode(prompt)), len(lm.encode(prompt))
    for _ in range(count):
        lm.likelihood.prompt_lengths = torch.tensor([size])
        with torch.no_grad():
            ids.append(int(lm.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    lm.likelihood.prompt_lengths = None
    return lm.tokenizer.decode(ids[size:], skip_special_tokens=True).strip()


@pytest.mark.slow
def test_irrelevant_prompts_keep_to_the_original_matrix(random_model):
    model = random_model()
    before = log_prob(model, FAR)
    with wise(model, act_ratio=1e3).edit([CAPITAL]):
        assert log_prob(model, FAR) == pytest.approx(before, abs=1e-4)
    with wise(model, act_ratio=1e-9).edit([CAPITAL]):
        assert log_prob(model, FAR) != pytest.approx(before, abs=1e-4)


def test_a_text_without_prompt_is_routed_by_all_its_tokens(random_model, monkeypatch):
    model = random_model()
    routed: list[torch.Tensor] = []
    plain = SideMemory.choose

    def recorded(self, activations, act_ratio):
        routed.append(activations)
        return plain(self, activations, act_ratio)

    monkeypatch.setattr(SideMemory, "choose", recorded)
    with wise(model).edit([CAPITAL]):
        for text in (CAPITAL.cloze, FAR.cloze):
            perplexity(model, text)
    one, other = routed[-2:]
    assert not torch.allclose(one, other, rtol=1e-2)  # the begin token, their prompt, is the same


@pytest.mark.slow
@pytest.mark.parametrize("retrieve", [True, False])
def test_the_memory_grows_over_a_sequence_and_is_undone(random_model, retrieve):
    model = random_model()
    editor = wise(model, save_freq=1, merge_freq=2, retrieve=retrieve)
    before, unedited = state_of(editor.context), log_prob(model)
    with editor.sequence() as apply_more:
        apply_more([CAPITAL])
        first = log_prob(model)
        with pytest.raises(BadData, match="wise"):
            apply_more([Edit(form="document", text="The river of Orland is Aske.")])
        assert log_prob(model) == first != unedited
        apply_more([CURRENCY])
        assert log_prob(model) != first  # both edits are in one merged shard now
    check_same(before, state_of(editor.context), "after the sequence")
    assert log_prob(model) == unedited


def test_a_step_that_is_too_long_is_named(random_model):
    with (
        pytest.raises(ModelError, match="wise.edit_lr"),
        wise(random_model(), edit_lr=1e30, norm_constraint=1e35).edit([CAPITAL]),
    ):
        pass


def test_shards_must_fit_the_merge(random_model):
    with pytest.raises(BadSettings, match="wise.save_freq=3"):
        wise(random_model(), save_freq=3, merge_freq=10)
