"""Trace of one case: nodes, retrieved entries, exact prompts, replies, scores and trajectories.

Trajectories are messages in the format of trajectory evaluators such as `agentevals`. Each node is
a call of a tool with the node's name, so that two paths are equal if they call the same tools in
the same order.
"""

import difflib
import json
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from emend.agents.judging.base import Item
from emend.evals.case import Record
from emend.evals.corrections.correction import ScoreCorrection, read_corrections
from emend.evals.judging.items import plan
from emend.evals.judging.judgement import Judgement
from emend.evals.judging.scorings.earlier import JudgedCall
from emend.evals.judging.scorings.judgements import judged_calls, read_judgements
from emend.evals.judging.scorings.search import find_scoring
from emend.evals.judging.scorings.verdicts import installed_judges, own_verdicts
from emend.evals.log.lines import CASES, ERRORS, split_passes, steps_from_events
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_lines
from emend.evals.log.run_index import RunIndex
from emend.evals.show.trace.filters import ALL_RECORDS, ALL_STEPS, RecordFilter, StepFilter
from emend.evals.show.trace.graph_paths import GraphEdges, edges_of
from emend.evals.show.trace.verdicts import check_name
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadData, BadSettings


class JudgedItem(FrozenModel):
    """One judgement of an item of a record, with the steps that led to it."""

    judgement: Judgement
    together: int = 1
    """Number of items judged by the same call; its tokens and steps are stored with the first."""
    steps: tuple[dict[str, Any], ...] = ()


def judged_steps(
    folder: Path,
    case: str | Sequence[Record] | None,
    name: str | None = None,
    index: RunIndex | None = None,
) -> dict[tuple[str, str], list[JudgedItem]]:
    """Return the judgements of a scoring by (unit, probe); empty if the run was not judged.

    Args:
        folder: the run folder.
        case: id of a case, or its records; None for all cases.
        name: id of a scoring or its beginning, or `none` for no scoring; default: the newest.
        index: index of the run, used to read only the lines of the case's records.

    Raises:
        BadSettings: the scoring is unknown.
        BadData: a line is damaged.
    """
    Manifest.read(folder)
    scoring = find_scoring(folder, name)
    if scoring is None:
        return {}
    stored_verdicts = own_verdicts(folder, scoring)
    records = None
    if not isinstance(case, str):
        records = case
    item_ids: dict[tuple[str, str], list[str]] = {}
    for record, items in plan(folder, installed_judges(scoring), records, index):
        if isinstance(case, str) and record.case != case:
            continue
        probe_key = record.unit, record.probe
        verdicts = stored_verdicts.get(probe_key, ())
        item_ids[probe_key] = [item.id for item in items.values() if isinstance(item, Item)]
        item_ids[probe_key] += [verdict.item for verdict in verdicts if verdict.item]
    case_items = set(chain.from_iterable(item_ids.values()))
    calls = judged_calls(folder, scoring, case_items, index)
    judged = defaultdict[str, list[JudgedItem]](list)
    for judgement in read_judgements(folder, scoring, case_items, index):
        call = calls.get(judgement.key, JudgedCall(1, []))
        judged[judgement.item].append(
            JudgedItem(judgement=judgement, together=call.together, steps=tuple(call.steps))
        )
    return {
        probe_key: list(chain.from_iterable(map(judged.__getitem__, names)))
        for probe_key, names in item_ids.items()
        if names
    }


# Fields of a node's update that are not part of its result.
BOOKKEEPING = ("usage", "cut_tokens", "target_tokens", "greedy_tokens", "likely_tokens")


def _has_reply(steps: Sequence[dict[str, Any]]) -> bool:
    return any("reply" in (step["update"] or {}) for step in steps)


def trajectory(record: Record, steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of one probe: the prompt, each node with its result, and the answer.

    If a probe was asked for a text and for probabilities, the pass that produced the text is used.
    If the model called tools itself, its conversation is returned unchanged.
    """
    passes = split_passes(steps) or [[]]
    chosen = next(filter(_has_reply, passes), passes[-1])
    stored = (
        step["update"]["messages"]
        for step in reversed(chosen)
        if "messages" in (step["update"] or {})
    )
    if messages := conversation(next(stored, None)):
        return messages
    messages = [{"role": "user", "content": record.prompt}]
    for number, step in enumerate(chosen[:-1], 1):
        messages += _tool_messages(number, step)
    return [*messages, {"role": "assistant", "content": record.reply or record.answer or ""}]


def conversation(stored: Any) -> list[dict[str, Any]]:
    """Convert the messages of a state from LangChain's format to OpenAI's.

    Values in another format, as a user's graph may store them, give an empty list.
    """
    if not stored:
        return []
    from langchain_core.messages import convert_to_openai_messages, messages_from_dict

    try:
        return list(convert_to_openai_messages(messages_from_dict(stored)))
    except Exception:  # the field can have any content, for example in folders from others
        return []


def _tool_messages(number: int, step: dict[str, Any]) -> list[dict[str, Any]]:
    name = f"call_{number}"
    call = {"id": name, "type": "function", "function": {"name": step["node"], "arguments": "{}"}}
    result = {key: value for key, value in (step["update"] or {}).items() if key not in BOOKKEEPING}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": json.dumps(result, ensure_ascii=False)},
    ]


# Maximum number of ids listed by an error message.
MAX_IDS = 8


class TracedProbe(FrozenModel):
    """One record with the steps that led to it."""

    record: Record
    steps: tuple[dict[str, Any], ...]
    """Steps with the fields of `events.jsonl`: node, place, at, ms, update, calls, error; calls
    include prompt and reply."""
    visible_steps: tuple[dict[str, Any], ...]
    """Steps that match the filter."""
    judged: tuple[JudgedItem, ...] = ()
    corrections: tuple[ScoreCorrection, ...] = ()
    """Scores given by a person that replace those of the run."""


class Trace(FrozenModel):
    """Trace of one case: its edits, the probes under each editor, and failed units."""

    case: str
    number: int
    setting: str
    edits: tuple[dict[str, Any], ...]
    probes: tuple[TracedProbe, ...]
    failures: tuple[dict[str, Any], ...]
    ways: dict[str, GraphEdges] = {}
    """Edges of the graph of each editor that has one."""


def trace(
    folder: Path,
    case: str,
    records: RecordFilter = ALL_RECORDS,
    steps: StepFilter = ALL_STEPS,
    scoring: str | None = None,
    index: RunIndex | None = None,
) -> Trace:
    """Return the trace of one case from a run folder.

    Args:
        folder: the run folder.
        case: id of the case, the beginning of the id, or number of the case, counted from 1.
        records: filter of records.
        steps: filter of steps; probes without a match are left out.
        scoring: id of the scoring whose judgements are included, or `none`; default: the newest.
        index: an open index of the run; by default, one is opened.

    Raises:
        BadSettings: a case, probe, editor, kind, node or scoring is unknown, or nothing matches;
            the message names the existing ones.
        BadData: the folder does not contain a run, or a line is damaged.
    """
    manifest = Manifest.read(folder)
    context: AbstractContextManager[RunIndex] = RunIndex(folder)
    if index:
        context = nullcontext(index)
    with context as lines:
        line = find_case(lines, case)
        case_records = list(lines.records(line["case"]))
        chosen = [record for record in case_records if records.fits(record)]
        events = {unit: lines.events(unit) for unit in {record.unit for record in chosen}}
        judged = {}
        if chosen:
            judged = judged_steps(folder, case_records, scoring, lines)
    failures = _failures_of(folder, line["case"], case_records)
    if not chosen and (case_records or not failures):
        _refuse_nothing(folder, line["case"], case_records, manifest, records)
    whole = Trace(
        case=line["case"],
        number=line["number"],
        setting=line["setting"],
        edits=tuple(line["edits"]),
        probes=_traced(folder, chosen, events, judged),
        failures=failures,
        ways=edges_of(manifest, line["setting"]),
    )
    if steps.is_empty:
        return whole
    return _narrow(whole, steps)


def _failures_of(folder: Path, case: str, records: Sequence[Record]) -> tuple[dict[str, Any], ...]:
    """Return the failures of units of a case that were not finished later."""
    finished = {record.unit for record in records}
    return tuple(line for line in open_failures(folder, finished) if line["case"] == case)


def open_failures(folder: Path, finished: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the failures of units that were not finished later, with their steps."""
    for line in read_lines(folder, ERRORS):
        if line.get("unit") not in finished:
            yield line | {"steps": list(steps_from_events(line.get("steps", ())))}


def _traced(
    folder: Path,
    records: list[Record],
    events: dict[str, dict[str, list[dict[str, Any]]]],
    judged: dict[tuple[str, str], list[JudgedItem]],
) -> tuple[TracedProbe, ...]:
    by_answer = defaultdict[tuple[str, str], list[ScoreCorrection]](list)
    for correction in read_corrections(folder).values():
        by_answer[correction.unit, correction.probe].append(correction)
    probes = []
    for record in records:
        steps = tuple(steps_from_events(events[record.unit].get(record.probe, ())))
        judgements = tuple(judged.get((record.unit, record.probe), ()))
        probes.append(
            TracedProbe(
                record=record,
                steps=steps,
                visible_steps=steps,
                judged=judgements,
                corrections=tuple(by_answer[record.unit, record.probe]),
            )
        )
    return tuple(probes)


def _narrow(whole: Trace, steps: StepFilter) -> Trace:
    """Keep only matching steps, and judgements with a matching step.

    Raises:
        BadSettings: the node is unknown, or nothing matches; an empty result of `errors` is
            allowed.
    """
    where = f"case {whole.number}"
    ran = {step["node"] for part in _all_steps(whole) for step in part}
    steps.check_node(ran.union(*(graph.nodes for graph in whole.ways.values())), where)
    probes = []
    for probe in whole.probes:
        matching = steps.matching(probe.steps, probe.record)
        judged = tuple(judgement for judgement in probe.judged if _judgement_fits(steps, judgement))
        if matching is not None or judged:
            probes.append(
                probe.model_copy(update={"visible_steps": tuple(matching or ()), "judged": judged})
            )
    failures = [line for line in whole.failures if steps.fits_failure(line)]
    if not (probes or failures or steps.errors):
        raise BadSettings(
            f"nothing in {where} fits {steps}: it ran {', '.join(sorted(ran))}. Name one of "
            "these, or use fewer filters."
        )
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
    """Yield each visible step with the state before it.

    The state is computed from all earlier steps of the pass, including those that are not visible.
    """
    left, state = deque(visible), dict[str, Any]()
    for step in steps:
        if step["place"] <= 1:
            state = {}
        if left and step == left[0]:
            yield left.popleft(), state
        state = state | (step["update"] or {})
    yield from ((step, {}) for step in left)


def new_hits(hits: Sequence[Any], before: Sequence[Any]) -> list[Any]:
    """Return the hits that a step appended to those before; all hits if it replaced them."""
    count = len(before)
    if list(hits[:count]) == list(before):
        return list(hits[count:])
    return list(hits)


def find_case(index: RunIndex, name: str) -> dict[str, Any]:
    """Return the line of `cases.jsonl` with an id, a number, or the beginning of an id.

    Raises:
        BadSettings: no or several cases match; the message names the nearest ones.
        BadData: there are no cases, or a line is damaged.
    """
    if line := index.case(name):
        return line
    folder = index.folder
    ids, highest = [], 0
    for line in read_lines(folder, CASES):
        ids.append(line["case"])
        highest = max(highest, int(line["number"]))
    if not ids:
        raise BadData(f"'{folder / CASES}' contains no case: restore the file.")
    if fitting := list(dict.fromkeys(case for case in ids if case.startswith(name))):
        raise BadSettings(
            f"'{name}' begins {len(fitting)} cases: {_some(fitting)}. Give more of the id."
        )
    near = difflib.get_close_matches(name, ids, n=3, cutoff=0.6) or ids
    raise BadSettings(
        f"no case '{name}' in '{folder}': give a number from 1 to {highest}, or an id such as "
        f"{_some(near)}."
    )


def _refuse_nothing(
    folder: Path, case: str, of_case: list[Record], manifest: Manifest, records: RecordFilter
) -> NoReturn:
    """Raise an error that explains why nothing matches, and which names exist.

    Raises:
        BadSettings: always.
    """
    if not of_case:
        raise BadSettings(
            f"case {case} has not been asked yet: finish the run with: emend resume {folder}"
        )
    with_answers = {record.editor for record in of_case}
    editors = [name for name in manifest.config.editors if name in with_answers]
    kinds = sorted({record.kind for record in of_case})
    check_name(f"case {case} has no editor", records.editor, editors)
    check_name(f"case {case} has no kind", records.kind, kinds)
    probes = list(dict.fromkeys(record.probe for record in of_case))
    raise BadSettings(
        f"nothing in case {case} fits {records}: name one of its editors {', '.join(editors)}; of "
        f"its kinds {', '.join(kinds)}; or of its probes {_some(probes)}."
    )


def _some(ids: list[str]) -> str:
    rest = ""
    if len(ids) > MAX_IDS:
        rest = f" and {len(ids) - MAX_IDS} more"
    return ", ".join(ids[:MAX_IDS]) + rest


def rows(trace: Trace) -> list[dict[str, Any]]:
    """Return one row per probe and per failure.

    The row of a probe has its record, the number and edits of the case, steps, trajectory,
    judgements and corrections.
    """
    head = {"number": trace.number, "edits": list(trace.edits)}
    probe_rows = list[dict[str, Any]]()
    for probe in trace.probes:
        steps = {
            "steps": list(probe.visible_steps),
            "trajectory": trajectory(probe.record, probe.steps),
            "judged": [item.model_dump(mode="json") for item in probe.judged],
            "corrections": [line.model_dump(mode="json") for line in probe.corrections],
        }
        probe_rows.append(head | probe.record.model_dump(mode="json") | steps)
    return probe_rows + [head | failure for failure in trace.failures]
