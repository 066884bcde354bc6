"""AKEW's analyses against numbers that were worked out by hand: the drop, errors by kind, and what triplets need."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from emend.evals.metrics.published.akew import AMBIGUOUS, INCOMPLETE, IRRELEVANT, OLD, akew_error
from emend.evals.results.analyses.base import Lacking
from tests.evals.made import case_line, record, write_run
from tests.evals.results.analyses.computed import analysed, numbers


def akew_cases(settings: Sequence[str], count: int) -> list[dict[str, Any]]:
    return [case_line(f"{s}{n}", s, n + 1, tags={"akew_id": n + 10}) for s in settings for n in range(count)]


def akew_run(folder: Path, dataset: str = "mquake_cf", **answers: Sequence[float]) -> Path:
    """Editing accuracy by setting; the same questions under each."""
    told = [
        record(f"{setting}{n}", setting=setting, prompt=f"{n}?", values={"em": value})
        for setting, values in answers.items()
        for n, value in enumerate(values)
    ]
    cases = akew_cases(list(answers), max(map(len, answers.values())))
    return write_run(folder, told, "akew", cases=cases, benchmark_options={"dataset": dataset})


def test_the_drop_is_relative_and_paired_across_settings(tmp_path: Path) -> None:
    run = akew_run(tmp_path / "a", struct=[1, 1, 1, 1, 0], unstruct=[1, 0, 0, 1, 0], extract=[0, 0, 0, 1])
    found = numbers(analysed("drop", run), "editing accuracy")
    assert found == {("unstruct", "rag"): (50.0, 5), ("extract", "rag"): (75.0, 4)}


def test_the_drop_of_two_data_sets_and_without_settings(tmp_path: Path) -> None:
    one = akew_run(tmp_path / "a", struct=[1, 1], unstruct=[1, 0])
    other = akew_run(tmp_path / "b", "counterfact", struct=[1, 1], unstruct=[0, 0])
    panels = {row.panel: row.mean for row in analysed("drop", one, other).rows}
    assert panels == {"mquake_cf, editing accuracy": 50.0, "counterfact, editing accuracy": 100.0}
    alone = akew_run(tmp_path / "c", struct=[1])
    with pytest.raises(Lacking, match="the run has only struct: run with --setting struct --setting unstruct"):
        analysed("drop", alone)


def test_an_editor_of_two_runs_is_two_series(tmp_path: Path) -> None:
    one = akew_run(tmp_path / "a", struct=[1, 1], unstruct=[1, 0])
    other = akew_run(tmp_path / "b", struct=[1, 1], unstruct=[0, 0])
    found = numbers(analysed("drop", one, other), "editing accuracy")
    assert found == {("unstruct", "rag, a"): (50.0, 2), ("unstruct", "rag, b"): (100.0, 2)}
    apart = akew_run(tmp_path / "c", struct=[1, 1]), akew_run(tmp_path / "d", unstruct=[1, 0])
    assert numbers(analysed("drop", *apart), "editing accuracy") == {("unstruct", "rag"): (50.0, 2)}


def test_a_repeat_is_a_try_of_its_own_in_the_drop(tmp_path: Path) -> None:
    """Each repeat has one wording of two right, so that every case counts in both; pooled, nothing else could show."""
    answers = (("struct", 0, (1, 0)), ("struct", 1, (0, 1)), ("unstruct", 0, (1, 0)), ("unstruct", 1, (0, 0)))
    told = [
        record(
            f"{setting}0",
            "rag",
            "multihop",
            f"{n}",
            prompt=f"{n}?",
            setting=setting,
            repeat=repeat,
            values={"em": value},
        )
        for setting, repeat, values in answers
        for n, value in enumerate(values)
    ]
    cases = akew_cases(("struct", "unstruct"), 1)
    run = write_run(tmp_path / "a", told, "akew", cases=cases, benchmark_options={"dataset": "mquake_cf"})
    assert numbers(analysed("drop", run), "multi") == {("unstruct", "rag"): (50.0, 2)}


def test_without_a_file_of_triplets_the_command_for_the_run_s_own_documents_is_told(tmp_path: Path) -> None:
    run = akew_run(tmp_path / "a", "counterfact", struct=[1])
    command = "emend extract --benchmark akew --benchmark-option dataset=counterfact"
    with pytest.raises(Lacking, match=f"{command} --out .* {command} --no-deduplication --out .* --triples"):
        analysed("triples", run)


# The four examples of AKEW's Figure 6, in short: question, gold, old object, triplets, what was said, error.
FIGURE_6 = [
    (
        "The original language of Stacked was", "Tamil", "English", "English",
        [("Tamil", "{} is spoken primarily in", "southern India"), ("Stacked", "{} was developed by", "a team")],
        False, INCOMPLETE,
    ),
    (
        "Nova premieres on", "History", "PBS", "the USA",
        [("History", "{} is owned by", "A&E"), ("Nova", "{} first premiered on", "the network in 1974")],
        False, AMBIGUOUS,
    ),
    (
        "Eli Maor is originally from", "Portsmouth", "Israel", "Israel.",
        [("Eli Maor", "{} was born and raised in", "the coastal city of Portsmouth")],
        True, OLD,
    ),
    (
        "Aerosvit Airlines formed in", "Paris", "Kiev", "1992",
        [("Aerosvit Airlines", "{} was founded in", "Paris, France")],
        True, IRRELEVANT,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("prompt", "gold", "old", "answer", "triplets", "recoverable", "error"), FIGURE_6)
def test_failed_edits_are_sorted_as_the_paper_sorted_its_examples(
    prompt: str, gold: str, old: str, answer: str, triplets: list[tuple[str, str, str]], recoverable: bool, error: str
) -> None:
    edits = [
        {
            "id": "e",
            "form": "triplet",
            "text": f"{cloze.format(s)} {o}.",
            "subject": s,
            "target_new": o,
            "target_true": "",
        }
        for s, cloze, o in triplets
    ]
    tags: dict[str, str | int | float | bool] = {"recoverable": recoverable}
    told = record("1", setting="extract", prompt=prompt, gold=(gold,), rival=old, answer=answer, tags=tags)
    assert akew_error(told, edits) == error


@pytest.mark.parametrize(
    ("subject", "text", "error"),
    [
        ("Oslo", "Oslo lies in Chile.", IRRELEVANT),
        ("Bergen", "Bergen lies in Chile.", INCOMPLETE),
        ("Oslo", "Oslo lies by the sea.", AMBIGUOUS),
    ],
)
def test_extracted_triplets_tell_themselves_what_they_name(subject: str, text: str, error: str) -> None:
    edits = [{"subject": subject, "text": text, "target_new": ""}]
    told = record("1", setting="extract", prompt="Oslo lies in", gold=("Chile",), rival="Peru", answer="Rome")
    assert akew_error(told, edits) == error


def test_errors_are_shares_of_failures(tmp_path: Path) -> None:
    said = ["Rome", "Rome", "Oslo", "Paris"]
    told = [
        record(f"{n}", setting="struct", gold=("Paris",), rival="Rome", answer=a, values={"em": float(a == "Paris")})
        for n, a in enumerate(said)
    ]
    run = write_run(tmp_path / "a", told, "akew")
    found = numbers(analysed("errors", run))
    assert found[OLD, "rag"] == (pytest.approx(200 / 3), 3) and found[IRRELEVANT, "rag"] == (pytest.approx(100 / 3), 3)
