"""Views of a case: edits, probes, and the steps of their traces."""

from typing import Any, Literal

from emend.evals.show.trace.judged_steps import JudgedItem
from emend.evals.show.view.views.cases import AnswerView
from emend.evals.show.view.views.page import NamedValue
from emend.memory.edit import FrozenModel


class EditView(FrozenModel):
    """An edit of a case."""

    id: str
    form: str
    text: str
    subject: str = ""
    target_new: str = ""
    target_true: str = ""


class HitView(FrozenModel):
    """A retrieved entry: its score, whether it is an edit of this case, and whether it was kept, by which node and why.

    An entry is kept if the last node that changed the entries left it there, or else if the prompt has its text.
    """

    place: int
    text: str
    score: float | None = None
    edit_id: str = ""
    of_case: bool = False
    decision: Literal["kept", "dropped", ""] = ""
    why: str = ""
    by: str = ""


class FieldView(FrozenModel):
    """A field of a node's state update; `grown` where only the new part of a longer value is shown."""

    name: str
    text: str
    grown: bool = False


class MessageView(FrozenModel):
    """A message of a call, with the tools that it calls and their arguments."""

    role: str
    text: str
    tools: tuple[NamedValue, ...] = ()


class CallView(FrozenModel):
    """A call to a model, without the texts that are the step's own prompt or reply, and the attempts before it."""

    messages: tuple[MessageView, ...]
    reply: MessageView | None
    finish: str
    cached: bool
    error: str
    retries: tuple[dict[str, Any], ...]


class StepView(FrozenModel):
    """A step of a graph: what the node retrieved, sent, received and wrote into the state.

    `start_ms` counts from the first step; `routed` says that a router chose the node; `repeats` that the update is that
    of an earlier step of the same node.
    """

    place: int
    node: str
    ms: float
    start_ms: float
    routed: bool
    repeats: bool
    about: str
    hits: tuple[HitView, ...] | None = None
    prompt: str | None = None
    reply: str | None = None
    fields: tuple[FieldView, ...] = ()
    calls: tuple[CallView, ...] = ()
    error: str = ""


class GraphNodeView(FrozenModel):
    """A node in the drawing of a graph, in a layer from the start on and a column of it."""

    id: str
    label: str
    layer: int
    column: int
    state: Literal["taken", "failed", ""] = ""


class GraphEdgeView(FrozenModel):
    """An edge in the drawing of a graph: dashed where a router chooses, thick where it was taken."""

    source: str
    target: str
    label: str
    walked: bool
    chosen: bool


class GraphView(FrozenModel):
    """A graph and the way that a probe took through it."""

    name: str
    nodes: tuple[GraphNodeView, ...]
    edges: tuple[GraphEdgeView, ...]
    layers: int
    columns: int


class JudgedView(FrozenModel):
    """A judgement of an answer, with the steps of the judge's graph."""

    item: JudgedItem
    steps: tuple[StepView, ...]


class ProbeView(AnswerView):
    """An answer under an editor, and all that led to it; a probe may go through the graph in several passes."""

    log_probs: str
    cost: str
    passes: tuple[tuple[StepView, ...], ...]
    graph: GraphView | None
    judged: tuple[JudgedView, ...]


class FailureView(FrozenModel):
    """A unit that failed and was not finished since, with the steps up to the failure."""

    editor: str
    setting: str
    error: str
    message: str
    at: str
    steps: tuple[StepView, ...]
    number: int = 0
    href: str = ""


class CaseView(FrozenModel):
    """A case: its edits, the answers to each of its questions, and its failures.

    `next_probes` leads to the other questions of very many.
    """

    setting: str
    tags: tuple[NamedValue, ...]
    edits: tuple[EditView, ...]
    questions: tuple[tuple[ProbeView, ...], ...]
    failures: tuple[FailureView, ...]
    previous: str = ""
    next: str = ""
    next_probes: str = ""

    @property
    def editors(self) -> tuple[str, ...]:
        """The editors in the order of their first answers."""
        return tuple(dict.fromkeys(probe.record.editor for probes in self.questions for probe in probes))
