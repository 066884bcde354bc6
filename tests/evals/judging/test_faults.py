"""Every judge under every fault of a provider, over each protocol: the right number or a reason, each item once."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emend.evals.case import Record
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import ScoreSummary, score_run
from emend.evals.judging.scorings.judgements import read_judgements
from emend.evals.judging.scorings.verdicts import judged_records
from emend.evals.log.baseline import BaselineAnswer
from emend.evals.log.lines import BASELINE
from emend.graphs.registry import JUDGES
from emend.memory.errors import ContextOverflow, ModelError, ModelReplyError, TooManyFailures
from emend.memory.probe import Answer
from tests.evals.judged_runs import verdict
from tests.evals.made import case_line, record, write_run
from tests.fakes import ScriptedChatModel
from tests.graphs.judge_items import ITEMS, REPLIES, right
from tests.params import mostly_slow
from tests.provider.models import PROTOCOLS, asked_model, quick_policy
from tests.provider.protocols import Asked
from tests.provider.server import FAULTS, Provider

REWORDED = {"no-schema", "empty", "wrong_schema"}
"""Mended by asking the model otherwise, or again."""
USELESS = {"length": "cut off", "refusal": "declined", "overflow": "context"}
"""No use asking again: unscored, with this in the reason."""
REFUSED = {"quota", "401", "404", "400"}
"""Errors that every further call would meet, so that nothing is judged."""
WAITED = set(FAULTS) - REWORDED - set(USELESS) - REFUSED
"""All others: mended by asking the provider again."""
CASES = 4


pytestmark = pytest.mark.usefixtures("keys", "own_cache")

# Judges of what the run below has; the others are of conversations.
KINDS = tuple(kind for kind in ITEMS if kind not in ("nuggets", "order", "remembered"))


def speaks(kind: str) -> Callable[[Asked], str]:
    """The right reply to each of the judge's questions."""

    def reply(asked: Asked) -> str:
        first, *more = REPLIES[kind]
        return json.dumps(more[0] if more and "numbered facts" in asked.prompt else first)

    return reply


# --- one judgement


@pytest.mark.slow
@pytest.mark.parametrize("protocol", mostly_slow(PROTOCOLS, "chat"))
@pytest.mark.parametrize("kind", ITEMS)
def test_a_fault_is_mended_or_is_a_reason_or_an_error_and_never_another_number(kind, protocol):
    judge, calls = JUDGES.load(kind), len(REPLIES[kind])
    with Provider(speaks(kind)) as provider:
        patient, hasty = (asked_model(provider, protocol, timeout=seconds) for seconds in (30.0, 0.3))
        for fault in FAULTS:
            if fault == "hang" and kind != "recall":
                continue  # the client's timeout is the same for every judge
            for place in range(calls):
                provider.faults.extend([*[""] * place, fault])
                patient.supports_structure = True  # after no-schema it would not be asked that way again
                try:
                    (result,) = judge.judge([ITEMS[kind]], hasty if fault == "hang" else patient)
                except ModelError as error:
                    assert fault in REFUSED and not isinstance(error, ModelReplyError), fault
                    continue
                useless = fault in USELESS
                assert fault not in REFUSED
                assert (result.values, bool(result.problem)) == ({} if useless else right(kind), useless), (
                    fault,
                    result,
                )
                assert USELESS.get(fault, "") in result.problem


@pytest.mark.slow
@pytest.mark.parametrize("protocol", mostly_slow(PROTOCOLS, "chat"))
@pytest.mark.parametrize("kind", ITEMS)
def test_a_fault_that_stays_is_a_reason_or_an_error_after_a_bounded_number_of_calls(kind, protocol):
    judge, chosen = JUDGES.load(kind), ""
    with Provider(speaks(kind), choose=lambda number: chosen) as provider:
        model = asked_model(provider, protocol, timeout=30.0)
        for chosen in set(FAULTS) - {"hang", "no-schema"}:
            before = provider.count
            try:
                (result,) = judge.judge([ITEMS[kind]], model)
            except ModelError as error:
                assert chosen in REFUSED | WAITED and not isinstance(error, (ModelReplyError, ContextOverflow))
            else:
                assert result.values == {} and len(result.problem) > 10 and chosen in {*USELESS, *REWORDED}
            assert provider.count - before == (1 if chosen in {*USELESS, *REFUSED} else 3 if chosen in WAITED else 2)


# --- a whole scoring


def run_for_all(folder: Path) -> Path:
    """Records of four cases with something for each of the six judges."""
    items: list[Record] = []
    for n in range(CASES):
        case, rises = f"c{n}", {"prompt": f"Question: Sales of #{n}?\nAnswer:", "answer": f"#{n} rises."}
        items += [
            record(case, kind="tendency_open", probe=f"o{n}", unscored={"judged": "awaits"}, **rises),
            record(case, kind="tendency_open_local", probe=f"l{n}", unscored={"judged": "awaits"}, **rises),
            record(case, kind="counting", probe=f"t{n}", values={"pre_edit": 1.0}, answer=f"#{n}",
                   reply=f"The lamps are #{n} and one more.\nAnswer: #{n}"),
            record(case, probe=f"e{n}", values={"em": 0.0}, answer=f"It is #{n}.", prompt=f"Who is #{n}?"),
        ]  # fmt: skip
    edits = [
        {"id": "e", "form": "document", "text": "One is here.", "subject": "", "target_new": "", "target_true": ""}
    ]
    cases = [case_line(f"c{n}", number=n + 1, edits=edits) for n in range(CASES)]
    write_run(folder, items, "elken", cases=cases)
    result = [BaselineAnswer(key=f"l{n}", probe=f"l{n}", answer=Answer(text=f"#{n} stays.")) for n in range(CASES)]
    (folder / BASELINE).write_text("".join(item.model_dump_json() + "\n" for item in result), encoding="utf-8")
    return folder


def judged(prompt: str) -> str:
    """A reply that depends on the case, so that one item's verdict cannot pass for another's."""
    hit = re.search(r"#(\d)", prompt)
    n = int(hit[1]) if hit else 0
    return verdict(prompt, mark=1 + n, yes="yes" if n % 2 else "no")


def spoiled(share: float, seed: int) -> Callable[[int], str]:
    """A fault for that share of the requests, the same each time."""

    def choose(number: int) -> str:
        drawn = random.Random(seed * 100_000 + number)
        return drawn.choice([fault for fault in FAULTS if fault != "hang"]) if drawn.random() < share else ""

    return choose


def to_the_end(folder: Path, panel: Panel, model: Any) -> tuple[ScoreSummary, int]:
    """The same command until nothing is left to ask, and how often it was given."""
    for times in range(1, 60):
        try:
            summary = score_run(folder, panel, KINDS, models={panel.judges[0]: model})
        except (ModelError, TooManyFailures):
            continue
        if not summary.failed:
            return summary, times
    raise AssertionError("the scoring never came to its end")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", mostly_slow(PROTOCOLS, "chat"))
def test_under_faults_no_judgement_is_lost_none_doubled_and_none_wrong(protocol, tmp_path):
    folder, panel = run_for_all(tmp_path / "run"), Panel(judges=("openai:judge",), repeats=2, batch=False)
    clean = score_run(folder, panel, KINDS, models={"openai:judge": ScriptedChatModel(reply=judged)}).scoring
    expected = {judgement.key: judgement.values for judgement in read_judgements(folder, clean)}
    assert Counter(kind for _, kind, *_ in expected) == {
        "tendency": 8, "agreement": 16, "recall": 8, "coherence": 8, "equivalence": 16, "supports": 8,
    }  # fmt: skip
    with Provider(lambda asked: judged(asked.prompt), choose=spoiled(0.3, 11)) as provider:
        policy = quick_policy()
        outcome, times = to_the_end(folder, panel, asked_model(provider, protocol, policy, timeout=30.0))
        assert policy.ledger.total().requests == provider.count > len(expected)
    value = list(read_judgements(folder, outcome.scoring))
    assert times > 1 and sorted(item.key for item in value) == sorted(expected)
    assert all(item.values == ({} if item.problem else expected[item.key]) for item in value)
    unscored = [item for item in value if item.problem]
    assert 0 < len(unscored) < len(value) / 2 and all(len(scoring.problem) > 10 for scoring in unscored)
    written = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert len(written) > 5 and not any(b"sk-planted" in content for content in written)
    names = {name for kind in KINDS for name in JUDGES.load(kind).role.outputs}
    for result in judged_records(folder, outcome.scoring):
        assert not set(result.values) & set(result.unscored)
        assert all(result.unscored[name] for name in names & set(result.unscored))
