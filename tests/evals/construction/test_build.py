"""Construction of AKEW's benchmark from facts to a table of results, with a provider on loopback."""

import csv
import json
from pathlib import Path

import pytest

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.run_config import RunConfig
from emend.evals.construction.assemble import assemble
from emend.evals.construction.build import apply_review, build
from emend.evals.construction.card import Card
from emend.evals.construction.estimate import estimate_build
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.evaluate.run import run
from emend.evals.judging.annotation import read_key
from emend.evals.log.manifest import Manifest
from emend.evals.results.aggregate.rows import report
from emend.graphs.construction.akew import sample
from emend.memory.errors import BadData, BadSettings, EmendError, RunRefused
from tests.evals import command_line
from tests.evals.construction.authors import TASKS, author, label
from tests.provider.protocols import Asked
from tests.provider.server import Provider

COUNT = 12
NAMES = (
    "Pell",
    "Orsa",
    "Tarn",
    "Brenholm",
    "Vesk",
    "Halden",
    "Quill",
    "Marrow",
    "Ister",
    "Dunmere",
    "Calder",
    "Skerry",
)


def facts(folder: Path, count: int = COUNT) -> Path:
    """A file of facts: rows of subject, relation and object, one with an old answer."""
    rows = [{"subject": f"{name} Lock", "relation": "builder", "object": f"Ana {name}son"} for name in NAMES[:count]]
    rows[0]["old_answer"] = "Luis Vera"
    file = folder / "facts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def config(source: Path, provider: Provider, **fields: object) -> BuildConfig:
    models = {"model": provider.spec("chat", "author"), "judge": provider.spec("chat", "judge")}
    return BuildConfig.model_validate({"source": str(source), **models, **fields})


def built(tmp_path: Path, **fields: object) -> tuple[Card, Path]:
    with Provider(author) as provider:
        return build("akew", config(facts(tmp_path), provider, **fields), tmp_path / "out"), tmp_path / "out"


def rejected_ids(sheet: Path) -> list[str]:
    """The items that a sheet rejects."""
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        return [row["item"] for row in csv.DictReader(file) if row["keep"] == "no"]


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> tuple[Card, Path]:
    return built(tmp_path_factory.mktemp("built"))


@pytest.mark.slow
def test_the_folder_is_a_benchmark_that_a_run_takes_in_all_settings(benchmark: tuple[Card, Path], tmp_path: Path):
    card, folder = benchmark
    kept = round((card.kept_share.mean or 0) * card.kept_share.n)
    assert 0 < kept < COUNT
    settings = ("struct", "unstruct", "extract")
    run(RunConfig(benchmark=str(folder), editors=("in_context",), settings=settings), tmp_path / "run")
    manifest = Manifest.read(tmp_path / "run")
    assert {setting: listed.cases for setting, listed in manifest.cases.items()} == dict.fromkeys(settings, kept)
    assert str(folder) in manifest.benchmark["source"]
    assert [row.n for row in report(tmp_path / "run").rows if row.metric == "EditAcc"] == [kept] * 3


def test_the_card_says_what_was_dropped_and_why_and_what_it_cost(benchmark: tuple[Card, Path]):
    card, folder = benchmark
    assert Card.model_validate_json((folder / "card.json").read_bytes()) == card
    assert card.items == COUNT and card.failed == 0
    assert sum(card.dropped.values()) == COUNT - round((card.kept_share.mean or 0) * COUNT)
    assert set(card.dropped) == {"refusal"}
    refusals = next(each for each in card.filters if each.name == "refusal")
    assert refusals.rejected and refusals.rejected > card.dropped["refusal"] and refusals.reached == COUNT
    assert card.models["author"] != card.models["judge"] and not card.one_model
    assert card.cost_per_kept["calls"] > 3
    text = (folder / "card.md").read_text()
    assert (
        card.examples[0].splitlines()[0] in text and "refusal" in text and card.source["files"]["facts.jsonl"]["sha256"]
    )


def test_the_same_call_again_asks_nothing_and_gives_the_same_files(tmp_path: Path):
    with Provider(author) as provider:
        fields = config(facts(tmp_path), provider)
        build("akew", fields, tmp_path / "out")
        before, asked = (tmp_path / "out" / "CounterFact.json").read_bytes(), provider.count
        build("akew", fields, tmp_path / "out")
        assert provider.count == asked
    assert (tmp_path / "out" / "CounterFact.json").read_bytes() == before


def test_a_local_author_is_estimated_if_its_files_have_a_chat_template(tmp_path: Path):
    fields = BuildConfig(source=str(facts(tmp_path)), model=f"hf:{tmp_path}")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(BadSettings, match="no chat template"):
        estimate_build("akew", fields)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    assert all(role.calls and role.cost is None for role in estimate_build("akew", fields).roles)


def test_the_calls_and_tokens_estimated_are_within_a_tenth_of_those_sent(tmp_path: Path):
    """Tokens of what was sent and replied are counted at four characters each, as English has them."""
    replies: dict[str, list[str]] = {"author": [], "judge": []}

    def usable(asked: Asked) -> str:
        reply = sample(asked.prompt)
        replies["judge" if reply in ("True", "usable") else "author"].append(reply)
        return reply

    with Provider(usable) as provider:
        fields = config(facts(tmp_path), provider)
        estimate = estimate_build("akew", fields)
        assert provider.count == 0
        build("akew", fields, tmp_path / "out")
    for role in estimate.roles:
        sent = [request.body for request in provider.requests if request.body["model"] == role.role]
        prompts = [message["content"] for body in sent for message in body["messages"]]
        assert role.calls == len(sent)
        assert role.input_tokens == pytest.approx(sum(map(len, prompts)) / 4, rel=0.1)
        assert role.output_tokens == pytest.approx(sum(len(reply) // 4 for reply in replies[role.role]), rel=0.1)


def test_the_recipe_of_the_paper_stays_a_draft_until_people_have_read_the_items(tmp_path: Path):
    card, folder = built(tmp_path, recipe="paper")
    assert card.status == "draft" and "Draft" in (folder / "card.md").read_text()
    sheets = folder / "review"
    words = ("judge", "annotate", str(folder / "run"), "--study", "build", "--out", str(sheets), "--annotators", "1")
    assert command_line.emend(*words) == 0
    assert "author" not in (sheets / "annotator-1.csv").read_text().partition("\n")[0]
    label(sheets / "annotator-1.csv", "no", 1)
    reviewed = apply_review(folder, sheets)
    assert reviewed.status == "reviewed" and reviewed.dropped["reviewers"] == 1
    assert reviewed.agreement["labelled"] == {"annotator-1": len(read_key(sheets).items)}


def test_unanimous_sheets_drop_an_item_that_anyone_rejects_without_an_adjudicator(tmp_path: Path):
    _, folder = built(tmp_path, recipe="paper")
    sheets = folder / "review"
    words = ("judge", "annotate", str(folder / "run"), "--study", "build", "--out", str(sheets), "--annotators", "2")
    assert command_line.emend(*words) == 0
    label(sheets / "annotator-1.csv", "no", 2)
    label(sheets / "annotator-2.csv", "no", 1)
    with pytest.raises(BadData, match="agree on"):
        apply_review(folder, sheets)
    rejected = {row for sheet in sheets.glob("annotator-*.csv") for row in rejected_ids(sheet)}
    assert apply_review(folder, sheets, unanimous=True).dropped["reviewers"] == len(rejected)


def test_sheets_with_unlabelled_items_are_refused(tmp_path: Path):
    card, folder = built(tmp_path, recipe="paper")
    sheets = folder / "review"
    words = ("judge", "annotate", str(folder / "run"), "--study", "build", "--out", str(sheets), "--annotators", "1")
    assert command_line.emend(*words) == 0
    label(sheets / "annotator-1.csv", "", 1)
    with pytest.raises(BadData, match="have no label"):
        apply_review(folder, sheets)


def test_a_benchmarks_edits_are_a_source_too(tmp_path: Path):
    with Provider(author) as provider:
        card = build("akew", config(Path("tinyworld"), provider, limit=4), tmp_path / "out")
    assert card.items == 4 and card.source["source"] == "tinyworld"
    inner, _ = load_benchmark(str(tmp_path / "out"), None, {})
    assert inner.name == "akew"


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ('{"subject": "A", "relation": "b"}', "object"),
        ('{"subject": "A", "relation": "b", "object": "C", "old": "D"}', "emend data schema"),
        ('{"subject": "A"', "line 1"),
    ],
)
def test_a_wrong_source_is_refused_with_file_line_and_field(tmp_path: Path, row: str, named: str):
    source = tmp_path / "facts.jsonl"
    source.write_text(row + "\n")
    with Provider(author) as provider, pytest.raises(BadData) as error:
        build("akew", config(source, provider), tmp_path / "out")
    assert named in str(error.value) and "line 1" in str(error.value)
    assert provider.count == 0 and not (tmp_path / "out").exists()


def test_a_folder_of_another_construction_is_refused(tmp_path: Path):
    with Provider(author) as provider:
        build("akew", config(facts(tmp_path), provider), tmp_path / "out")
        with pytest.raises(RunRefused):
            build("akew", config(facts(tmp_path), provider, recipe="paper"), tmp_path / "out")
        with pytest.raises(BadSettings, match="akew"):
            build("akev", config(facts(tmp_path), provider), tmp_path / "other")


def test_a_second_build_or_review_of_a_folder_in_use_is_refused_and_the_first_ends(tmp_path: Path):
    out, refusals = tmp_path / "out", list[str]()

    def write_meanwhile(asked: Asked) -> str:
        if not refusals:
            for second in (
                lambda: build("akew", fields, out),
                lambda: build("facts", BuildConfig(source=str(facts(tmp_path))), out),
                lambda: apply_review(out, tmp_path / "sheets"),
            ):
                with pytest.raises(RunRefused) as error:
                    second()
                refusals.append(str(error.value))
        return author(asked)

    with Provider(write_meanwhile) as provider:
        fields = config(facts(tmp_path), provider)
        card = build("akew", fields, out)
    assert len(refusals) >= 3  # of each call that came while the first was answered
    assert {text.partition(" (")[0] for text in refusals} == {f"another process is working in '{out}'"}
    again = build("akew", fields, out)
    assert again == card.model_copy(update={"built": again.built})  # the time of the second build


def test_a_failed_review_leaves_a_missing_folder_missing(tmp_path: Path):
    with pytest.raises(EmendError):
        apply_review(tmp_path / "nowhere" / "out", tmp_path / "sheets")
    assert not list(tmp_path.iterdir())


def test_nothing_kept_is_an_error_that_says_which_filters_dropped_it(tmp_path: Path):
    with Provider(lambda asked: "I'm sorry, but I cannot do that.") as provider:
        with pytest.raises(BadData, match="rejected by refusal 3"):
            build("akew", config(facts(tmp_path, 3), provider), tmp_path / "out")
    card = (tmp_path / "out/card.md").read_text("utf-8")
    assert "No item was kept" in card and "3 dropped: refusal" in card
    assert not (tmp_path / "out/card.json").exists()


def test_a_damaged_card_is_refused(benchmark: tuple[Card, Path], tmp_path: Path):
    (tmp_path / "card.json").write_text("{")
    with pytest.raises(BadData, match="card.json"):
        load_benchmark(str(tmp_path), None, {})
    (tmp_path / "card.json").write_text(
        '{"kind": "akew", "recipe": "best", "status": "draft", "content": {"benchmark": "os:system", "files": []}}'
    )
    with pytest.raises(BadData, match="os:system"):
        load_benchmark(str(tmp_path), None, {})


@pytest.mark.parametrize("name", ["../secret.jsonl", "/etc/hosts"])
def test_a_card_that_names_a_file_elsewhere_is_refused(tmp_path: Path, name: str):
    content = {"benchmark": "facts", "files": [name]}
    head = {"kind": "questions", "recipe": "best", "status": "draft", "content": content}
    (tmp_path / "card.json").write_text(json.dumps(head))
    with pytest.raises(BadData, match="not in the folder"):
        load_benchmark(str(tmp_path), None, {})


def test_a_folder_whose_run_is_no_construction_has_no_review(tmp_path: Path):
    run(RunConfig(benchmark="tinyworld", editors=("unedited",), limit=1), tmp_path / "out" / "run")
    with pytest.raises(BadData, match="not a construction"):
        assemble(tmp_path / "out" / "run", tmp_path / "out", "not reviewed")


def test_the_recipe_of_the_paper_keeps_texts_that_are_repeated(tmp_path: Path):
    def same(asked: Asked) -> str:
        reply = sample(asked.prompt)
        return reply if TASKS["paragraph"] not in asked.prompt else "One paragraph for all of them."

    with Provider(same) as provider:
        card = build("akew", config(facts(tmp_path, 3), provider, recipe="paper"), tmp_path / "out")
    assert card.dropped == {} and card.kept_share.mean == 1


def test_the_card_names_prompts_by_the_ids_of_the_run(tmp_path: Path):
    prompts = tmp_path / "prompts.toml"
    prompts.write_text('[paragraph]\ntask = "You write."\nask = "Fact: {fact}"\nlabel = "Text:"\n')
    card, folder = built(tmp_path, recipe="paper", prompts=str(prompts))
    prompts.unlink()
    again = assemble(folder / "run", folder, "draft")
    assert again.prompts == card.prompts
    assert [(each.name, each.source == "the user's own") for each in card.prompts] == [
        ("paragraph", True),
        ("conveys", False),
    ]
