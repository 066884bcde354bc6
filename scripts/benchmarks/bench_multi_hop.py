"""Multi-hop answers of editors with a real model, with each case's own edits and with those of all rows at once.

    python -m scripts.benchmarks.bench_multi_hop mquake_cf_3k.json --model hf:FOLDER --out answers.jsonl

The first question of a seeded sample of rows, and of `all` only rows whose chain no other row's edit changes. An answer
is right by `exact` or by `contains`. Answers are appended to the file as they come, and those that it has are not asked
again; without --model the file is only summed up.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import TypeAdapter

from emend.agents.llm import load_model
from emend.editors.base import EditorContext
from emend.editors.registry import EDITORS
from emend.evals.data.benchmarks.mquake import ChainRow
from emend.evals.data.benchmarks.rows import contaminated_ids
from emend.evals.evaluate.baseline import ask_recorded
from emend.evals.evaluate.resources import open_lazily
from emend.evals.metrics.estimate import estimate
from emend.evals.metrics.hops import HOPS_RIGHT, hop_answer, score_hops
from emend.evals.metrics.paired import Pair, compare_pairs
from emend.evals.metrics.scorers import score
from emend.memory.edit import Edit
from emend.memory.errors import ModelError, ModelReplyError
from emend.memory.probe import Probe
from emend.memory.retrieval.compose import load_retriever
from emend.memory.steps import usage_until

EDITOR_NAMES = ("kg_walk", "mello", "rag", "cot", "agent")
SCOPES = ("case", "all")


def sample(rows: Sequence[ChainRow], scope: str, limit: int, seed: int) -> list[ChainRow]:
    """Rows to ask about, in an order that does not depend on their number."""
    contaminated = set(contaminated_ids({row.id: row.orig for row in rows})) if scope == "all" else set()
    clean = [row for row in rows if row.id not in contaminated]
    return random.Random(seed).sample(clean, min(limit, len(clean)))


def probe_of(row: ChainRow) -> Probe:
    """The row's first question."""
    return Probe(
        kind="multihop",
        prompt=row.questions[0],
        style="question",
        gold=(row.new_answer, *row.new_answer_alias),
        rival=row.answer,
        scorers=("exact_match", "contains"),
    )


def answer_row(editor: Any, edits: Sequence[Edit], row: ChainRow) -> dict[str, Any]:
    """Scores, calls and seconds of one question under some edits."""
    start, probe = time.perf_counter(), probe_of(row)
    fields: dict[str, Any] = {"id": row.id, "question": probe.prompt, "gold": probe.gold[0]}
    try:
        with editor.edit(edits) as answerer:
            answer = ask_recorded(editor.name, answerer, probe)
    except (ModelReplyError, ModelError) as error:
        return fields | {"unscored": str(error)[:200], "calls": usage_until(error).calls}
    path = next((step.update["hops"] for step in reversed(answer.steps) if "hops" in step.update), None)
    values = {"answer": answer.text, "path": path, "calls": answer.usage.calls, "values": score(probe, answer).values}
    return fields | values | {"seconds": round(time.perf_counter() - start, 1)}


def run(arguments: argparse.Namespace, rows: Sequence[ChainRow]) -> None:
    """Ask what the file does not have yet; a weights-free model is loaded once."""
    done = {(line["editor"], line["scope"], line["id"]) for line in read(arguments.out)}
    model = load_model(arguments.model)
    together = list({edit.id: edit for row in rows for edit in edits_of(row)}.values())
    with TemporaryDirectory() as folder, arguments.out.open("a", encoding="utf-8") as out:
        memory = open_lazily(Path(folder), arguments.embedding)
        context = EditorContext(model, memory, load_retriever("default"))
        chosen = {scope: sample(rows, scope, arguments.limit, arguments.seed) for scope in SCOPES}
        for place in range(arguments.limit):
            for scope in SCOPES:
                for name in arguments.editor or EDITOR_NAMES:
                    row = chosen[scope][place]
                    if (name, scope, row.id) in done:
                        continue
                    edits = edits_of(row) if scope == "case" else together
                    line = answer_row(EDITORS.load(name)(context), edits, row)
                    out.write(json.dumps({"editor": name, "scope": scope, **line}, ensure_ascii=False) + "\n")
                    out.flush()
        memory.close()


def edits_of(row: ChainRow) -> list[Edit]:
    """The edits of a row."""
    return [rewrite.edit for rewrite in row.requested_rewrite]


def read(file: Path) -> list[dict[str, Any]]:
    """The answers of a file; none if there is no file yet."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def hop_accuracy(asked: Sequence[Mapping[str, Any]], rows: Mapping[int, ChainRow]) -> str:
    """Percent of questions whose path has every hop's answer in order (Gu et al. 2024, Hop-Acc); none without paths."""
    if not any(line.get("path") for line in asked):
        return ""
    right_paths = [float(has_hops(line.get("path") or (), rows[line["id"]])) for line in asked]
    return f"; hops {percent_of(right_paths, [line['id'] for line in asked])}"


def has_hops(path: Sequence[Mapping[str, Any]], row: ChainRow) -> bool:
    """True if the answers of a path are those of the row's hops after the edits, one by one."""
    golds = [(hop.answer, *hop.answer_alias) for hop in row.new_single_hops]
    return score_hops([hop_answer(hop) for hop in path], golds)[HOPS_RIGHT] == 1


def report(lines: Sequence[Mapping[str, Any]], rows: Mapping[int, ChainRow]) -> Iterator[str]:
    """Accuracy by editor and scope, its paired difference to kg_walk, hops that are right, and calls a question."""
    for scope in SCOPES:
        here = [line for line in lines if line["scope"] == scope]
        names = list(dict.fromkeys(line["editor"] for line in here))
        by_editor = {name: {line["id"]: line for line in here if line["editor"] == name} for name in names}
        common = [id for id in by_editor.get(names[0], {}) if all(id in found for found in by_editor.values())]
        yield f"{scope}: {len(common)} questions that all editors were asked"
        for name in names:
            asked = [by_editor[name][id] for id in common]
            calls = sum(line["calls"] for line in asked) / max(len(asked), 1)
            parts = [
                f"{rule} {percent(asked, rule)}{difference(asked, by_editor, common, rule)}"
                for rule in ("em", "contains")
            ]
            unscored = sum("unscored" in line for line in asked)
            hops = hop_accuracy(asked, rows)
            yield f"  {name:8} {'; '.join(parts)}{hops}; {calls:.1f} calls, {unscored} unscored"


def right(line: Mapping[str, Any], rule: str) -> float:
    """1 for a right answer; an answer that cannot be scored is wrong here, since all editors are asked the same."""
    return float(line.get("values", {}).get(rule, 0.0))


def percent(asked: Sequence[Mapping[str, Any]], rule: str) -> str:
    """A share with its 95% interval."""
    return percent_of([right(line, rule) for line in asked], [line["id"] for line in asked])


def percent_of(values: Sequence[float], ids: Sequence[int]) -> str:
    """The mean of zeros and ones with its 95% interval."""
    share = estimate(values, ids)
    ends = "" if share.low is None or share.high is None else f" [{share.low:.0%}, {share.high:.0%}]"
    return f"{share.mean or 0.0:.0%}{ends}"


def difference(
    asked: Sequence[Mapping[str, Any]], by_editor: Mapping[str, Mapping[Any, Any]], common: Sequence[Any], rule: str
) -> str:
    """The paired difference of kg_walk to an editor."""
    walk = by_editor.get("kg_walk", {})
    if not walk or not asked or asked[0]["editor"] == "kg_walk":
        return ""
    pairs = [Pair(id, "", right(line, rule), right(walk[id], rule)) for id, line in zip(common, asked, strict=True)]
    found = compare_pairs(pairs)
    ends = "" if found.low is None or found.high is None else f" [{found.low:+.0%}, {found.high:+.0%}]"
    return f" (kg_walk {found.difference or 0.0:+.0%}{ends})"


def main() -> None:
    """Ask, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", help="as in emend run --model; default: ask nothing")
    parser.add_argument("--editor", action="append", choices=EDITOR_NAMES)
    parser.add_argument("--limit", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--embedding", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rows = TypeAdapter(list[ChainRow]).validate_json(arguments.file.read_bytes())
    if arguments.model:
        run(arguments, rows)
    print("\n".join(report(read(arguments.out), {row.id: row for row in rows})))


if __name__ == "__main__":
    main()
