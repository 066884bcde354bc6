"""What edits do to a text that has nothing to do with them: how surprising it is before and while they stand.

Each editor that changes weights is measured on the same texts, the model's own prompt empty. `costs.jsonl` keeps the
nats of every text, so that a report can say how sure a perplexity is.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from emend.agents.scoring import ScoringModel
from emend.evals.log.records import COSTS, PERPLEXITY, PERPLEXITY_BEFORE, RunFiles, read_lines
from emend.evals.runner.components import Parts
from emend.evals.runner.units import Pass
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadData, EmendError, MissingData, RunRefused

SHIPPED = Path(__file__).parent / "held_out.toml"
NONE = "none"


@runtime_checkable
class Withholding(Protocol):
    """A benchmark with texts of its own that no edit touches."""

    def held_out(self, seed: int = 0) -> Sequence[str]:
        """The texts, each to be read by itself."""
        ...


class Surprise(FrozenModel):
    """Nats and tokens of each held-out text under one state of the model, or why there are none."""

    nats: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()
    unscored: str = ""


def held_out_texts(named: str | None, benchmark: Any, seed: int) -> tuple[str, ...]:
    """The texts of a file, one a line; without a name the benchmark's own, or else plain English; `none` for none.

    Raises:
        MissingData: there is no such file.
        BadData: it has no text.
    """
    if named == NONE:
        return ()
    if named is None and isinstance(benchmark, Withholding):
        return tuple(benchmark.held_out(seed))
    if named is None:
        return tuple(tomllib.loads(SHIPPED.read_text(encoding="utf-8"))["texts"])
    file = Path(named).expanduser()
    if not file.is_file():
        raise MissingData(f"no file '{file}' of held-out texts: name one with a text a line, or {NONE}.")
    try:
        told = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadData(f"'{file}' cannot be read: {error}. Write held-out texts in UTF-8, one a line.") from error
    texts = tuple(line.strip() for line in told.splitlines() if line.strip())
    if not texts:
        raise BadData(f"'{file}' has no text: write one a line, or name {NONE}.")
    return texts


def surprise(model: Any, texts: Sequence[str]) -> Surprise:
    """How surprising each text is to a model, or why that cannot be said."""
    if not isinstance(model, ScoringModel):
        return Surprise(unscored=f"{type(model).__name__} tells no probabilities")
    try:
        scores = model.score("", texts)
    except EmendError as error:
        return Surprise(unscored=str(error))
    if not scores.target_tokens:
        return Surprise(unscored=f"{type(model).__name__} tells no numbers of tokens")
    nats = tuple(-min(value, 0.0) for value in scores.log_probs)
    if not all(value < float("inf") for value in nats):  # nor a number that is none
        return Surprise(unscored="the edited model's probabilities are no numbers")
    return Surprise(nats=nats, tokens=scores.target_tokens)


class Collateral:
    """Measures and keeps it for the editors of one run that change weights.

    Args:
        parts: of the run.
        files: of the run folder.

    Raises:
        MissingData, BadData: the texts that the configuration names cannot be had.
        RunRefused: the folder was measured on others.
    """

    def __init__(self, parts: Parts, files: RunFiles) -> None:
        self._model, self._files = parts.model, files
        self._texts = held_out_texts(parts.config.held_out, parts.benchmark, parts.config.seed)
        self._name = content_id("held out", self._texts)
        self._measured = self._there(files.folder)

    def before(self, one: Pass) -> None:
        """The unedited model, once for all editors of this process; called while no edit stands."""
        if self._texts and one.editor.needs_weights and not self._measured:
            self._measured = True
            self._keep({"act": PERPLEXITY_BEFORE, "texts": self._name})

    def after(self, one: Pass, edits: Sequence[Any], standing: int) -> None:
        """With these edits just put there, `standing` of them and earlier ones in all."""
        if self._texts and one.editor.needs_weights and edits:
            told = {"editor": one.name, "setting": one.setting, "mode": one.mode, "repeat": one.repeat}
            edited = content_id("edited", [edit.id for edit in edits])
            self._keep({"act": PERPLEXITY, **told, "edits": edited, "standing": standing})

    def _there(self, folder: Path) -> bool:
        """Whether an earlier process has measured the unedited model."""
        then = [line["texts"] for line in read_lines(folder, COSTS) if line.get("act") == PERPLEXITY_BEFORE]
        if self._texts and any(name != self._name for name in then):
            raise RunRefused(
                f"the held-out texts of the run in '{folder}' were others ({then[0]}, now {self._name}): "
                "give the same --held-out, or another --out folder."
            )
        return bool(then)

    def _keep(self, told: dict[str, Any]) -> None:
        self._files.cost(told | surprise(self._model, self._texts).model_dump())
