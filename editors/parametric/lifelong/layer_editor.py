"""Base class of editors that store edits beside one down-projection and hook its output."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from langchain_core.messages import HumanMessage
from pydantic import Field

from emend.agents.local.offload import keep_loaded
from emend.agents.parsing.tool_calls import render_chat
from emend.editors.base import Answerer, ApplyMore, EditorContext
from emend.editors.cost import count_tokens
from emend.editors.numerics.apply_delta import DeltaStack
from emend.editors.numerics.architectures import check_width, find_architecture, resolve_layer
from emend.editors.numerics.oom_retry import retry_on_oom
from emend.editors.numerics.passes import light_passes
from emend.editors.numerics.suffix_forward import PARTS, check_logits
from emend.editors.numerics.training.training_loop import TrainingRow
from emend.editors.parametric.finetune import build_own_prompt, target_row
from emend.editors.parametric.lifelong.layer_hook import Change, hooked_layer
from emend.editors.parametric.weight_editor import LocalEditor
from emend.memory.edit import Edit, content_id
from emend.memory.errors import BadData, BadSettings

Memory = TypeVar("Memory")


@dataclass(frozen=True, kw_only=True)
class LayerSettings:
    """Settings shared by these editors, named as in the published files."""

    layers: tuple[int]
    """The one layer whose down-projection output is changed; from 0, or from -1 at the end."""
    edit_lr: Annotated[float, Field(gt=0)]
    """Learning rate."""
    n_iter: Annotated[int, Field(ge=1)]
    """Number of training steps per edit."""
    use_chat_template: bool = False
    """Learn edits in the model's chat template, for `--form chat`; otherwise as plain text."""
    architecture: dict[str, str | bool] = field(default_factory=dict)
    """Module paths by name, for architectures that `editors.numerics.architectures` lacks."""


class LayerEditor(LocalEditor, Generic[Memory]):
    """Base class of editors that learn edits one by one into a memory beside a layer.

    A `Memory` is immutable, so that an edit that fails leaves the earlier memory intact.
    """

    schema: ClassVar[type[Any]] = LayerSettings
    settings: LayerSettings

    def __init__(self, context: EditorContext) -> None:
        super().__init__(context)
        self.layer = resolve_layer(self.lm.model, self.settings.layers[0])
        self.paths = find_architecture(
            self.lm.model, self.settings.architecture, PARTS, [self.layer]
        )
        check_width(self.lm.model, self.paths, [self.layer])
        check_logits(self.lm, self.paths)
        self.module = self.paths.of_layer(self.layer, "down_projection")
        keep_loaded(self.lm.model, [self.module])
        if self.settings.use_chat_template and not self.lm.tokenizer.chat_template:
            raise BadSettings(
                f"{self.name}.use_chat_template: the tokenizer of {self.lm.folder} has no chat "
                "template; leave it out."
            )

    @property
    def target_modules(self) -> dict[str, Any]:
        """The module whose output is changed."""
        return {"matrices": [self.module]}

    @abstractmethod
    def learn(self, memory: Memory | None, edit: Edit) -> Memory:
        """Return the memory with one more edit, learnt on the model without a hook.

        Raises:
            BadData: the edit has no target after a prompt.
            ModelError: the training overflowed.
        """

    @abstractmethod
    def change(self, memory: Memory) -> Change:
        """Return the function that changes the module's output according to the memory."""

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """Learn the edits in their order, and keep the hook inside the `with`."""
        with self.sequence() as apply_more:
            yield apply_more(edits)

    @contextmanager
    def sequence(self) -> Iterator[ApplyMore]:
        """Learn the edits of each call into one memory; a new sequence starts with none."""
        memory: Memory | None = None
        # a DeltaStack without deltas refuses any other edit of this model
        with DeltaStack(self.lm.model, self.lm.lock), ExitStack() as hook:

            def apply_more(edits: Sequence[Edit]) -> Answerer:
                nonlocal memory
                with count_tokens(self.lm) as counter, self.lm.lock:
                    hook.close()  # edits are learnt on the model without its memory
                    try:
                        memory = self._learn_all(memory, edits)
                    finally:
                        if memory is not None:
                            hook.enter_context(
                                hooked_layer(self.lm, self.module, self.change(memory))
                            )
                return self._answerer(counter.cost)

            yield apply_more

    def _learn_all(self, memory: Memory | None, edits: Sequence[Edit]) -> Memory | None:
        with light_passes(self.lm.model), self.lm.precision():
            for edit in edits:
                memory = retry_on_oom(self.lm, partial(self.learn, memory, edit))
        return memory

    def row(self, edit: Edit, prefix: str = "") -> TrainingRow:
        """Return the edit's target after a prefix and its prompt, in the model's prompt form.

        Raises:
            BadData: the edit has no target or no prompt, or they do not fit the model's window.
        """
        if not edit.target_new or not (edit.prompt or edit.question):
            raise BadData(
                f"edit '{edit.id}' has no prompt with a target, which '{self.name}' needs: "
                "extract triplets, or use ft or lora for documents."
            )
        prompt = prefix + build_own_prompt(edit, self.context.wording)
        if self.settings.use_chat_template:
            prompt = render_chat(self.lm.tokenizer, [HumanMessage(prompt)])
        return target_row(self.lm, edit, prompt)

    def seed(self, *parts: Any) -> int:
        """Return a seed that depends only on the run's seed and on these values."""
        return int(content_id("draws", self.context.seed, *parts), 16) % 2**63
