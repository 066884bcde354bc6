"""The trace of one case: every node, what was retrieved, the exact prompt, the reply, how it scored; messages too.

Trajectory evaluators such as `agentevals` compare this format: a node is written as a call of a tool of its name, so
that two paths are alike when they call the same tools in the same order.
"""

import difflib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

from emend.agents.judging.base import Item
from emend.evals.case import Record
from emend.evals.judging.panel import Judgement, JudgementKey
from emend.evals.judging.store import (
    Scoring,
    find_scoring,
    installed_judges,
    own_verdicts,
    plan,
    read_judgements,
    read_steps,
)
from emend.evals.log.lines import CASES, ERRORS, split_passes, steps_from_events
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines
from emend.evals.log.run_index import RunIndex
from emend.evals.show.trace.answers import ALL_RECORDS, ALL_STEPS, RecordFilter, StepFilter, check_name
from emend.evals.show.trace.graph_paths import GraphEdges, edges_of
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings

KEY = itemgetter("kind", "judge", "repeat", "swapped")


class JudgedItem(FrozenModel):
    """One judgement of a record's item, and the steps that led to it."""

    judgement: Judgement
    together: int = 1
    """Number of items that the call judged; tokens and steps are of all of them, and the first one has them."""
    steps: tuple[dict[str, Any], ...] = ()


def judged_steps(
    folder: Path, case: str | Sequence[Record] | None, name: str | None = None, index: RunIndex | None = None
) -> dict[tuple[str, str], list[JudgedItem]]:
    """Collect the judgements of a scoring, by unit and probe of a case; empty where the run was not judged.

    Args:
        folder: the run folder.
        case: the case's id, or its records; None for all cases.
        name: a scoring's id or the beginning of it; the newest by default; `none` for no scoring at all.
        index: of the run, by which the lines of a case's records are read without the others.

    Raises:
        BadSettings: no such scoring.
        BadData: a damaged line.
    """
    Manifest.read(folder)
    scoring = find_scoring(folder, name)
    if scoring is None:
        return {}
    stored_verdicts = own_verdicts(folder, scoring)
    items_of = {
        (record.unit, record.probe): [
            *(item.id for item in items.values() if isinstance(item, Item)),
            *(verdict.item for verdict in stored_verdicts.get((record.unit, record.probe), ()) if verdict.item),
        ]
        for record, items in plan(folder, installed_judges(scoring), None if isinstance(case, str) else case, index)
        if not isinstance(case, str) or record.case == case
    }
    items = {item for ids in items_of.values() for item in ids}
    calls, judged = _calls(folder, scoring, items, index), defaultdict[str, list[JudgedItem]](list)
    for judgement in read_judgements(folder, scoring, items, index):
        together, steps = calls.get(judgement.key, (1, []))
        judged[judgement.item].append(JudgedItem(judgement=judgement, together=together, steps=tuple(steps)))
    return {key: [item for name in ids for item in judged[name]] for key, ids in items_of.items() if ids}


def _calls(
    folder: Path, scoring: Scoring, items: set[str], index: RunIndex | None
) -> dict[JudgementKey | tuple[Any, ...], tuple[int, list[dict[str, Any]]]]:
    """By key of a judgement, the number of items its call judged, and the call's steps."""
    calls: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for event in read_steps(folder, scoring, items, index):
        calls.setdefault((tuple(event["items"]), *KEY(event)), []).append(event)
    steps = {}
    for (judged, *key), events in calls.items():
        last = split_passes(steps_from_events(events))[-1]  # a call that was made again after a crash is there twice
        for item in judged:
            steps[(item, *key)] = (len(judged), last)
    return steps


BOOKKEEPING = ("usage", "cut_tokens", "target_tokens", "greedy_tokens")
"""Fields of a node's update that are no result."""


def trajectory(record: Record, steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make the messages of one probe: the prompt, each node with its result, and the answer.

    A probe that was asked for a text and for probabilities gives the pass to the text. The conversation of a model that
    called tools itself is given as it was.
    """
    passes = split_passes(steps) or [[]]
    with_reply = (part for part in passes if any("reply" in (step["update"] or {}) for step in part))
    chosen = next(with_reply, passes[-1])
    stored = (step["update"]["messages"] for step in reversed(chosen) if "messages" in (step["update"] or {}))
    if messages := conversation(next(stored, None)):
        return messages
    messages = [{"role": "user", "content": record.prompt}]
    for number, step in enumerate(chosen[:-1], 1):
        messages += _tool_messages(number, step)
    return [*messages, {"role": "assistant", "content": record.reply or record.answer or ""}]


def conversation(stored: Any) -> list[dict[str, Any]]:
    """Convert a state's messages as LangChain stores them; empty for what a user's graph keeps under that name."""
    if not stored:
        return []
    from langchain_core.messages import convert_to_openai_messages, messages_from_dict

    try:
        return list(convert_to_openai_messages(messages_from_dict(stored)))
    except Exception:  # anything may stand there, also in a stranger's folder
        return []


def _tool_messages(number: int, step: dict[str, Any]) -> list[dict[str, Any]]:
    name = f"call_{number}"
    call = {"id": name, "type": "function", "function": {"name": step["node"], "arguments": "{}"}}
    result = {key: value for key, value in (step["update"] or {}).items() if key not in BOOKKEEPING}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": json.dumps(result, ensure_ascii=False)},
    ]


MAX_IDS = 8
"""Ids that an error lists when none fits."""


class TracedProbe(FrozenModel):
    """One record, and the steps that led to it."""

    record: Record
    steps: tuple[dict[str, Any], ...]
    """Fields as in `events.jsonl`: node, place, at, ms, update, calls, error; each call with its prompt and reply."""
    visible_steps: tuple[dict[str, Any], ...]
    """The steps that fit the filter."""
    judged: tuple[JudgedItem, ...] = ()


class Trace(FrozenModel):
    """One case: its edits, what was asked under each editor, and what failed."""

    case: str
    number: int
    setting: str
    edits: tuple[dict[str, Any], ...]
    probes: tuple[TracedProbe, ...]
    failures: tuple[dict[str, Any], ...]
    ways: dict[str, GraphEdges] = {}
    """By editor, the edges of its graph; without editors that have none."""


def trace(
    folder: Path,
    case: str,
    records: RecordFilter = ALL_RECORDS,
    steps: StepFilter = ALL_STEPS,
    scoring: str | None = None,
    index: RunIndex | None = None,
) -> Trace:
    """Collect what the run folder has about one case.

    Args:
        folder: the run folder.
        case: its id, the beginning of it, or its number, counted from 1.
        records: only these records.
        steps: only steps that fit, and probes that have some.
        scoring: whose judgements: an id, or `none`; the newest by default.
        index: an open index of the run; default: one that is opened here.

    Raises:
        BadSettings: no such case, probe, editor, kind, node or scoring, or nothing fits; names what there is.
        BadData: the folder holds no run, or a damaged line.
    """
    manifest = Manifest.read(folder)
    with nullcontext(index) if index else RunIndex(folder) as lines:
        line = find_case(lines, case)
        of_case = list(lines.records(line["case"]))
        chosen = [record for record in of_case if records.fits(record)]
        events = {unit: lines.events(unit) for unit in dict.fromkeys(record.unit for record in chosen)}
        judged = judged_steps(folder, of_case, scoring, lines) if chosen else {}
    finished = {record.unit for record in of_case}
    failures = [failure for failure in open_failures(folder, finished) if failure["case"] == line["case"]]
    if not chosen and (of_case or not failures):
        _refuse_nothing(folder, line["case"], of_case, manifest, records)
    whole = Trace(
        case=line["case"],
        number=line["number"],
        setting=line["setting"],
        edits=tuple(line["edits"]),
        probes=_traced(chosen, events, judged),
        failures=tuple(failures),
        ways=edges_of(manifest, line["setting"]),
    )
    return whole if steps.is_empty else _narrow(whole, steps)


def open_failures(folder: Path, finished: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the failures of units that were not finished since, with their steps."""
    for line in read_lines(folder, ERRORS):
        if line.get("unit") not in finished:
            yield line | {"steps": list(steps_from_events(line.get("steps", ())))}


def _traced(
    records: list[Record],
    events: dict[str, dict[str, list[dict[str, Any]]]],
    judged: dict[tuple[str, str], list[JudgedItem]],
) -> tuple[TracedProbe, ...]:
    probes = []
    for record in records:
        steps = tuple(steps_from_events(events[record.unit].get(record.probe, ())))
        judgements = tuple(judged.get((record.unit, record.probe), ()))
        probes.append(TracedProbe(record=record, steps=steps, visible_steps=steps, judged=judgements))
    return tuple(probes)


def _narrow(whole: Trace, steps: StepFilter) -> Trace:
    """Keep the fitting steps alone; judgements stay where one of their steps fits.

    Raises:
        BadSettings: no such node, or nothing fits; that nothing went wrong is no error.
    """
    where = f"case {whole.number}"
    ran = {step["node"] for part in _all_steps(whole) for step in part}
    steps.check_node(ran.union(*(graph.nodes for graph in whole.ways.values())), where)
    probes = []
    for probe in whole.probes:
        matching = steps.matching(probe.steps, probe.record)
        judged = tuple(judgement for judgement in probe.judged if _judgement_fits(steps, judgement))
        if matching is not None or judged:
            probes.append(probe.model_copy(update={"visible_steps": tuple(matching or ()), "judged": judged}))
    failures = [line for line in whole.failures if steps.fits_failure(line)]
    if not (probes or failures or steps.errors):
        raise BadSettings(f"nothing in {where} fits {steps}: it went through {', '.join(sorted(ran))}.")
    return whole.model_copy(update={"probes": tuple(probes), "failures": tuple(failures)})


def _all_steps(whole: Trace) -> Iterator[Sequence[dict[str, Any]]]:
    yield from (probe.steps for probe in whole.probes)
    yield from (judgement.steps for probe in whole.probes for judgement in probe.judged)
    yield from (line["steps"] for line in whole.failures)


def _judgement_fits(steps: StepFilter, item: JudgedItem) -> bool:
    problem = steps == StepFilter(errors=True) and bool(item.judgement.problem)
    return problem or any(steps.fits(step) for step in item.steps)


def states_before(
    steps: Sequence[dict[str, Any]], visible: Sequence[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each shown step with the state that all steps before it, shown or not, had left in its pass."""
    left, state = list(visible), dict[str, Any]()
    for step in steps:
        if step["place"] <= 1:
            state = {}
        if left and step == left[0]:
            yield left.pop(0), state
        state = state | (step["update"] or {})
    yield from ((step, {}) for step in left)


def new_hits(hits: Sequence[Any], before: Sequence[Any]) -> list[Any]:
    """Return the hits that a step found itself, where the state holds every hit so far; else all of them."""
    count = len(before)
    return list(hits[count:] if list(hits[:count]) == list(before) else hits)


def find_case(index: RunIndex, name: str) -> dict[str, Any]:
    """Find the line of `cases.jsonl` by an id, a number, or the beginning of an id.

    Raises:
        BadSettings: none or several fit; names the nearest.
        BadData: there are no cases, or a damaged line.
    """
    if line := index.case(name):
        return line
    folder = index.folder
    ids, highest = [], 0
    for line in read_lines(folder, CASES):
        ids.append(line["case"])
        highest = max(highest, int(line["number"]))
    if not ids:
        raise BadData(f"'{folder / CASES}' has no case: restore the file.")
    if fitting := list(dict.fromkeys(case for case in ids if case.startswith(name))):
        raise BadSettings(f"'{name}' begins {len(fitting)} cases: {_some(fitting)}. Give more of the id.")
    near = difflib.get_close_matches(name, ids, n=3, cutoff=0.6) or ids
    raise BadSettings(
        f"no case '{name}' in '{folder}': give a number from 1 to {highest}, or an id such as {_some(near)}."
    )


def _refuse_nothing(
    folder: Path, case: str, of_case: list[Record], manifest: Manifest, records: RecordFilter
) -> NoReturn:
    """Say why nothing is shown, and what could be.

    Raises:
        BadSettings: always.
    """
    if not of_case:
        raise BadSettings(f"case {case} has not been asked yet: finish the run with: emend resume {folder}")
    editors = [name for name in manifest.config.editors if any(record.editor == name for record in of_case)]
    kinds = sorted({record.kind for record in of_case})
    check_name(f"case {case} has no editor", records.editor, editors)
    check_name(f"case {case} has no kind", records.kind, kinds)
    raise BadSettings(
        f"nothing in case {case} fits {records}: it has the editors {', '.join(editors)}; "
        f"the kinds {', '.join(kinds)}; the probes {_some(list(dict.fromkeys(record.probe for record in of_case)))}."
    )


def _some(ids: list[str]) -> str:
    rest = f" and {len(ids) - MAX_IDS} more" if len(ids) > MAX_IDS else ""
    return ", ".join(ids[:MAX_IDS]) + rest


def rows(trace: Trace) -> list[dict[str, Any]]:
    """Make one row per probe: its record, the case's number and edits, steps, trajectory, judgements."""
    head = {"number": trace.number, "edits": list(trace.edits)}
    rows_of_probes = [
        head
        | probe.record.model_dump(mode="json")
        | {
            "steps": list(probe.visible_steps),
            "trajectory": trajectory(probe.record, probe.steps),
            "judged": [item.model_dump(mode="json") for item in probe.judged],
        }
        for probe in trace.probes
    ]
    return rows_of_probes + [head | failure for failure in trace.failures]
