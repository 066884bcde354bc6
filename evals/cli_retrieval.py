"""The command `emend retrieval`."""

from typing import Annotated

import typer

from emend.evals.cli_options import Json, pair, print_rows


def retrieval(
    benchmark: Annotated[str, typer.Option(help="See: emend list benchmarks.")],
    data: Annotated[str | None, typer.Option(help="The data folder; looked for under EMEND_DATA first.")] = None,
    setting: Annotated[str | None, typer.Option(help="What is stored; default the benchmark's first setting.")] = None,
    strategy: Annotated[
        list[str] | None, typer.Option(help="default, or see: emend list retrievers; may be given several times.")
    ] = None,
    embedding: Annotated[str, typer.Option(help="auto, lexical, or a sentence-transformers model.")] = "auto",
    limit: Annotated[int | None, typer.Option(help="So many cases.")] = None,
    seed: Annotated[int, typer.Option(help="Of the sample that --limit takes.")] = 0,
    option: Annotated[list[str] | None, typer.Option("--option", help="key=value for the benchmark.")] = None,
    as_json: Json = False,
) -> None:
    """Measure retrieval strategies on a benchmark's probes, without a language model."""
    from emend.evals.retrieval import DEFAULT, measure_retrieval

    found = measure_retrieval(
        benchmark,
        strategy or [DEFAULT],
        data=data,
        setting=setting,
        embedding=embedding,
        limit=limit,
        seed=seed,
        options=dict(pair(text, "--option") for text in option or ()),
    )
    if as_json:
        print_rows([row.model_dump(by_alias=True) for row in found.rows])
        return
    from emend.evals.report.retrieval import show_retrieval
    from emend.evals.report.table import console_for

    show_retrieval(found, console_for())
