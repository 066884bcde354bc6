"""Table and lines of what is left of a recipe, and what it is expected to need."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from emend.editors.device_speed import device_speed
from emend.evals.config.run_config import MODEL
from emend.evals.results.estimates.dry_run import COUNTS, is_local
from emend.evals.results.estimates.local_model import SPREAD, parameters_of
from emend.evals.results.papers.tables import gpu_gigabytes
from emend.evals.results.reproduce.estimate import RecipeEstimate
from emend.evals.results.reproduce.execute import title
from emend.evals.results.reproduce.needs import METHOD
from emend.evals.show.report.dry_run import amounts
from emend.evals.show.report.progress import duration
from emend.evals.show.report.tables.layout import frame
from emend.memory.escape import one_line


def render_estimate(estimated: RecipeEstimate) -> RenderableType:
    """A line for each run with what is left of it, and the sums."""
    table = frame("run", "units", "calls", "tokens in", "out")
    for each in estimated.runs:
        counts = [f"{each.need.total(name):,}" for name in COUNTS] if each.need and each.left else ["", "", ""]
        table.add(title(each.config), "refused" if each.error else f"{each.left:,}" if each.left else "done", *counts)
    return Group(*[table] * bool(estimated.runs), *(Text(one_line(line)) for line in estimate_lines(estimated)))


def estimate_lines(estimated: RecipeEstimate) -> Iterator[str]:
    """Format the sums of an estimate, what is made before the runs, and why runs cannot be run."""
    needs = [each.need for each in estimated.runs if each.need]
    units, costs = sum(each.left for each in estimated.runs), [need.cost for need in needs if need.cost is not None]
    price = f"; {sum(costs):,.2f} {needs[0].currency}" if costs else "; no price: give --prices FILE"
    counts = amounts(*(sum(need.total(name) for need in needs) for name in COUNTS))
    number = "1 run" if len(estimated.runs) == 1 else f"{len(estimated.runs)} runs"
    yield f"{number}, {units:,} units to do, {counts}{price if estimated.is_paid else ''}"
    for file, count in estimated.documents.items():
        model = estimated.extract[file].get(MODEL)
        how = f"{model}, a call each or more" if model else estimated.extract[file][METHOD]
        yield f"before them: triplets of {count:,} documents into {file} by {how}, as far as they are not there"
    if sizes := [each.gigabytes for each in estimated.runs if each.left and each.gigabytes is not None]:
        fit = "more than" if max(sizes) > gpu_gigabytes() else "within"
        yield f"GPU memory: up to about {max(sizes):.0f} GB, {fit} the {gpu_gigabytes():.0f} GB of one GPU"
    if units:
        yield f"time: {_time_text(estimated)}"
    yield from (f"no run gives {count:,} figures: {reason}" for reason, count in estimated.left_out.items())
    firsts = {each.error: title(each.config) for each in reversed(estimated.runs) if each.error}
    yield from (f"cannot be run: {name}: {error}" for error, name in firsts.items())


def _time_text(estimated: RecipeEstimate) -> str:
    """Format the time of what is left, and what it rests on."""
    if estimated.seconds is None:
        return "unknown until some units of each model are finished; the same command with --dry-run says it then"
    text = f"about {duration(estimated.seconds)}"
    if measured := sum(each.measured for each in estimated.runs):
        return f"{text}, at the pace of the {measured:,} units that are finished"
    local = next((parameters_of(each.config.model) for each in estimated.runs if is_local(each.config)), None)
    if local is None:
        return text
    speed = device_speed(local)
    text = f"{duration(estimated.seconds / SPREAD)} to {duration(estimated.seconds * SPREAD)}"
    return (
        f"{text}; a rough estimate, of the models' sizes and the {2e-9 * local / speed.reading:,.0f} GFLOP/s that this "
        f"machine's {speed.device} reaches; --dry-run says the measured pace once units are finished"
    )
