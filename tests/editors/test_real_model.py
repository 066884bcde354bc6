"""Every editor on a real model, SmolLM2-135M-Instruct, with one fact about a real place."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import emend
from emend.agents.gguf.fetch import fetch_model
from emend.agents.scoring import perplexity
from emend.editors.base import EditorContext
from emend.editors.parametric.rome import Rome
from emend.evals.data.facts.fact_file import REAL_FACTS
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadSettings, FetchFailed, MissingExtra
from tests.fakes import read_model

if TYPE_CHECKING:
    from tests.shared_models import SharedModels

pytestmark = pytest.mark.slow

TEXTS = [
    "The harbour lies at the mouth of a wide river, and ships carry grain and coal to cities on the other coast.",
    "In the morning the baker opens the shop early, sells bread and cakes, and talks with people from the street.",
    "The museum shows paintings, old maps and coins that farmers found in fields near the village.",
]
IDENTITY = {"covariance": "identity"}


@pytest.fixture(scope="session")
def smollm2(shared_models: "SharedModels") -> Any:
    """SmolLM2 from the user's cache, fetched once a machine; processes wait for each other by the folder's lock."""
    try:
        folder = fetch_model("smollm2")
    except (FetchFailed, MissingExtra) as error:
        pytest.skip(f"no SmolLM2: {error}")
    return shared_models.get("smollm2", lambda: read_model(folder, 24))


@pytest.fixture
def efficacy(smollm2: Any, shared_models: "SharedModels", tmp_path: Path) -> Any:
    """A function from an editor and options of the run to the record of the edit's own prompt.

    The fact is that the Eiffel Tower is in Rome. It is asked as a question, or as the cloze that the edit is made with.
    """
    (fact,) = (row for row in json.loads(REAL_FACTS.read_text("utf-8")) if row["subject"] == "The Eiffel Tower")
    fact |= {"paraphrases": [], "locality": []}

    def run(editor: str, cloze: bool = False, **options: Any) -> Any:
        path = tmp_path / "facts.jsonl"
        path.write_text(json.dumps(fact | ({"question": ""} if cloze else {})) + "\n", encoding="utf-8")
        settings: dict[str, Any] = {"form": "plain", "mode": "single", "embedding": "lexical"}
        out = tmp_path / "run"
        finished = emend.run(str(path), editor, smollm2, out=out, progress=False, **settings | options)
        (record,) = finished.records(editor)
        return record

    return run


def test_unedited_model_answers_paris(efficacy: Any) -> None:
    record = efficacy("unedited")
    assert record.values["success"] == 0.0 and "Paris" in record.answer


@pytest.mark.parametrize("editor", ["in_context", "rag", "input_aug", "serac", "crag"])
def test_memory_based_editor_names_the_new_object(editor: str, efficacy: Any) -> None:
    record = efficacy(editor)
    assert (record.values["success"], record.values["contains"]) == (1.0, 1.0), record


def test_ike_makes_the_new_object_likelier(efficacy: Any) -> None:
    # Its demonstrations of facts that stay are more than a model this small tells from the new one when it replies.
    assert efficacy("ike", overrides={"ike": {"demonstrations": 3}}).values["success"] == 1.0


def test_chain_of_thought_gives_a_scored_answer(efficacy: Any) -> None:
    record = efficacy("cot", protocols=("contains",))
    assert "contains" in record.values, record


def test_mello_is_scored_or_says_how_the_model_left_its_form(efficacy: Any) -> None:
    record = efficacy("mello", protocols=("contains",))
    assert ("contains" in record.values) != ("contains" in record.unscored), record
    assert record.unscored.get("contains") != "", record


def test_agent_is_refused_for_a_model_without_tool_calls(efficacy: Any) -> None:
    with pytest.raises(BadSettings, match="tools"):
        efficacy("agent")


@pytest.mark.parametrize(("editor", "settings"), [("ft", {}), ("lora", {}), ("rome", IDENTITY), ("r_rome", IDENTITY)])
def test_weight_editor_makes_the_new_object_likelier(editor: str, settings: dict[str, Any], efficacy: Any) -> None:
    record = efficacy(editor, cloze=True, overrides={editor: settings} if settings else {})
    assert (record.form, record.values["success"]) == ("plain", 1.0), record


@pytest.mark.parametrize("editor", ["memit", "alphaedit"])
def test_editor_with_a_covariance_makes_the_new_object_likelier(
    editor: str, efficacy: Any, smollm2: Any, tmp_path: Path
) -> None:
    """The covariance is of three sentences: it shows that the methods run, and constrains nothing of usual text."""
    from emend.editors.hyperparameters import covariance_layers
    from emend.editors.numerics.architectures import find_architecture
    from emend.editors.numerics.collect_covariance import collect_covariance

    model = smollm2.lm.model
    collect_covariance(
        smollm2.lm, find_architecture(model), covariance_layers(model.config), TEXTS, tmp_path / "moments"
    )
    record = efficacy(editor, cloze=True, overrides={editor: {"covariance": str(tmp_path / "moments")}})
    assert record.values["success"] == 1.0, record


def test_rome_on_a_subject_at_the_very_start_leaves_other_text_as_likely(smollm2: Any) -> None:
    """SmolLM2 has no begin token, so that Japan's key is that of a first token; the published rule costs more."""
    prompt = "{} is located in the continent of"
    edit = Edit.from_triplet(Triplet(subject="Japan", relation="continent", object="Africa"), prompt)
    before, ratios = perplexity(smollm2, TEXTS[0]), {}
    for token in ("auto", "subject_last"):
        settings = {"context_template_length_params": [[5, 1], [10, 1]], "fact_token": token}
        rome = Rome(EditorContext(model=smollm2, settings=IDENTITY | settings))
        with rome.edit([edit]):
            ratios[token] = perplexity(smollm2, TEXTS[0]) / before
            new, old = smollm2.plain().score("Japan is located in the continent of", ["Africa", "Asia"]).log_probs
            assert new > old
    assert ratios["auto"] < 1.1 < ratios["subject_last"], ratios
