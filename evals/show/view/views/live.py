"""Views of the page of progress."""

from emend.evals.show.view.views.cases import AnswerView
from emend.evals.show.view.views.page import NamedValue
from emend.evals.show.view.views.run import RunEntry
from emend.memory.edit import FrozenModel


class EditorProgress(FrozenModel):
    """How many units of an editor are finished."""

    editor: str
    units: int
    finished: int


class LiveView(FrozenModel):
    """How far a run is; rate and remaining time are None where nothing is known of them."""

    run: RunEntry
    retries: int
    per_minute: float | None
    seconds_left: float | None
    editors: tuple[EditorProgress, ...]
    errors: tuple[NamedValue, ...]
    latest: tuple[AnswerView, ...]
    at: str
