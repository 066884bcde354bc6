"""Benchmark that tests, without edits, which facts of another benchmark a model knows, by four
metrics.
"""

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.construction.items.source import sample_in_order
from emend.evals.data.benchmarks.base import check_request, known_options, one_of
from emend.evals.evaluate.resources import load_benchmark
from emend.memory.errors import BadData, BadSettings
from emend.memory.probe import Probe

# Tag with the 0-based position of a case in the source.
POSITION = "place"
DEFAULTS = {"source": "", "fact": "new", "options": "{}"}
# Probe kinds.
WORDS, CHOICE = "in_words", "as_choice"
# Key of the provenance.
COUNT = "cases of the source"
# Prefixes of the probe kinds that ask for the edited fact itself.
ABOUT_EDIT = ("efficacy", "paraphrase")
OPTIONS = 4
CHOOSE = "{question}\nOptions: {options}\nWrite the right option and nothing else.\nAnswer:"
SCALE = 100.0


class Knowledge:
    """The facts of a benchmark, a case for each of its cases; a limit takes a seeded sample.

    Args:
        data: folder of the source's files.
        options: `source`, a benchmark or file of facts; `fact`, `new` (the objects after the edits)
            or `old` (before); `options`, those of the source, as JSON.

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
            raise BadSettings(
                "no facts are given: name a benchmark or a file of facts with --from, or with "
                "--option source=NAME."
            )
        inner = json.loads(self.options["options"])
        self.source, self._settings = load_benchmark(
            self.options["source"], None if data is None else str(data), inner
        )

    @cached_property
    def _cases(self) -> list[Case]:
        facts = [
            _wordings(case, self.options["fact"]) for case in self.source.cases(self._settings[0])
        ]
        if not any(facts):
            raise BadData(
                f"'{self.options['source']}' has no question about an edit with the "
                f"{self.options['fact']} object: use another --fact, or another source."
            )
        objects = _objects(probe for probes in facts for probe in probes)
        return [_case(number, probes, objects) for number, probes in enumerate(facts) if probes]

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """Return a case for each case of the source that has questions about its edit."""
        check_request(self.name, setting, self.settings, limit)
        return iter(sample_in_order(self._cases, limit, seed))

    def metrics(self) -> Sequence[Metric]:
        """Return metrics for the share of known facts, by question form."""
        words = Metric(
            name="in words", value="contains", kinds=(WORDS,), scale=SCALE, per="case",
            protocol="contains",
            summary="wordings answered with the object",
        )  # fmt: skip
        exact = {
            "name": "exactly",
            "value": "em",
            "protocol": "exact",
            "summary": "wordings answered with it alone",
        }
        choice = Metric(
            name="as choice",
            value="choice",
            kinds=(CHOICE,),
            scale=SCALE,
            summary="facts chosen among four options",
        )
        likelihood = {
            "name": "by likelihood",
            "value": "success",
            "protocol": "likelihood",
            "summary": "wordings after which it is more probable than the other object",
        }
        return [words, words.model_copy(update=exact), choice, words.model_copy(update=likelihood)]

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Return no demonstrations, since the model is unedited."""
        return ()

    @property
    def provenance(self) -> dict[str, Any]:
        """Provenance of the source, with the number of its cases and of those that are asked."""
        count = sum(1 for _ in self.source.cases(self._settings[0]))
        facts = {"facts asked": len(self._cases), "objects": self.options["fact"]}
        return {**self.source.provenance, COUNT: count, **facts}


def _wordings(case: Case, fact: str) -> list[Probe]:
    """Return the probes about the edited facts, with the new or the old objects as gold."""
    probes = [
        probe
        for probe in case.probes
        if probe.edit_ids and probe.kind.startswith(ABOUT_EDIT) and probe.gold[0]
    ]
    if fact == "old":
        swapped = [(probe, probe.rival) for probe in probes if probe.rival]
        probes = [
            probe.model_copy(update={"gold": (old,), "rival": probe.gold[0]})
            for probe, old in swapped
        ]
    return [_wording(probe) for probe in probes]


def _wording(probe: Probe) -> Probe:
    scorers = ("exact_match", "contains", *(("likelihood",) if probe.rival else ()))
    fields = {
        name: getattr(probe, name) for name in ("prompt", "style", "gold", "rival", "subject")
    }
    return Probe(kind=WORDS, scorers=scorers, **fields)


def _objects(wordings: Iterable[Probe]) -> dict[str, set[str]]:
    """Return the objects of facts by relation, and those of all facts under the key ""."""
    objects: dict[str, set[str]] = defaultdict(set)
    for wording in wordings:
        names = {wording.gold[0], *([wording.rival] if wording.rival else [])}
        objects[_relation(wording)] |= names
        objects[""] |= names
    return objects


def _relation(wording: Probe) -> str:
    """Return the prompt without its subject, which facts of the same relation share."""
    return wording.prompt.replace(wording.subject, "{}", 1) if wording.subject else wording.prompt


def _case(position: int, wordings: Sequence[Probe], objects: Mapping[str, set[str]]) -> Case:
    rng = random.Random(f"{position} {wordings[0].prompt}")
    probes = [*wordings, _choice(wordings[0], objects, rng)]
    tagged = {
        probe.prompt: probe.model_copy(update={"tags": {POSITION: position}}) for probe in probes
    }
    return Case(edits=(), probes=tuple(tagged.values()), tags={POSITION: position})


def _choice(wording: Probe, objects: Mapping[str, set[str]], rng: random.Random) -> Probe:
    """Return a multiple-choice probe with the object, the rival object and objects of other facts.

    Objects of the same relation are preferred as distractors, since an object of another type is
    easily ruled out.
    """
    options = [wording.gold[0], *([wording.rival] if wording.rival else [])]
    for key in (_relation(wording), ""):
        others = sorted(objects[key] - set(options))
        options += rng.sample(others, min(len(others), OPTIONS - len(options)))
    rng.shuffle(options)
    prompt = CHOOSE.format(question=wording.prompt, options="; ".join(options))
    return Probe(
        kind=CHOICE,
        prompt=prompt,
        style="raw",
        gold=wording.gold,
        choices=tuple(options),
        scorers=("choice",),
    )
