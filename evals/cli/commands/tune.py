"""The command `emend tune`."""

from pathlib import Path
from typing import Annotated

import typer

from emend.evals.cli.options import Json, grouped
from emend.evals.cli.output import emit, interrupts_as_exit, print_text
from emend.evals.config.measure_config import TuneConfig
from emend.memory.errors import BadSettings


@grouped
def tune(
    editor: Annotated[str, typer.Argument(metavar="EDITOR", help="Editor of weights; see: emend list editors.")],
    config: TuneConfig,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Settings file to write, for --set EDITOR=@FILE.")],
    as_json: Json = False,
) -> None:
    """Search an editor's settings for a model on facts that a run with the same --limit and --seed does not evaluate.

    What was tried is kept in FILE.trials.jsonl; the same command continues from it.
    """
    from emend.evals.results.settings_search import Trial, settings_file, tune
    from emend.evals.show.report.settings_search import show_tuning
    from emend.memory.files import replace_file

    if not out.parent.is_dir():
        raise BadSettings(f"--out '{out}': there is no folder '{out.parent}'.")

    def notify(trial: Trial, number: int, of: int) -> None:
        reached = trial.problem or f"score {trial.score or 0:.1f}"
        place = f"{number} of {of}" if of else "test"
        print_text(f"{place}, {trial.facts} facts: {trial.settings or 'defaults'}: {reached}", err=True)

    with interrupts_as_exit("the same command continues after the last finished trial."):
        tuned = tune(config, editor, out.with_name(f"{out.name}.trials.jsonl"), notify)
    replace_file(out, settings_file(config, tuned).encode())
    emit([tuned], as_json, lambda console: show_tuning(tuned, out, console))
