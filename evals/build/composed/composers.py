"""The kinds that are composed by rules, and their benchmarks for which no model is asked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emend.evals.build.assemble import CARD_TEXT
from emend.evals.build.card import EXAMPLES, BuildCost, Card, FilterCount, measure_diversity
from emend.evals.build.card_text import card_text
from emend.evals.build.chains.preparation import check_chains, prepare_chains
from emend.evals.build.elken.preparation import prepare_events
from emend.evals.build.kinds import build_kind
from emend.evals.build.recoe.preparation import prepare_records
from emend.evals.build.source_items import KeptItem
from emend.evals.config.build_config import BuildConfig
from emend.evals.data.benchmarks.built import CARD
from emend.evals.log.manifest import now
from emend.evals.log.records import replace
from emend.evals.metrics.estimate import estimate
from emend.memory.distribution import installed_version


@dataclass(frozen=True)
class Composer:
    """A kind that is composed by rules.

    Attributes:
        prepare: composes the items into the benchmark's folder and returns their file.
        result: the result of an item without a model.
        check: checks of the finished folder.
    """

    prepare: Callable[[BuildConfig, Path], Path]
    result: Callable[[Mapping[str, Any]], dict[str, Any]]
    check: Callable[[Path], list[FilterCount]] = lambda folder: []


COMPOSERS: Mapping[str, Composer] = {
    "chains": Composer(prepare_chains, lambda fields: {"questions": [fields["text"]]}, check_chains),
    "elken": Composer(prepare_events, lambda fields: {"event": fields["text"]}),
    "recoe": Composer(prepare_records, lambda fields: {"question": fields["text"]}),
}


def write_composed(name: str, config: BuildConfig, out: Path) -> Card:
    """Write the benchmark of composed items, for which no model is asked, and return its card.

    Raises:
        EmendError: see the kind's `prepare`.
    """
    kind, composer = build_kind(name), COMPOSERS[name]
    source, notes = kind.read(str(composer.prepare(config, out)))
    items = [KeptItem(item.fields, composer.result(item.fields)) for item in source]
    content = kind.write(items, [item.fields for item in items], out)
    texts = [kind.text(item) for item in items]
    files = {file: {"sha256": digest} for file, digest in notes.files.items()}
    card = Card(
        kind=name,
        recipe=config.recipe,
        status="not reviewed",
        content=content,
        built=now(),
        emend=installed_version(),
        source={"source": notes.name, "licence": notes.licence, "files": files, "dropped": notes.left_out},
        language=config.language,
        seed=config.seed,
        models={},
        one_model=False,
        prompts=(),
        items=len(items),
        kept_share=estimate([1.0] * len(items), texts),
        failed=0,
        dropped={},
        filters=tuple(composer.check(out)),
        attempts=len(items),
        cost=BuildCost(calls=0, input_tokens=0, output_tokens=0),
        cost_per_kept={},
        diversity=measure_diversity(texts),
        examples=tuple(texts[:EXAMPLES]),
        limits=kind.limits,
    )
    replace(out / CARD, card)
    replace(out / CARD_TEXT, card_text(card).encode())
    return card
