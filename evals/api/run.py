"""Run editors over a benchmark, or build one, from Python: the functions that the command line calls too."""

import asyncio
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from emend.evals.api.result import RunResult
from emend.evals.config.run_config import MODEL, RunConfig
from emend.evals.config.task_config import BuildConfig
from emend.evals.run.results import Progress
from emend.memory.errors import RunRefused
from emend.memory.registry import name_object, trust_typed

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.evals.build.card import Card


MADE = {"benchmark": ("cases", "metrics"), "editors": ("edit", "fingerprint"), "embedding": ("documents", "queries")}
"""What an instance of each kind has; the registries want factories, which only classes and functions are."""


def component_name(kind: str, component: Any) -> str:
    """Name under which this process loads a component: a name stays as it is, an object gets one.

    Args:
        kind: option that takes the component: benchmark, editors, embedding, model or retriever.
        component: a name, a class, a factory, or an instance.
    """
    if isinstance(component, str):
        return component
    if isinstance(component, type) or hasattr(component, "__name__"):
        return name_object(component.__name__, component)
    label = type(component).__name__
    if kind in MADE and all(hasattr(component, part) for part in MADE[kind]):
        return name_object(label, lambda *arguments, **settings: component)
    return name_object(label, component)


def editor_names(editors: Any) -> tuple[str, ...]:
    """Names of one editor or of several."""
    several = editors if isinstance(editors, Iterable) and not isinstance(editors, str) else [editors]
    return tuple(component_name("editors", editor) for editor in several)


def name_options(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a run with a name in place of each object, and a text in place of each path."""
    named = {option: value for option, value in options.items() if value is not None}
    for option in ("benchmark", "embedding", MODEL, "retriever"):
        if option in named:
            named[option] = component_name(option, named[option])
    for option in ("cache", "data", "perplexity_text", "prices"):
        if option in named:
            named[option] = str(named[option])
    if "editors" in named:
        named["editors"] = editor_names(named["editors"])
    for name in ("settings", "protocols", "ability"):
        if isinstance(named.get(name), str):
            named[name] = (named[name],)
    return named


_NAMES_LOCK = threading.Lock()
_names_taken: set[Path] = set()
"""Folders of runs of this process, which may not have begun yet."""


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
    """Passes progress on, and ends the run at the next report after `cancel`."""

    def __init__(self, receiver: Progress) -> None:
        self._receiver, self._is_cancelled = receiver, threading.Event()

    def cancel(self) -> None:
        """End the run; safe for other threads."""
        self._is_cancelled.set()

    def _check(self) -> None:
        if self._is_cancelled.is_set():
            raise RunRefused("the run was cancelled; what is finished is kept.")

    def start(self, total: int, skipped: int) -> None:
        """Pass on the beginning.

        Raises:
            RunRefused: the run was cancelled.
        """
        self._check()
        self._receiver.start(total, skipped)

    def plan(self, units: Mapping[str, float], tokens: Mapping[str, float]) -> None:
        """Pass on what is left."""
        self._receiver.plan(units, tokens)

    def probes(self, editor: str, share: float) -> None:
        """Pass on a share of a unit in progress."""
        self._receiver.probes(editor, share)

    def edited(self, editor: str, seconds: float, units: int) -> None:
        """Pass on the time that edits took."""
        self._receiver.edited(editor, seconds, units)

    def unit(self, editor: str, failed: bool = False, unscored: int = 0, tokens: int = 0) -> None:
        """Pass on that a unit has ended.

        Raises:
            RunRefused: the run was cancelled.
        """
        self._receiver.unit(editor, failed, unscored, tokens)
        self._check()

    def waiting(self, seconds: float, reason: str) -> None:
        """Pass on that a call waits.

        Raises:
            RunRefused: the run was cancelled.
        """
        self._receiver.waiting(seconds, reason)
        self._check()

    def close(self) -> None:
        """Pass on the end."""
        self._receiver.close()


def run(
    benchmark: Any,
    editors: Any,
    model: "str | BaseChatModel" = "tiny",
    *,
    out: str | Path | None = None,
    mirror: str | None = None,
    progress: bool | Progress = True,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Evaluate editors on a benchmark, or finish the run that the folder holds.

    Args:
        benchmark: name, class, factory or instance.
        editors: one or several names, classes or functions of an `EditorContext`.
        model: name, as in `emend run --model`, or a LangChain chat model.
        out: run folder; one that holds the same run is continued. A new folder under `runs` by default.
        mirror: address of object storage, such as `s3://BUCKET/FOLDER`, to which the files are uploaded meanwhile.
        progress: True shows a bar in a terminal or notebook and lines elsewhere; False shows nothing.
        options: as the options of `emend run`; `retriever` and `embedding` may be objects too.

    Raises:
        ValidationError: an option does not exist or has the wrong type.
        RunRefused: the folder holds another run, or is in use.
        TooManyFailures: more units failed than `fail_on_error` allows; what is finished is kept.
        EmendError: a name, setting or file is wrong.
    """
    named = name_options({"benchmark": benchmark, "editors": editors, "model": model} | dict(options))
    trust_typed(named)
    config = RunConfig.model_validate(named)
    return run_config(config, Path(out) if out is not None else new_folder(config.benchmark), progress, mirror)


async def arun(
    benchmark: Any,
    editors: Any,
    model: "str | BaseChatModel" = "tiny",
    *,
    out: str | Path | None = None,
    mirror: str | None = None,
    progress: bool | Progress = True,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Evaluate as `run` does, on a thread, while the event loop goes on.

    Cancelled, it ends the run after the units in progress; the same call with the same folder continues it.
    """
    receiver = CancellableProgress(_receiver(progress))
    call = asyncio.to_thread(run, benchmark, editors, model, out=out, mirror=mirror, progress=receiver, **options)
    task = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        receiver.cancel()
        await asyncio.wait([task])  # the folder is free when the caller goes on
        raise
    finally:
        if task.done() and not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report it


def run_config(
    config: RunConfig, folder: Path, progress: bool | Progress = True, mirror: str | None = None
) -> RunResult:
    """Run, or finish, what a configuration says."""
    from emend.evals.run.run import run as run_to_folder

    return RunResult(folder, run_to_folder(config, folder, _receiver(progress), mirror=mirror))


def _receiver(progress: bool | Progress) -> Progress:
    return progress if isinstance(progress, Progress) else _default_progress() if progress else Progress()


def new_folder(name: str) -> Path:
    """Path of a run folder that does not exist yet, each time another one: `runs/NAME-DATE-TIME`."""
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

    # A library may have imported ipykernel: a notebook is where a kernel runs.
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return NotebookBar() if hasattr(shell, "kernel") else progress_on()


def build(kind: str, source: str | Path, model: str = "", *, out: str | Path, **options: Any) -> "Card":
    """Build a benchmark, or finish the one that the folder holds, and return its card.

    The folder is a benchmark of `emend.run`.

    Args:
        kind: `akew`, `wikiupdate`, `questions`, `chains`, `docter`, `elken` or `fresh`.
        source: file, folder or benchmark to build from.
        model: the author, as in `emend build --model`; kinds `chains` and `elken` need none.
        out: the benchmark's folder.
        options: as the options of `emend build`: fields of `BuildConfig`.

    Raises:
        ValidationError: an option does not exist or has the wrong type.
        RunRefused: the folder holds another construction, or is in use.
        EmendError: a name, setting, source or file is wrong, or no item was kept.
    """
    from emend.evals.build.build import build as build_folder

    config = BuildConfig.model_validate({"source": str(source), "model": model} | options)
    trust_typed([model, config.judge, config.source, config.overrides])
    return build_folder(kind, config, Path(out))
