"""Records of the page of errors."""

from emend.evals.view.records.case import FailureView
from emend.evals.view.records.page import Fact
from emend.evals.view.records.run import RunEntry
from emend.memory.edit import FrozenModel


class ErrorGroup(FrozenModel):
    """Failed units with the same error."""

    error: str
    message: str
    count: int
    editors: tuple[str, ...]


class ErrorsView(FrozenModel):
    """Failures, reasons of what is unscored, and retries."""

    run: RunEntry
    groups: tuple[ErrorGroup, ...]
    failures: tuple[FailureView, ...]
    failures_total: int
    reasons: tuple[Fact, ...]
    retried: tuple[Fact, ...]
