"""Training SERAC's scope classifier on a benchmark, and measuring how it decides."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from rich.text import Text

from emend.agents.scope.base import Scope, save_threshold
from emend.agents.scope.examples import Decision, ScopeExample, choose_threshold, decide, decisions
from emend.agents.scope.gate import encoder_inputs
from emend.agents.scope.train import train_scope
from emend.evals.case import Case
from emend.evals.log.config import RunConfig
from emend.evals.metrics.estimate import estimate
from emend.evals.report.escape import one_line
from emend.evals.report.figures import frame
from emend.evals.report.table import console_for
from emend.evals.runner.components import load_benchmark
from emend.memory.edit import FrozenModel
from emend.memory.embeddings.embed import Embedding, load_embedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.paths import cache_folder
from emend.memory.registry import nearest

FORMS = ("embedding", "cross-encoder")
NEAR = 15
"""So many texts that a question could be mistaken for are kept for training a cross-encoder."""


class ScopeRun(FrozenModel):
    """What a classifier is trained on, and how."""

    benchmark: str
    data: str | None = None
    setting: str | None = None
    options: dict[str, str] = {}
    check: dict[str, str] = {}
    form: str = "embedding"
    group: str = ""
    embedding: str = "auto"
    epochs: int = 1
    limit: int | None = None
    seed: int = 0


class ScopeRow(FrozenModel):
    """How the questions of one kind were decided: right when the own edit was chosen, or none where there is none.

    Shares are from 0 to 1, with a 95 % bootstrap interval over cases; `texts` is the number of edits to choose from.
    """

    split: Literal["train", "check"]
    scope: Literal["in", "out", "all"]
    n: int
    texts: int
    accuracy: float | None
    low: float | None
    high: float | None
    threshold: float


class Told(FrozenModel):
    """The edits of a benchmark with the group that each is of, its questions, and the case of each question."""

    texts: tuple[str, ...]
    groups: tuple[str, ...] = ()
    questions: tuple[str, ...]
    about: tuple[int | None, ...]
    beside: tuple[int | None, ...]
    cases: tuple[str, ...]

    @property
    def examples(self) -> list[ScopeExample]:
        """As training takes them."""
        told = zip(self.questions, self.about, self.beside, strict=True)
        return [ScopeExample(question, about, beside) for question, about, beside in told]


def train_scope_on(run: ScopeRun, out: Path) -> list[ScopeRow]:
    """Trains a classifier, writes it into a folder, and says how it decides.

    On the training questions the embedding form is measured by weights that did not see them; a cross-encoder has seen
    all but the tenth that its threshold is chosen on, and is measured on those.

    Raises:
        BadSettings: an unknown name.
        BadData: the benchmark has no question in scope, or none out of it.
    """
    if run.form not in FORMS:
        raise BadSettings(f"unknown form '{run.form}': {nearest(run.form, list(FORMS))}")
    told = questions_of(run, run.options)
    if len({about is None for about in told.about}) < 2:
        raise BadData(
            f"{run.benchmark} has {len(told.about)} questions, all of them in scope or all out of it: both are needed."
        )
    embedding = load_embedding(run.embedding, cache_folder("vectors"))
    rows: list[ScopeRow] = []
    scope: Scope
    if run.form == "embedding":
        trained = train_scope(told.texts, told.examples, embedding, run.embedding, run.seed, told.groups)
        trained.scope.save(out)
        scope = trained.scope
        rows += _rows("train", told, trained.held_out, scope.threshold)
    else:
        scope, held, found = _cross_encoder(run, told, embedding, out)
        rows += _rows("train", held, found, scope.threshold)
    if run.check:
        checked = questions_of(run, run.options | run.check)
        candidates = None if run.form == "embedding" else _near(checked, embedding)
        embedding.queries(
            encoder_inputs(checked.questions)
        )  # in batches into the cache, so that none is embedded alone
        found = decisions(scope, checked.texts, checked.examples, candidates)
        rows += _rows("check", checked, found, scope.threshold)
    return rows


def questions_of(run: ScopeRun, options: dict[str, str]) -> Told:
    """What the benchmark asks under these options; a question is about the first edit that bears on it."""
    config = RunConfig(
        benchmark=run.benchmark, editors=("serac",), data=run.data, benchmark_options=options,
        limit=run.limit, seed=run.seed,
        settings=(run.setting,) if run.setting else (),
    )  # fmt: skip
    benchmark, settings = load_benchmark(config)
    cases = list(benchmark.cases(settings[0], run.limit, run.seed))
    groups = _groups(cases, run.group)
    texts = list(groups)
    places = {text: place for place, text in enumerate(texts)}
    rows = [row for case in cases for row in _questions(case, places)]
    questions, about, beside = (tuple(column) for column in zip(*rows, strict=True)) if rows else ((), (), ())
    owners = tuple(case.id for case in cases for _ in _questions(case, places))
    kept = tuple(groups.values()) if run.group else ()
    return Told(texts=tuple(texts), groups=kept, questions=questions, about=about, beside=beside, cases=owners)


def _groups(cases: Sequence[Case], tag: str) -> dict[str, str]:
    """The texts of all edits, each with what the first case that has it says under a tag."""
    groups: dict[str, str] = {}
    for case in cases:
        if tag and tag not in case.tags:
            known = ", ".join(sorted(case.tags)) or "none"
            raise BadSettings(f"case '{case.id}' has no tag '{tag}' to group by; its tags: {known}.")
        for edit in case.edits:
            groups.setdefault(edit.text, str(case.tags.get(tag, "")))
    return groups


def _questions(case: Case, places: dict[str, int]) -> list[tuple[str, int | None, int | None]]:
    """A question whose edits are not told, or not among the case's, teaches nothing and is left out."""
    of = {edit.id: places[edit.text] for edit in case.edits}
    first = next(iter(of.values()), None)
    out: list[tuple[str, int | None, int | None]] = []
    for probe in case.probes:
        own = next((of[name] for name in probe.edit_ids if name in of), None)
        if not probe.in_scope:
            out.append((probe.retrieval_query, None, first))
        elif own is not None:
            out.append((probe.retrieval_query, own, None))
    return out


def _cross_encoder(run: ScopeRun, told: Told, embedding: Embedding, out: Path) -> tuple[Scope, Told, list[Decision]]:
    """Trained on nine tenths of the texts, or groups, and their questions; the threshold is the best on the others."""
    from emend.agents.scope.cross_encoder import CrossEncoderScope, CrossTraining, encoder_folder, train_cross_encoder

    groups = told.groups or tuple(str(place) for place in range(len(told.texts)))
    names = list(dict.fromkeys(groups))
    drawn = {names[at] for at in np.random.default_rng(run.seed).permutation(len(names))[: max(1, len(names) // 10)]}
    kept_out = {place for place, group in enumerate(groups) if group in drawn}
    homes = [about if about is not None else beside for about, beside in zip(told.about, told.beside, strict=True)]
    held = some_of(told, [home in kept_out for home in homes])
    seen = some_of(told, [home not in kept_out for home in homes])
    near = [[place for place in places if place not in kept_out] for places in _near(seen, embedding)]
    how = CrossTraining(epochs=run.epochs, seed=run.seed)
    base = encoder_folder(run.embedding)
    scope = train_cross_encoder(base, out, told.texts, seen.examples, near, how, _say)
    found = decisions(scope, held.texts, held.examples, _near(held, embedding))
    threshold = choose_threshold([one[:2] for one in found], held.examples)
    judged_anew = [decide(*one[:2], threshold, example) for one, example in zip(found, held.examples, strict=True)]
    save_threshold(out, threshold)
    return CrossEncoderScope(out, threshold), held, judged_anew


def some_of(told: Told, kept: Sequence[bool]) -> Told:
    """The same texts, with some of the questions."""
    columns = ("questions", "about", "beside", "cases")
    some = {name: tuple(v for v, keep in zip(getattr(told, name), kept, strict=True) if keep) for name in columns}
    return told.model_copy(update=some)


def _near(told: Told, embedding: Embedding) -> list[list[int]]:
    """For each question the texts nearest to it, which a cross-encoder reads."""
    if not told.questions:
        return []
    vectors, asked = embedding.documents(told.texts), embedding.queries(told.questions)
    return [np.argsort(-(vectors @ one), kind="stable")[:NEAR].tolist() for one in asked]


def _say(done: int, whole: int) -> None:
    """A line on stderr at every tenth."""
    if done == whole or done % max(1, whole // 10) == 0:
        sys.stderr.write(f"training: {done:,} of {whole:,} steps\n")


def _rows(split: Literal["train", "check"], told: Told, found: Sequence[Decision], threshold: float) -> list[ScopeRow]:
    """One row for questions in scope, one for those out of it, one for all."""
    inside = [about is not None for about in told.about]
    of: dict[Literal["in", "out", "all"], list[bool]] = {
        "in": inside,
        "out": [not one for one in inside],
        "all": [True] * len(inside),
    }
    rows = []
    for name, kept in of.items():
        right = [float(one.right) for one, keep in zip(found, kept, strict=True) if keep]
        cases = [case for case, keep in zip(told.cases, kept, strict=True) if keep]
        mean = estimate(right, cases)
        rows.append(
            ScopeRow(
                split=split,
                scope=name,
                n=mean.n,
                texts=len(told.texts),
                accuracy=mean.mean,
                low=mean.low,
                high=mean.high,
                threshold=threshold,
            )
        )
    return rows


def show_scope(rows: Sequence[ScopeRow], out: Path) -> None:
    """Print how the questions were decided, and how the classifier is used."""
    console = console_for()
    table = frame("questions", "scope", "n", "edits", "right", "", names=2)
    table.title, table.title_justify = "decided right, in percent [95 % interval]", "left"
    names = {"train": "learned from", "check": "checked on"}
    for row in rows:
        told = "-" if row.accuracy is None else f"{100 * row.accuracy:.1f}"
        between = "" if row.low is None or row.high is None else f"[{100 * row.low:.0f}, {100 * row.high:.0f}]"
        table.add_row(names[row.split], row.scope, str(row.n), str(row.texts), told, Text(between))
    console.print(table)
    console.print(Text("The questions learned from are decided by weights that had not seen them.", style="dim"))
    console.print(Text(f"\nThe classifier is in {one_line(str(out))}. Next:"))
    console.print(Text(f"  emend run ... --editor serac --set serac.scope={one_line(str(out))}"), soft_wrap=True)
