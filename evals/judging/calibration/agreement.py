"""Calibration of judges: their agreement with labels by people, and between repeats."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emend.agents.judging.base import Item, Role, Scale
from emend.evals.judging.calibration.labels import LabelledItem
from emend.evals.judging.calibration.stored import calibration_file
from emend.evals.judging.calls import ask_calls, make_calls
from emend.evals.judging.disputes import DISPUTED, EquivalenceScorer
from emend.evals.judging.judgement import Judgement
from emend.evals.judging.panel import Panel, load_judge
from emend.evals.judging.votes import combine
from emend.evals.log.manifest import now
from emend.evals.log.records import replace, write_errors
from emend.evals.metrics.agreement import RaterAgreement, agreement
from emend.graphs.registry import JUDGES
from emend.memory.edit import content_id
from emend.memory.files import private_folder

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.graphs.judges.graph import Judge


# Number, or the reason why there is none.
Verdict = float | str
# Maps items of one kind to one list of verdicts per repeat, with one verdict per item.
AskPanel = Callable[[Sequence[Item]], Sequence[Sequence[Verdict]]]


class Calibration(RaterAgreement):
    """Agreement of judges with people on one kind of item (first repeat), and between repeats.

    `missing` is the number of unlabelled items, which are excluded; `unscored` is the number of
    items without a verdict.
    """

    kind: str
    judge: str
    scale: Scale
    prompt_id: str
    labelled: int
    missing: int
    reasons: dict[str, int]
    """Numbers of items without a verdict, by reason."""
    disputed: int = 0
    """Number of items without a verdict because the acceptance is disputed; 0 in older files."""
    repeats: int
    retest: RaterAgreement | None = None
    """Agreement between all pairs of repeats on the same item; None with one repeat."""
    items: str
    """Digest of the items and their labels."""
    measured: str


def panel_verdicts(
    panel: Panel,
    models: "Mapping[str, BaseChatModel]",
    concurrency: int = 4,
    scorer: EquivalenceScorer | None = None,
) -> AskPanel:
    """Return a function that asks a panel about items, with repeats as separate verdicts.

    The function raises ModelError if the judges cannot be called. The scorer disputes acceptances
    that it finds impossible, as when a run is judged.
    """
    once = panel.model_copy(update={"repeats": 1})

    def ask(items: Sequence[Item]) -> list[list[Verdict]]:
        kind = items[0].kind
        judge = panel.load(kind)
        # a plug-in's role has its own name
        judged = [item.model_copy(update={"kind": judge.name}) for item in items]
        with JUDGES.plugin_errors(kind):
            calls = make_calls(panel, judge, judged, set())
            results = ask_calls(calls, models, panel.retries, concurrency, scorer)
        results.require_any()
        grouped: dict[tuple[int, str], list[Judgement]] = {}
        for judgement in results.judgements:
            grouped.setdefault((judgement.repeat, judgement.item), []).append(
                judgement.model_copy(update={"repeat": 0})
            )

        def verdict(repeat: int, item: Item) -> Verdict:
            combined = combine(once, judge, grouped.get((repeat, item.id), []))
            output = judge.role.output
            return combined.values.get(output, combined.unscored.get(output, "no verdict"))

        verdicts: list[list[Verdict]] = []
        for repeat in range(panel.repeats):
            verdicts.append([verdict(repeat, item) for item in judged])
        return verdicts

    return ask


def calibrate(
    rows: Sequence[LabelledItem],
    judges: Sequence[str],
    ask_panel: AskPanel,
    load: "Callable[[str], Judge]" = load_judge,
) -> list[Calibration]:
    """Measure the agreement for each kind of item that the labels have.

    Args:
        rows: labelled items.
        judges: names of the judges.
        ask_panel: function that asks the judges, see `panel_verdicts`; called once per kind.
        load: function that loads the judge of a kind, with the user's prompt if there is one.
    """
    calibrations = []
    for name in dict.fromkeys(row.kind for row in rows):
        of_kind = [row for row in rows if row.kind == name]
        labelled = [row for row in of_kind if row.label is not None]
        verdicts = ask_panel([row.item for row in labelled]) if labelled else [[]]
        calibrations.append(
            _calibration(load(name).role, name, of_kind, labelled, judges, verdicts)
        )
    return calibrations


def _calibration(
    role: Role,
    name: str,
    of_kind: Sequence[LabelledItem],
    labelled: Sequence[LabelledItem],
    judges: Sequence[str],
    verdicts: Sequence[Sequence[Verdict]],
) -> Calibration:
    scales: dict[str, Any] = {
        "ordered": role.scale != "yes or no",
        "categories": role.scale != "share",
    }
    cases = [row.case for row in labelled]
    labels = [row.label for row in labelled if row.label is not None]
    first = agreement(labels, _numbers(verdicts[0]), cases, **scales)
    reasons = Counter(verdict for verdict in verdicts[0] if isinstance(verdict, str))
    return Calibration(
        **dict(first),
        kind=name,
        judge=", ".join(judges),
        scale=role.scale,
        prompt_id=role.prompt_id,
        labelled=len(labelled),
        missing=len(of_kind) - len(labelled),
        reasons=dict(reasons.most_common()),
        disputed=sum(count for why, count in reasons.items() if why.startswith(f"{DISPUTED}:")),
        repeats=len(verdicts),
        retest=_retest(verdicts, cases, scales) if len(verdicts) > 1 else None,
        items=content_id([(row.item.id, row.label) for row in labelled]),
        measured=now(),
    )


def _retest(
    verdicts: Sequence[Sequence[Verdict]], cases: Sequence[str], scales: Mapping[str, Any]
) -> RaterAgreement:
    """Compare all pairs of repeats on the same item; pairs with a missing verdict are unscored."""
    repeats = [_numbers(repeat) for repeat in verdicts]
    rows = [row for two in combinations(repeats, 2) for row in zip(*two, cases, strict=True)]
    pairs = [(a, b, case) for a, b, case in rows if a is not None]
    firsts = [a for a, _, _ in pairs]
    seconds = [b for _, b, _ in pairs]
    owners = [case for _, _, case in pairs]
    return agreement(firsts, seconds, owners, raters=("one repeat", "another repeat"), **scales)


def _numbers(verdicts: Sequence[Verdict]) -> list[float | None]:
    return [None if isinstance(verdict, str) else verdict for verdict in verdicts]


def store_calibration(calibration: Calibration, judges: Sequence[str]) -> Path:
    """Store a calibration for reports, replacing one of the same judges and kind; return the
    file.
    """
    path = calibration_file(judges, calibration.kind)
    with write_errors(f"'{path}'"):
        private_folder(path.parent, links=True)
    replace(path, calibration)
    return path
