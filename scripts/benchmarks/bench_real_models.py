"""A matrix of editors by real models by benchmarks, with every figure under three protocols, as Markdown.

    python scripts/benchmarks/bench_real_models.py --model SmolLM2=FOLDER --facts 40 --documents 20 --out RUNS

Each editor has a run folder of its own, so that several are made at once (`--jobs`, each a process of its own). An
interrupted matrix goes on where it stopped, and is printed as far as it has come with --only-print.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import emend
from emend.evals.cli.options import parse_overrides
from emend.evals.log.manifest import MANIFEST
from emend.evals.log.records import read_records
from emend.evals.results.aggregate.columns import MetricRow
from emend.evals.results.aggregate.rows import Report, report

MEMORY = ("unedited", "in_context", "rag", "cot", "ike", "serac", "crag", "mello")
WEIGHTS = ("ft", "lora", "rome", "r_rome", "memit", "alphaedit")
PROTOCOLS = ("likelihood", "teacher_forced", "exact", "contains")
SHOWN = ("likelihood", "exact", "contains")
KINDS = {
    "efficacy": ("efficacy", "efficacy_contaminated", "efficacy_repeated"),
    "paraphrase": ("paraphrase",),
    "neighbourhood": ("neighborhood",),
    "multi-hop": ("multihop", "multihop_contaminated"),
}


class Part(NamedTuple):
    """A benchmark's setting, and the editors that take its edits: weight editors locate no subject in a document."""

    title: str
    benchmark: str
    setting: str
    options: dict[str, str]
    editors: tuple[str, ...] = (*MEMORY, *WEIGHTS)


OF_DOCUMENTS = (*MEMORY, "ft", "lora")
PARTS = (
    Part("CounterFact", "counterfact", "triplet", {"dataset": "flat"}),
    Part("AKEW MQuAKE-CF, struct", "akew", "struct", {}),
    Part("AKEW MQuAKE-CF, unstruct", "akew", "unstruct", {}, OF_DOCUMENTS),
    Part("DocTER", "docter", "doc", {}, OF_DOCUMENTS),
)


class Cell(NamedTuple):
    """The run of an editor on a model and a part."""

    model: str
    part: Part
    editor: str
    folder: Path
    limit: int


def plan(arguments: argparse.Namespace) -> Iterator[tuple[str, Cell]]:
    """The runs, with the folder of each one's model."""
    for name, _, path in (text.partition("=") for text in arguments.model):
        for part in PARTS:
            if arguments.part and part.title not in arguments.part:
                continue
            limit = arguments.documents if part.benchmark == "docter" else arguments.facts
            for editor in part.editors:
                if not arguments.editor or editor in arguments.editor:
                    folder = arguments.out / f"{name}-{part.benchmark}-{part.setting}-{editor}"
                    yield path, Cell(name, part, editor, folder, limit)


def evaluate(model: str, cell: Cell, form: str | None, overrides: dict[str, Any]) -> None:
    """Make the run, or what is missing of it."""
    options: dict[str, Any] = {"form": form} if form else {}
    emend.run(
        cell.part.benchmark,
        cell.editor,
        f"hf:{model}",
        out=cell.folder,
        settings=cell.part.setting,
        benchmark_options=cell.part.options,
        limit=cell.limit,
        protocols=PROTOCOLS,
        mode="single",
        overrides={name: values for name, values in overrides.items() if name == cell.editor},
        embedding="minilm",
        concurrency=32,  # so that replies are generated in large batches
        fail_on_error="false",
        **options,
    )


def evaluate_apart(model: str, cell: Cell, arguments: argparse.Namespace) -> None:
    """Make the run in a process of its own, whose output is in a file beside the run folder."""
    call = [sys.executable, __file__, "--model", f"{cell.model}={model}", "--part", cell.part.title, "--editor"]
    call += [cell.editor, "--facts", str(arguments.facts), "--documents", str(arguments.documents)]
    call += ["--out", str(arguments.out), *(f"--set={text}" for text in arguments.set)]
    call += ["--form", arguments.form] if arguments.form else []
    cell.folder.parent.mkdir(parents=True, exist_ok=True)
    with cell.folder.with_suffix(".log").open("w", encoding="utf-8") as log:
        code = subprocess.run(call, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    print(f"{cell.folder.name}: {'done' if not code else f'failed, see {log.name}'}", flush=True)


def table(reports: Sequence[tuple[Path, Report]]) -> list[str]:
    """The table of several editors' runs: each cell has likelihood / exact / contains, each with its interval."""
    kinds = [name for name, members in KINDS.items() if any(_rows(each, members) for _, each in reports)]
    heads = ["editor", *(f"{kind} (likelihood / exact / contains)" for kind in kinds), "loops", "unscored"]
    heads += ["perplexity", "n"]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for folder, outcome in reports:
        for editor in dict.fromkeys(row.editor for row in outcome.rows):
            cells = [_cell(outcome, editor, KINDS[kind]) for kind in kinds]
            unscored = max((row.unscored for row in outcome.rows if row.editor == editor), default=0)
            ratios = [f"x{row.ratio:.2f}" for row in outcome.perplexity if row.editor == editor and row.ratio]
            cells += [f"{loops(folder):.0f}", str(unscored), *(ratios or [""]), str(outcome.cases)]
            lines.append(f"| {' | '.join([f'`{editor}`', *cells])} |")
    return lines


def loops(folder: Path) -> float:
    """Percent of answers that repeat one word: at least four times, and two words in five."""
    answers = [record.answer for record in read_records(folder) if record.answer]
    return 100 * sum(_is_loop(answer) for answer in answers) / max(1, len(answers))


def _is_loop(answer: str) -> bool:
    words = re.findall(r"\w+", answer.lower())
    most = max(Counter(words).values(), default=0)
    return most >= 4 and most >= 0.4 * len(words)


def _rows(outcome: Report, members: Sequence[str]) -> list[tuple[str, MetricRow]]:
    """Protocol and row of the accuracies over these kinds alone."""
    of = {metric.name: metric for metric in outcome.metrics}
    return [
        (row.protocol, row)
        for row in outcome.rows
        if row.protocol in SHOWN and of[row.metric].share and set(of[row.metric].kinds) <= set(members)
        if of[row.metric].group == outcome.metrics[0].group
        and "clean" not in row.metric
        and "distinct" not in row.metric
    ]


def _cell(outcome: Report, editor: str, members: Sequence[str]) -> str:
    rows = {protocol: row for protocol, row in reversed(_rows(outcome, members)) if row.editor == editor}
    texts = []
    for protocol in SHOWN:
        row = rows.get(protocol)
        if row is None or row.mean is None:
            texts.append("-")
        else:
            reach = "" if row.low is None or row.high is None else f" [{row.low:.0f}, {row.high:.0f}]"
            texts.append(f"{row.mean:.0f}{reach}")
    return " / ".join(texts)


def main() -> None:
    """Make the matrix and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--part", action="append", metavar="TITLE", help="one of the benchmarks; default: all")
    parser.add_argument("--editor", action="append", metavar="NAME", help="default: all")
    parser.add_argument("--facts", type=int, default=40)
    parser.add_argument("--documents", type=int, default=20, help="cases of DocTER")
    parser.add_argument("--form", choices=("plain", "chat"), help="default: as each benchmark asks")
    parser.add_argument("--out", type=Path, default=Path("matrix"))
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, each in a process of its own")
    parser.add_argument("--set", action="append", default=[], metavar="EDITOR.KEY=VALUE", help="as in emend run")
    parser.add_argument("--only-print", action="store_true")
    arguments = parser.parse_args()
    overrides = parse_overrides(arguments.set)
    cells = list(plan(arguments))
    if arguments.jobs > 1:
        with ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(lambda each: evaluate_apart(each[0], each[1], arguments), cells))
    elif not arguments.only_print:
        for model, cell in cells:
            evaluate(model, cell, arguments.form, overrides)
    if len(cells) > 1 or arguments.only_print:
        print_tables([cell for _, cell in cells])


def print_tables(cells: Sequence[Cell]) -> None:
    """Print a table of each model and part whose runs have begun."""
    for model, title in dict.fromkeys((cell.model, cell.part.title) for cell in cells):
        folders = [cell.folder for cell in cells if (cell.model, cell.part.title) == (model, title)]
        reports = [(folder, report(folder)) for folder in folders if (folder / MANIFEST).exists()]
        if reports:
            forms = " and ".join(sorted({row.form for _, each in reports for row in each.rows if row.form}))
            before = next((row.before.mean for _, each in reports for row in each.perplexity if row.before.mean), None)
            perplexity = f", perplexity {before:.1f}" if before else ""
            print(f"\n**{model}, {title}, asked in {forms}{perplexity}**\n")
            print("\n".join(table(reports)), flush=True)


if __name__ == "__main__":
    main()
