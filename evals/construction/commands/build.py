"""The command `emend build`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from emend.evals.cli.options import API_CALLS, OptionalFields, flag_of, grouped
from emend.evals.cli.output import print_rich, print_text
from emend.evals.cli.panels import MORE, in_panels
from emend.evals.config.build_config import BuildConfig
from emend.evals.config.limits import Limits
from emend.evals.construction.commands.kind_options import (
    FOREIGN_KIND,
    KIND_OPTIONS,
    KindOptions,
    kinds_with,
)
from emend.evals.construction.registry import CONSTRUCTIONS
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest, trust_typed

if TYPE_CHECKING:
    from emend.evals.construction.card import Card


REVIEW_HELP = "Filled sheets of emend judge annotate --study build; no model is called."
Out = Annotated[
    Path,
    typer.Option(metavar="FOLDER", help="Folder of the benchmark; the same command continues it."),
]
Review = Annotated[Path | None, typer.Option(metavar="FOLDER", help=REVIEW_HELP)]
NoReview = Annotated[
    bool, typer.Option("--no-review", help="Finish the recipe paper without human review.")
]
Unanimous = Annotated[
    bool, typer.Option("--unanimous", help="With --review, drop items that any reviewer rejects.")
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print calls, tokens, cost and time without calling a model."),
]


class KindGroup(TyperGroup):
    """Command group with a subcommand per kind; an unknown word raises an error that suggests the
    nearest kind.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before the subcommand.

        Raises:
            BadSettings: an option comes before the kind.
        """
        if args and args[0].startswith("-") and args[0] != "--help":
            raise BadSettings("the kind comes first: emend build KIND --from ... --out ...")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return name, command and remaining arguments.

        Raises:
            BadSettings: the kind is unknown.
        """
        if args and args[0] not in self.commands:
            if ":" in args[0] or args[0] in CONSTRUCTIONS.plugins:
                return args[0], _foreign_command(args[0]), args[1:]
            names = [*self.commands, *CONSTRUCTIONS.plugins]
            raise BadSettings(f"cannot build '{args[0]}': {nearest(args[0], names)}")
        return super().resolve_command(ctx, args)


class KindCommand(TyperCommand):
    """Command of a kind; an option of other kinds raises an error that names these kinds."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options.

        Raises:
            BadSettings: an option belongs to another kind.
        """
        options = {name for option in self.params for name in option.opts}
        unknown = {word.partition("=")[0] for word in args} - options
        for field in BuildConfig.model_fields:
            if flag_of(field) in unknown:
                raise BadSettings(
                    f"emend build {self.name} has no {flag_of(field)}: it is an option of "
                    f"{', '.join(kinds_with(field))}. Leave it out."
                )
        return super().parse_args(ctx, args)


build = typer.Typer(
    name="build",
    cls=KindGroup,
    help="Build a benchmark from facts or documents, and print its card. An interrupted "
    "construction is continued by the same command. Your own kind is given as module:attribute.",
    no_args_is_help=True,
)


def _command(kind: str, options: KindOptions) -> Callable[..., None]:
    """Return the function of the command that builds a kind."""
    fields = OptionalFields(
        BuildConfig, options.fields, whole=True, help_texts=tuple(options.help_texts.items())
    )
    hidden = ("workers", "limit") if options.is_composed else ("workers",)
    subjects = {
        MORE: (*options.shared, "review", "unanimous", "no_review"),
        API_CALLS: tuple(Limits.model_fields),
    }
    panels = in_panels(*options.common, "dry_run", subjects=subjects, hidden=hidden)

    def construct(
        config: Annotated[BuildConfig, fields],
        out: Out,
        review: Review = None,
        unanimous: Unanimous = False,
        no_review: NoReview = False,
        dry_run: DryRun = False,
    ) -> None:
        if unanimous and review is None:
            raise BadSettings("--unanimous without --review: name the folder of filled sheets.")
        if review is not None and dry_run:
            raise BadSettings(
                "--review with --dry-run: a review calls no model, so leave one of them out."
            )
        trust_typed([kind, config.source, config.model, config.judge, config.overrides])
        if dry_run:
            _show_estimate(kind, config)
        else:
            _build(kind, config, out, review, unanimous, no_review)

    def select(config: Annotated[BuildConfig, fields], out: Out, dry_run: DryRun = False) -> None:
        construct(config, out, dry_run=dry_run)

    return panels(grouped(construct if options.is_reviewed else select))


for each_kind, each_options in KIND_OPTIONS.items():
    build.command(each_kind, cls=KindCommand, help=each_options.summary)(
        _command(each_kind, each_options)
    )


def _foreign_command(kind: str) -> Any:
    """Return the command of a kind from another package or `module:attribute`."""
    single = typer.Typer(add_completion=False)
    single.command(kind, cls=KindCommand, help=FOREIGN_KIND.summary)(_command(kind, FOREIGN_KIND))
    return typer.main.get_command(single)


def _build(
    kind: str,
    config: BuildConfig,
    out: Path,
    review: Path | None,
    unanimous: bool,
    no_review: bool,
) -> None:
    from emend.evals.cli.interrupts import interruptible
    from emend.evals.construction.build import RUN, apply_review
    from emend.evals.construction.build import build as build_folder
    from emend.evals.construction.show.card import render_card
    from emend.evals.show.report.progress import progress_on

    if review is not None:
        card = apply_review(out, review, unanimous)
    else:
        if not (out / RUN).exists():
            _announce(kind, config)
        with interruptible(out / RUN, "the same command"):
            bar = progress_on()
            card = build_folder(kind, config, out, needs_review=not no_review, progress=bar)
    print_rich(lambda console: console.print(render_card(card)))
    _print_next(card, out)


def _print_next(card: "Card", out: Path) -> None:
    print_text(f"\nThe benchmark is in {out}, its card in {out / 'card.md'}. Next:")
    if card.status == "draft":
        print_text(f"  emend judge annotate {out / 'run'} --study build --out {out / 'review'}")
        print_text(
            f"  emend build {card.kind} --out {out} --review {out / 'review'}, once the "
            "sheets are filled in"
        )
    print_text(
        f"  emend run --benchmark {out} --editor rag --model {card.models.get('author', 'MODEL')}"
    )
    if card.models:
        print_text(f"  emend view {out / 'run'}")


def _announce(kind: str, config: BuildConfig) -> None:
    """Print the expected time of a construction with a local model, which may write for an hour
    before its first item is finished.
    """
    from emend.agents.llm import is_local_spec
    from emend.evals.construction.estimate import estimate_build
    from emend.evals.construction.fresh import FRESH
    from emend.evals.construction.show.estimate import time_of

    models = [spec for spec in (config.model, config.judge) if spec]
    if kind == FRESH or not any(map(is_local_spec, models)):
        return
    estimate = estimate_build(kind, config)
    if time := time_of(estimate):
        calls = sum(role.calls for role in estimate.roles)
        fewer = "; --limit N makes fewer items" if estimate.items > 1 else ""
        print_text(f"{estimate.items} items, about {calls:,} calls, {time}{fewer}", err=True)


def _show_estimate(kind: str, config: BuildConfig) -> None:
    from emend.evals.construction.estimate import estimate_build
    from emend.evals.construction.fresh import FRESH
    from emend.evals.construction.show.card import unread_lines
    from emend.evals.construction.show.estimate import time_of
    from emend.evals.results.dry_run.local_model import absence

    estimate = estimate_build(kind, config)
    print_text(f"{estimate.items} items; no model is called in a dry run")
    for line in unread_lines(estimate.unread):
        print_text(f"  {line}")
    for role in estimate.roles:
        cost = "no price" if role.cost is None else f"{role.cost:,.2f} {estimate.currency}"
        tokens = f"{role.input_tokens:,} tokens in, {role.output_tokens:,} out"
        print_text(f"  {role.role} {role.model}: {role.calls:,} calls, {tokens}, {cost}")
    for missing in filter(None, map(absence, {role.model: None for role in estimate.roles})):
        print_text(f"  missing: {missing}")
    if not estimate.roles:
        print_text("  No model is needed; with --model a model paraphrases the texts.")
        return
    if time := time_of(estimate):
        print_text(f"  in all: {time}")
    if kind != FRESH:
        print_text(
            "  Assumes that all items pass at the first attempt; each further attempt costs the "
            "same again."
        )
