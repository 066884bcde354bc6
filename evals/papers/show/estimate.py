"""Rendering of a recipe's estimated calls, tokens, price, memory and time."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from emend.agents.llm import is_local_spec
from emend.editors.device_speed import device_speed
from emend.evals.config.overrides import MODEL
from emend.evals.papers.reproduce.estimate import RecipeEstimate
from emend.evals.papers.reproduce.execute import title
from emend.evals.papers.reproduce.needs import METHOD
from emend.evals.papers.tables import gpu_gigabytes
from emend.evals.results.dry_run.duration import SPREAD
from emend.evals.results.dry_run.estimate import COUNTS
from emend.evals.results.dry_run.local_model import parameters_of
from emend.evals.show.report.estimates import amounts
from emend.evals.show.report.layout import counted, frame
from emend.evals.show.report.progress import duration
from emend.memory.escape import one_line


def render_estimate(estimated: RecipeEstimate) -> RenderableType:
    """Render a line per run with its remaining work, and totals."""
    table = frame("run", "units", "calls", "tokens in", "out", "time")
    for run in estimated.runs:
        counts = ["", "", ""]
        seconds = estimated.seconds_left(run)
        if run.need and run.left:
            counts = [f"{run.need.total(name):,}" for name in COUNTS]
        left = "done"
        if run.error:
            left = "refused"
        elif run.left:
            left = f"{run.left:,}"
        time = ""
        if seconds:
            time = f"about {duration(max(1.0, seconds))}"
        table.add(title(run.config), left, *counts, time)
    return Group(
        *[table] * bool(estimated.runs),
        *(Text(one_line(line)) for line in estimate_lines(estimated)),
    )


def estimate_lines(estimated: RecipeEstimate) -> Iterator[str]:
    """Yield the totals of an estimate, the extractions before the runs, and problems of runs."""
    units = sum(run.left for run in estimated.runs)
    runs = counted(len(estimated.runs), "run")
    yield f"{runs}, {units:,} units to do, {_calls_and_price(estimated)}"
    for file, count in estimated.documents.items():
        how = estimated.extract[file].get(METHOD)
        if model := estimated.extract[file].get(MODEL):
            how = f"{model}, at least one call each"
        yield (f"first: triplets of {count:,} documents into {file} by {how}, except existing ones")
    yield from _memory_lines(estimated)
    if units:
        yield f"time: {_time_text(estimated)}"
    for reason, count in estimated.left_out.items():
        yield f"no run gives {count:,} figures: {reason}"
    refused: dict[str, list[str]] = {}  # runs by error
    for run in estimated.runs:
        if run.error:
            refused.setdefault(run.error, []).append(title(run.config))
    for error, names in refused.items():
        subject = names[0]
        if len(names) > 1:
            subject = f"{len(names)} runs"
        yield f"cannot be run: {subject}: {error}"


def _calls_and_price(estimated: RecipeEstimate) -> str:
    """Return the calls and tokens of all runs, with the price if a provider is called."""
    needs = [run.need for run in estimated.runs if run.need]
    totals = []
    for name in COUNTS:
        totals.append(sum(need.total(name) for need in needs))
    text = amounts(*totals)
    if not estimated.is_paid:
        return text
    costs = [need.cost for need in needs if need.cost is not None]
    if not costs:
        return f"{text}; no price: give --prices FILE"
    return f"{text}; {sum(costs):,.2f} {needs[0].currency}"


def _memory_lines(estimated: RecipeEstimate) -> Iterator[str]:
    """Yield a line on the memory of the largest model if a run needs a GPU."""
    sizes = [run.gigabytes for run in estimated.runs if run.left and run.gigabytes is not None]
    if not sizes:
        return
    fit = "within"
    if max(sizes) > gpu_gigabytes():
        fit = "more than"
    yield (
        f"GPU memory: up to about {max(sizes):.0f} GB, {fit} the {gpu_gigabytes():.0f} GB of "
        "one GPU"
    )


def _time_text(estimated: RecipeEstimate) -> str:
    """Return the time of the remaining work, with the basis of the estimate."""
    if estimated.seconds is None:
        return (
            "unknown until some units of each model are finished; then repeat the command with "
            "--dry-run"
        )
    text = f"about {duration(estimated.seconds)}"
    if measured := sum(each.measured for each in estimated.runs):
        return f"{text}, at the pace of the {measured:,} units that are finished"
    models = [each.config.model for each in estimated.runs if is_local_spec(each.config.model)]
    local = None
    if models:
        local = parameters_of(models[0])
    if local is None:
        return text
    speed = device_speed(local)
    text = f"{duration(estimated.seconds / SPREAD)} to {duration(estimated.seconds * SPREAD)}"
    return (
        f"{text}; a rough estimate from the models' sizes and the "
        f"{2e-9 * local / speed.reading:,.0f} GFLOP/s that this machine's {speed.device} reaches; "
        "once units are finished, --dry-run uses the measured pace"
    )
