"""Adds judgements to a finished run, as a scoring of its own; the records and other scorings stay as they are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.agents.judging.base import Item
from emend.evals.judging.panel import JudgeCall, Panel, ask_all, load_judge, make_calls
from emend.evals.judging.store import (
    FOLDER,
    OwnJudge,
    Scoring,
    ScoringLog,
    list_scorings,
    plan,
    read_calibration,
    read_judgements,
    scoring_id,
    start_after,
    write_own_verdicts,
)
from emend.evals.log.folder import owned_folder
from emend.evals.log.manifest import Manifest, versions
from emend.evals.run.resources import model_fingerprint
from emend.graphs.registry import JUDGES
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.graphs.judges.graph import Judge

DEFAULT_KINDS = ("tendency", "agreement", "recall", "coherence")
"""Judges that need not be named, where a run has something for them; the others are named by the user."""


class ScoreSummary(FrozenModel):
    """Result of a scoring: items by kind, judgements from before and of now, calls that failed."""

    scoring: Scoring
    items: dict[str, int]
    before: int
    judged: int
    unscored: int
    """Judgements of now without a number."""
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
    models: "Mapping[str, BaseChatModel]",
    force: bool = False,
    concurrency: int = 4,
) -> ScoreSummary:
    """Judge what a run's records hold; the same panel goes on with the scoring that it started.

    Args:
        folder: a run folder.
        panel: who judges and how.
        kinds: names of judges (`emend list judges`); by default those of `DEFAULT_KINDS` that the run has items for.
        models: by the names of the panel.
        force: allow a judge that is the model under test.
        concurrency: calls at the same time.

    Raises:
        BadSettings: an unknown judge, one that is the model under test, or nothing to judge.
        RunRefused: the folder cannot be written, or another process scores it.
        TooManyFailures: too many calls failed; what was judged is kept.
        ModelError: a judge cannot be called at all; what was judged is kept.
    """
    manifest = Manifest.read(folder)
    if concurrency < 1:
        raise BadSettings(f"concurrency is {concurrency}: it must be 1 or more.")
    fingerprints = {spec: model_fingerprint(spec, models[spec]) for spec in panel.judges}
    forced = _includes_model_under_test(fingerprints, manifest, force)
    judges: dict[str, Judge] = {name: load_judge(name) for name in dict.fromkeys(kinds or DEFAULT_KINDS)}
    items = _items(folder, judges, bool(kinds))
    judges = {name: judge for name, judge in judges.items() if name in items}
    with owned_folder(folder / FOLDER, links=False):
        earlier = list_scorings(folder)
        scoring = _scoring(panel, judges, fingerprints, forced, start_after(earlier))
        stored = next((existing for existing in earlier if existing.id == scoring.id), None)
        if stored and (stored.panel, {*stored.kinds}, stored.prompts) != (panel, {*judges}, scoring.prompts):
            raise BadData(f"scoring '{scoring.id}' of '{folder}' is of other judges: restore its file, or remove it.")
        if stored is None or stored.own_judges != scoring.own_judges:
            scoring.write(folder)
        return _judge(folder, stored or scoring, judges, items, models, concurrency)


def _items(folder: Path, judges: "Mapping[str, Judge]", named: bool) -> dict[str, list[Item]]:
    """List what there is to judge, by kind, each item once.

    Raises:
        BadSettings: nothing, or nothing for a judge that was named.
    """
    by_kind: dict[str, dict[str, Item]] = {}
    for _, items in plan(folder, judges):
        for name, item in items.items():
            if isinstance(item, Item):
                by_kind.setdefault(name, {}).setdefault(item.id, item)
    lacking = [name for name in judges if name not in by_kind]
    if lacking and (named or not by_kind):
        hint = "" if named else " Name a judge, for example --kind equivalence; see: emend list judges."
        raise BadSettings(f"the run in '{folder}' has nothing to judge for {', '.join(lacking)}.{hint}")
    return {name: list(items.values()) for name, items in by_kind.items()}


def _scoring(
    panel: Panel, judges: "Mapping[str, Judge]", fingerprints: dict[str, Any], forced: bool, started: datetime
) -> Scoring:
    prompts = {name: judge.role.prompt_id for name, judge in judges.items()}
    known = {name: read_calibration(panel.judges, name) for name in judges}
    return Scoring(
        id=scoring_id(panel, tuple(judges), prompts, fingerprints),
        panel=panel,
        kinds=tuple(judges),
        prompts=prompts,
        fingerprints=fingerprints,
        forced=forced,
        calibration={name: calibration for name, calibration in known.items() if calibration},
        versions=versions(),
        started=started,
        own_judges={
            name: OwnJudge(outputs=judge.role.outputs, scale=judge.role.scale)
            for name, judge in judges.items()
            if not JUDGES.installed(name)
        },
    )


def _judge(
    folder: Path,
    scoring: Scoring,
    judges: "Mapping[str, Judge]",
    items: Mapping[str, Sequence[Item]],
    models: "Mapping[str, BaseChatModel]",
    concurrency: int,
) -> ScoreSummary:
    panel, judged = scoring.panel, {judgement.key for judgement in read_judgements(folder, scoring)}
    calls: list[JudgeCall] = [
        call for name, judge in judges.items() for call in make_calls(panel, judge, items[name], judged)
    ]
    try:
        with ScoringLog(folder, scoring) as log:
            counts = ask_all(iter(calls), models, log.add, panel.retries, concurrency)
    finally:
        write_own_verdicts(folder, scoring, judges)
    totals: Counter[str] = Counter()
    for judgement in read_judgements(folder, scoring):
        if judgement.key not in judged:
            totals.update(judged=1, unscored=int(bool(judgement.problem)), calls=judgement.usage.calls)
            totals.update(input_tokens=judgement.usage.input_tokens, output_tokens=judgement.usage.output_tokens)
    return ScoreSummary(
        scoring=scoring,
        items={name: len(items_of_kind) for name, items_of_kind in items.items()},
        before=len(judged),
        failed=counts.failed,
        why=counts.first_failure,
        **{name: totals[name] for name in ("judged", "unscored", "calls", "input_tokens", "output_tokens")},
    )


def _includes_model_under_test(fingerprints: Mapping[str, Any], run: Manifest, force: bool) -> bool:
    for spec, judge in fingerprints.items():
        same_name = spec.partition("@")[0] == run.config.model.partition("@")[0]
        if same_name or judge["fingerprint"] == run.model.get("fingerprint"):
            if force:
                return True
            raise BadSettings(
                f"judge '{spec}' is the model under test ('{run.config.model}'): name another one, or give --force and "
                "say so wherever you show the numbers."
            )
    return False
