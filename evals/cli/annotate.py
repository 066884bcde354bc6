"""The commands `emend judge annotate`, `agreement` and `settle` for human judgements."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.options import Json, RunFolder, ScoringId
from emend.evals.cli.output import emit, plain_rows, print_text

if TYPE_CHECKING:
    from rich.console import Console


TrustJudge = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="MODULE:ATTRIBUTE",
        help="Your own judge (module:attribute) that the file may use; repeatable; default: none.",
    ),
]
TrustSource = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="MODULE:ATTRIBUTE",
        help="Your own source of items (module:attribute) that the study may use; repeatable; "
        "default: none.",
    ),
]


StudyName = Annotated[
    str,
    typer.Option(
        metavar="NAME|FILE",
        help="Study: elken, recoe-coherence, recoe-recall, akew, docter; a judge; or a .toml file.",
    ),
]


Strata = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD,...",
        help="Draw equally many items per value of this field: model, editor, setting, kind or a "
        "tag; default: the study's.",
    ),
]

AnswerEditors = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Editor whose answers are sampled; repeatable; default: all."
    ),
]


def annotate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders.")],
    study: StudyName,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="New folder for the sheets.")],
    size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Items to label; default: the study's.")
    ] = None,
    annotators: Annotated[
        int, typer.Option(min=1, max=9, metavar="N", help="Number of annotators.")
    ] = 2,
    by: Strata = None,
    editor: AnswerEditors = None,
    disputed: Annotated[
        bool, typer.Option("--disputed", help="Sample only disputed verdicts.")
    ] = False,
    seed: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Random seed of the sample and of the order of items."
        ),
    ] = 0,
    trust: TrustSource = None,
) -> None:
    """Export blind annotation sheets of runs' answers: a web page and a table per annotator."""
    from emend.evals.judging.annotation import AnnotationKey, write_sheets
    from emend.evals.judging.study import draw, load_study
    from emend.memory.registry import trust_names

    trust_names(trust or (), checked=True)
    chosen = load_study(study)
    changes = {"size": size or chosen.size, "strata": tuple(by.split(",")) if by else chosen.strata}
    chosen = chosen.model_copy(update=changes)
    sample = draw(runs, chosen, editor or (), seed, disputed)
    key = AnnotationKey(
        study=chosen, runs=tuple(map(str, runs)), seed=seed, items=tuple(sample.items)
    )
    pages = write_sheets(out, key, annotators)
    for stratum, (there, drawn) in sample.strata.items():
        print_text(f"{stratum}: {drawn} of {there}")
    print_text(
        f"\n{len(sample.items)} items per annotator; each annotator fills in one file, in a "
        "browser or as .csv:"
    )
    print_text(
        "".join(f"  {page}\n" for page in pages) + f"Keep {out / 'key.json'} to yourself: "
        "it reveals the editors."
    )
    print_text(f"Put the filled .csv files into the folder, then: emend judge agreement {out}")


FilledSheets = Annotated[
    list[Path] | None,
    typer.Argument(metavar="SHEET", help="Filled .csv files; default: those in the folder."),
]


def show_agreement(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder written by emend judge annotate.")
    ],
    sheets: FilledSheets = None,
    as_json: Json = False,
) -> None:
    """Evaluate filled sheets: agreement, disagreements to settle, and labels for emend judge
    calibrate.
    """
    from emend.evals.judging.annotation import (
        read_key,
        read_sheets,
        results_of,
        write_adjudication,
        write_labels,
    )
    from emend.evals.show.report.judges import render_annotation

    key = read_key(folder)
    filled = read_sheets(folder, key, sheets or ())
    results = results_of(key, filled)
    page = write_adjudication(folder, key, filled, results)
    labels = folder / "labels.jsonl"
    if key.study.judge and key.study.label:
        count = write_labels(labels, key, filled)
    else:
        count = None

    def show(console: "Console") -> None:
        console.print(render_annotation(key, results))
        if page is not None:
            print_text(
                f"\nTo settle the disagreements, fill in {page} (or the .csv), and repeat the "
                "command."
            )
        if count:
            print_text(
                f"\n{count} labels are in {labels}: emend judge calibrate {labels} --judge MODEL"
            )

    emit(
        results.pairs,
        as_json,
        show,
        shares=plain_rows(results.shares),
        disagreements=plain_rows(results.disagreements),
    )


def settle(
    folder: RunFolder,
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="Labels written by emend judge agreement.")
    ],
    scoring: ScoringId = None,
    trust: TrustJudge = None,
) -> None:
    """Settle a run's disputed verdicts with human labels."""
    from emend.evals.judging.calibration.labels import read_labels
    from emend.evals.judging.settlement import settle_by_people
    from emend.memory.registry import trust_names

    trust_names(trust or (), checked=True)
    result = settle_by_people(folder, read_labels(labels), scoring)
    print_text(
        f"Disputes of scoring {result.scoring} settled by people: {result.accepted} accepted, "
        f"{result.rejected} rejected; {result.open} still open. {result.other} labels do not "
        "belong to an open dispute."
    )
