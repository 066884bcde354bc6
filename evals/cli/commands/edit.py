"""The command `emend edit`."""

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli.options import Json, Plot, Settings, local_model, parse_overrides
from emend.evals.cli.output import emit, interrupts_as_exit, print_text
from emend.evals.config.run_config import LARGEST_SEED
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.editors.base import EditCost
    from emend.editors.checkpoint.deltas import DeltaManifest
    from emend.memory.edit import Edit

PROMPT_TEMPLATE = "new_fact"
FORMS = (
    "emend edit --model M --method memit --edits FILE --out DELTA",
    "emend edit --model M --apply DELTA --save-model DIR",
    "emend edit --revert DIR",
    "emend edit --locate --model M --edits FILE [--plot FILE]",
)
EditFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--edits",
        metavar="FILE",
        help="JSON lines with edits, as for emend memory add; - is standard input.",
    ),
]
EditedModel = Annotated[
    Path | None,
    typer.Option(
        "--revert", metavar="DIR", help="Edited model whose original weights are restored."
    ),
]
Locate = Annotated[
    bool,
    typer.Option(
        "--locate",
        help="Locate where the model recalls the facts by causal tracing, and suggest layers.",
    ),
]
PromptTemplate = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Template of training prompts: new_fact, based_on_facts or brief.",
    ),
]


LocalModel = Annotated[
    str | None, typer.Option(metavar="MODEL", help="Local model: tiny or hf:FOLDER.")
]
WeightEditor = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Editor that changes weights; see: emend list editors."),
]
NewDelta = Annotated[
    Path | None, typer.Option("--out", metavar="DELTA", help="New folder for the delta.")
]
AppliedDelta = Annotated[
    Path | None, typer.Option("--apply", metavar="DELTA", help="Delta to apply to --model.")
]
EditedFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="New folder for the edited model.")
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, max=LARGEST_SEED, help="Random seed.")]


def edit(
    model: LocalModel = None,
    method: WeightEditor = None,
    edits: EditFiles = None,
    out: NewDelta = None,
    apply: AppliedDelta = None,
    save_model: EditedFolder = None,
    revert: EditedModel = None,
    locate: Locate = False,
    plot: Plot = None,
    settings: Settings = None,
    prompt_template: PromptTemplate = PROMPT_TEMPLATE,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compute a weight delta, save an edited model, restore its original weights, or locate where
    facts are recalled.

    Four forms: --model, --method, --edits and --out compute a delta; --model, --apply and
    --save-model save an edited model; --revert restores the original weights; --locate, --model and
    --edits locate where facts are recalled.
    """
    options: dict[str, Any] = {"--model": model, "--method": method, "--edits": edits, "--out": out}
    options |= {"--apply": apply, "--save-model": save_model, "--revert": revert}
    options |= {"--locate": locate or None, "--plot": plot}
    named = {option for option, value in options.items() if value is not None}
    overrides = parse_overrides(settings or [])
    if named == {"--model", "--method", "--edits", "--out"}:
        with interrupts_as_exit("nothing was kept."):
            _solve(
                str(model),
                str(method),
                edits or [],
                Path(str(out)),
                overrides,
                prompt_template,
                seed,
                as_json,
            )
        return
    if named - {"--plot"} == {"--locate", "--model", "--edits"}:
        _refuse_unused_by_tracing(overrides, prompt_template)
        with interrupts_as_exit("nothing was kept."):
            _locate(str(model), edits or [], plot, overrides, seed, as_json)
        return
    _refuse_unused(overrides, prompt_template, seed, with_model="--apply" in named)
    _save_or_revert(named, model, apply, save_model, revert, overrides, as_json)


def _save_or_revert(
    named: set[str],
    model: str | None,
    apply: Path | None,
    save_model: Path | None,
    revert: Path | None,
    overrides: dict[str, Any],
    as_json: bool,
) -> None:
    """Save an edited model or restore one, depending on the options named.

    Raises:
        BadSettings: the options match none of the command's forms.
    """
    if named == {"--model", "--apply", "--save-model"}:
        _save(str(model), Path(str(apply)), Path(str(save_model)), overrides, as_json)
    elif named == {"--revert"}:
        _revert(Path(str(revert)), as_json)
    else:
        listed = ", ".join(sorted(named)) or "nothing"
        raise BadSettings(f"emend edit was given {listed}: write one of: {'; '.join(FORMS)}.")


def _refuse_unused_by_tracing(overrides: dict[str, Any], prompt_template: str) -> None:
    """Refuse options without effect on tracing, which uses at most an architecture."""
    unused = {name: values for name, values in overrides.items() if "architecture" not in values}
    _refuse_unused(unused, prompt_template, seed=0, with_model=True)


def _refuse_unused(
    overrides: dict[str, Any], prompt_template: str, seed: int, with_model: bool
) -> None:
    """Refuse options without effect on applying, reverting or tracing.

    Raises:
        BadSettings: such an option is given; the message names it.
    """
    from emend.evals.config.overrides import MODEL

    unused = [f"--set {name}" for name in overrides if not (with_model and name == MODEL)]
    unused += ["--prompt-template"] * (prompt_template != PROMPT_TEMPLATE) + ["--seed"] * (
        seed != 0
    )
    if unused:
        raise BadSettings(
            f"{', '.join(unused)} has no effect in this form of emend edit: leave it out."
        )


def _solve(
    model: str,
    method: str,
    files: Sequence[str],
    out: Path,
    overrides: dict[str, dict[str, Any]],
    prompt_template: str,
    seed: int,
    as_json: bool,
) -> None:
    from emend.agents.roles.answer import find_wording
    from emend.editors.base import EditorContext
    from emend.editors.checkpoint.deltas import check_weight_editor, new_folder, write_delta
    from emend.editors.cost import Meter, count_tokens
    from emend.editors.registry import EDITORS
    from emend.evals.config.overrides import MODEL
    from emend.evals.log.manifest import versions
    from emend.evals.show.report.progress import duration, heartbeat

    factory: Any = EDITORS.load(method)
    edits = _read_edits(files)
    check_weight_editor(factory, method)
    for name in overrides:
        if name not in (method, MODEL):
            raise BadSettings(f"--set names '{name}': only {method} and model have settings here.")
    find_wording(prompt_template)
    with new_folder(out) as draft, local_model(model, overrides.get(MODEL, {})) as loaded:
        editor = factory(
            EditorContext(
                loaded, settings=overrides.get(method, {}), wording=prompt_template, seed=seed
            )
        )
        start, task = time.monotonic(), f"{method}: {_count(edits)}"
        with Meter(alone=True, lm=loaded.lm) as meter, count_tokens(loaded.lm) as counter:
            with heartbeat(
                lambda: f"{task}, {duration(time.monotonic() - start)}, {counter.tokens:,} tokens"
            ):
                deltas = editor.solve(edits)
        cost = meter.cost(len(edits), counter.cost)
        manifest = write_delta(draft, deltas, editor, loaded.lm, edits, cost, versions())
    _emit_manifest(
        manifest,
        out,
        as_json,
        f"{_count(edits)} by {method} in {out}: "
        f"{sum(file.stat().st_size for file in out.iterdir()) / 1e3:,.0f} kB, {_cost(cost)}.",
        f"Next: emend edit --model {shlex.quote(model)} --apply {shlex.quote(str(out))} "
        "--save-model DIR",
    )


def _locate(
    model: str,
    files: Sequence[str],
    plot: Path | None,
    overrides: dict[str, dict[str, Any]],
    seed: int,
    as_json: bool,
) -> None:
    from emend.editors.tracing.mean_effects import choose_layers, mean_effects
    from emend.editors.tracing.trace_facts import trace_facts
    from emend.evals.config.overrides import MODEL
    from emend.evals.show.report.effect_plots import effect_rows, plot_effects, render_effects
    from emend.evals.show.report.progress import heartbeat

    progress = ["reading the facts"]

    def report(number: int, total: int) -> None:
        progress[0] = f"tracing fact {number + 1} of {total}"

    edits = _read_edits(files)
    architecture = next(
        (values["architecture"] for values in overrides.values() if "architecture" in values), None
    )
    with local_model(model, overrides.get(MODEL, {})) as loaded, heartbeat(lambda: progress[0]):
        traced = trace_facts(loaded.lm, edits, seed, report, architecture)
    effects = mean_effects(traced.traces)
    layers = choose_layers(effects)
    emit(
        effect_rows(effects),
        as_json,
        lambda console: console.print(render_effects(effects, layers, traced.unknown)),
        layers=[layers._asdict()],
    )
    if plot is not None:
        plot_effects(effects, plot)


def _save(
    model: str, delta: Path, folder: Path, overrides: dict[str, dict[str, Any]], as_json: bool
) -> None:
    from emend.editors.checkpoint.deltas import parse_dtype, read_delta, read_manifest
    from emend.editors.checkpoint.edited_model import save_edited
    from emend.evals.config.overrides import MODEL

    manifest = read_manifest(delta)
    with local_model(model, {"dtype": parse_dtype(manifest)} | overrides.get(MODEL, {})) as loaded:
        save_edited(loaded.lm, read_delta(delta, loaded.lm), manifest, folder)
    name = shlex.quote(str(folder))
    _emit_manifest(
        manifest,
        folder,
        as_json,
        f"{folder} is {manifest.model} with {_count(manifest.edits)} by {manifest.method}.",
        f"Use it as --model hf:{name}; restore it with: emend edit --revert {name}",
    )


def _revert(folder: Path, as_json: bool) -> None:
    from emend.agents.local.model_folder import weights_digest
    from emend.editors.checkpoint.edited_model import revert

    manifest = revert(folder)
    lines = [
        f"{folder} has the original weights of {manifest.model} again; {_count(manifest.edits)} "
        "reverted."
    ]
    # the number format or the split into files may differ
    if weights_digest(folder) not in manifest.model:
        lines.append(
            "Its weights are the original ones, but its files differ from those of the original "
            "model: use that model's own folder, not this one, with its deltas and covariance "
            "statistics."
        )
    _emit_manifest(manifest, folder, as_json, *lines)


def _emit_manifest(manifest: "DeltaManifest", folder: Path, as_json: bool, *lines: str) -> None:
    row = {"folder": str(folder), **manifest.model_dump(mode="json")}
    emit([row], as_json, lambda console: print_text("\n".join(lines)))


def _read_edits(files: Sequence[str]) -> "list[Edit]":
    """Return the distinct edits of the files.

    A triplet without a prompt gets one made of its subject and relation.
    """
    from emend.evals.cli.edit_files import distinct, read_files, warn_of_contradictions

    edits = distinct(read_files(files))
    if not edits:
        raise BadSettings(f"no edit in {', '.join(files)}: write one JSON object per line.")
    warn_of_contradictions(edits)
    return [_with_prompt(each) for each in edits]


def _with_prompt(edit: "Edit") -> "Edit":
    from emend.memory.relations.cloze import cloze_of

    if edit.form != "triplet" or edit.prompt or len(edit.triplets) != 1:
        return edit
    triplet = edit.triplets[0]
    target = edit.target_new or triplet.object
    return edit.model_copy(
        update={
            "prompt": cloze_of(triplet.relation),
            "subject": triplet.subject,
            "target_new": target,
        }
    )


def _count(edits: "Sequence[Edit]") -> str:
    return f"{len(edits)} edit{'s' * (len(edits) != 1)}"


def _cost(cost: "EditCost") -> str:
    if cost.peak_bytes is None:
        memory = ""
    else:
        memory = f", {cost.peak_bytes / 1e6:,.0f} MB additional memory"
    return f"{cost.seconds:.1f} s, {cost.cpu_seconds:.1f} CPU s, {cost.tokens:,} tokens{memory}"
