"""The result of a run: units, tokens, calls, and what was spent on models behind an API."""

import logging
from collections.abc import Mapping
from pathlib import Path

from emend.agents.providers.usage import Ledger, ProviderUsage
from emend.evals.log.manifest import Manifest
from emend.memory.edit import FrozenModel
from emend.memory.errors import EmendError


class Summary(FrozenModel):
    """Result of a run: units in all, finished earlier, finished now, failed now; records and tokens of now.

    Tokens and calls include those of the unedited model, `baseline_calls` of them. `peak_bytes` is the most memory that
    the process held; None where the system does not report it. `spent` is by model, for those behind an API.
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
    spent: dict[str, ProviderUsage] = {}


def save_usage(folder: Path, ledger: Ledger) -> None:
    """Add what this process spent to the manifest, with the prices that it used; warn where that is impossible."""
    spent = ledger.by_model()
    if not spent:
        return
    try:
        manifest = Manifest.read(folder)
        total = dict(manifest.spent)
        for model, usage in spent.items():
            total[model] = total.get(model, ProviderUsage()).plus(usage)
        prices = ledger.prices.model_dump() if ledger.prices else manifest.prices
        manifest.model_copy(update={"spent": total, "prices": prices}).write(folder)
    except EmendError as error:  # of a full disk or a deleted folder, whose own error is under way already
        logging.getLogger(__name__).warning("what was spent is not in the manifest: %s", error)


def spent_lines(folder: Path, spent: Mapping[str, ProviderUsage]) -> list[str]:
    """Format one line per model: calls, tokens, and cost where there is a price."""
    if not spent:
        return []
    currency = (Manifest.read(folder).prices or {}).get("currency", "")
    return [f"{model}: {_spent_line(usage, currency)}" for model, usage in spent.items()]


def _spent_line(usage: ProviderUsage, currency: str) -> str:
    parts = [f"{usage.requests} calls"]
    if usage.retries:
        parts.append(f"{usage.retries} of them retries")
    if usage.cached:
        parts.append(f"{usage.cached} replies from the cache")
    parts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    if usage.cost is not None:
        parts.append(f"{usage.cost:.4f} {currency}".rstrip())
    if usage.untold:
        parts.append(f"{usage.untold} replies without token counts")
    return ", ".join(parts)
