"""Training of SERAC's scope classifier or a sentence encoder on a benchmark, measured before and
after.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from itertools import compress
from pathlib import Path
from typing import Literal

import numpy as np

from emend.agents.scope.base import Scope, save_threshold
from emend.agents.scope.encoder_training import EncoderTraining, QuestionPair, train_encoder
from emend.agents.scope.examples import Decision, ScopeExample, choose_threshold, decide, decisions
from emend.agents.scope.train import train_scope
from emend.evals.case import Case
from emend.evals.config.measure_config import EncoderConfig, ScopeConfig, TrainingConfig
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.metrics.estimate import estimate
from emend.memory.edit import FrozenModel
from emend.memory.embeddings.embed import Embedding, SentenceEmbedding, load_embedding
from emend.memory.errors import BadData, BadSettings
from emend.memory.paths import cache_folder
from emend.memory.registry import nearest
from emend.memory.retrieval.base import Entry
from emend.memory.retrieval.compose import load_retriever
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.focus import focused

CLASSIFIERS = ("embedding", "cross-encoder", "elken")
# Number of other events per question on which ELKEN trains.
ELKEN_NEGATIVES = 15
# Number of similar texts per question on which a cross-encoder is trained.
NEAR = 15

# Called with the number of finished training steps and the total.
OnStep = Callable[[int, int], None]


class ScopeRow(FrozenModel):
    """Accuracy on one kind of question: right if the relevant edit is chosen, or none for a
    question out of scope.

    Accuracy is from 0 to 1, with a 95 % bootstrap interval over cases; `texts` is the number of
    edits to choose from.
    """

    split: Literal["train", "check"]
    scope: Literal["in", "out", "all"]
    n: int
    texts: int
    accuracy: float | None
    low: float | None
    high: float | None
    threshold: float


class ScopeQuestions(FrozenModel):
    """Texts of a benchmark's edits with their groups, and its questions with their cases.

    `about` has the positions in `texts` of each question's relevant edits, empty out of scope;
    `beside` has the position of the first edit of its case.
    """

    texts: tuple[str, ...]
    groups: tuple[str, ...] = ()
    questions: tuple[str, ...]
    about: tuple[tuple[int, ...], ...]
    beside: tuple[int, ...]
    cases: tuple[str, ...]

    @property
    def examples(self) -> list[ScopeExample]:
        """The questions as training examples."""
        columns = zip(self.questions, self.about, self.beside, strict=True)
        return [
            ScopeExample(question, about, None if about else beside)
            for question, about, beside in columns
        ]

    def where(self, keep: Sequence[bool]) -> "ScopeQuestions":
        """Return all texts, with the questions for which `keep` is True."""
        names = ("questions", "about", "beside", "cases")
        columns = {name: tuple(compress(getattr(self, name), keep)) for name in names}
        return self.model_copy(update=columns)


def train_scope_on(
    config: ScopeConfig, out: Path, on_step: OnStep = lambda step, steps: None
) -> list[ScopeRow]:
    """Train a classifier, write it into a folder, and return its accuracy.

    On the training questions, the embedding classifier is measured by cross-validation; a
    cross-encoder is measured on the held-out tenth of the texts, on which its threshold is chosen.

    Raises:
        BadSettings: a name is unknown.
        BadData: the benchmark has no question in scope, or none out of scope.
    """
    if config.classifier not in CLASSIFIERS:
        raise BadSettings(
            f"unknown classifier '{config.classifier}': "
            f"{nearest(config.classifier, list(CLASSIFIERS))}"
        )
    questions = questions_of(config, config.benchmark_options)
    if len(set(map(bool, questions.about))) < 2:
        raise BadData(
            f"{config.benchmark} has {len(questions.about)} questions, all of them in scope or all "
            "out of it: both are needed."
        )
    embedding = load_embedding(config.embedding, cache_folder("vectors"))
    scope: Scope
    if config.classifier == "embedding":
        trained = train_scope(
            questions.texts,
            questions.examples,
            embedding,
            config.embedding,
            config.seed,
            questions.groups,
        )
        trained.scope.save(out)
        scope = trained.scope
        rows = _rows("train", questions, trained.held_out, scope.threshold)
    else:
        scope, held_out, results = _train_cross_encoder(config, questions, embedding, out, on_step)
        rows = _rows("train", held_out, results, scope.threshold)
    if config.also_check:
        rows += _check_rows(config, scope, embedding)
    return rows


def _check_rows(config: ScopeConfig, scope: Scope, embedding: Embedding) -> list[ScopeRow]:
    """Return the accuracy on the benchmark's questions under the options of `also_check`."""
    checked = questions_of(config, config.benchmark_options | config.also_check)
    if config.classifier == "embedding":
        candidates = None
    else:
        candidates = _nearest_texts(checked, embedding)
    # fills the cache in batches, so that no question is embedded alone
    embedding.queries(checked.questions)
    results = decisions(scope, checked.texts, checked.examples, candidates)
    return _rows("check", checked, results, scope.threshold)


def questions_of(config: TrainingConfig, benchmark_options: dict[str, str]) -> ScopeQuestions:
    """Return the questions of the benchmark under the given options."""
    named = (config.setting,) if config.setting else ()
    benchmark, settings = load_benchmark(config.benchmark, config.data, benchmark_options, named)
    cases = list(benchmark.cases(settings[0], config.limit, config.seed))
    tag = config.group if isinstance(config, ScopeConfig) else ""
    return questions_from(cases, tag)


def questions_from(cases: Sequence[Case], tag: str = "") -> ScopeQuestions:
    """Return the questions of cases whose edits are all applied, with edits grouped by a tag.

    A question that is out of scope of its own case, but asked verbatim by an edit of another case,
    is left out, because that edit would be relevant. Edits with the same subject and prompt are
    relevant to the same questions.
    """
    groups = _groups(cases, tag)
    places = {text: place for place, text in enumerate(groups)}
    edits = [edit for case in cases for edit in case.edits]
    same: dict[str, list[int]] = defaultdict(list)
    for edit in edits:
        same[edit.cloze or edit.id].append(places[edit.text])
    relevant = {edit.id: (places[edit.text], *same[edit.cloze or edit.id]) for edit in edits}
    prompts = {text.casefold() for edit in edits for text in (edit.question, edit.cloze) if text}
    rows = []
    for case in cases:
        first = next((places[edit.text] for edit in case.edits), 0)
        for probe in case.probes:
            # a probe without a prompt scores part of another question, which would be counted twice
            if not probe.prompt:
                continue
            about = tuple(
                dict.fromkeys(place for name in probe.edit_ids for place in relevant.get(name, ()))
            )
            if probe.in_scope and not about:
                continue
            if (
                not probe.in_scope
                and {probe.prompt.casefold(), probe.retrieval_query.casefold()} & prompts
            ):
                continue
            rows.append((probe.retrieval_query, about if probe.in_scope else (), first, case.id))
    questions, of, beside, owners = zip(*rows, strict=True) if rows else ((), (), (), ())
    return ScopeQuestions(
        texts=tuple(groups),
        groups=tuple(groups.values()) if tag else (),
        questions=questions,
        about=of,
        beside=beside,
        cases=owners,
    )


def _groups(cases: Sequence[Case], tag: str) -> dict[str, str]:
    """Return the texts of all edits, each with the value of a tag in its first case."""
    groups: dict[str, str] = {}
    for case in cases:
        if tag and tag not in case.tags:
            known = ", ".join(sorted(case.tags)) or "none"
            raise BadSettings(
                f"case '{case.id}' has no tag '{tag}' to group by; its tags: {known}."
            )
        for edit in case.edits:
            groups.setdefault(edit.text, str(case.tags.get(tag, "")))
    return groups


def _without(rows: Sequence[int], held: Collection[int]) -> list[int]:
    return [row for row in rows if row not in held]


def _train_cross_encoder(
    config: ScopeConfig, questions: ScopeQuestions, embedding: Embedding, out: Path, on_step: OnStep
) -> tuple[Scope, ScopeQuestions, list[Decision]]:
    """Train on nine tenths of the texts, or groups, and choose the threshold on the questions of
    the rest.

    ELKEN's classifier is trained with 15 negatives per question, drawn from all texts, and keeps
    its threshold of 0.5.
    """
    from emend.agents.scope.cross_encoder import (
        CrossEncoderScope,
        CrossTraining,
        ElkenScope,
        encoder_folder,
        train_cross_encoder,
    )

    is_elken = config.classifier == ElkenScope.form
    kind = ElkenScope if is_elken else CrossEncoderScope
    held_rows = _held_rows(questions, config.seed)
    homes = [example.home for example in questions.examples]
    held_out = questions.where([home in held_rows for home in homes])
    training = questions.where([home not in held_rows for home in homes])
    if is_elken:
        candidates = _random_texts(training, config.seed)
    else:
        candidates = _nearest_texts(training, embedding)
    near = [_without(rows, held_rows) for rows in candidates]
    if is_elken:
        negatives = ELKEN_NEGATIVES
    else:
        negatives = CrossTraining.negatives
    schedule = CrossTraining(epochs=config.epochs, seed=config.seed, negatives=negatives)
    base = encoder_folder(config.embedding)
    scope = train_cross_encoder(
        base, out, questions.texts, training.examples, near, schedule, on_step, kind
    )
    results = decisions(
        scope, held_out.texts, held_out.examples, _nearest_texts(held_out, embedding)
    )
    if is_elken:
        chosen = scope.threshold
    else:
        chosen = choose_threshold([result[:2] for result in results], held_out.examples)
    results = [
        decide(*result[:2], chosen, example)
        for result, example in zip(results, held_out.examples, strict=True)
    ]
    save_threshold(out, chosen)
    return kind(out, chosen), held_out, results


def _held_rows(questions: ScopeQuestions, seed: int) -> set[int]:
    """Return the positions of the texts of a tenth of the groups, drawn by the seed."""
    groups = questions.groups or tuple(map(str, range(len(questions.texts))))
    names = list(dict.fromkeys(groups))
    order = np.random.default_rng(seed).permutation(len(names))
    drawn = {names[at] for at in order[: max(1, len(names) // 10)]}
    return {row for row, group in enumerate(groups) if group in drawn}


def _random_texts(questions: ScopeQuestions, seed: int) -> list[list[int]]:
    """Return the positions of random texts for each question."""
    rng, count = np.random.default_rng(seed), len(questions.texts)
    size = min(count, 2 * ELKEN_NEGATIVES)
    return [rng.choice(count, size, replace=False).tolist() for _ in questions.questions]


def _nearest_texts(questions: ScopeQuestions, embedding: Embedding) -> list[list[int]]:
    """Return the positions of the `NEAR` texts most similar to each question."""
    if not questions.questions:
        return []
    vectors, queries = embedding.documents(questions.texts), embedding.queries(questions.questions)
    return [np.argsort(-(vectors @ query), kind="stable")[:NEAR].tolist() for query in queries]


def _rows(
    split: Literal["train", "check"],
    questions: ScopeQuestions,
    results: Sequence[Decision],
    threshold: float,
) -> list[ScopeRow]:
    """Three rows: for questions in scope, out of scope, and all."""
    kinds: dict[Literal["in", "out", "all"], tuple[bool, ...]] = {
        "in": (True,),
        "out": (False,),
        "all": (True, False),
    }
    rows = []
    for name, sides in kinds.items():
        keep = [bool(about) in sides for about in questions.about]
        right = [float(result.right) for result in compress(results, keep)]
        mean = estimate(right, list(compress(questions.cases, keep)))
        rows.append(
            ScopeRow(
                split=split,
                scope=name,
                n=mean.n,
                texts=len(questions.texts),
                accuracy=mean.mean,
                low=mean.low,
                high=mean.high,
                threshold=threshold,
            )
        )
    return rows


CHUNK = 1024  # questions embedded at once


class EncoderRow(FrozenModel):
    """Proportion of questions whose relevant edit is retrieved first, with a 95 % bootstrap
    interval over cases.
    """

    split: Literal["train", "check"]
    encoder: Literal["before", "after"]
    n: int
    texts: int
    hit: float | None
    low: float | None
    high: float | None


def train_encoder_on(
    config: EncoderConfig, out: Path, on_step: OnStep = lambda step, steps: None
) -> list[EncoderRow]:
    """Train an adapter on in-scope questions, write it into a folder, and return hit@1 before and
    after.

    Raises:
        BadSettings: a name is unknown, or the embedding is not an encoder.
        BadData: fewer than two edits have a question.
    """
    splits: dict[Literal["train", "check"], ScopeQuestions]
    splits = {"train": _in_scope(questions_of(config, config.benchmark_options))}
    if config.also_check:
        splits["check"] = _in_scope(
            questions_of(config, config.benchmark_options | config.also_check)
        )
    if config.embedding == "auto":
        spec = "minilm"
    else:
        spec = config.embedding
    base = load_embedding(spec)
    if not isinstance(base, SentenceEmbedding):
        raise BadSettings(
            f"embedding '{config.embedding}' cannot be trained: name minilm or a folder."
        )
    questions = splits["train"]
    pairs = [
        QuestionPair(question, places[0], places)
        for question, places in zip(questions.questions, questions.about, strict=True)
    ]
    schedule = EncoderTraining(epochs=config.epochs, rank=config.rank, seed=config.seed)
    train_encoder(base, out, questions.texts, pairs, schedule, on_step)
    rows = []
    for encoder, name in (("before", spec), ("after", f"{spec}+{out}")):
        embedding = load_embedding(name, cache_folder("vectors"))
        rows += [_measure(split, encoder, each, embedding) for split, each in splits.items()]
    return rows


def _in_scope(questions: ScopeQuestions) -> ScopeQuestions:
    return questions.where([bool(places) for places in questions.about])


def _measure(
    split: Literal["train", "check"], encoder: str, questions: ScopeQuestions, embedding: Embedding
) -> EncoderRow:
    entries = [
        Entry(id=str(place), edit_id=str(place), text=text)
        for place, text in enumerate(questions.texts)
    ]
    corpus = ExactCorpus.of(entries, embedding)
    retriever = load_retriever("default")(corpus)
    right = []
    for start in range(0, len(questions.questions), CHUNK):
        part = questions.questions[start : start + CHUNK]
        # embedded in one batch, so that no question is embedded alone
        corpus.embed([focused(question) for question in part])
        for question, places in zip(part, questions.about[start : start + CHUNK], strict=True):
            hits = retriever.search(question, 1)
            right.append(float(bool(hits) and int(hits[0].entry.edit_id) in places))
    mean = estimate(right, questions.cases)
    return EncoderRow.model_validate(
        {"split": split, "encoder": encoder, "n": mean.n, "texts": len(questions.texts)}
        | {"hit": mean.mean, "low": mean.low, "high": mean.high}
    )
