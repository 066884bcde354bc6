"""Stepwise editors with a real model, without the data set's number of hops: how many steps, what they say, and cost.

    python -m scripts.benchmarks.bench_steps mquake_cf_3k.json --model smollm2 --out after.jsonl
    python -m scripts.benchmarks.bench_steps mquake_cf_3k.json --against before.jsonl --out after.jsonl

Questions are the first ones of MQuAKE rows of two to four hops, and own ones of two and three (`own_chains.json`); for
`kg_walk` also the question of another row's edit, which the edit in memory does not touch. Answers are appended to the
file as they come. The script takes the package from the path, so that an older checkout can be asked the same.
"""

import argparse
import json
import random
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from emend.agents.llm import load_model
from emend.editors.base import EditorContext
from emend.editors.registry import EDITORS
from emend.evals.evaluate.baseline import ask_recorded
from emend.evals.evaluate.resources import open_lazily
from emend.evals.metrics.estimate import estimate
from emend.evals.metrics.paired import Pair, compare_pairs
from emend.evals.metrics.scorers import score
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import ModelError, ModelReplyError
from emend.memory.probe import Probe
from emend.memory.retrieval.compose import load_retriever
from emend.memory.steps import steps_of, usage_until

SETTINGS: dict[str, dict[str, Any]] = {"mello": {}, "cot": {"form": "steps"}, "kg_walk": {}}
OWN = Path(__file__).with_name("own_chains.json")
LABELS = re.compile(r"(?i)\b(subquestion|generated answer|final answer|retrieved fact|question)\s*:|retrieved fact \w+")
"""Labels of a form, which are not part of an answer."""


class Item(NamedTuple):
    """A question with its edits; `hops` is 0 for one that the edits do not touch."""

    id: str
    question: str
    gold: tuple[str, ...]
    hops: int
    edits: tuple[Edit, ...]


def edit_of(prompt: str, subject: str, target: str, question: str = "", relation: str = "") -> Edit:
    """An edit of one triplet; `prompt` may have {} for its subject."""
    template = prompt if "{}" in prompt else prompt.replace(subject, "{}")
    triplet = Triplet(subject=subject, relation=relation or template.replace("{}", "").strip(), object=target)
    return Edit.from_triplet(triplet, template, question=question)


def mquake_items(rows: Sequence[Mapping[str, Any]], limit: int, seed: int) -> Iterator[Item]:
    """As many rows of two, three and four hops in turn."""
    shuffled = random.Random(seed).sample(list(rows), len(rows))
    by_hops = [[row for row in shuffled if len(row["new_single_hops"]) == hops] for hops in (2, 3, 4)]
    for number in range(limit):
        row = by_hops[number % 3][number // 3]
        gold = (row["new_answer"], *row["new_answer_alias"])
        hops = len(row["new_single_hops"])
        yield Item(
            f"m{row['case_id']}", row["questions"][0], gold, hops, tuple(map(rewrite_edit, row["requested_rewrite"]))
        )


def rewrite_edit(rewrite: Mapping[str, Any]) -> Edit:
    """The edit of a row's rewrite."""
    target = rewrite["target_new"]["str"]
    return edit_of(rewrite["prompt"], rewrite["subject"], target, rewrite["question"], rewrite["relation_id"])


def untouched_items(rows: Sequence[Mapping[str, Any]], limit: int, seed: int) -> Iterator[Item]:
    """Each row's edit with the question of the next row's, about another subject."""
    rewrites = [row["requested_rewrite"][0] for row in random.Random(seed + 1).sample(list(rows), limit + 1)]
    for first, second in zip(rewrites, rewrites[1:], strict=False):
        if first["subject"] != second["subject"]:
            gold = (second["target_true"]["str"],)
            yield Item(f"u{second['subject']}", second["question"], gold, 0, (rewrite_edit(first),))


def own_items(limit: int) -> Iterator[Item]:
    """The own questions."""
    for number, row in enumerate(json.loads(OWN.read_text(encoding="utf-8"))[:limit]):
        edits = tuple(edit_of(*edit) for edit in row["edits"])
        yield Item(f"o{number}", row["question"], tuple(row["gold"]), row["hops"], edits)


def spread(groups: Sequence[Sequence[Item]]) -> Iterator[Item]:
    """All items, each group spread evenly over the whole, so that a run that is cut off has some of each."""
    positions = [((index + 0.5) / len(group), item) for group in groups for index, item in enumerate(group)]
    yield from (item for _, item in sorted(positions, key=lambda pair: pair[0]))


def ask(editor: Any, item: Item) -> dict[str, Any]:
    """Answer, steps and cost of one question."""
    probe = Probe(kind="x", prompt=item.question, style="question", gold=item.gold, scorers=("contains",))
    fields: dict[str, Any] = {"id": item.id, "question": item.question, "gold": item.gold[0], "hops": item.hops}
    try:
        with editor.edit(item.edits) as answerer:
            answer = ask_recorded(editor.name, answerer, probe)
    except (ModelReplyError, ModelError) as error:
        usage = usage_until(error)
        steps = steps_of(error)
        fields |= {"unscored": str(error)[:200], "text": "", "left_alone": False, "contains": None}
    else:
        usage, steps = answer.usage, answer.steps
        values = score(probe, answer).values
        fields |= {
            "text": answer.text,
            "contains": values.get("contains"),
            "left_alone": "New Fact:" not in prompt_of(steps),
        }
    state = {key: value for step in steps for key, value in step.update.items()}
    path = state.get("hops") or []
    texts = [str(hop.get(name, "")) for hop in path for name in ("tentative", "answer")]
    fields |= {"path": path, "end": state.get("end"), "fallback": state.get("fallback"), "texts": texts}
    fields |= {"relations": state.get("relations"), "prompt": prompt_of(steps)[-2_000:]}
    # A version that does not count cot's steps shows no demonstrations there.
    fields["steps"] = len(path) or state.get("steps", prompt_of(steps).count("Subquestion:"))
    return fields | {"calls": usage.calls, "tokens": usage.input_tokens + usage.output_tokens}


def prompt_of(steps: Sequence[Any]) -> str:
    """The prompt of the answer, "" if it came to none."""
    return next((str(step.update["prompt"]) for step in reversed(steps) if "prompt" in step.update), "")


def run(arguments: argparse.Namespace, items: Sequence[Item]) -> None:
    """Ask what the file does not have yet, several questions at once, whose calls share batches."""
    done = {(line["editor"], line["id"]) for line in read(arguments.out)}
    names = arguments.editor or list(SETTINGS)
    model = load_model(arguments.model, keep_mb=1_024)
    with TemporaryDirectory() as folder, arguments.out.open("a", encoding="utf-8") as out:
        memories = Memories(Path(folder))
        with ThreadPoolExecutor(arguments.at_once) as pool:
            lines = []
            for item, name in product(items, names):
                if (name, item.id) not in done and (item.hops or name == "kg_walk"):
                    lines.append(pool.submit(ask_editor, name, item, model, memories))
            for line in as_completed(lines):
                out.write(json.dumps(line.result(), ensure_ascii=False) + "\n")
                out.flush()
        memories.close()


class Memories(threading.local):
    """A memory for each thread."""

    def __init__(self, folder: Path) -> None:
        self.memory = open_lazily(folder / str(threading.get_ident()), "lexical")

    def close(self) -> None:
        """Close this thread's memory; the others' end with their threads."""
        self.memory.close()


def ask_editor(name: str, item: Item, model: Any, memories: Memories) -> dict[str, Any]:
    """The line of one editor and question."""
    context = EditorContext(model, memories.memory, load_retriever("default"), settings=SETTINGS[name])
    return {"editor": name, **ask(EDITORS.load(name)(context), item)}


def read(file: Path) -> list[dict[str, Any]]:
    """The answers of a file; none if there is no file yet."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def value(line: Mapping[str, Any], name: str) -> float | None:
    """A measure of one answer; None where it does not apply."""
    if name == "right number of hops":
        return float(line["steps"] == line["hops"]) if line["editor"] != "kg_walk" and line["hops"] else None
    if name == "labels in answers":
        return float(any(LABELS.search(text) for text in [*line["texts"], line["text"] or ""]))
    if name == "left alone":
        return float(line["left_alone"]) if not line["hops"] else None
    if name == "contains":
        return line["contains"] if line["hops"] else None
    return float(line[name])


MEASURES = ("right number of hops", "steps", "labels in answers", "left alone", "contains", "calls", "tokens")


def report(after: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Means by editor, with what they were before and the paired difference; and the verdicts of all hops."""
    for name in dict.fromkeys(line["editor"] for line in after):
        mine = {line["id"]: line for line in after if line["editor"] == name}
        old = {line["id"]: line for line in before if line["editor"] == name}
        yield f"{name}: {len(mine)} questions, {len(mine.keys() & old.keys())} of them before too"
        for measure in MEASURES:
            if text := compare(mine, old, measure):
                yield f"  {measure}: {text}"
        for label, lines in (("before", old), ("now", mine)):
            verdicts = [
                bool(hop["contradicts"]) for line in lines.values() for hop in line["path"] if "contradicts" in hop
            ]
            if verdicts:
                yield f"  contradicts {label}: {sum(verdicts)} of {len(verdicts)} checks"


def compare(after: Mapping[str, Any], before: Mapping[str, Any], measure: str) -> str:
    """The mean with its interval, n, and the paired difference to before; empty where the measure does not apply."""
    values = {id: number for id, line in after.items() if (number := value(line, measure)) is not None}
    if not values:
        return ""
    pairs = [
        Pair(id, "", old, number)
        for id, number in values.items()
        if id in before and (old := value(before[id], measure)) is not None
    ]
    share = estimate(list(values.values()), list(values))
    text = f"{share.mean or 0.0:.3g}{ends(share.low, share.high)}, n {len(values)}"
    if not pairs:
        return text
    change = compare_pairs(pairs)
    return f"{text}; before {change.mean_a or 0.0:.3g}, {change.difference or 0.0:+.3g}{ends(change.low, change.high)}"


def ends(low: float | None, high: float | None) -> str:
    """The ends of an interval, if there is one."""
    return "" if low is None or high is None else f" [{low:.3g}, {high:.3g}]"


def main() -> None:
    """Ask, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", help="as in emend run --model; default: ask nothing")
    parser.add_argument("--editor", action="append", choices=list(SETTINGS))
    parser.add_argument("--limit", type=int, default=10, help="questions of MQuAKE, and untouched ones")
    parser.add_argument("--own", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=8, help="questions whose calls share batches")
    parser.add_argument("--against", type=Path, help="answers of another version")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rows = json.loads(arguments.file.read_text(encoding="utf-8"))
    if arguments.model:
        groups = (
            list(own_items(arguments.own)),
            list(mquake_items(rows, arguments.limit, arguments.seed)),
            list(untouched_items(rows, arguments.limit, arguments.seed)),
        )
        run(arguments, list(spread(groups)))
    print("\n".join(report(read(arguments.out), read(arguments.against) if arguments.against else [])))


if __name__ == "__main__":
    main()
