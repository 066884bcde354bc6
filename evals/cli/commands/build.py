"""The command `emend build`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.options import grouped
from emend.evals.cli.output import print_text
from emend.evals.config.build_config import BuildConfig

if TYPE_CHECKING:
    from emend.evals.build.card import Card


@grouped
def build(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="Kind: akew, wikiupdate, questions, facts, chains, docter, elken, tendencies, recoe; or fresh.",
        ),
    ],
    config: BuildConfig,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the benchmark; the same call continues it.")],
    review: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Filled sheets of emend judge annotate --study build; asks no model."),
    ] = None,
    no_review: Annotated[
        bool, typer.Option("--no-review", help="End the recipe paper without its human step.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print calls, tokens, cost and time, and ask no model.")
    ] = False,
) -> None:
    """Build a benchmark from facts or documents, and print its card.

    An interrupted construction is continued by the same command.
    """
    if dry_run:
        _show_estimate(kind, config)
        return
    from emend.evals.build.build import RUN, apply_review, build
    from emend.evals.cli.interrupts import interruptible
    from emend.evals.show.report.data_sets import render_card
    from emend.evals.show.report.layout import console_for
    from emend.evals.show.report.progress import progress_on

    if review is not None:
        card = apply_review(out, review)
    else:
        with interruptible(out / RUN):
            card = build(kind, config, out, needs_review=not no_review, progress=progress_on())
    console = console_for()
    console.print(render_card(card))
    _print_next(card, out)


def _print_next(card: "Card", out: Path) -> None:
    print_text(f"\nThe benchmark is in {out}, its card in {out / 'card.md'}. Next:")
    if card.status == "draft":
        print_text(f"  emend judge annotate {out / 'run'} --study build --out {out / 'review'}")
        print_text(f"  emend build {card.kind} --out {out} --review {out / 'review'}, once the sheets are filled in")
    print_text(f"  emend run --benchmark {out} --editor rag --model {card.models.get('author', 'MODEL')}")
    if card.models:
        print_text(f"  emend view {out / 'run'}")


def _show_estimate(kind: str, config: BuildConfig) -> None:
    from emend.evals.build.build import foresee
    from emend.evals.build.fresh import FRESH

    estimate = foresee(kind, config)
    print_text(f"{estimate.items} items; nothing is asked in a dry run")
    for role in estimate.roles:
        cost = "no price" if role.cost is None else f"{role.cost:,.2f} {estimate.currency}"
        tokens = f"{role.input_tokens:,} tokens in, {role.output_tokens:,} out"
        print_text(f"  {role.role} {role.model}: {role.calls:,} calls, {tokens}, {cost}")
    if not estimate.roles:
        print_text("  No model is needed; with --model the texts are worded by one.")
        return
    if kind != FRESH:
        print_text("  Every item is taken to pass at its first attempt; each new attempt costs as much again.")
