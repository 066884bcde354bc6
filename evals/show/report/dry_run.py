"""Lines of text about what a run is expected to need."""

from emend.agents.llm import is_local_spec
from emend.evals.results.estimates.dry_run import (
    COUNTS,
    HOPS,
    REPLY_SHARE,
    SECONDS_PER_CALL,
    UNTAUGHT,
    DryRun,
)
from emend.evals.results.estimates.local_model import SPREAD
from emend.evals.show.report.progress import duration


def _time_text(estimate: DryRun) -> str:
    """Format the time of a run: of a local model as a range."""
    if estimate.seconds is None:
        return ""
    if is_local_spec(estimate.model):
        low, high = duration(estimate.seconds / SPREAD), duration(estimate.seconds * SPREAD)
        return f", {low} to {high} at the speed of this machine now"
    return f", {estimate.seconds / 60:,.0f} min at {SECONDS_PER_CALL:g} s a call"


def estimate_lines(estimate: DryRun) -> list[str]:
    """Format an estimate, and what it assumes."""
    lines = [f"{estimate.model}: nothing is asked in a dry run"]
    for row in estimate.rows:
        place = (
            f"  {row.setting}, {row.editor}: {row.units:,} units"
            if row.setting
            else "  unedited answers, to compare with:"
        )
        lines.append(f"{place}, {amounts(row.calls, row.input_tokens, row.output_tokens)}".replace(":,", ":"))
    lines += [f"  {line}" for line in estimate.needs]
    whole = f"{estimate.total('units'):,} units, {amounts(*map(estimate.total, COUNTS))}"
    unknown = "" if is_local_spec(estimate.model) else " (give one with --prices FILE)"
    cost = f"no price{unknown}" if estimate.cost is None else f"{estimate.cost:,.2f} {estimate.currency}"
    lines.append(f"  in all: {whole}, {cost}{_time_text(estimate)}")
    replies = "replies as long as the benchmark's answers"
    if is_local_spec(estimate.model):
        replies = (
            f"replies of {REPLY_SHARE:.0%} of their limit, {UNTAUGHT * REPLY_SHARE:.0%} without an edit in the prompt"
        )
    lines.append(
        f"  Units are counted; the rest is estimated from {estimate.sample}: 4 characters a token, "
        f"{replies}, {HOPS} subquestions for mello, one tool for agent; no thoughts, retries or cache."
    )
    return lines


def amounts(calls: int, tokens_in: int, tokens_out: int) -> str:
    """Format numbers of calls and tokens."""
    return f"{calls:,} calls, {tokens_in:,} tokens in, {tokens_out:,} out"
