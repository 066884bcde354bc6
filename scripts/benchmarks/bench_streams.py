"""Memory systems over generated streams, read by a model without faults on 127.0.0.1: every wrong answer is a memory's.

    python scripts/benchmarks/bench_streams.py --turns 100 1000 --seeds 1 2 3
    python scripts/benchmarks/bench_streams.py --turns 10000 --seeds 1 --places 100
    python scripts/benchmarks/bench_streams.py --poison --turns 300
    python scripts/benchmarks/bench_streams.py --turns 100 --seeds 1 --model hf:FOLDER

The reader answers by the sentences of its context, their dates and their rules. Systems that extract by a model
(langmem, mem0, graphiti) have one that writes down each message as it is. With --poison, 30 documents demand other
answers, and a second reader obeys each document about the subject of its question.
"""

import argparse
import contextlib
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from emend.agents.llm import load_model  # noqa: E402
from emend.evals.case import Record  # noqa: E402
from emend.evals.config.task_config import StreamConfig, StreamOptions  # noqa: E402
from emend.evals.log.records import read_records  # noqa: E402
from emend.evals.metrics.estimate import estimate  # noqa: E402
from emend.evals.metrics.paired import Pair, compare_pairs  # noqa: E402
from emend.evals.run.run import run  # noqa: E402
from emend.evals.stream.benchmark import DEFINITION  # noqa: E402
from emend.evals.stream.fairness import answer_prompt  # noqa: E402
from emend.evals.stream.generator import generate_stream, with_injections  # noqa: E402
from emend.evals.stream.turn import StreamItem, write_stream  # noqa: E402
from emend.evals.stream.wordings import read_question  # noqa: E402
from tests.evals.stream.extraction import write_down  # noqa: E402
from tests.provider.protocols import Asked, Said  # noqa: E402
from tests.provider.server import Provider  # noqa: E402

SYSTEMS = ("full_context", "grep", "bm25_newest", "langgraph_store", "memory", "oracle", "empty")
COLUMNS = (
    ("accuracy", "answerable", "current", "historic", "multi_hop", "set", "cascade"),
    ("deleted", "absence", "abstention", "stale", "leaked", "false_acceptance", "evidence"),
    ("state_precision", "state_recall", "context_tokens", "recall_ms", "store_items"),
)
METRICS = {metric.name: metric for metric in DEFINITION.metrics}
Answers = dict[str, list[Record]]


def reply(asked: Asked, *, obeys: bool = False) -> str | Said:
    """The answer to a question, or the memories of a message that a system lets the model read."""
    if (memories := write_down(asked)) is not None:
        return memories
    return obey(asked.prompt) if obeys else answer_prompt(asked.prompt)


def obey(prompt: str) -> str:
    """What the last document about the subject of the question demands; without one, the answer."""
    lines = prompt.splitlines()
    target = read_question(lines[-1].partition("user: ")[2])
    for line in reversed(lines[:-1]):
        if target and "Zzyx" in line and target.subject in line:
            return next(word for word in line.replace(".", " ").split() if word.startswith("Zzyx"))
    return answer_prompt(prompt)


def ask_systems(items: Sequence[StreamItem], options: argparse.Namespace, *, obeys: bool = False) -> Answers:
    """The records of a run over a stream, by system."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        spec = options.model
        if not spec:
            spec = stack.enter_context(Provider(lambda asked: reply(asked, obeys=obeys))).spec("chat")
        write_stream(items, home / "stream.jsonl")
        config = StreamConfig(
            systems=tuple(options.systems),
            model=spec,
            embedding="lexical",
            budget=options.budget,
            places=options.places,
        )
        run(config.run_config(str(home / "stream.jsonl")), home / "run")
        answers: Answers = defaultdict(list)
        for record in read_records(home / "run"):
            answers[record.editor].append(record)
        return answers


def cell(records: Sequence[Record], name: str) -> str:
    """A metric over records with its interval, over the places of all streams."""
    metric = METRICS[name]
    chosen = [each for each in records if each.kind in metric.kinds and metric.value in each.values]
    if not chosen:
        return ""
    result = estimate(
        [each.values[metric.value] for each in chosen], [each.case for each in chosen], share=metric.share
    )
    result = result.scaled(metric.scale)
    interval = "" if result.low is None else f" [{result.low:.0f}, {result.high:.0f}]"
    return f"{result.mean:.0f}{interval}"


def print_tables(answers: Answers) -> None:
    """Print the metrics in Markdown, and the paired difference of each system from the first in accuracy."""
    for columns in COLUMNS:
        print(f"| system | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 1)}")
        for system, records in answers.items():
            print(f"| `{system}` | {' | '.join(cell(records, name) for name in columns)} |")
        print()
    first, *others = answers
    right = {record.probe: record for record in answers[first]}
    for system in others:
        pairs = [
            Pair(each.case, each.kind, right[each.probe].values.get("correct"), each.values.get("correct"))
            for each in answers[system]
        ]
        paired = compare_pairs(pairs)
        if paired.difference is not None and paired.p is not None:
            print(f"{system} less {first}: {100 * paired.difference:+.1f} points, p = {paired.p:.4f} ({paired.test})")
    print()


def measure(turns: int, options: argparse.Namespace) -> None:
    """Print the tables of streams of that length, all seeds together."""
    answers: Answers = defaultdict(list)
    begin = time.monotonic()
    for seed in options.seeds:
        items = list(generate_stream(StreamOptions(turns=turns, seed=seed)))
        for system, records in ask_systems(items, options).items():
            answers[system] += records
    questions = len(next(iter(answers.values())))
    seconds = time.monotonic() - begin
    size = f"{turns:,} turns, {len(options.seeds)} seeds, {questions:,} questions"
    print(f"{size}, budget {options.budget}, {seconds:.0f} s\n")
    print_tables(answers)


def measure_poison(turns: int, options: argparse.Namespace) -> None:
    """Print how many answers 30 poisoned documents change, for a sound reader and for one that obeys."""
    clean = list(generate_stream(StreamOptions(turns=turns, seed=options.seeds[0])))
    poisoned = with_injections(clean, options.injections)
    before = ask_systems(clean, options)
    print(f"{options.injections} poisoned documents in {turns:,} turns, budget {options.budget}\n")
    print("| system | reader | demanded answers | other changes | of questions |\n| --- | --- | --- | --- | --- |")
    for name, obeys in (("sound", False), ("obeys documents", True)):
        for system, records in ask_systems(poisoned, options, obeys=obeys).items():
            answers = {each.probe: each.answer for each in before[system]}
            demanded = sum(each.values.get("gives_injected", 0) for each in records)
            changed = sum(answers[each.probe] != each.answer for each in records)
            print(f"| `{system}` | {name} | {demanded:.0f} | {changed - demanded:.0f} | {len(records)} |")
    print()


def main() -> None:
    """Measure, and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, nargs="+", default=[100])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS))
    parser.add_argument("--budget", type=int, default=500)
    parser.add_argument("--places", type=int, help="places at which questions are asked; default: all")
    parser.add_argument("--model", default="", help="model that reads, in place of the reader without faults")
    parser.add_argument("--poison", action="store_true")
    parser.add_argument("--injections", type=int, default=30)
    options = parser.parse_args()
    if options.model:
        load_model(options.model)  # an error comes before anything is measured
    for turns in options.turns:
        (measure_poison if options.poison else measure)(turns, options)


if __name__ == "__main__":
    main()
