"""The command `emend extract`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emend.evals.cli.options import Json, grouped
from emend.evals.cli.output import emit, print_text
from emend.evals.config.measure_config import ExtractionConfig
from emend.evals.config.run_config import CallLimits

if TYPE_CHECKING:
    from emend.evals.measure.extraction import ExtractionRows


@grouped
def extract(
    config: ExtractionConfig,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="File of triplets, one JSON object per document and line.")
    ],
    *,
    limits: CallLimits,
    as_json: Json = False,
) -> None:
    """Extract triplets from a benchmark's documents and measure them; repeat the command to continue."""
    from emend.evals.measure.extraction import run_extraction
    from emend.evals.show.report.progress import progress_on
    from emend.evals.show.report.tables.extraction import PUBLISHED, render_extraction

    result = run_extraction(config, limits, out, progress_on())
    published = PUBLISHED.get((config.benchmark, result.language), ())
    row = {"benchmark": config.benchmark, "method": config.method, "embedding": result.embedding}
    table = render_extraction(config.method, result.quality, result.embedding, published)
    emit([row | result.quality.model_dump()], as_json, lambda console: console.print(table))
    if not as_json:
        _print_next(config, out, result.file)


def _print_next(config: ExtractionConfig, out: Path, file: "ExtractionRows") -> None:
    triplets = sum(len(row.triplets) for row in file.rows)
    before = f"; {file.skipped} of these documents were there before" if file.skipped else ""
    print_text(f"\n{triplets} triplets of {len(file.rows)} documents are in {out}{before}.")
    if empty := sum(not row.triplets for row in file.rows):
        print_text(f"{empty} documents have none; each line gives the reason.")
    setting = {"docter": "llm" if config.method == "llm" else "tool"}.get(config.benchmark, "extract")
    print_text(
        f"Edit with them: emend run --benchmark {config.benchmark} --setting {setting} "
        f"--benchmark-option triples={out} ..."
    )
