"""Estimate of a run: usage of each editor in each setting, and totals of the run."""

from emend.evals.results.dry_run.sample import SAMPLE
from emend.memory.edit import FrozenModel

COUNTS = ("calls", "input_tokens", "output_tokens")


class EstimatedRow(FrozenModel):
    """Units of one editor in one setting, with their expected usage.

    `edits`, `edit_tokens` and `perplexity_tokens` are set for editors of weights: the edits that
    pass through the model, and the tokens of texts and built-in ability questions read afterwards.
    """

    setting: str
    editor: str
    units: int
    calls: int
    input_tokens: int
    output_tokens: int
    edits: int = 0
    edit_tokens: int = 0
    perplexity_tokens: int = 0


class DryRun(FrozenModel):
    """Estimate of a run.

    `cost` is None without a known price, and `seconds` is None for a local model of unknown size.
    """

    model: str
    rows: tuple[EstimatedRow, ...]
    cost: float | None
    currency: str
    seconds: float | None
    sample_seed: int | None = None
    """Seed of the random sample of cases; None if the run takes all cases or the first ones."""
    needs: tuple[str, ...] = ()
    """Lines about memory and missing files of a local model."""
    sample: str = f"{SAMPLE} cases of each setting"
    """Description of the sample that the stand-in was asked."""

    def total(self, name: str) -> int:
        """Return the sum of a column."""
        return sum(getattr(row, name) for row in self.rows)
