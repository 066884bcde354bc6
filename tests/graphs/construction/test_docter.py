"""Construction of DocTER's items: document, translation and reasoning question, with a scripted author and judge."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from emend.agents.roles.author import SHIPPED
from emend.graphs.construction.akew import CONVEYS
from emend.graphs.construction.docter import ANSWERABLE, PIPELINE, UNGUESSABLE, build, filters
from emend.graphs.construction.docter_reasoning import FOLLOWS, REASONING_FILTERS
from emend.graphs.construction.docter_samples import SAMPLES, sample
from emend.graphs.construction.pipeline import ConstructionContext
from emend.graphs.construction.translation import BACK, TRANSLATED, TranslatedFact
from emend.graphs.execution import run_graph
from tests.fakes import ScriptedChatModel

ITEM = {
    "subject": "Lyon",
    "object": "Manila",
    "old": "Beirut",
    "fact": "The twin city of Lyon is Manila.",
    "old_fact": "The twin city of Lyon is Beirut.",
    "query": "The twin city of Lyon is",
    "short_paraphrases": ["Lyon is paired with"],
    "label": "True",
}
QUESTION = "Is the twin city of Lyon the capital of the Philippines?"
ENGLISH = {
    "object_knowledge": "Manila is the capital of the Philippines.",
    "reasoning_question": QUESTION,
    "read_with": "Manila.",
}
CHINESE = TranslatedFact(
    subject="里昂",
    fact="里昂的姐妹城市是马尼拉。",
    query="里昂的姐妹城市是",
    object="马尼拉",
    old="贝鲁特",
    paraphrases=["与里昂结对的是"],
)
Reply = str | Callable[[str], str]


def replies(**own: Reply) -> Callable[[str], str]:
    """The usual replies, with those of one's own to the prompts of these names."""

    def reply(prompt: str) -> str:
        for name, text in (ENGLISH | own).items():
            if SHIPPED[name].task.partition("{")[0][:40] in prompt:
                return text if isinstance(text, str) else text(prompt)
        return sample(prompt)

    return reply


def made(recipe: Any = "best", *, language: str = "en", attempts: int = 3, label: str = "True", **own: Any) -> Any:
    model = ScriptedChatModel(reply=replies(**own))
    context = ConstructionContext(model, model, attempts=attempts, language=language)
    state, steps = run_graph(build(recipe), {"item": ITEM | {"label": label}}, context)
    return {**state, "path": [step.node for step in steps], "prompts": model.calls}


def rejected(state: Any) -> list[str]:
    return [each["filter"] for each in state["rejections"]]


def test_a_fact_becomes_a_document_and_a_question_that_follows():
    state = made()
    assert state["path"] == [
        "write", "check_text", "verify", "read_document", "ask_reasoning", "check_reasoning", "finish",
    ]  # fmt: skip
    result = state["result"]
    assert result["document"].startswith(ITEM["fact"]) and result["language"] == "en" and result["translated"] is None
    knowledge = "Manila is the capital of the Philippines."
    assert result["reasoning"] == {"src": QUESTION, "additional_info": knowledge, "label": "True"}
    assert state["usage"].calls == 7 and not state.get("rejections")


def test_style_and_length_are_asked_for():
    assert "in the style of The Guardian" in made()["prompts"][0] and "about 250 words" in made()["prompts"][0]


def test_a_question_to_be_answered_by_no_is_about_the_old_object():
    beirut, question = "Beirut is the capital of Lebanon.", "Is the twin city of Lyon the capital of Lebanon?"
    state = made(label="False", object_knowledge=beirut, reasoning_question=question, follows="False")
    assert state["result"]["reasoning"] == {"src": question, "additional_info": beirut, "label": "False"}
    assert any("First name: Beirut\nSecond name: Manila" in each for each in state["prompts"])
    assert any("Statement: The twin city of Lyon is Beirut.\nKnowledge: Beirut" in each for each in state["prompts"])


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("knowledge", {"object_knowledge": "It is large."}),
        ("knowledge", {"object_knowledge": "Manila"}),
        ("knowledge", {"object_knowledge": "Manila is " + "very " * 40 + "large."}),
        ("yes_no_question", {"reasoning_question": "What is the twin city of Lyon?"}),
        ("yes_no_question", {"reasoning_question": "The twin city of Lyon is the capital of the Philippines."}),
        ("yes_no_question", {"reasoning_question": "Is it the capital of the Philippines?"}),
        ("author_speaks", {"reasoning_question": "I cannot help with that."}),
        ("author_speaks", {"object_knowledge": "Sure! Manila is a capital."}),
        ("object_replaced", {"reasoning_question": "Is the twin city of Lyon Manila?"}),
        ("object_replaced", {"reasoning_question": "Is Beirut, the twin city of Lyon, a capital?"}),
        ("safe_question", {"reasoning_question": "Is Lyon's twin a capital, see https://example.org ?"}),
        (FOLLOWS, {"follows": "False"}),
        (FOLLOWS, {"follows": "Perhaps"}),
    ],
)
def test_a_bad_question_is_dropped_with_its_reason_and_the_document_kept(name: str, own: dict[str, Any]):
    state = made(**own)
    assert rejected(state) == [name]
    assert state["result"]["reasoning"] is None and state["result"]["document"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("old_object", f"{ITEM['fact']} Beirut was left behind. {SAMPLES['English']['document']}"),
        ("new_object", f"Lyon has a new twin. {SAMPLES['English']['document']}"),
        ("refusal", "I'm sorry, but I cannot write about that."),
        ("length", "The twin city of Lyon is Manila."),
        ("markup", "# Lyon\n\nThe twin city of Lyon is Manila."),
    ],
)
def test_a_bad_document_is_written_again(name: str, text: str):
    documents = iter([text, *(2 * [None])])

    def write(prompt: str) -> str:
        return next(documents) or sample(prompt)

    state = made(press_document=write)
    assert rejected(state) == [name] and state["attempts"] == 2 and "result" in state


def _next_reply(verdicts: Iterator[str], prompt: str) -> str:
    return next(verdicts)


def test_a_document_that_does_not_convey_the_fact_is_written_again_in_both_recipes():
    for recipe in ("paper", "best"):
        state = made(recipe, conveys=partial(_next_reply, iter(["False", "True"])))
        assert rejected(state) == [CONVEYS] and state["attempts"] == 2 and "result" in state


def test_the_recipe_of_the_paper_has_its_steps_alone():
    state = made("paper", reasoning_question=QUESTION)
    assert state["path"] == ["write", "verify", "ask_reasoning", "finish"]
    assert PIPELINE.attempts["paper"] > 1 and FOLLOWS not in filters("paper") and CONVEYS in filters("paper")


def test_a_document_without_an_answer_is_written_again_and_one_that_everybody_knows_is_dropped():
    state = made(read_with="Nobody knows.", attempts=2)
    assert rejected(state) == [ANSWERABLE, ANSWERABLE] and "result" not in state
    state = made(read_without="Manila, of course.")
    assert rejected(state) == [UNGUESSABLE] and state["attempts"] == 1 and "result" not in state


def translated(**fields: Any) -> str:
    return CHINESE.model_copy(update=fields).model_dump_json()


CHINESE_REPLIES: dict[str, Any] = {
    "translate_fact": translated(),
    "translate_back": "The sister city of Lyon is Manila.",
    "read_with": "马尼拉",
}


def test_in_another_language_the_fact_is_translated_and_checked_before_its_document_is_written():
    state = made(language="zh", **CHINESE_REPLIES)
    assert state["path"][:3] == ["translate", "check_translation", "write"]
    assert state["result"]["document"].startswith(CHINESE.fact) and state["result"]["reasoning"] is None
    assert state["result"]["translated"] == CHINESE.model_dump()
    assert any("press articles in Chinese" in prompt for prompt in state["prompts"])


def test_the_recipe_of_the_paper_translates_without_checks():
    state = made("paper", language="zh", translate_fact=translated(query="无关"))
    assert state["path"] == ["translate", "write", "verify", "ask_reasoning", "finish"]


@pytest.mark.parametrize(
    ("name", "own"),
    [
        (TRANSLATED, {"translate_fact": "里昂"}),
        (TRANSLATED, {"translate_fact": translated(fact="The twin city of Lyon is Manila.")}),
        (TRANSLATED, {"translate_fact": translated(fact="里昂的姐妹城市是别的地方。")}),
        (TRANSLATED, {"translate_fact": translated(query="里昂的姐妹城市马尼拉是")}),
        (TRANSLATED, {"translate_fact": translated(paraphrases=["马尼拉与谁结对"])}),
        (TRANSLATED, {"translate_fact": translated(old="马尼拉")}),
        (BACK, {"translate_back": "The sister city of Lyon is Beirut."}),
        (BACK, {"translate_back": "The sister city of Paris is Manila."}),
    ],
)
def test_a_bad_translation_is_asked_for_again_and_then_given_up(name: str, own: dict[str, str]):
    state = made(language="zh", attempts=2, **(CHINESE_REPLIES | own))
    assert rejected(state) == [name, name] and "result" not in state


@pytest.mark.parametrize("language", ["en", "zh", "de", "fr", "es", "ja"])
def test_the_replies_of_an_estimate_pass_all_filters_of_documents(language: str):
    model = ScriptedChatModel(reply=sample)
    context = ConstructionContext(model, model, attempts=3, language=language)
    state, _ = run_graph(build(), {"item": ITEM}, context)
    assert "result" in state and state["attempts"] == 1, state["rejections"]
    assert set(rejected(state)) <= set(REASONING_FILTERS)
