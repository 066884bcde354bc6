"""Adds judgements to a finished run, as a scoring of its own; the records and other scorings stay as they are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.agents.judging.base import Item
from emend.agents.llm import load_model
from emend.evals.judges.lookup import judge_of
from emend.evals.judges.panel import Call, Panel, ask_all, calls_of
from emend.evals.judges.scoring_file import ScoringFile
from emend.evals.judges.store import (
    FOLDER,
    Scoring,
    find_scoring,
    plan,
    read_calibration,
    read_judgements,
    scoring_id,
    scorings_of,
)
from emend.evals.log.manifest import Manifest, now, versions
from emend.evals.runner.components import model_fingerprint
from emend.evals.runner.locking import owned_folder
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.agents.providers.policy import CallPolicy
    from emend.graphs.judges.graph import Judge

AWAITED = ("tendency", "agreement", "recall", "coherence")
"""Judged without being named, where a run has something for them; the others are asked for by name."""


class ScoreSummary(FrozenModel):
    """What became of a scoring: items by kind, judgements from before and of now, calls that failed."""

    scoring: Scoring
    items: dict[str, int]
    before: int
    judged: int
    unscored: int
    """Of the judgements of now, those without a number."""
    failed: int
    why: str = ""
    """The first failure."""
    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0


def score_run(
    folder: Path,
    panel: Panel,
    kinds: Sequence[str] = (),
    *,
    models: "Mapping[str, BaseChatModel] | None" = None,
    policy: "CallPolicy | None" = None,
    settings: Mapping[str, Any] | None = None,
    force: bool = False,
    concurrency: int = 4,
) -> ScoreSummary:
    """Judge what a run's records hold, or go on with it; the same panel finds the scoring that it began.

    Args:
        folder: a run folder.
        panel: who judges and how.
        kinds: names of judges (`emend list judges`); those of `AWAITED` that the run has something for by default.
        models: take the place of the models that the panel names.
        policy: how providers are asked.
        settings: of loading the judges' models.
        force: a judge may be the model under test.
        concurrency: calls at the same time.

    Raises:
        BadSettings: an unknown judge, one that is the model under test, or nothing to judge.
        RunRefused: the folder cannot be written, or another process scores it.
        TooManyFailures: too many calls failed; what was judged is kept.
        ModelError: a judge cannot be asked at all; what was judged is kept.
    """
    manifest = Manifest.read(folder)
    if concurrency < 1:
        raise BadSettings(f"concurrency is {concurrency}: it must be 1 or more.")
    same = [spec for spec in panel.judges if _bare(spec) == _bare(manifest.config.model)]
    _refuse_self(same, manifest, force)
    judges: dict[str, Judge] = {name: judge_of(name) for name in dict.fromkeys(kinds or AWAITED)}
    items = _items(folder, judges, bool(kinds))
    judges = {name: judge for name, judge in judges.items() if name in items}
    given = dict(models or {})
    loaded = {spec: given.get(spec) or load_model(spec, policy, **(settings or {})) for spec in panel.judges}
    scoring = _scoring(panel, judges, loaded, manifest, force, bool(same))
    with owned_folder(folder / FOLDER):
        if not any(one.id == scoring.id for one in scorings_of(folder)):
            scoring.write(folder)
        return _judge(folder, find_scoring(folder, scoring.id) or scoring, judges, items, loaded, concurrency)


def _items(folder: Path, judges: "Mapping[str, Judge]", named: bool) -> dict[str, list[Item]]:
    """By kind, what there is to judge, each once.

    Raises:
        BadSettings: nothing, or nothing for a judge that was named.
    """
    found: dict[str, dict[str, Item]] = {}
    for _, wanted in plan(folder, judges):
        for name, item in wanted.items():
            if isinstance(item, Item):
                found.setdefault(name, {}).setdefault(item.id, item)
    lacking = [name for name in judges if name not in found]
    if lacking and (named or not found):
        hint = "" if named else " Name a judge, for example --kind equivalence; see: emend list judges."
        raise BadSettings(f"the run in '{folder}' has nothing to judge for {', '.join(lacking)}.{hint}")
    return {name: list(own.values()) for name, own in found.items()}


def _scoring(
    panel: Panel,
    judges: "Mapping[str, Judge]",
    loaded: "Mapping[str, BaseChatModel]",
    run: Manifest,
    force: bool,
    of_that_name: bool,
) -> Scoring:
    fingerprints = {spec: model_fingerprint(spec, model) for spec, model in loaded.items()}
    tested = run.model.get("fingerprint")
    same = [spec for spec, told in fingerprints.items() if told["fingerprint"] == tested]
    _refuse_self(same, run, force)
    prompts = {name: judge.role.prompt_id for name, judge in judges.items()}
    known = {name: read_calibration(panel.judges, name) for name in judges}
    return Scoring(
        id=scoring_id(panel, tuple(judges), prompts, fingerprints),
        panel=panel,
        kinds=tuple(judges),
        prompts=prompts,
        fingerprints=fingerprints,
        forced=bool(same) or of_that_name,
        calibration={name: told for name, told in known.items() if told},
        versions=versions(),
        started=now(),
    )


def _judge(
    folder: Path,
    scoring: Scoring,
    judges: "Mapping[str, Judge]",
    items: Mapping[str, Sequence[Item]],
    models: "Mapping[str, BaseChatModel]",
    concurrency: int,
) -> ScoreSummary:
    done = {told.key for told in read_judgements(folder, scoring)}
    told: Counter[str] = Counter()
    calls: list[Call] = [
        call for name, judge in judges.items() for call in calls_of(scoring.panel, judge, items[name], done)
    ]
    with ScoringFile(folder, scoring) as file:
        tally = ask_all(iter(calls), models, file.add, scoring.panel.retries, concurrency)
    for one in read_judgements(folder, scoring):
        if one.key not in done:
            told.update(judged=1, unscored=int(bool(one.problem)), calls=one.usage.calls)
            told.update(input_tokens=one.usage.input_tokens, output_tokens=one.usage.output_tokens)
    return ScoreSummary(
        scoring=scoring,
        items={name: len(own) for name, own in items.items()},
        before=len(done),
        failed=tally.failed,
        why=tally.first,
        **{name: told[name] for name in ("judged", "unscored", "calls", "input_tokens", "output_tokens")},
    )


def _refuse_self(same: Sequence[str], run: Manifest, force: bool) -> None:
    if same and not force:
        raise BadSettings(
            f"judge '{same[0]}' is the model under test ('{run.config.model}'): name another one, or give --force and "
            "say so wherever you show the numbers."
        )


def _bare(spec: str) -> str:
    """The name without an address behind the @."""
    return spec.partition("@")[0]
