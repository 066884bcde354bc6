"""What became of a run."""

from emend.agents.providers.usage import Spent
from emend.memory.edit import FrozenModel


class Summary(FrozenModel):
    """What became of a run: units in all, finished earlier, finished now, failed now; records and tokens of now.

    Tokens and calls include those of the unedited model, `baseline_calls` of them. `peak_bytes` is the most memory that
    the process held; None where the system does not tell. `spent` is by model, of those behind an API.
    """

    folder: str
    units: int
    skipped: int
    finished: int
    failed: int
    records: int
    unscored: int
    input_tokens: int
    output_tokens: int
    calls: int
    baseline_calls: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int | None
    spent: dict[str, Spent] = {}
