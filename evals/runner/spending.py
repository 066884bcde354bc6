"""What a run spent on models behind an API: kept in its manifest, and told in a line per model."""

from collections.abc import Mapping
from pathlib import Path

from emend.agents.providers.usage import Ledger, Spent
from emend.evals.log.manifest import Manifest


def keep_spent(folder: Path, ledger: Ledger) -> None:
    """Add what this process spent to the manifest, with the prices that it counted with."""
    spent = ledger.by_model()
    if not spent:
        return
    manifest = Manifest.read(folder)
    total = dict(manifest.spent)
    for model, more in spent.items():
        total[model] = total.get(model, Spent()).plus(more)
    prices = ledger.prices.model_dump() if ledger.prices else manifest.prices
    manifest.model_copy(update={"spent": total, "prices": prices}).write(folder)


def spent_lines(folder: Path, spent: Mapping[str, Spent]) -> list[str]:
    """One line per model: calls, tokens, and cost where there is a price."""
    if not spent:
        return []
    currency = (Manifest.read(folder).prices or {}).get("currency", "")
    return [f"{model}: {_told(one, currency)}" for model, one in spent.items()]


def _told(one: Spent, currency: str) -> str:
    again = [f"{one.retries} of them again"] if one.retries else []
    kept = [f"{one.cached} replies from the cache"] if one.cached else []
    told = [f"{one.requests} calls", *again, *kept]
    told += [f"{one.input_tokens:,} tokens in, {one.output_tokens:,} out"]
    if one.cost is not None:
        told.append(f"{one.cost:.4f} {currency}".rstrip())
    if one.untold:
        told.append(f"{one.untold} replies did not tell their tokens")
    return ", ".join(told)
