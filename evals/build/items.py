"""Items of a source, and facts of a benchmark as questions: one case each, without edits, for the runner to ask."""

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, get_args

from emend.editors.base import Demonstration
from emend.evals.build.kinds import build_kind
from emend.evals.build.sources.stored_items import SourceItem, SourceNotes
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import check_request, known_options, one_of
from emend.evals.metrics.scores import KEPT, PASSES
from emend.evals.run.resources import load_benchmark
from emend.graphs.construction.pipeline import Recipe
from emend.graphs.registry import CONSTRUCTIONS
from emend.memory.errors import BadData, BadSettings
from emend.memory.probe import Probe

ITEM, PLACE = "item", "place"
ITEM_DEFAULTS = {"kind": "akew", "source": "", "recipe": "best", "language": "en"}


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
        self.options = {**ITEM_DEFAULTS, **known_options(self.name, options, ITEM_DEFAULTS)}
        one_of(self.name, "recipe", self.options["recipe"], get_args(Recipe))
        if not self.options["source"]:
            raise BadSettings("nothing to build from: name a source with --from.")
        self.kind = build_kind(self.options["kind"])

    @cached_property
    def _source(self) -> tuple[Iterator[SourceItem], SourceNotes]:
        return self.kind.read(self.options["source"])

    @cached_property
    def _cases(self) -> list[Case]:
        return [_item_case(place, *item) for place, item in enumerate(self._source[0])]

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """One case an item."""
        check_request(self.name, setting, self.settings, limit)
        return _sample(self._cases, limit, seed)

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


def _sample(cases: Sequence[Case], limit: int | None, seed: int) -> Iterator[Case]:
    """So many of the cases, in their order."""
    if limit is None or limit >= len(cases):
        return iter(cases)
    return (cases[place] for place in sorted(random.Random(seed).sample(range(len(cases)), limit)))


def _item_case(place: int, text: str, fields: Mapping[str, Any]) -> Case:
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


DEFAULTS = {"source": "", "fact": "new", "options": "{}"}
WORDS, CHOICE = "in_words", "as_choice"
COUNT = "cases of the source"
"""Entry of the provenance."""
ABOUT_EDIT = ("efficacy", "paraphrase")
"""How kinds of probes begin that ask for the fact itself."""
OPTIONS = 4
CHOOSE = "{question}\nOptions: {options}\nWrite the right option and nothing else.\nAnswer:"
SCALE = 100.0


class Knowledge:
    """The facts of a benchmark, a case for each of its cases; a limit takes a seeded sample.

    Args:
        data: folder of the source's files.
        options: `source`, a benchmark or file of facts; `fact`, `new` (the objects after the edits) or `old` (before);
            `options`, those of the source, as JSON.

    Raises:
        BadSettings: an option is wrong, or the source is not named.
    """

    name: ClassVar[str] = "knowledge"
    settings: ClassVar[tuple[str, ...]] = ("facts",)
    wording: ClassVar[str] = "new_fact"
    mode: ClassVar[str] = "single"

    def __init__(self, data: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        self.options = {**DEFAULTS, **known_options(self.name, options, DEFAULTS)}
        one_of(self.name, "fact", self.options["fact"], ("new", "old"))
        if not self.options["source"]:
            raise BadSettings("nothing to ask about: name a benchmark or a file of facts with --from.")
        inner = json.loads(self.options["options"])
        self.source, self._settings = load_benchmark(self.options["source"], None if data is None else str(data), inner)

    @cached_property
    def _cases(self) -> list[Case]:
        facts = [_wordings(case, self.options["fact"]) for case in self.source.cases(self._settings[0])]
        if not any(facts):
            raise BadData(
                f"'{self.options['source']}' has no question about an edit with the {self.options['fact']} object: "
                "take another --fact, or another source."
            )
        objects = _objects(probe for probes in facts for probe in probes)
        return [_case(place, probes, objects) for place, probes in enumerate(facts) if probes]

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """One case for each case of the source that asks for its edit."""
        check_request(self.name, setting, self.settings, limit)
        return _sample(self._cases, limit, seed)

    def metrics(self) -> Sequence[Metric]:
        """The share of facts that the model knows, by each way of asking."""
        words = Metric(
            name="in words", value="contains", kinds=(WORDS,), scale=SCALE, per="case", protocol="contains",
            summary="wordings that are answered with the object",
        )  # fmt: skip
        exact = {"name": "exactly", "value": "em", "protocol": "exact", "summary": "wordings answered with it alone"}
        choice = Metric(
            name="as choice", value="choice", kinds=(CHOICE,), scale=SCALE, summary="facts chosen among four options"
        )
        likelihood = {
            "name": "by likelihood",
            "value": "success",
            "protocol": "likelihood",
            "summary": "wordings after which it is more probable than the other object",
        }
        return [words, words.model_copy(update=exact), choice, words.model_copy(update=likelihood)]

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """None: the unedited model gets none."""
        return ()

    @property
    def provenance(self) -> dict[str, Any]:
        """That of the source, with the number of its cases that are asked."""
        count = sum(1 for _ in self.source.cases(self._settings[0]))
        facts = {"facts asked": len(self._cases), "objects": self.options["fact"]}
        return {**self.source.provenance, COUNT: count, **facts}


def _wordings(case: Case, fact: str) -> list[Probe]:
    """The probes that ask for the edited facts, with the chosen objects as gold."""
    probes = [probe for probe in case.probes if probe.edit_ids and probe.kind.startswith(ABOUT_EDIT) and probe.gold[0]]
    if fact == "old":
        swapped = [(probe, probe.rival) for probe in probes if probe.rival]
        probes = [probe.model_copy(update={"gold": (old,), "rival": probe.gold[0]}) for probe, old in swapped]
    return [_wording(probe) for probe in probes]


def _wording(probe: Probe) -> Probe:
    scorers = ("exact_match", "contains", *(("likelihood",) if probe.rival else ()))
    fields = {name: getattr(probe, name) for name in ("prompt", "style", "gold", "rival", "subject")}
    return Probe(kind=WORDS, scorers=scorers, **fields)


def _objects(wordings: Iterable[Probe]) -> dict[str, set[str]]:
    """The objects of facts by what is asked of their subjects, and of all facts under ""."""
    objects: dict[str, set[str]] = defaultdict(set)
    for wording in wordings:
        names = {wording.gold[0], *([wording.rival] if wording.rival else [])}
        objects[_relation(wording)] |= names
        objects[""] |= names
    return objects


def _relation(wording: Probe) -> str:
    """The prompt without its subject, which is the same for facts of one relation."""
    return wording.prompt.replace(wording.subject, "{}", 1) if wording.subject else wording.prompt


def _case(place: int, wordings: Sequence[Probe], objects: Mapping[str, set[str]]) -> Case:
    rng = random.Random(f"{place} {wordings[0].prompt}")
    probes = [*wordings, _choice(wordings[0], objects, rng)]
    tagged = {probe.prompt: probe.model_copy(update={"tags": {PLACE: place}}) for probe in probes}
    return Case(edits=(), probes=tuple(tagged.values()), tags={PLACE: place})


def _choice(wording: Probe, objects: Mapping[str, set[str]], rng: random.Random) -> Probe:
    """The fact as a choice between its object, the other object, and objects of other facts.

    Those of the same relation come first, since an object of another kind is ruled out without any knowledge.
    """
    options = [wording.gold[0], *([wording.rival] if wording.rival else [])]
    for key in (_relation(wording), ""):
        others = sorted(objects[key] - set(options))
        options += rng.sample(others, min(len(others), OPTIONS - len(options)))
    rng.shuffle(options)
    prompt = CHOOSE.format(question=wording.prompt, options="; ".join(options))
    return Probe(
        kind=CHOICE, prompt=prompt, style="raw", gold=wording.gold, choices=tuple(options), scorers=("choice",)
    )
