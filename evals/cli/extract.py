"""The command `emend extract`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emend.evals.cli.judging_options import asking
from emend.evals.cli.limits import Limits
from emend.evals.cli.options import Json, grouped, overrides_of, pair, print_rows
from emend.memory.errors import BadSettings
from emend.memory.redaction import refuse_secrets

if TYPE_CHECKING:
    from emend.agents.providers.policy import CallPolicy

SET = {"model": "the model that reads", "judge": "the model that sorts errors"}
"""What `--set` may be about."""


@grouped
def extract(
    benchmark: Annotated[str, typer.Option(help="See: emend list benchmarks.")],
    out: Annotated[Path, typer.Option("--out", help="The file of triplets, one JSON line per document.")],
    data: Annotated[str | None, typer.Option(help="The data folder; looked for under EMEND_DATA first.")] = None,
    setting: Annotated[str | None, typer.Option(help="Whose texts are read; default the first with texts.")] = None,
    method: Annotated[str, typer.Option(help="rules, spacy or llm.")] = "rules",
    model: Annotated[str | None, typer.Option(help="The chat model (llm), or the pipeline (spacy).")] = None,
    form: Annotated[
        str | None, typer.Option(help="How an LLM is to reply: json (by default), lines or tuples.")
    ] = None,
    validation: Annotated[str, typer.Option(help="Where an entity must be: both ends, subject, or off.")] = "both",
    coreference: Annotated[bool, typer.Option(help="Put names in the place of pronouns.")] = True,
    deduplication: Annotated[bool, typer.Option(help="Of like triplets keep the first.")] = True,
    normalisation: Annotated[bool, typer.Option(help="Make one triplet of the wordings of a fact.")] = True,
    attempts: Annotated[int, typer.Option(help="How often a model is asked before a document is given up.")] = 3,
    judge: Annotated[str | None, typer.Option(help="A chat model that sorts errors; default by rule.")] = None,
    embedding: Annotated[
        str, typer.Option(help="auto, lexical, a sentence-transformers model, or module:attribute.")
    ] = "auto",
    limit: Annotated[int | None, typer.Option(help="So many cases.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of the sample that --limit takes.")] = 0,
    concurrency: Annotated[int, typer.Option(help="Documents read at the same time.")] = 1,
    option: Annotated[list[str] | None, typer.Option("--option", help="key=value for the benchmark.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="model.key=value or judge.key=value, how they are loaded and asked."),
    ] = None,
    *,
    limits: Limits,
    as_json: Json = False,
) -> None:
    """Extract triplets from a benchmark's documents, and measure them; the same command again goes on."""
    from emend.evals.benchmarks.triples import text_setting
    from emend.evals.components.extraction import documents_of, extract_to, reader, score, settings_of
    from emend.evals.log.config import RunConfig
    from emend.evals.runner.components import load_benchmark
    from emend.evals.runner.progress import progress_on
    from emend.graphs.extraction.graph import ExtractContext
    from emend.memory.embeddings.embed import load_embedding
    from emend.memory.paths import cache_folder

    _check(limit, concurrency, method, form)
    overrides = _overrides(settings or [], method, judge)
    options = dict(pair(text, "--option") for text in option or ())
    config = RunConfig(benchmark=benchmark, data=data, editors=("rag",), benchmark_options=options)
    source, _ = load_benchmark(config)
    chosen = text_setting(source, setting)
    encoder = load_embedding(embedding, cache_folder("vectors"))
    with asking(limits) as policy:
        extractor = _extractor(method, model, form or "json", overrides.get("model", {}), policy)
        context = ExtractContext(extractor, encoder, coreference, validation, deduplication, attempts, normalisation)
        documents = documents_of(source, chosen, limit, seed)
        told = settings_of(context)
        found = extract_to(out, documents, reader(context), context.fingerprint, progress_on(), concurrency, told)
        quality = score(documents, found.rows, encoder, *_sorter(judge, overrides.get("judge", {}), policy))
    _print(benchmark, method, documents[0].edit.language if documents else "en", quality, encoder.identity, as_json)
    if not as_json:
        _say_next(out, found.rows, found.skipped, benchmark, method)


def _overrides(texts: list[str], method: str, judge: str | None) -> dict[str, dict[str, Any]]:
    """What `--set` says of the models that are asked.

    Raises:
        BadSettings: it is about nothing that is asked, or holds a key.
    """
    told = overrides_of(texts)
    for name in told:
        if name not in SET:
            raise BadSettings(f"--set {name}: only model.key=value and judge.key=value can be set here.")
        if (name == "judge" and judge is None) or (name == "model" and method in ("rules", "spacy")):
            raise BadSettings(f"--set {name}: {SET[name]} is not asked: leave it out, or name one.")
        refuse_secrets(told[name], name)
    return told


def _extractor(method: str, model: str | None, form: str, settings: dict[str, Any], policy: "CallPolicy") -> Any:
    """The extractor; a chat model is asked within the limits."""
    from emend.graphs.extraction.load import load_extractor

    if method != "llm" or model is None:
        return load_extractor(method, model, form)
    from emend.agents.llm import fingerprint, load_model
    from emend.agents.roles.extract import check_form
    from emend.graphs.extraction.llm import LlmExtractor
    from emend.memory.edit import content_id

    check_form(form)  # before a model is loaded
    chat = load_model(model, policy, **settings)
    name = fingerprint(chat, model) + (f"+{content_id(settings)[:8]}" if settings else "")
    return LlmExtractor(chat, form, name)


def _check(limit: int | None, concurrency: int, method: str, form: str | None) -> None:
    """Refuse impossible numbers, and a form of reply where nothing replies.

    Raises:
        BadSettings: names the option.
    """
    for name, number in (("--limit", limit), ("--concurrency", concurrency)):
        if number is not None and number < 1:
            raise BadSettings(f"{name} is {number}: it must be 1 or more.")
    if form is not None and method in ("rules", "spacy"):
        raise BadSettings(
            f"method '{method}' asks no chat model, and --form {form} says how one is to reply: leave it out, or "
            "choose --method llm."
        )


def _sorter(judge: str | None, settings: dict[str, Any], policy: "CallPolicy") -> tuple[Any, str]:
    if judge is None:
        return None, "rules"
    from emend.agents.llm import load_model
    from emend.agents.roles.extract import sort_error

    model = load_model(judge, policy, **settings)
    return (lambda gold, triplet: sort_error(model, gold, triplet)), judge


def _print(benchmark: str, method: str, language: str, quality: Any, embedding: str, as_json: bool) -> None:
    from emend.evals.report.extraction import PUBLISHED, show_extraction
    from emend.evals.report.table import console_for

    if as_json:
        print_rows([{"benchmark": benchmark, "method": method, "embedding": embedding, **quality.model_dump()}])
        return
    show_extraction(method, quality, embedding, PUBLISHED.get((benchmark, language), ()), console_for())


def _say_next(out: Path, rows: Any, skipped: int, benchmark: str, method: str) -> None:
    triplets = sum(len(row.triplets) for row in rows)
    before = f"; {skipped} of these documents were there before" if skipped else ""
    typer.echo(f"\n{triplets} triplets of {len(rows)} documents are in {out}{before}.")
    if empty := sum(not row.triplets for row in rows):
        typer.echo(f"{empty} documents have none; each line says why.")
    setting = {"docter": "llm" if method == "llm" else "tool"}.get(benchmark, "extract")
    typer.echo(f"Edit with them: emend run --benchmark {benchmark} --setting {setting} --option triples={out} ...")
