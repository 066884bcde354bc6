"""Start of a scoring: loads its judges and items, and creates or continues the scoring."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.agents.judging.base import Item
from emend.agents.providers.policy import CallPolicy
from emend.evals.evaluate.resources import model_fingerprint
from emend.evals.judging.calibration.stored import read_calibration
from emend.evals.judging.disputes import EquivalenceScorer
from emend.evals.judging.items import judged_items
from emend.evals.judging.panel import Panel, load_judge
from emend.evals.judging.scorings.choice import ItemChoice
from emend.evals.judging.scorings.job import JudgeSetup
from emend.evals.judging.scorings.manifest import JudgeCalling, OwnJudge, Scoring, scoring_id
from emend.evals.judging.scorings.search import list_scorings, start_after
from emend.evals.log.manifest import Manifest, versions
from emend.graphs.registry import JUDGES
from emend.memory.errors import BadData, BadSettings
from emend.memory.registry import nearest

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.graphs.judges.graph import Judge

# Judges used by default if a run has items for them; other judges must be named.
DEFAULT_KINDS = ("tendency", "agreement", "recall", "coherence")


@dataclass(frozen=True)
class PanelSetup:
    """Panel with loaded models.

    Attributes:
        panel: models, repeats and orders of the judging.
        models: models by their names in the panel.
        calling: settings of the calls.
        policy: call policy of the models.
        scorer: scorer that disputes acceptances which it finds impossible.
    """

    panel: Panel
    models: "Mapping[str, BaseChatModel]"
    calling: JudgeCalling
    policy: CallPolicy
    scorer: EquivalenceScorer | None = None

    def fingerprints(self) -> dict[str, Any]:
        """Return the fingerprint of each judge's model."""
        names = (*self.panel.judges, *self.panel.second)
        return {spec: model_fingerprint(spec, self.models[spec]) for spec in names}


def start_scoring(
    run: Path, panel_setup: PanelSetup, kinds: Sequence[str], *, force: bool
) -> JudgeSetup:
    """Find the items for a panel, and the scoring that the panel started before, or create a
    scoring.

    Args:
        run: a run folder, locked against other processes that judge the run.
        panel_setup: the panel.
        kinds: names of judges; empty uses the kinds of `DEFAULT_KINDS` for which the run has items.
        force: allow a judge that is the model under test.

    Raises:
        BadSettings: an unknown judge, a judge that is the model under test, or nothing to judge.
        BadData: the folder is not a run, or a scoring cannot be read.
    """
    manifest = Manifest.read(run)
    panel = panel_setup.panel
    fingerprints = panel_setup.fingerprints()
    forced = _includes_model_under_test(fingerprints, manifest, force)
    named = dict.fromkeys(kinds or DEFAULT_KINDS)
    judges: dict[str, Judge] = {name: panel.load(name) for name in named}
    choice = panel_setup.calling.choice
    _check_editors(choice.editors, manifest.config.editors)
    items = _items(run, judges, bool(kinds), choice)
    judges = {name: judge for name, judge in judges.items() if name in items}
    panel_setup.policy.limit_calls(panel_setup.calling.concurrency)
    scoring = _started_or_continued(run, panel, judges, fingerprints, forced)
    return JudgeSetup(
        run=run,
        scoring=scoring.model_copy(update={"calling": panel_setup.calling}),
        judges=judges,
        items=items,
        models=panel_setup.models,
        policy=panel_setup.policy,
        scorer=panel_setup.scorer,
    )


def check_choice(run: Path, kinds: Sequence[str], editors: Sequence[str]) -> None:
    """Check the run, the kinds and the editors that a user named, before a model is loaded.

    Raises:
        BadSettings: a judge is unknown, or the run has no such editor.
        BadData: the folder is not a run.
    """
    manifest = Manifest.read(run)
    for kind in kinds:
        load_judge(kind)
    _check_editors(editors, manifest.config.editors)


def _started_or_continued(
    folder: Path,
    panel: Panel,
    judges: "Mapping[str, Judge]",
    fingerprints: dict[str, Any],
    forced: bool,
) -> Scoring:
    """Return the scoring that the same panel started before, or a new one."""
    earlier = list_scorings(folder)
    scoring = _scoring(panel, judges, fingerprints, forced, start_after(earlier))
    stored = next((existing for existing in earlier if existing.id == scoring.id), None)
    return scoring if stored is None else _continued(stored, scoring, folder)


def _continued(stored: Scoring, scoring: Scoring, folder: Path) -> Scoring:
    """Return the stored scoring, extended by the second judges and the user's judges of the new
    one.

    Raises:
        BadData: the stored scoring has other judges, settings or prompts.
    """
    second = tuple(dict.fromkeys((*stored.panel.second, *scoring.panel.second)))
    panel = scoring.panel.model_copy(update={"second": second})
    # prompts are compared by their ids
    before = stored.panel.model_copy(update={"second": second, "prompts": panel.prompts})
    if (before, {*stored.kinds}, stored.prompts) != (panel, {*scoring.kinds}, scoring.prompts):
        raise BadData(
            f"scoring '{scoring.id}' of '{folder}' has other judges: restore its file, or remove "
            "it."
        )
    fingerprints = {**stored.fingerprints, **scoring.fingerprints}
    update = {"panel": panel, "fingerprints": fingerprints, "own_judges": scoring.own_judges}
    return stored.model_copy(update={**update, "forced": stored.forced or scoring.forced})


def _check_editors(names: Sequence[str], editors: Sequence[str]) -> None:
    """Refuse editors that a run does not have.

    Raises:
        BadSettings: an editor is not in the run; the message suggests the most similar name.
    """
    for name in names:
        if name not in editors:
            raise BadSettings(f"the run has no editor '{name}': {nearest(name, list(editors))}")


def _items(
    folder: Path, judges: "Mapping[str, Judge]", named: bool, choice: ItemChoice
) -> dict[str, list[Item]]:
    """Return the distinct items to judge, by kind.

    Raises:
        BadSettings: there is nothing to judge, or nothing for a judge that was named.
    """
    by_kind = judged_items(folder, judges, choice.editors)
    lacking = [name for name in judges if name not in by_kind]
    if lacking and (named or not by_kind):
        hint = " Name a judge, for example --kind equivalence; see: emend list judges."
        if named:
            hint = " See what each judge reads: emend list judges."
        raise BadSettings(
            f"the run in '{folder}' has nothing to judge for {', '.join(lacking)}.{hint}"
        )
    if not any(by_kind.values()):
        raise BadSettings(
            f"the run in '{folder}' has nothing to judge of {', '.join(choice.editors)}: name "
            "other editors, or leave --editor out."
        )
    return {name: choice.chosen(items) for name, items in by_kind.items()}


def _scoring(
    panel: Panel,
    judges: "Mapping[str, Judge]",
    fingerprints: dict[str, Any],
    forced: bool,
    started: datetime,
) -> Scoring:
    prompts = {name: judge.role.prompt_id for name, judge in judges.items()}
    known = {name: read_calibration(panel.judges, name) for name in judges}
    return Scoring(
        id=scoring_id(
            panel, tuple(judges), prompts, {spec: fingerprints[spec] for spec in panel.judges}
        ),
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


def _includes_model_under_test(fingerprints: Mapping[str, Any], run: Manifest, force: bool) -> bool:
    for spec, judge in fingerprints.items():
        same_name = spec.partition("@")[0] == run.config.model.partition("@")[0]
        if same_name or judge["fingerprint"] == run.model.get("fingerprint"):
            if force:
                return True
            raise BadSettings(
                f"judge '{spec}' is the model under test ('{run.config.model}'): name another "
                "one, or give --force and report this with the numbers."
            )
    return False
