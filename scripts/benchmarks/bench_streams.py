"""Memory systems over generated streams, read by a model without faults on 127.0.0.1: every wrong answer is a memory's.

    python scripts/benchmarks/bench_streams.py --turns 100 1000 --seeds 1 2 3
    python scripts/benchmarks/bench_streams.py --turns 10000 --seeds 1 --places 100
    python scripts/benchmarks/bench_streams.py --poison --turns 300
    python scripts/benchmarks/bench_streams.py --turns 100 --seeds 1 --model hf:FOLDER
    python scripts/benchmarks/bench_streams.py --turns 100 --seeds 1 --wordings held-out --extractor rules --csv FILE

The reader answers by the sentences of its context, their dates and their rules. Systems that extract by a model
(langmem, mem0, graphiti) have one that writes down each message as it is; with --extractor rules, they, `memory` and
`facts` have what the extractor by rules reads in it, and nothing else. With --poison, 30 documents demand other
answers, and a second reader obeys each document about the subject of its question. --csv adds the figures to a file:
the streams, the system, the measure, its value and its 95% interval.
"""

import argparse
import contextlib
import csv
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from emend.agents.llm import load_model  # noqa: E402
from emend.evals.metrics.estimate import Estimate, estimate  # noqa: E402
from emend.evals.metrics.paired import Pair, compare_pairs  # noqa: E402
from emend.evals.streams.fairness import answer_prompt  # noqa: E402
from emend.evals.streams.generator import generate_stream, with_injections  # noqa: E402
from emend.evals.streams.run.job import run_stream  # noqa: E402
from emend.evals.streams.run.line import AnswerLine, read_answers  # noqa: E402
from emend.evals.streams.run.metrics import DEFINITION  # noqa: E402
from emend.evals.streams.sentences.wordings import read_question  # noqa: E402
from emend.evals.streams.stream_config import StreamConfig, StreamOptions  # noqa: E402
from emend.evals.streams.turn import StreamItem, write_stream  # noqa: E402
from tests.evals.streams.extraction import VERBATIM, Writer, write_down, writer_by_rules  # noqa: E402
from tests.provider.protocols import Asked, Said  # noqa: E402
from tests.provider.server import Provider  # noqa: E402

SYSTEMS = ("full_context", "grep", "bm25_newest", "langgraph_store", "memory", "oracle", "empty")
COLUMNS = (
    ("accuracy", "answerable", "current", "historic", "multi_hop", "set", "cascade"),
    ("deleted", "absence", "abstention", "stale", "leaked", "false_acceptance", "evidence"),
    ("state_precision", "state_recall", "context_tokens", "recall_ms", "store_items"),
)
METRICS = {metric.name: metric for metric in DEFINITION.metrics}
Answers = dict[str, list[AnswerLine]]


def reply(asked: Asked, writer: Writer, *, obeys: bool = False) -> str | Said:
    """The answer to a question, or the memories of a message that a system lets the model read."""
    if (memories := write_down(asked, writer)) is not None:
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
        by_rules = options.extractor == "rules"
        writer = writer_by_rules() if by_rules else VERBATIM
        if not spec:
            spec = stack.enter_context(Provider(lambda asked: reply(asked, writer, obeys=obeys))).spec("chat")
        write_stream(items, home / "stream.jsonl")
        config = StreamConfig(
            systems=tuple(options.systems),
            model=spec,
            embedding="lexical",
            budget=options.budget,
            places=options.places,
            overrides={"memory": {"extractor": "rules"}} if by_rules and "memory" in options.systems else {},
        )
        run_stream(home / "stream.jsonl", config, home / "run")
        answers: Answers = defaultdict(list)
        for record in read_answers(home / "run"):
            answers[record.editor].append(record)
        return answers


def measure_of(records: Sequence[AnswerLine], name: str) -> Estimate | None:
    """A metric over records with its interval, over the places of all streams; None if no record has it."""
    metric = METRICS[name]
    chosen = [each for each in records if each.kind in metric.kinds and metric.value in each.values]
    if not chosen:
        return None
    values, places = [each.values[metric.value] for each in chosen], [each.case for each in chosen]
    return estimate(values, places, share=metric.share).scaled(metric.scale)


def cell(records: Sequence[AnswerLine], name: str) -> str:
    """A metric over records with its interval, as a table shows it."""
    result = measure_of(records, name)
    if result is None:
        return ""
    interval = "" if result.low is None else f" [{result.low:.0f}, {result.high:.0f}]"
    return f"{result.mean:.0f}{interval}"


def add_rows(path: Path, streams: str, answers: Answers) -> None:
    """Add all measures of all systems to a file in CSV, with a head if it is new."""
    is_new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(("streams", "system", "measure", "value", "low", "high"))
        for system, records in answers.items():
            for name in (name for columns in COLUMNS for name in columns):
                if (result := measure_of(records, name)) is not None:
                    bounds = (result.mean, result.low, result.high)
                    writer.writerow((streams, system, name, *map(whole, bounds)))


def whole(value: float | None) -> str:
    """A figure without decimals; empty if there is none."""
    return "" if value is None else f"{value:.0f}"


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
        items = list(generate_stream(StreamOptions(turns=turns, seed=seed, wordings=options.wordings)))
        for system, records in ask_systems(items, options).items():
            answers[system] += records
    questions = len(next(iter(answers.values())))
    seconds = time.monotonic() - begin
    size = f"{turns:,} turns, {len(options.seeds)} seeds, {questions:,} questions"
    print(f"{size}, budget {options.budget}, {seconds:.0f} s\n")
    print_tables(answers)
    if options.csv:
        writes = {"exact": "", "rules": ", extractor by rules"}[options.extractor]
        held_out = ", held-out wordings" if options.wordings == "held-out" else ""
        add_rows(options.csv, f"{turns:,} turns{held_out}{writes}", answers)


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
    parser.add_argument("--wordings", choices=("standard", "held-out"), default="standard")
    parser.add_argument("--extractor", choices=("exact", "rules"), default="exact", help="what systems that read have")
    parser.add_argument("--csv", type=Path, help="file to which the figures are added")
    parser.add_argument("--poison", action="store_true")
    parser.add_argument("--injections", type=int, default=30)
    options = parser.parse_args()
    if options.model:
        load_model(options.model)  # an error comes before anything is measured
    for turns in options.turns:
        (measure_poison if options.poison else measure)(turns, options)


if __name__ == "__main__":
    main()
