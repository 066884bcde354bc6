"""The baseline: the unedited model."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from emend.agents.roles.answer import wording_id
from emend.agents.scoring import is_chat_model
from emend.editors.answerers import DIRECT, graph_answerer
from emend.editors.base import Answerer, EditorContext
from emend.editors.hyperparameters import NoSettings, build_settings
from emend.graphs.direct import DirectContext
from emend.graphs.registry import GRAPHS
from emend.memory.edit import Edit


class Unedited:
    """Baseline that ignores the edits; its scores show what the model knew or guessed before."""

    name: ClassVar[str] = "unedited"
    needs_weights: ClassVar[bool] = False
    schema: ClassVar[type[Any]] = NoSettings
    graph: ClassVar[str] = DIRECT

    def __init__(self, context: EditorContext) -> None:
        self.context = context
        self.settings: Any = build_settings(self.schema, context.settings, self.name)
        self.app = GRAPHS.load(self.graph)()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Name, graph, prompt template and prompt id."""
        wording, chats = self.context.wording, is_chat_model(self.context.model)
        return {
            "editor": self.name,
            "graph": self.graph,
            "wording": wording,
            "prompt": wording_id(wording, chats),
        }

    @contextmanager
    def edit(self, edits: Sequence[Edit]) -> Iterator[Answerer]:
        """Yield an answerer of the unedited model."""
        yield graph_answerer(
            self.app, DirectContext(self.context.model, self.context.wording), self.context.model
        )
