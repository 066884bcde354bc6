"""AKEW's analyses (sections 5.2 and 5.3): accuracy drop without triplets, and causes of failure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from emend.evals.case import Record
from emend.evals.judging.judged_run import Run
from emend.evals.metrics.paired import Pair, relative_drop
from emend.evals.metrics.published.akew import (
    AMBIGUOUS,
    EDITED,
    ERROR_FIELDS,
    INCOMPLETE,
    IRRELEVANT,
    OLD,
    akew_error,
)
from emend.evals.results.analyses.base import (
    Analysis,
    AnalysisKind,
    AnalysisRequest,
    AnalysisRow,
    Bins,
    Lacking,
    PlotStyle,
    needs,
    ordered,
    records_of,
    row_of,
)

# Reference setting of the accuracy drop.
BASE = "struct"
ASKED_FAR = ("multihop", "multihop_contaminated")
TASKS = {"editing accuracy": (EDITED, "record"), "multi-hop accuracy": (ASKED_FAR, "any")}
ERRORS = (INCOMPLETE, AMBIGUOUS, OLD, IRRELEVANT)
PUBLISHED = (
    "AKEW's Table 4 (MEMIT, 100 failures on CounterFact, classified by people): 14, 8, 19 and 59 "
    "percent"
)


class Asking(NamedTuple):
    """Key of a question, equal under every setting."""

    case: object
    kind: str
    prompt: str
    n: object
    repeat: int


def drop(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Compare accuracy under `unstruct` and `extract` with `struct`, paired by question.

    Rows are per editor and data set. The drop is relative, in percent of the accuracy under
    `struct`, as in the paper's Tables 2 and 3.
    """
    accuracies: dict[tuple[str, str, str, str], dict[Asking, float | None]] = {}
    for run, record in records_of(runs, fields=("prompt", "repeat", "tags")):
        for task, (kinds, _) in TASKS.items():
            if record.kind in kinds and ("em" in record.values or "em" in record.unscored):
                key = (_dataset(run), task, record.setting, _series(run, record.editor, runs))
                accuracies.setdefault(key, {})[_asking(run, record)] = record.values.get("em")
    rows = ordered(_drops(accuracies), ("unstruct", "extract"))
    if not rows:
        raise Lacking(_needs_settings({setting for run in runs for setting in run.settings}))
    return Analysis(
        title="Loss of accuracy relative to the setting 'struct'",
        unit="drop, % of struct",
        rows=rows,
        picture=PlotStyle(x="setting", y="drop relative to struct, %"),
        notes=(
            "percentage of the accuracy under struct that is lost; 100: all of it, below 0: a gain",
            "unscored if no answer was right under struct",
            "questions are paired across settings; multi-hop: a record counts as correct if any "
            "of its wordings is answered correctly",
        ),
    )


def _drops(
    accuracies: dict[tuple[str, str, str, str], dict[Asking, float | None]],
) -> Iterable[AnalysisRow]:
    for (data, task, setting, series), answers in accuracies.items():
        base = accuracies.get((data, task, BASE, series))
        if setting == BASE or base is None:
            continue
        both = [asking for asking in base if asking in answers]
        value = relative_drop(
            [
                Pair(asking.case, "", base[asking], answers[asking], asking.repeat)
                for asking in both
            ],
            per=TASKS[task][1],
        ).scaled(100)
        yield row_of((f"{data}, {task}", setting, series), value)


def _series(run: Run, editor: str, runs: Sequence[Run]) -> str:
    """Return the editor, with the model or the run's name if needed to tell series apart."""
    alike = [
        item
        for item in runs
        if editor in item.editors
        and (item.model_name, _dataset(item)) == (run.model_name, _dataset(run))
    ]
    settings = [setting for item in alike for setting in item.settings]
    parts = [editor]
    parts += [run.model_name] * (len({item.model_name for item in runs}) > 1)
    parts += [run.name] * (len(set(settings)) < len(settings))
    return ", ".join(parts)


def _dataset(run: Run) -> str:
    return str(run.provenance.get("options", {}).get("dataset", run.name))


def _asking(run: Run, record: Record) -> Asking:
    """Return a question's key.

    The key uses the data's own id, since case ids differ between settings with their edits.
    """
    case = run.case(record)
    return Asking(
        case.tags.get("akew_id", case.number),
        record.kind,
        record.prompt,
        record.tags.get("n"),
        record.repeat,
    )


def _needs_settings(settings: Iterable[str]) -> str:
    there = set(settings)
    if BASE in there and len(there) > 1:
        return ""
    return (
        f"the drop is measured between settings, but the run has only {', '.join(sorted(there))}: "
        "run with --setting struct --setting unstruct --setting extract, or add the other run "
        "with --with."
    )


def errors(runs: Sequence[Run], request: AnalysisRequest) -> Analysis:
    """Return the share of each error type among failed edits, per setting and editor.

    Under `extract`, a failure is a triplet error if no triplet names both the subject and the new
    object: ambiguous if one has the question's subject and relation, incomplete otherwise. Any
    other failure is an editing error: the reply names the old object, or something irrelevant. In
    the paper people sorted the failures; this rule gives the same types for its four examples.
    """
    bins = Bins(
        runs,
        "no edit of the run failed, so there is no error to sort: analyse a run with failed edits.",
    )
    for run, record in records_of(runs, EDITED, ERROR_FIELDS):
        if record.values.get("em") == 0.0:
            sort = akew_error(record, run.case(record).edits)
            for name in ERRORS if record.setting == "extract" else ERRORS[2:]:
                bins.add(run, record.setting, name, record, float(name == sort))
    return Analysis(
        title="Failed edits by type of error",
        unit="% of failed edits",
        rows=bins.rows(ERRORS),
        picture=PlotStyle(x="type of error", y="failed edits, %", limits=(0, 105)),
        notes=(
            "classified by rules, in the paper by people; n is the number of failed edits",
            PUBLISHED,
        ),
    )


NO_TEXT = "no edit was asked for text: use a model or an editor that answers."
DROP = AnalysisKind(("akew",), lambda inventory: _needs_settings(inventory.run.settings), drop)
ERROR_TYPES = AnalysisKind(("akew",), needs(NO_TEXT, ["em"], EDITED), errors)
