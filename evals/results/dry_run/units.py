"""Units of a run by setting and editor, with the estimated usage of each row."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path

from langchain_core.messages.utils import count_tokens_approximately

from emend.editors.registry import EDITORS
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.ability import BUILT_IN, built_in_questions
from emend.evals.evaluate.setup.run_setup import RunSetup
from emend.evals.log.baseline import read_baseline
from emend.evals.log.manifest import CaseList
from emend.evals.results.dry_run.estimate import COUNTS, EstimatedRow
from emend.evals.results.dry_run.sample import UNEDITED, first_cases, writes_weights
from emend.evals.results.dry_run.usage import read_sample, scaled, untaught, usage_of_edits
from emend.memory.probe import Usage

BASELINE = "baseline"


def estimated_rows(
    config: RunConfig, folder: Path, cases: Mapping[str, CaseList], setup: RunSetup, used: Usage
) -> Iterator[EstimatedRow]:
    """Yield a row per setting and editor, and one for the baseline answers of the unedited model.

    An editor that needs subjects makes no calls in settings whose edits have none.
    """
    sample, edits = read_sample(folder), _edits(setup)
    baseline = reduce(Usage.plus, (answer.usage for _, answer in read_baseline(folder)), Usage())
    applying = usage_of_edits(sample, used, baseline)
    share = config.plan.share
    times = config.repeats / (share.of if share else 1)
    for setting, listed in cases.items():
        count = (listed.cases + listed.again) * times
        sampled = max(1, len(sample.cases.get(setting, ())))
        for editor in config.editors:
            is_writing = writes_weights(editor)
            if is_writing:
                usage = sample.whole.get((setting, UNEDITED))
            else:
                usage = sample.fresh.get((setting, editor))
            if not setup.source.names_subjects(setting) and getattr(
                EDITORS.load(editor), "needs_subject", False
            ):
                usage, is_writing = None, False
            if is_writing or editor == UNEDITED:
                usage = untaught(config.model, usage)
            needed = scaled(usage or Usage(), count / sampled)
            needed = needed.plus(
                scaled(applying.get((setting, editor), Usage()), listed.cases * times / sampled)
            )
            if is_writing:
                further = _edit_counts(setup, count, *edits[setting], config.ability)
            else:
                further = {}
            yield _row(setting, editor, round(count), needed, **further)
    count = sum(listed.cases for listed in cases.values()) * times
    usage = untaught(config.model, baseline) or baseline
    yield _row("", BASELINE, 0, scaled(usage, count / max(1, sum(map(len, sample.cases.values())))))


def _edits(setup: RunSetup) -> dict[str, tuple[float, float]]:
    """Return the mean numbers of edits and of their tokens per case, by setting."""
    means = {}
    for setting in setup.source.settings:
        edits = [case.edits for case in first_cases(setup, setting)]
        tokens = count_tokens_approximately([edit.text for each in edits for edit in each])
        means[setting] = sum(map(len, edits)) / max(1, len(edits)), tokens / max(1, len(edits))
    return means


def _edit_counts(
    setup: RunSetup, units: float, edits: float, tokens: float, abilities: Sequence[str]
) -> dict[str, int]:
    """Return the counts of edits, of their tokens, and of tokens read to measure side effects."""
    kind, size = setup.mode
    if kind == "all":
        groups = 1.0
    else:
        groups = units / max(1, size)
    read = groups * count_tokens_approximately(list(setup.perplexity_texts))
    if BUILT_IN in abilities:
        times = groups
        if kind == "sequential":
            times = setup.checkpoints.number(round(units * edits))
        texts = [
            question.prompt + choice
            for question in built_in_questions()
            for choice in question.choices
        ]
        read += times * count_tokens_approximately(texts)
    return {
        "edits": round(units * edits),
        "edit_tokens": round(units * tokens),
        "perplexity_tokens": round(read),
    }


def _row(setting: str, editor: str, units: int, usage: Usage, **further: int) -> EstimatedRow:
    return EstimatedRow(
        setting=setting,
        editor=editor,
        units=units,
        **usage.model_dump(include={*COUNTS}),
        **further,
    )
