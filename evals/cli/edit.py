"""The command `emend edit`."""

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli.options import Json, Set, local_model, overrides_of, print_rows
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from emend.editors.base import EditCost
    from emend.editors.checkpoint.deltas import DeltaManifest
    from emend.memory.edit import Edit

WORDING = "new_fact"
FORMS = (
    "emend edit --model M --method memit --edits FILE --out DELTA",
    "emend edit --model M --apply DELTA --save-model DIR",
    "emend edit --revert DIR",
)


def edit(
    model: Annotated[str | None, typer.Option(help="tiny, or hf:FOLDER.")] = None,
    method: Annotated[str | None, typer.Option(help="An editor that changes weights; see: emend list editors.")] = None,
    edits: Annotated[
        list[str] | None,
        typer.Option("--edits", metavar="FILE", help="JSON lines as for emend memory add; - is the input."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DELTA", help="The delta's new folder.")] = None,
    apply: Annotated[Path | None, typer.Option("--apply", metavar="DELTA", help="A delta, to be saved with.")] = None,
    save_model: Annotated[Path | None, typer.Option(metavar="DIR", help="The edited model's new folder.")] = None,
    revert: Annotated[
        Path | None, typer.Option("--revert", metavar="DIR", help="An edited model, to be as it was before.")
    ] = None,
    settings: Set = None,
    wording: Annotated[str, typer.Option(help="How questions are put to the model.")] = WORDING,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of every draw.")] = 0,
    as_json: Json = False,
) -> None:
    """Keep edits as a small file, write an edited model with it, or take an edited model's edits back."""
    given = {"--method": method, "--edits": edits, "--out": out, "--apply": apply, "--save-model": save_model}
    named = {option for option, value in (given | {"--model": model, "--revert": revert}).items() if value is not None}
    if named != {"--model", "--method", "--edits", "--out"}:
        _refuse_idle(settings or [], wording, seed, models="--apply" in named)
    if named == {"--model", "--method", "--edits", "--out"}:
        try:
            _solve(str(model), str(method), list(edits or ()), Path(str(out)), settings or [], wording, seed, as_json)
        except KeyboardInterrupt:
            typer.echo("\ninterrupted: nothing was kept.", err=True)
            raise typer.Exit(130) from None
    elif named == {"--model", "--apply", "--save-model"}:
        _save(str(model), Path(str(apply)), Path(str(save_model)), settings or [], as_json)
    elif named == {"--revert"}:
        _revert(Path(str(revert)), as_json)
    else:
        seen = ", ".join(sorted(named)) or "nothing"
        raise BadSettings(f"emend edit was given {seen}: write one of: {'; '.join(FORMS)}.")


def _refuse_idle(settings: list[str], wording: str, seed: int, models: bool) -> None:
    """Refuses options that have no part in applying or reverting: what was solved is what is written."""
    from emend.evals.log.config import MODEL

    idle = [f"--set {name}" for name in overrides_of(settings) if not (models and name == MODEL)]
    idle += ["--wording"] * (wording != WORDING) + ["--seed"] * (seed != 0)
    if idle:
        raise BadSettings(f"{', '.join(idle)} has no part in this form of emend edit: leave it out.")


def _solve(
    model: str, method: str, files: list[str], out: Path, settings: list[str], wording: str, seed: int, as_json: bool
) -> None:
    from emend.agents.roles.answer import find_wording
    from emend.editors.base import Materials
    from emend.editors.checkpoint.deltas import check_solving, new_folder, solve_delta, write_delta
    from emend.editors.costing import Meter, counted
    from emend.editors.registry import EDITORS
    from emend.evals.log.config import MODEL
    from emend.evals.log.manifest import versions
    from emend.evals.runner.progress import duration, heartbeat

    factory, overrides, told = EDITORS.load(method), overrides_of(settings), _edits(files)
    check_solving(factory, method)
    for name in overrides:
        if name not in (method, MODEL):
            raise BadSettings(f"--set names '{name}': only {method} and model have a part in this.")
    find_wording(wording)
    with new_folder(out), local_model(model, overrides.get(MODEL, {})) as loaded:
        editor = factory(Materials(loaded, settings=overrides.get(method, {}), wording=wording, seed=seed))
        began, doing = time.monotonic(), f"{method}: {_count(told)}"
        with Meter(alone=True, lm=loaded.lm) as meter, counted(loaded.lm) as counter:
            with heartbeat(lambda: f"{doing}, {duration(time.monotonic() - began)}, {counter.tokens:,} tokens"):
                delta = solve_delta(editor, told)
        cost = meter.cost(len(told), counter.cost)
        manifest = write_delta(out, delta, editor, loaded.lm, told, cost, versions())
    if as_json:
        print_rows([_row(manifest, out)])
        return
    size = sum(file.stat().st_size for file in out.iterdir())
    typer.echo(f"{_count(told)} by {method} in {out}: {size / 1e3:,.0f} kB, {_spent(cost)}.")
    typer.echo(f"Next: emend edit --model {shlex.quote(model)} --apply {shlex.quote(str(out))} --save-model DIR")


def _save(model: str, delta: Path, folder: Path, settings: list[str], as_json: bool) -> None:
    from emend.editors.checkpoint.deltas import dtype_of, read_delta, read_manifest
    from emend.editors.checkpoint.saving import save_edited
    from emend.evals.log.config import MODEL

    manifest = read_manifest(delta)
    with local_model(model, {"dtype": dtype_of(manifest)} | overrides_of(settings).get(MODEL, {})) as loaded:
        save_edited(loaded.lm, read_delta(delta, loaded.lm), manifest, folder)
    if as_json:
        print_rows([_row(manifest, folder)])
        return
    typer.echo(f"{folder} is {manifest.model} with {_count(manifest.edits)} by {manifest.method}.")
    named = shlex.quote(str(folder))
    typer.echo(f"Use it as --model hf:{named}; go back with: emend edit --revert {named}")


def _revert(folder: Path, as_json: bool) -> None:
    from emend.agents.local.model_folder import weights_digest
    from emend.editors.checkpoint.saving import revert as put_back

    manifest = put_back(folder)
    if as_json:
        print_rows([_row(manifest, folder)])
        return
    typer.echo(f"{folder} has the weights of {manifest.model} again; {_count(manifest.edits)} taken back.")
    if weights_digest(folder) not in manifest.model:  # stored in another number format, or split into other files
        typer.echo(
            "Its files are not those of the model that was edited, though the weights are: deltas and statistics "
            "made for that model go with that model's folder, not with this one."
        )


def _edits(files: Sequence[str]) -> "list[Edit]":
    """The edits of the files, each once; a triplet without a prompt gets the one that its text begins with."""
    from emend.evals.cli.edit_files import distinct, read_files, warn_of_contradictions

    found = distinct(read_files(files))
    if not found:
        raise BadSettings(f"there is no edit in {', '.join(files)}: write one JSON object a line.")
    warn_of_contradictions(found)
    return [_with_prompt(edit) for edit in found]


def _with_prompt(edit: "Edit") -> "Edit":
    if edit.form != "triplet" or edit.prompt or len(edit.triplets) != 1:
        return edit
    told = edit.triplets[0]
    target = edit.target_new or told.object
    return edit.model_copy(update={"prompt": f"{{}} {told.relation}", "subject": told.subject, "target_new": target})


def _row(manifest: "DeltaManifest", folder: Path) -> dict[str, Any]:
    return {"folder": str(folder), **manifest.model_dump(mode="json")}


def _count(edits: "Sequence[Edit]") -> str:
    return f"{len(edits)} edit{'s' * (len(edits) != 1)}"


def _spent(cost: "EditCost") -> str:
    memory = "" if cost.peak_bytes is None else f", {cost.peak_bytes / 1e6:,.0f} MB more memory"
    return f"{cost.seconds:.1f} s, {cost.cpu_seconds:.1f} CPU s, {cost.tokens:,} tokens{memory}"
