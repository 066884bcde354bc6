"""Kind `fresh`: the subset of a benchmark whose facts a model does not know, or knows."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emend.evals.case import Record
from emend.evals.config.build_config import BuildConfig
from emend.evals.config.limits import Limits
from emend.evals.config.overrides import MODEL
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.card import (
    EXAMPLES,
    LIMITS,
    Card,
    FilterCount,
    build_cost,
    count_filter,
    write_card,
)
from emend.evals.construction.knowledge import CHOICE, COUNT, POSITION, WORDS, Knowledge
from emend.evals.data.benchmarks.registry import (
    PLACES,
    BenchmarkFiles,
    is_built_folder,
    read_card,
    read_places,
)
from emend.evals.data.facts.fact_file import FactFile
from emend.evals.data.facts.fact_formats import is_fact_file, read_facts
from emend.evals.evaluate.run import run
from emend.evals.jobs.progress import Progress
from emend.evals.log.manifest import Manifest
from emend.evals.log.records import read_records
from emend.evals.metrics.estimate import estimate
from emend.memory.errors import BadData
from emend.memory.files import private_folder, read_input, replace_file

# Name of the kind, and the file with the facts selected from a file of facts.
FRESH, FACTS = "fresh", "facts.jsonl"
IN_WORDS = "in words"


class QuestionForm(NamedTuple):
    """Form of a question: its probe kind, the score that tells if a fact is known, and the
    description of this count on the card.
    """

    kind: str
    score: str
    counts: str


QUESTION_FORMS = {
    IN_WORDS: QuestionForm(WORDS, "contains", "facts that the model gives for most wordings"),
    "as choice": QuestionForm(CHOICE, "choice", "facts that are chosen among four options"),
    "by likelihood": QuestionForm(
        WORDS, "success", "facts that are more probable than the other object in most wordings"
    ),
}
# Reason for dropping the other cases, by the value of `--keep`.
UNWANTED = {"unknown": "known already", "known": "not known"}


def build_fresh(
    config: BuildConfig, out: Path, run_folder: Path, progress: Progress | None = None
) -> Card:
    """Test which facts of a benchmark a model knows, and write the cases that are known, or
    unknown.

    Args:
        config: source, model, the objects to ask for, and which cases to keep.
        out: benchmark folder.
        run_folder: folder of the run that queries the model.
        progress: callback for every case.

    Raises:
        BadData: no case is left, or no case could be scored.
        EmendError: see `run`.
    """
    private_folder(out, links=True)
    run(knowledge_config(config), run_folder, progress)
    known = read_known(run_folder)
    chosen = known.chosen(config.keep)
    if not chosen:
        raise BadData(_nothing_left(config, known, run_folder))
    manifest, records = Manifest.read(run_folder), list(read_records(run_folder))
    cost = build_cost((record.usage for record in records), manifest.spent, manifest.prices)
    return write_card(
        out,
        kind=FRESH,
        recipe=f"keep {config.keep}",
        status="not reviewed",
        content=_write_cases(config, chosen, int(manifest.benchmark[COUNT]), out),
        source=_source(config, manifest),
        language="that of the source",
        seed=config.seed,
        models={"author": config.model, "judge": config.model},
        items=manifest.units,
        kept_share=estimate(
            [float(number in chosen) for number in known.in_words], list(known.in_words)
        ),
        failed=manifest.units - len(known.in_words),
        dropped={UNWANTED[config.keep]: len(known.in_words) - len(chosen)},
        filters=tuple(known.counts()),
        attempts=manifest.units,
        cost=cost,
        cost_per_kept=cost.per(len(chosen)),
        examples=_examples(records, chosen),
        limits=LIMITS[FRESH],
    )


def _examples(records: Iterable[Record], chosen: Sequence[int]) -> tuple[str, ...]:
    """Return the first questions about kept facts with their answers, by the facts' positions."""
    candidates = [record for record in records if int(record.tags[POSITION]) in chosen]
    # threads finish cases in any order
    candidates.sort(key=lambda record: int(record.tags[POSITION]))
    return tuple(f"{record.prompt} -> {record.answer}" for record in candidates[:EXAMPLES])


def knowledge_config(config: BuildConfig) -> RunConfig:
    """Return the configuration of the run that tests what the model knows.

    Raises:
        BadSettings: see `RunConfig`.
    """
    shared = set(Limits.model_fields) | {
        "model",
        "limit",
        "seed",
        "concurrency",
        "workers",
        "fail_on_error",
    }
    return RunConfig(
        benchmark=Knowledge.name,
        benchmark_options={
            "source": config.source,
            "fact": config.fact,
            "options": json.dumps(config.benchmark_options, sort_keys=True),
        },
        data=config.data,
        editors=("unedited",),
        overrides={name: values for name, values in config.overrides.items() if name == MODEL},
        **{name: getattr(config, name) for name in sorted(shared)},
    )


def _source(config: BuildConfig, manifest: Manifest) -> dict[str, Any]:
    """Return the card's description of the source, with defaults for what the benchmark lacks."""
    usual = {"source": config.source, "licence": "that of the source", "files": {}}
    names = ("source", "licence", "files", "date")
    return usual | {name: manifest.benchmark[name] for name in names if name in manifest.benchmark}


class Known(NamedTuple):
    """Known facts of a run: a flag by question form and case number, and the number of cases
    without a score.
    """

    by_form: dict[str, dict[int, bool]]
    unscored: int

    @property
    def in_words(self) -> dict[int, bool]:
        """Flags by case number: True if the model knows the fact in a free-form answer."""
        return self.by_form[IN_WORDS]

    def chosen(self, keep: str) -> list[int]:
        """Return the numbers of the cases to keep, for `keep` either `known` or `unknown`."""
        return sorted(
            number for number, is_known in self.in_words.items() if is_known == (keep == "known")
        )

    def counts(self) -> Iterator[FilterCount]:
        """Yield the share of known facts for each question form."""
        for name, form in QUESTION_FORMS.items():
            known = self.by_form[name]
            outcomes = {str(number): [is_known] for number, is_known in known.items()}
            yield count_filter(name, outcomes, len(known) - sum(known.values()), form.counts)


def _nothing_left(config: BuildConfig, known: Known, run_folder: Path) -> str:
    return (
        f"no case is {config.keep} to {config.model}: of {len(known.in_words)} that could be "
        f"scored {sum(known.in_words.values())} are known, {known.unscored} could not; see "
        f"emend report {run_folder}."
    )


def read_known(folder: Path) -> Known:
    """Read from a run which facts the model knows: those answered correctly in more than half of
    their wordings.

    Raises:
        BadData: the run cannot be read.
    """
    scores: dict[str, dict[int, list[float]]] = {name: defaultdict(list) for name in QUESTION_FORMS}
    numbers = set()
    for record in read_records(folder):
        number = int(record.tags[POSITION])
        numbers.add(number)
        for name, form in QUESTION_FORMS.items():
            if record.kind == form.kind and form.score in record.values:
                scores[name][number].append(record.values[form.score])
    known = {}
    for name, of_form in scores.items():
        known[name] = {number: _most(values) for number, values in of_form.items()}
    return Known(known, len(numbers - known[IN_WORDS].keys()))


def _most(values: Sequence[float]) -> bool:
    """Return True if the mean of the scores is above one half."""
    return sum(values) > len(values) / 2


def _write_cases(
    config: BuildConfig, chosen: Sequence[int], count: int, out: Path
) -> BenchmarkFiles:
    """Write the selected rows of a file of facts, or the selected case numbers of a benchmark.

    The files of a benchmark made by `emend build` are copied, so that the new folder is
    self-contained.
    """
    if is_fact_file(config.source):
        rows = read_facts(config.source)
        lines = [rows[number].model_dump_json(exclude_defaults=True) + "\n" for number in chosen]
        replace_file(out / FACTS, "".join(lines).encode())
        return BenchmarkFiles(benchmark=FactFile.name, files=(FACTS,))
    content = BenchmarkFiles(
        benchmark=config.source, options=config.benchmark_options, files=(PLACES,), cases=count
    )
    if is_built_folder(config.source):
        folder = Path(config.source).expanduser()
        before = read_card(folder).content
        if PLACES in before.files:
            earlier = read_places(folder)
            chosen = [earlier[number] for number in chosen]
        own_files = [name for name in before.files if name != PLACES]
        for name in own_files:
            replace_file(out / name, read_input(folder / name))
        options = before.options | config.benchmark_options
        content = before.model_copy(
            update={
                "options": options,
                "files": (*own_files, PLACES),
                "cases": before.cases or count,
            }
        )
    replace_file(out / PLACES, json.dumps(chosen).encode())
    return content
