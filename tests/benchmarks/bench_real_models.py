"""A matrix of editors by real models by benchmarks, with every figure under three protocols, as Markdown.

    python tests/benchmarks/bench_real_models.py --model SmolLM2=FOLDER --facts 40 --documents 20 --out RUNS

Memory-based editors and weight editors run apart, since a run with a weight editor asks everything in plain text. An
interrupted matrix goes on where it stopped, and is printed as far as it has come with --only-print.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import emend
from emend.evals.aggregate.rows import MetricRow, Report, report
from emend.evals.log.manifest import MANIFEST

MEMORY = ("unedited", "in_context", "rag", "cot", "ike", "serac", "crag", "mello")
WEIGHTS = ("unedited", "ft", "lora", "rome", "r_rome", "memit", "alphaedit")
PROTOCOLS = ("likelihood", "exact", "contains")
KINDS = {
    "efficacy": ("efficacy", "efficacy_contaminated", "efficacy_repeated"),
    "paraphrase": ("paraphrase",),
    "neighbourhood": ("neighborhood",),
    "multi-hop": ("multihop", "multihop_contaminated"),
}


class Part(NamedTuple):
    """A benchmark's setting; `documents` if its edits are texts, which weight editors cannot locate a subject in."""

    title: str
    benchmark: str
    setting: str
    options: dict[str, str]
    documents: bool = False


PARTS = (
    Part("CounterFact", "counterfact", "triplet", {"dataset": "flat"}),
    Part("AKEW MQuAKE-CF, struct", "akew", "struct", {}),
    Part("AKEW MQuAKE-CF, unstruct", "akew", "unstruct", {}, documents=True),
    Part("DocTER", "docter", "doc", {}, documents=True),
)


class MatrixRun(NamedTuple):
    """A run of the matrix, and the number of its cases."""

    model: str
    part: Part
    editors: tuple[str, ...]
    folder: Path
    limit: int


def plan(words: argparse.Namespace) -> Iterator[tuple[str, MatrixRun]]:
    """The runs, with the folder of each one's model."""
    for name, _, path in (text.partition("=") for text in words.model):
        for part in PARTS:
            if words.part and part.title not in words.part:
                continue
            limit = words.documents if part.documents else words.facts
            for group, editors in (("memory", MEMORY), ("weights", WEIGHTS)):
                chosen = tuple(editor for editor in editors if not words.editor or editor in words.editor)
                if part.documents and group == "weights":
                    chosen = tuple(editor for editor in chosen if editor in ("unedited", "ft", "lora"))
                folder = words.out / f"{name}-{part.benchmark}-{part.setting}-{group}"
                if set(chosen) - {"unedited"}:
                    yield path, MatrixRun(name, part, chosen, folder, limit)


def evaluate(model: str, each: MatrixRun, overrides: dict[str, Any]) -> None:
    """Make the run, or what is missing of it."""
    settings = {name: values for name, values in overrides.items() if name in each.editors}
    emend.run(
        each.part.benchmark,
        list(each.editors),
        f"hf:{model}",
        out=each.folder,
        settings=each.part.setting,
        benchmark_options=each.part.options,
        limit=each.limit,
        protocols=PROTOCOLS,
        mode="single",
        overrides=settings,
        embedding="minilm",
        concurrency=32,  # so that replies are generated in large batches
        fail_on_error="false",
    )


def table(outcome: Report) -> list[str]:
    """The table of a run: each cell has likelihood / exact / contains, each with its interval."""
    kinds = [name for name, members in KINDS.items() if _rows(outcome, members)]
    heads = ["editor", *(f"{kind} (likelihood / exact / contains)" for kind in kinds), "unscored", "perplexity"]
    heads += ["CPU s/edit"]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for editor in dict.fromkeys(row.editor for row in outcome.rows):
        cells = [_cell(outcome, editor, KINDS[kind]) for kind in kinds]
        unscored = max((row.unscored for row in outcome.rows if row.editor == editor), default=0)
        texts = [f"{row.mean:,.1f}" for row in outcome.perplexity if row.editor == editor and row.mean is not None]
        cost = [f"{row.mean:.1f}" for row in outcome.costs if (row.editor, row.metric) == (editor, "CPU s/edit")]
        lines.append(f"| {' | '.join([f'`{editor}`', *cells, str(unscored), *(texts or ['']), *(cost or [''])])} |")
    return lines


def _rows(outcome: Report, members: Sequence[str]) -> list[tuple[str, MetricRow]]:
    """Protocol and row of the accuracies over these kinds alone."""
    of = {metric.name: metric for metric in outcome.metrics}
    return [
        (row.protocol, row)
        for row in outcome.rows
        if row.protocol in PROTOCOLS and of[row.metric].share and set(of[row.metric].kinds) <= set(members)
        if of[row.metric].group == outcome.metrics[0].group
        and "clean" not in row.metric
        and "distinct" not in row.metric
    ]


def _cell(outcome: Report, editor: str, members: Sequence[str]) -> str:
    rows = {protocol: row for protocol, row in reversed(_rows(outcome, members)) if row.editor == editor}
    texts = []
    for protocol in PROTOCOLS:
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
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("matrix"))
    parser.add_argument("--identity", action="store_true", help="weight editors without a covariance of the model's")
    parser.add_argument("--only-print", action="store_true")
    words = parser.parse_args()
    overrides = {name: {"covariance": "identity"} for name in ("rome", "r_rome")} if words.identity else {}
    for model, each in plan(words):
        if not words.only_print:
            evaluate(model, each, overrides)
        if (each.folder / MANIFEST).exists():
            outcome = report(each.folder)
            forms = " and ".join(sorted({row.form for row in outcome.rows if row.form}))
            print(f"\n**{each.model}, {each.part.title}, {outcome.cases} cases, asked in {forms}**\n")
            print("\n".join(table(outcome)), flush=True)


if __name__ == "__main__":
    main()
