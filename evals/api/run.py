"""Run editors over a benchmark from Python: the function that `emend run` calls too."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from emend.evals.api.objects import name_options
from emend.evals.api.result import RunResult
from emend.evals.log.config import RunConfig
from emend.evals.runner.results import Progress

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class RunOptions(TypedDict, total=False):
    """Options of a run besides benchmark, editors and model; `RunConfig` describes each."""

    settings: str | Sequence[str]
    mode: str
    reevaluate_at: str
    limit: int
    benchmark_options: Mapping[str, str]
    data: str | Path
    overrides: Mapping[str, Mapping[str, Any]]
    retriever: Any
    embedding: Any
    prompt_template: str
    preset: str
    seed: int
    repeats: int
    concurrency: int
    workers: str
    gpus_per_worker: float
    fail_on_error: str
    perplexity_text: str | Path
    max_cost: float
    max_calls: int
    prices: str | Path
    rpm: float
    tpm: float
    cache: str | Path
    memory_server: str
    share: str


def run(
    benchmark: Any,
    editors: Any,
    model: "str | BaseChatModel" = "tiny",
    *,
    out: str | Path | None = None,
    progress: bool | Progress = True,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Evaluate editors on a benchmark, or finish the run that the folder holds.

    Args:
        benchmark: name, class, factory or instance.
        editors: one or several names, classes or functions of an `EditorContext`.
        model: name, as in `emend run --model`, or a LangChain chat model.
        out: run folder; one that holds the same run is continued. A new folder under `runs` by default.
        progress: True shows a bar in a terminal or notebook and lines elsewhere; False shows nothing.
        options: as the options of `emend run`; `retriever` and `embedding` may be objects too.

    Raises:
        ValidationError: an option does not exist or has the wrong type.
        RunRefused: the folder holds another run, or is in use.
        TooManyFailures: more units failed than `fail_on_error` allows; what is finished is kept.
        EmendError: a name, setting or file is wrong.
    """
    named = name_options({"benchmark": benchmark, "editors": editors, "model": model} | dict(options))
    config = RunConfig.model_validate(named)
    return run_config(config, Path(out) if out is not None else new_folder(config.benchmark), progress)


async def arun(
    benchmark: Any,
    editors: Any,
    model: "str | BaseChatModel" = "tiny",
    *,
    out: str | Path | None = None,
    progress: bool | Progress = True,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Evaluate as `run` does, on a thread, while the event loop goes on."""
    return await asyncio.to_thread(run, benchmark, editors, model, out=out, progress=progress, **options)


def run_config(
    config: RunConfig, folder: Path, progress: bool | Progress = True, mirror: str | None = None
) -> RunResult:
    """Run, or finish, what a configuration says."""
    from emend.evals.runner.run import run as run_to_folder

    receiver = progress if isinstance(progress, Progress) else _default_progress() if progress else Progress()
    return RunResult(folder, run_to_folder(config, folder, receiver, mirror=mirror))


def new_folder(name: str) -> Path:
    """Path of a run folder that does not exist yet: `runs/NAME-DATE-TIME`."""
    plain = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)
    stem = f"{plain}-{datetime.now():%Y%m%d-%H%M%S}"
    folder, count = Path("runs") / stem, 2
    while folder.exists():
        folder, count = Path("runs") / f"{stem}-{count}", count + 1
    return folder


def _default_progress() -> Progress:
    from emend.evals.report.progress import NotebookBar, progress_on

    return NotebookBar() if "ipykernel" in sys.modules else progress_on()
