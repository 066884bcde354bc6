"""The items of a source as a benchmark: one case an item, without edits, so that the runner can construct them."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, get_args

from emend.editors.base import Demonstration
from emend.evals.build.kinds import build_kind
from emend.evals.build.sources.stored_items import SourceItem, SourceNotes
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import check_request, known_options, one_of
from emend.evals.metrics.scores import KEPT, PASSES
from emend.graphs.construction.pipeline import Recipe
from emend.graphs.registry import CONSTRUCTIONS
from emend.memory.errors import BadSettings
from emend.memory.probe import Probe

ITEM, PLACE = "item", "place"
DEFAULTS = {"kind": "akew", "source": "", "recipe": "best", "language": "en"}


class Items:
    """The items of a source, in its order; a limit takes a seeded sample.

    Args:
        data: None; the source is an option.
        options: `kind`, `source`, `recipe` and `language`.

    Raises:
        BadSettings: an option is wrong, or the source is not named.
    """

    name: ClassVar[str] = "items"
    settings: ClassVar[tuple[str, ...]] = ("items",)
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "single"

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        self.options = {**DEFAULTS, **known_options(self.name, options, DEFAULTS)}
        one_of(self.name, "recipe", self.options["recipe"], get_args(Recipe))
        if not self.options["source"]:
            raise BadSettings("nothing to build from: name a source with --from.")
        self.kind = build_kind(self.options["kind"])

    @cached_property
    def _source(self) -> tuple[Iterator[SourceItem], SourceNotes]:
        return self.kind.read(self.options["source"])

    @cached_property
    def _cases(self) -> list[Case]:
        return [_case(place, *item) for place, item in enumerate(self._source[0])]

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """One case an item."""
        check_request(self.name, setting, self.settings, limit)
        count = len(self._cases)
        if limit is None or limit >= count:
            return iter(self._cases)
        return (self._cases[place] for place in sorted(random.Random(seed).sample(range(count), limit)))

    def metrics(self) -> Sequence[Metric]:
        """The share of items that are kept, and for each filter the share of those that reached it and passed."""
        recipe: Any = self.options["recipe"]
        filters = CONSTRUCTIONS.load(self.options["kind"]).filters(recipe)
        share = Metric(name="kept", value=KEPT, kinds=(ITEM,), scale=100.0, summary="items that passed all filters")
        return [share] + [
            share.model_copy(
                update={"name": name, "value": f"{PASSES}{name}", "group": "filters", "summary": info.rejects}
            )
            for name, info in filters.items()
        ]

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """None: the prompts of a construction have their own."""
        return ()

    @property
    def provenance(self) -> dict[str, Any]:
        """The source with the digests of its files, and what was left out of it."""
        count, notes = len(self._cases), self._source[1]
        files = {name: {"sha256": digest} for name, digest in notes.files.items()}
        dropped = {"dropped": dict(notes.left_out)} if notes.left_out else {}
        return {
            "source": notes.name,
            "licence": notes.licence,
            "date": notes.date,
            "files": files,
            "items": count,
            "options": dict(self.options),
            **dropped,
        }


def _case(place: int, text: str, fields: Mapping[str, Any]) -> Case:
    probe = Probe(
        kind=ITEM,
        prompt=text,
        style="raw",
        gold=(KEPT,),
        query=json.dumps(fields, ensure_ascii=False, sort_keys=True),
        scorers=("construction",),
        tags={PLACE: place},
    )
    return Case(edits=(), probes=(probe,))
