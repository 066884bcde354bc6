"""Manifest of a run over a stream, and the stream configuration in it."""

import hashlib
import logging
from typing import Any, NamedTuple

from emend.evals.config.run_config import RunConfig
from emend.evals.log.lines import TURNS
from emend.evals.log.manifest import CaseList, Manifest, git_state, machine, now, versions
from emend.evals.metrics.expected_answers import UNKNOWN
from emend.evals.metrics.headline import text_kinds
from emend.evals.metrics.protocols import metrics_under
from emend.evals.streams.run.answers import GRAPH
from emend.evals.streams.run.line import JOB, MODE
from emend.evals.streams.run.metrics import DEFINITION
from emend.evals.streams.run.setup import StreamSetup
from emend.evals.streams.run.source import StreamSource
from emend.evals.streams.stream_config import StreamConfig
from emend.memory.errors import BadData
from emend.memory.probe import Probe

# Number of places from which the kinds of questions with text answers are derived.
FIRST_PLACES = 50
# Number of hexadecimal digits of the digest of places.
DIGEST = 16


class StartedStream(NamedTuple):
    """The stream file and the configuration with which a run was started."""

    file: str
    config: StreamConfig


def read_stream_config(config: RunConfig) -> StartedStream:
    """Return the stream configuration from the one in a run folder.

    Raises:
        BadData: it names no stream.
    """
    options = config.benchmark_options
    if "file" not in options:
        raise BadData("the manifest of the run names no stream: start a new run.")
    shared = StreamConfig.model_fields.keys() & RunConfig.model_fields.keys()
    fields: dict[str, Any] = {name: getattr(config, name) for name in shared}
    numbers = {name: options[name] for name in ("budget", "places") if name in options}
    return StartedStream(
        options["file"],
        StreamConfig.model_validate({**fields, **numbers, "systems": config.editors}),
    )


def stream_manifest(setup: StreamSetup) -> Manifest:
    """Return the manifest of a run; warns if there are fewer places than requested."""
    source, config = setup.source, setup.run_config
    graph = setup.reader.app.get_graph()
    drawing: Any = {"mermaid": graph.draw_mermaid(), "json": graph.to_json()}
    texts = _text_kinds(source)
    return Manifest(
        job=JOB,
        config=config,
        cases={TURNS: _place_list(source)},
        model=setup.model_fingerprint,
        editors={TURNS: setup.fingerprints},
        benchmark=source.provenance | _shortfalls(source, config.limit),
        metrics=tuple(metrics_under(DEFINITION.metrics, (), texts)),
        text_kinds=texts,
        mode=MODE,
        graphs={GRAPH: drawing},
        versions=versions(),
        git=git_state(),
        platform=machine(),
        started=now(),
    )


def _place_list(source: StreamSource) -> CaseList:
    """Return the numbers of places and questions, and a digest of them and of the turns."""
    digest = hashlib.sha256()
    for place in source.places:
        ids = [turn.id for turn in place.turns]
        digest.update("\n".join([place.id, *ids, ""]).encode())
    questions = sum(len(place.questions) for place in source.places)
    return CaseList(cases=len(source.places), probes=questions, digest=digest.hexdigest()[:DIGEST])


def _text_kinds(source: StreamSource) -> tuple[str, ...]:
    """Return the kinds of questions whose right answers are texts, judged by the first places."""
    first = (question for place in source.places[:FIRST_PLACES] for question in place.questions)
    return text_kinds(
        Probe(kind=question.kind, prompt=question.text, gold=question.gold or (UNKNOWN,))
        for question in first
    )


def _shortfalls(source: StreamSource, limit: int | None) -> dict[str, list[str]]:
    """Return a note if there are fewer places than requested."""
    if limit is None or len(source.places) >= limit:
        return {}
    text = f"{limit} cases requested, but the data has {len(source.places)}"
    logging.getLogger(__name__).warning(text)
    return {"shortfalls": [text]}
