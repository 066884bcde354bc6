"""Views of the page of errors."""

from emend.evals.show.view.views.case import FailureView
from emend.evals.show.view.views.page import NamedValue
from emend.memory.edit import FrozenModel


class ErrorGroup(FrozenModel):
    """Failed units with the same error."""

    error: str
    message: str
    count: int
    editors: tuple[str, ...]


class ErrorsView(FrozenModel):
    """Failures, reasons of what is unscored, and the number of answers for which a provider was asked again."""

    groups: tuple[ErrorGroup, ...]
    failures: tuple[FailureView, ...]
    failures_total: int
    reasons: tuple[NamedValue, ...]
    retried: int
