"""Calls to judges: one question about an item, or several that are judged together."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from emend.agents.judging.base import Item
from emend.agents.providers.repetition import repetition
from emend.evals.jobs.failures import error_text
from emend.evals.jobs.queues import map_in_order
from emend.evals.judging.disputes import EquivalenceScorer, find_dispute
from emend.evals.judging.judgement import Judgement, JudgementKey
from emend.evals.judging.panel import Panel
from emend.memory.errors import (
    CallDropped,
    ModelError,
    ModelUnreachable,
    RateLimited,
    TooManyFailures,
)
from emend.memory.redaction import hide_keys

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.graphs.judges.graph import Judge

# Errors of single calls after which a measurement of judges continues.
UNANSWERED = (ModelUnreachable, RateLimited, CallDropped)
# A measurement ends if more than this number of calls, and more calls than succeeded, failed with
# such an error.
MAX_FAILED = 20


class JudgeCall(NamedTuple):
    """One question to one judge about one item, or several that are judged together."""

    judge: "Judge"
    items: tuple[Item, ...]
    spec: str
    repeat: int
    swapped: bool

    def keys(self) -> list[JudgementKey]:
        """Return the keys of the call's judgements."""
        return [
            (item.id, self.judge.name, self.spec, self.repeat, self.swapped) for item in self.items
        ]


def make_calls(
    panel: Panel,
    judge: "Judge",
    items: Sequence[Item],
    judged: set[JudgementKey],
    second: bool = False,
) -> Iterator[JudgeCall]:
    """Yield the missing calls about items of one kind, each distinct item once.

    Args:
        panel: models, repeats and orders of the judging.
        judge: judge whose kind selects the items.
        items: items of any kind.
        judged: keys of existing judgements.
        second: ask the second judges instead of the first.
    """
    unique = list({item.id: item for item in items if item.kind == judge.name}.values())
    size = judge.role.batch_size if panel.batch else 1
    batches = [tuple(unique[start : start + size]) for start in range(0, len(unique), size)]
    for repeat in range(panel.repeats):
        for spec in panel.second if second else panel.judges:
            for swapped in panel.orders(judge):
                for batch in batches:
                    call = JudgeCall(judge, batch, spec, repeat, swapped)
                    left = tuple(
                        i for i, key in zip(batch, call.keys(), strict=True) if key not in judged
                    )
                    if left:
                        yield call._replace(items=left)


def ask_judge(
    call: JudgeCall,
    model: "BaseChatModel",
    retries: int = 1,
    scorer: EquivalenceScorer | None = None,
) -> list[Judgement]:
    """Make one call; an unusable reply becomes a problem in its judgements, and a doubtful
    acceptance a dispute.

    Raises:
        ModelError: the model could not be called.
    """
    start = time.perf_counter()
    with repetition(call.repeat):
        verdicts = call.judge.judge(call.items, model, swapped=call.swapped, retries=retries)
    seconds = round((time.perf_counter() - start) / len(verdicts), 6)
    return [
        Judgement(
            item=item.id,
            kind=call.judge.name,
            judge=call.spec,
            repeat=call.repeat,
            swapped=call.swapped,
            seconds=seconds,
            dispute=find_dispute(call.judge.role, item, verdict, scorer),
            **dict(verdict) | {"problem": hide_keys(verdict.problem)},
        )
        for item, verdict in zip(call.items, verdicts, strict=True)
    ]


class AskedCalls(NamedTuple):
    """Judgements of calls, the number of calls that succeeded and failed, and the first failure."""

    judgements: list[Judgement]
    succeeded: int = 0
    failed: int = 0
    first_failure: str = ""

    def require_any(self) -> None:
        """Check that at least one call succeeded, if any was made.

        Raises:
            ModelUnreachable: all calls failed.
        """
        if self.failed and not self.succeeded:
            raise ModelUnreachable(
                f"no call to the judges succeeded, the first failed with {self.first_failure}"
            )


def ask_calls(
    calls: Iterable[JudgeCall],
    models: "Mapping[str, BaseChatModel]",
    retries: int = 1,
    concurrency: int = 4,
    scorer: EquivalenceScorer | None = None,
) -> AskedCalls:
    """Make calls and return their judgements without writing them, as in a calibration.

    Calls that fail because the provider does not answer are skipped.

    Raises:
        TooManyFailures: too many calls failed for this reason.
        ModelError: any other error, which would affect every call.
    """

    def attempt(call: JudgeCall) -> list[Judgement] | ModelError:
        try:
            return ask_judge(call, models[call.spec], retries, scorer)
        except UNANSWERED as error:
            return error

    results = AskedCalls([])
    for outcome in map_in_order(attempt, list(calls), concurrency):
        results = _with_outcome(results, outcome)
        if results.failed > max(MAX_FAILED, results.succeeded):
            raise TooManyFailures(
                f"{results.failed} calls to judges failed, the first with {results.first_failure}. "
                "Correct the cause and give the command again."
            )
    return results


def _with_outcome(results: AskedCalls, outcome: list[Judgement] | ModelError) -> AskedCalls:
    if isinstance(outcome, ModelError):
        first = results.first_failure or error_text(outcome)
        return results._replace(failed=results.failed + 1, first_failure=first)
    results.judgements.extend(outcome)
    return results._replace(succeeded=results.succeeded + 1)
