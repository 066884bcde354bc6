"""Every graph editor in a run, with a model that leaves the form or never ends: no answer that it did not give."""

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from emend.agents.roles.decompose import CHECK, CHECKED, QUESTION, RETRIEVED, STEP, SUBQUESTION, TENTATIVE
from emend.agents.roles.relevance import TASK
from emend.evals.case import Record
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.jobs.results import Summary
from emend.evals.log.lines import EVENTS
from emend.evals.log.records import read_lines, read_records
from tests.evals.toys import BENCHMARK
from tests.graphs.forms import FORMS, PROSE_IS_USABLE
from tests.params import mostly_slow
from tests.provider.models import asked_model
from tests.provider.protocols import Asked, Said, ToolCall
from tests.provider.server import Provider
from tests.provider.speaking import believes, place_of

SAID = ("", "I would rather talk about the weather of today.")
"""What comes instead: nothing, and prose."""
LOOPS = {"mello": "no final answer after", "agent": "no answer after"}
"""What is said of a model that never comes to an end; one that reads line by line is not asked whether it has."""


pytestmark = pytest.mark.usefixtures("keys")


def asked_of(provider: Provider, name: str, settings: dict[str, Any], cases: int, folder: Path) -> Summary:
    config = RunConfig(
        benchmark=BENCHMARK,
        editors=(name,),
        embedding="lexical",
        retriever="bm25",
        model=provider.spec("chat"),
        benchmark_options={"cases": str(cases), "probes": "0", "scorer": "exact_match"},
        overrides={name: settings} if settings else {},
        mode="all",
    )
    return run(config, folder, model=asked_model(provider, timeout=30.0))


class Spoiling:
    """Speaks well, but each case hears one of `SAID` from one of its calls on; the case after the last does not."""

    def __init__(self, nodes: list[str]) -> None:
        self.told = [(said, place) for said in SAID for place in range(len(nodes))]
        self.met, self._lock = Counter[int](), threading.Lock()

    @property
    def cases(self) -> int:
        """One for each way, and one that is well."""
        return len(self.told) + 1

    def __call__(self, asked: Asked) -> Said | str:
        place = place_of(asked)
        with self._lock:
            self.met[place] += 1
            if place == len(self.told) or self.met[place] <= self.told[place][1]:
                return believes(asked)
            return self.told[place][0]


def records_of(folder: Path) -> list[Record]:
    """One record a case, in the order of the cases."""
    order = [line["case"] for line in read_lines(folder, "cases.jsonl")]
    return sorted(read_records(folder), key=lambda record: order.index(record.case))


def steps_of(folder: Path, record: Record) -> list[dict[str, Any]]:
    return [line for line in read_lines(folder, EVENTS) if line.get("probe") == record.probe]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings", "nodes"), mostly_slow(FORMS, *FORMS[::5]))
def test_a_reply_off_the_form_at_any_node_is_unscored_with_its_step_and_is_not_asked_again(
    name, settings, nodes, tmp_path
):
    spoiling, folder = Spoiling(nodes), tmp_path / "run"
    with Provider(spoiling) as provider:
        summary = asked_of(provider, name, settings, spoiling.cases, folder)
        records, count = records_of(folder), provider.count
        assert (summary.failed, len(records)) == (0, spoiling.cases)
        again = asked_of(provider, name, settings, spoiling.cases, folder)
        assert (again.skipped, provider.count) == (spoiling.cases, count)
    calls = [step["node"] for step in steps_of(folder, records[-1]) for _ in step["calls"]]
    assert calls == nodes and records[-1].values["em"] == 1.0
    for (said, place), record in zip(spoiling.told, records, strict=False):
        node, last = "respond" if name == "agent" else nodes[place], steps_of(folder, record)[-1]
        if said and (node == "respond" or {(name, node), (name, node, settings.get("form"))} & PROSE_IS_USABLE):
            assert record.unscored or record.values["em"] == 0.0, (place, node)
            continue
        assert record.unscored["em"] and "em" not in record.values, (place, node)
        assert last["node"] == node and "ModelReplyError" in last["error"], (place, node)
        assert (record.answer or "") == said


def endless(asked: Asked) -> Said | str:
    """Always wants to know one thing more, in whatever form it is asked."""
    if asked.tools:
        return Said(calls=[ToolCall("list_updates", {"entity": "Land0"})])
    if asked.prompt.startswith(STEP):
        return '{"done": false, "subquestion": "And then?", "tentative_answer": "Then.", "final_answer": ""}'
    if asked.prompt.startswith(TASK):
        return json.dumps({"scores": [0.0] * asked.prompt.count("<passage>\n")})
    if asked.prompt.startswith(CHECK):
        return '{"contradicts": false, "intermediate_answer": "Then"}'
    checking = RETRIEVED in asked.prompt.rpartition(QUESTION)[2]
    verdict = f"{CHECKED} does not contradict to generated answer, so the intermediate answer is: Then\n"
    return f"{verdict if checking else ''}{SUBQUESTION} And then?\n{TENTATIVE} Then.\n"


@pytest.mark.parametrize(("name", "settings", "nodes"), mostly_slow(FORMS, *FORMS[::5]))
def test_a_model_that_never_comes_to_an_end_is_ended_and_nothing_is_made_up(name, settings, nodes, tmp_path):
    with Provider(endless) as provider:
        summary = asked_of(provider, name, settings, 1, tmp_path / "run")
        (record,) = records_of(tmp_path / "run")
        assert summary.failed == 0 and provider.count <= 12
        fallbacks = " ".join(step["update"].get("fallback", "") for step in steps_of(tmp_path / "run", record))
    if name in LOOPS and settings.get("form") != "lines":
        assert LOOPS[name] in record.unscored.get("em", fallbacks) and provider.count > 4
    assert record.unscored or record.values["em"] == 0.0 or not nodes  # no call, no reply
