"""Text output of the estimates of dry runs."""

from emend.agents.llm import is_local_spec
from emend.evals.results.dry_run.duration import SECONDS_PER_CALL, SPREAD
from emend.evals.results.dry_run.estimate import COUNTS, DryRun
from emend.evals.results.dry_run.stand_in import HOPS, REPLY_SHARE
from emend.evals.results.dry_run.usage import UNTAUGHT
from emend.evals.show.report.progress import duration


def _dry_run_time(estimate: DryRun) -> str:
    """Format the estimated time of a run; as a range for a local model."""
    if estimate.seconds is None:
        return ""
    if is_local_spec(estimate.model):
        low, high = duration(estimate.seconds / SPREAD), duration(estimate.seconds * SPREAD)
        return f", {low} to {high} at this machine's current speed"
    return f", {estimate.seconds / 60:,.0f} min at {SECONDS_PER_CALL:g} s a call"


def dry_run_lines(estimate: DryRun) -> list[str]:
    """Format an estimate and its assumptions."""
    lines = [f"{estimate.model}: not called in a dry run"]
    if estimate.sample_seed is not None:
        lines.append(f"  cases: a random sample with seed {estimate.sample_seed} (--limit, --seed)")
    for row in estimate.rows:
        heading = "  unedited answers, for comparison:"
        if row.setting:
            heading = f"  {row.setting}, {row.editor}: {row.units:,} units"
        lines.append(
            f"{heading}, {amounts(row.calls, row.input_tokens, row.output_tokens)}".replace(
                ":,", ":"
            )
        )
    lines += [f"  {line}" for line in estimate.needs]
    whole = f"{estimate.total('units'):,} units, {amounts(*map(estimate.total, COUNTS))}"
    if estimate.cost is not None:
        cost = f"{estimate.cost:,.2f} {estimate.currency}"
    elif is_local_spec(estimate.model):
        cost = "no price"
    else:
        cost = "no price (give one with --prices FILE)"
    lines.append(f"  in all: {whole}, {cost}{_dry_run_time(estimate)}")
    replies = "replies of the length of the benchmark's answers"
    if is_local_spec(estimate.model):
        unedited = f"{UNTAUGHT * REPLY_SHARE:.0%} without an edit in the prompt"
        replies = f"replies of {REPLY_SHARE:.0%} of their limit, {unedited}"
    lines.append(
        f"  Units are counted; other numbers are estimated from {estimate.sample}: 4 characters "
        f"per token, {replies}, {HOPS} subquestions per decomposed question, one call per "
        "probe with tools; without reasoning tokens, retries and cache."
    )
    return lines


def amounts(calls: int, tokens_in: int, tokens_out: int) -> str:
    """Format numbers of calls and tokens."""
    return f"{calls:,} calls, {tokens_in:,} tokens in, {tokens_out:,} out"
