"""Selection of what a model does not know: asked in words and as a choice, and written as a benchmark."""

import json
from pathlib import Path

import pytest
from langchain_core.messages.utils import count_tokens_approximately

from emend.evals.config.build_config import BuildConfig
from emend.evals.construction.build import RUN, build
from emend.evals.construction.estimate import estimate_build
from emend.evals.construction.knowledge import Knowledge
from emend.evals.data.benchmarks.registry import CARD, PLACES
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.log.lines import RECORDS
from emend.memory.errors import BadData
from tests.evals import command_line
from tests.provider.protocols import Asked
from tests.provider.server import Provider

KNOWN = ("Norway", "Oslo", "Chile")
ROWS = [
    {"subject": name, "relation": "land", "object": new, "prompt": "{} lies in", "old_answer": old,
     "question": f"In which land does {name} lie?", "paraphrases": [f"The land of {name} is"]}
    for name, new, old in (("Pell Lock", "Norway", "Peru"), ("Orsa Tower", "Cuba", "Chile"), ("Tarn", "Kenya", "Fiji"))
]  # fmt: skip


def knows(asked: Asked) -> str:
    """A model that knows of Pell Lock the new land, of Orsa Tower the old one, and of Tarn nothing."""
    land = {"Pell": "Norway", "Orsa": "Chile"}
    return next((f"It is {land[name]}." for name in land if name in asked.prompt), "I do not know.")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "facts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return file


def fresh(source: Path, out: Path, **fields: str):
    with Provider(knows) as provider:
        config = BuildConfig.model_validate({"source": str(source), "model": provider.spec("chat"), **fields})
        return build("fresh", config, out)


def subjects(folder: Path) -> list[str]:
    benchmark, settings = load_benchmark(str(folder), None, {})
    return [edit.subject for case in benchmark.cases(settings[0]) for edit in case.edits]


@pytest.mark.parametrize(
    ("fact", "keep", "expected"),
    [
        ("new", "unknown", ["Orsa Tower", "Tarn"]),
        ("new", "known", ["Pell Lock"]),
        ("old", "known", ["Orsa Tower"]),
        ("old", "unknown", ["Pell Lock", "Tarn"]),
    ],
)
def test_the_facts_that_are_kept_are_those_that_the_model_knows_or_does_not(
    source: Path, tmp_path: Path, fact: str, keep: str, expected: list[str]
):
    card = fresh(source, tmp_path / "out", fact=fact, keep=keep)
    assert subjects(tmp_path / "out") == expected
    assert card.kept_share.n == 3 and round((card.kept_share.mean or 0) * 3) == len(expected)
    assert list(card.dropped.values()) == [3 - len(expected)]


def test_the_card_has_the_known_share_for_each_way_of_asking(source: Path, tmp_path: Path):
    card = fresh(source, tmp_path / "out")
    shares = {each.name: each.passed for each in card.filters}
    assert shares["in words"].mean == pytest.approx(1 / 3) and shares["in words"].low is not None
    assert shares["as choice"].n == 2  # of Tarn it names no option
    assert shares["by likelihood"].n == 0  # an API model gives no probabilities
    assert "| in words | 3 |" in (tmp_path / "out" / "card.md").read_text()


def test_a_limit_takes_a_sample_of_the_cases_that_are_kept(source: Path, tmp_path: Path):
    fresh(source, tmp_path / "out")
    benchmark, settings = load_benchmark(str(tmp_path / "out"), None, {})
    assert len(list(benchmark.cases(settings[0], 1))) == 1 and len(list(benchmark.cases(settings[0], 9))) == 2


def test_no_case_of_the_kind_that_is_kept_is_an_error(source: Path, tmp_path: Path):
    source.write_text(json.dumps(ROWS[0]) + "\n")
    with pytest.raises(BadData, match="1 are known"):
        fresh(source, tmp_path / "out")


def test_the_rows_of_a_file_are_in_the_folder_itself(source: Path, tmp_path: Path):
    fresh(source, tmp_path / "out")
    source.unlink()
    assert subjects(tmp_path / "out") == ["Orsa Tower", "Tarn"]


def of_tinyworld(out: Path, source: str = "tinyworld", limit: int = 3) -> None:
    with Provider(lambda asked: "I do not know.") as provider:
        build("fresh", BuildConfig(source=source, model=provider.spec("chat"), limit=limit), out)


@pytest.mark.slow
def test_a_folder_that_was_built_is_a_source_too(tmp_path: Path):
    of_tinyworld(tmp_path / "first")
    of_tinyworld(tmp_path / "second", str(tmp_path / "first"), 2)
    first, second = (subjects(tmp_path / name) for name in ("first", "second"))
    assert (len(first), len(second)) == (3, 2) and set(second) < set(first)


@pytest.mark.parametrize("content", ["{", '["a"]', None])
def test_places_that_cannot_be_read_are_refused(tmp_path: Path, content: str | None):
    of_tinyworld(tmp_path)
    (tmp_path / PLACES).unlink()
    if content is not None:
        (tmp_path / PLACES).write_text(content)
    with pytest.raises(BadData, match=PLACES):
        load_benchmark(str(tmp_path), None, {})


def test_places_among_another_number_of_cases_are_refused(tmp_path: Path):
    of_tinyworld(tmp_path)
    card = json.loads((tmp_path / CARD).read_bytes())
    card["content"]["cases"] += 1
    (tmp_path / CARD).write_text(json.dumps(card))
    with pytest.raises(BadData, match="cases"):
        subjects(tmp_path)


def test_the_options_of_a_choice_are_objects_of_the_same_relation_as_far_as_there_are_some(tmp_path: Path):
    lands = ("Norway", "Chile", "Kenya", "Peru")
    rows = [{"subject": f"Lake {n}", "relation": "land", "prompt": "{} lies in", "object": name}
            for n, name in enumerate(lands)]  # fmt: skip
    rows += [{"subject": f"Book {n}", "relation": "author", "prompt": "{} was written by", "object": f"Ana {n}"}
             for n in range(6)]  # fmt: skip
    file = tmp_path / "facts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cases = list(Knowledge(None, {"source": str(file)}).cases("facts"))
    (choice,) = (probe for probe in cases[0].probes if probe.choices)
    assert sorted(choice.choices) == sorted(lands)


@pytest.mark.parametrize("fact", ["new", "old"])
def test_calls_and_tokens_are_estimated_within_a_tenth_and_no_model_is_asked(source: Path, tmp_path: Path, fact: str):
    """Tokens are counted by LangChain's rule for English: four characters each, and three for a message."""
    with Provider(lambda asked: "Cuba" if "Orsa" in asked.prompt else "Kenya.") as provider:
        fields = {"source": str(source), "model": provider.spec("chat"), "fact": fact}
        config = BuildConfig.model_validate(fields)
        estimate = estimate_build("fresh", config)
        assert provider.count == 0 and estimate.items == len(ROWS)
        build("fresh", config, tmp_path / "out")
        sent = [message for request in provider.requests for message in request.body["messages"]]
    (role,) = estimate.roles
    assert role.calls == provider.count
    assert role.input_tokens == pytest.approx(count_tokens_approximately(sent), rel=0.1)


def test_a_dry_run_on_the_command_line_counts_calls_and_speaks_of_no_attempts(source: Path, capsys):
    assert (
        command_line.emend("build", "fresh", "--from", str(source), "--model", "tiny", "--out", "x", "--dry-run") == 0
    )
    text = capsys.readouterr().out
    assert text.startswith("3 items") and "model tiny" in text and "attempt" not in text


def test_the_card_does_not_depend_on_which_thread_was_first(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Provider(knows) as provider:
        config = BuildConfig(source=str(source), model=provider.spec("chat"))
        card = build("fresh", config, out)
        path = out / RUN / RECORDS
        units: dict[str, list[str]] = {}
        for line in path.read_text().splitlines(keepends=True):
            units.setdefault(json.loads(line)["unit"], []).append(line)
        assert len(units) > 1
        path.write_text("".join(line for unit in reversed(units.values()) for line in unit))
        assert build("fresh", config, out).examples == card.examples


def test_the_command_line_builds_it_and_says_what_is_next(source: Path, tmp_path: Path, capsys):
    out = tmp_path / "out"
    with Provider(knows) as provider:
        words = ("--from", str(source), "--model", provider.spec("chat"), "--out", str(out))
        assert command_line.emend("build", "fresh", *words) == 0
    text = capsys.readouterr().out
    assert subjects(out) and f"emend run --benchmark {out}" in text and f"emend view {out / 'run'}" in text
