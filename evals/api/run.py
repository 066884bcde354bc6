"""Functions that run editors over a benchmark, or build a benchmark, from Python; the command line
calls them too.
"""

import asyncio
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from emend.evals.api.result import RunResult
from emend.evals.config.named_options import from_options
from emend.evals.config.overrides import MODEL
from emend.evals.config.run_config import RunConfig
from emend.evals.jobs.progress import Progress
from emend.memory.errors import BadSettings, RunRefused
from emend.memory.registry import name_object, trust_typed

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


# Methods by which an instance of each kind is recognised; instances are wrapped into factories,
# because registries accept only classes and functions.
MADE = {
    "benchmark": ("cases", "metrics"),
    "editors": ("edit", "fingerprint"),
    "embedding": ("documents", "queries"),
}


def component_name(kind: str, component: Any) -> str:
    """Return the name under which this process loads a component; an object is registered under a
    new name.

    Args:
        kind: option to which the component is passed: benchmark, editors, embedding, model or
            retriever.
        component: a name, a class, a factory, or an instance; a file may be a path.

    Raises:
        BadSettings: the benchmark is rows in memory, which no run folder could name.
    """
    if isinstance(component, (str, PurePath)):
        return str(component)
    if kind == "benchmark" and (
        isinstance(component, (list, dict)) or hasattr(component, "to_csv")
    ):
        raise BadSettings(
            f"a {type(component).__name__} is not a benchmark: save the rows as a file of facts, "
            "as with DataFrame.to_csv('facts.csv', index=False), and name the file."
        )
    if isinstance(component, type) or hasattr(component, "__name__"):
        return name_object(component.__name__, component)
    label = type(component).__name__
    if kind in MADE and all(hasattr(component, part) for part in MADE[kind]):
        return name_object(label, lambda *arguments, **settings: component)
    return name_object(label, component)


def editor_names(editors: Any) -> tuple[str, ...]:
    """Return the names of one or several editors."""
    if isinstance(editors, Iterable) and not isinstance(editors, str):
        several = editors
    else:
        several = [editors]
    return tuple(component_name("editors", editor) for editor in several)


def name_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a run with names in place of objects, and strings in place of paths."""
    named = {option: value for option, value in options.items() if value is not None}
    for option in ("benchmark", "embedding", MODEL, "retriever"):
        if option in named:
            named[option] = component_name(option, named[option])
    for option in ("cache", "corrections", "data", "perplexity_text", "prices"):
        if option in named:
            named[option] = str(named[option])
    if "editors" in named:
        named["editors"] = editor_names(named["editors"])
    for name in ("settings", "protocols", "ability"):
        if isinstance(named.get(name), str):
            named[name] = (named[name],)
    return named


_NAMES_LOCK = threading.Lock()
# Run folders reserved by this process; they may not exist yet.
_names_taken: set[Path] = set()


class RunOptions(TypedDict, total=False):
    """Options of a run besides benchmark, editors and model; see `RunConfig` for each."""

    settings: str | Sequence[str]
    mode: str
    reevaluate_at: str
    limit: int
    benchmark_options: Mapping[str, str]
    corrections: str | Path
    data: str | Path
    overrides: Mapping[str, Mapping[str, Any]]
    retriever: Any
    embedding: Any
    prompt_template: str
    prompts: str
    protocols: str | Sequence[str]
    form: str
    count_only: str
    preset: str
    seed: int
    repeats: int
    concurrency: int
    workers: str
    gpus_per_worker: float
    fail_on_error: str
    perplexity_text: str | Path
    ability: str | Sequence[str]
    max_cost: float
    max_calls: int
    prices: str | Path
    rpm: float
    tpm: float
    cache: str | Path
    memory_server: str
    share: str


class CancellableProgress(Progress):
    """Progress receiver that forwards all reports and ends the run at the next one after
    `cancel`.
    """

    def __init__(self, receiver: Progress) -> None:
        self._receiver, self._is_cancelled = receiver, threading.Event()

    def cancel(self) -> None:
        """Cancel the run; may be called from other threads."""
        self._is_cancelled.set()

    def _check(self) -> None:
        if self._is_cancelled.is_set():
            raise RunRefused("the run was cancelled; what is finished is kept.")

    def start(self, total: int, skipped: int) -> None:
        """Forward the start of the run.

        Raises:
            RunRefused: the run was cancelled.
        """
        self._check()
        self._receiver.start(total, skipped)

    def plan(self, units: Mapping[str, float], tokens: Mapping[str, float]) -> None:
        """Forward the numbers of units and tokens left."""
        self._receiver.plan(units, tokens)

    def probes(self, editor: str, share: float) -> None:
        """Forward the progress within a unit."""
        self._receiver.probes(editor, share)

    def prepared(self, row: str, seconds: float, units: int) -> None:
        """Forward the time that applying edits took."""
        self._receiver.prepared(row, seconds, units)

    def unit(self, editor: str, failed: bool = False, unscored: int = 0, tokens: int = 0) -> None:
        """Forward the end of a unit.

        Raises:
            RunRefused: the run was cancelled.
        """
        self._receiver.unit(editor, failed, unscored, tokens)
        self._check()

    def waiting(self, seconds: float, reason: str) -> None:
        """Forward that a call is waiting.

        Raises:
            RunRefused: the run was cancelled.
        """
        self._receiver.waiting(seconds, reason)
        self._check()

    def close(self) -> None:
        """Forward the end of the run."""
        self._receiver.close()


def run(
    benchmark: Any,
    editors: Any = (),
    model: "str | BaseChatModel" = "tiny",
    *,
    out: str | Path | None = None,
    progress: bool | Progress = True,
    require: str | Sequence[str] = (),
    **options: Unpack[RunOptions],
) -> RunResult:
    """Evaluate editors on a benchmark, or resume the run in the given folder.

    Args:
        benchmark: name, class, factory or instance of the benchmark.
        editors: one or several names, classes, or functions that take an `EditorContext`.
        model: name, as in `emend run --model`, or a LangChain chat model.
        out: run folder; an interrupted run in it is resumed. By default a new folder under `runs`.
        progress: True shows a bar in a terminal or notebook and lines elsewhere; False shows
            nothing.
        require: thresholds such as `rag:efficacy>=0.9`; their names are checked before the first
            call, and `check` of the result compares the values.
        options: the options of `emend run`; `retriever` and `embedding` may be objects too.

    Raises:
        BadSettings: an option does not exist or has the wrong type.
        RunRefused: the folder holds another run, or is in use.
        TooManyFailures: more units failed than `fail_on_error` allows; finished units are kept.
        EmendError: a name, setting or file is wrong.
    """
    named = name_options(
        {"benchmark": benchmark, "editors": editors, "model": model} | dict(options)
    )
    trust_typed(named)
    config = from_options(RunConfig, named, "out", "progress", "require")
    folder = Path(out) if out is not None else new_folder(config.benchmark)
    return run_config(config, folder, progress, (require,) if isinstance(require, str) else require)


async def arun(
    benchmark: Any,
    editors: Any = (),
    model: "str | BaseChatModel" = "tiny",
    *,
    out: str | Path | None = None,
    progress: bool | Progress = True,
    require: str | Sequence[str] = (),
    **options: Unpack[RunOptions],
) -> RunResult:
    """Run `run` in a thread without blocking the event loop.

    If cancelled, the run ends after the units in progress; the same call with the same folder
    resumes it.
    """
    receiver = CancellableProgress(_receiver(progress))
    call = asyncio.to_thread(
        run, benchmark, editors, model, out=out, progress=receiver, require=require, **options
    )
    task = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        receiver.cancel()
        await asyncio.wait([task])  # so that the folder is free when the caller continues
        raise
    finally:
        if task.done() and not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report it


def run_config(
    config: RunConfig,
    folder: Path,
    progress: bool | Progress = True,
    require: Sequence[str] = (),
) -> RunResult:
    """Check the names in thresholds, then start or resume the run of a configuration."""
    from emend.evals.evaluate.run import run as run_to_folder

    summary = run_to_folder(config, folder, _receiver(progress), require=require)
    return RunResult(folder, summary, tuple(require))


def _receiver(progress: bool | Progress) -> Progress:
    return (
        progress
        if isinstance(progress, Progress)
        else _default_progress()
        if progress
        else Progress()
    )


def new_folder(name: str) -> Path:
    """Return the path of a run folder that does not exist yet, a new one for each call:
    `runs/NAME-DATE-TIME`.
    """
    plain = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)
    stem = f"{plain}-{datetime.now():%Y%m%d-%H%M%S}"
    folder, count = Path("runs") / stem, 2
    with _NAMES_LOCK:
        while folder.exists() or folder.absolute() in _names_taken:
            folder, count = Path("runs") / f"{stem}-{count}", count + 1
        _names_taken.add(folder.absolute())
    return folder


def _default_progress() -> Progress:
    from emend.evals.show.report.progress import NotebookBar, progress_on

    # A running kernel means a notebook; an imported ipykernel does not, as libraries import it too.
    if "IPython" in sys.modules:
        shell = sys.modules["IPython"].get_ipython()
    else:
        shell = None
    if hasattr(shell, "kernel"):
        return NotebookBar()
    return progress_on()
