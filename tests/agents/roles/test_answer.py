from dataclasses import dataclass

import pytest

from emend.agents.roles import answer
from emend.agents.roles.answer import WORDINGS, build_prompt, wording_id
from emend.memory.errors import BadSettings
from emend.memory.probe import Probe


@dataclass
class Example:
    fact: str
    prompt: str
    style: str
    target: str


def probe(style, prompt="Where is {X}"):
    return Probe(kind="efficacy", prompt=prompt, style=style, gold=("Y",))


@pytest.mark.parametrize(
    ("wording", "style", "expected"),
    [
        ("new_fact", "cloze", "New Fact: F one.\nNew Fact: F {two}.\nPrompt: Where is {X}"),
        ("new_fact", "question", "New Fact: F one.\nNew Fact: F {two}.\nQ: Where is {X}\nA:"),
        ("new_fact", "raw", "New Fact: F one.\nNew Fact: F {two}.\nWhere is {X}"),
        ("based_on_facts", "cloze", "Here are some new facts: F one. F {two}. Based on the facts above, Where is {X}"),
        (
            "based_on_facts",
            "question",
            "Here are some new facts: F one. F {two}. Based on the facts above, Where is {X}\nA:",
        ),
    ],
)
def test_facts_stand_before_what_is_asked(wording, style, expected):
    assert build_prompt(probe(style), ["F one.", "F {two}.\n"], (), wording) == expected


@pytest.mark.parametrize("wording", ["new_fact", "based_on_facts"])
@pytest.mark.parametrize(
    ("style", "expected"), [("cloze", "Where is {X}"), ("question", "Q: Where is {X}\nA:"), ("raw", "Where is {X}")]
)
def test_without_facts_the_wording_does_not_matter(wording, style, expected):
    assert build_prompt(probe(style), wording=wording) == expected


def test_demonstrations_come_first_solved_and_apart():
    shown = [Example("A is B.", "A is", "cloze", "B"), Example("", "What is C?", "question", "D")]
    assert build_prompt(probe("question"), ["E is F."], shown) == (
        "New Fact: A is B.\nPrompt: A is B\n\nQ: What is C?\nA: D\n\nNew Fact: E is F.\nQ: Where is {X}\nA:"
    )


def test_an_unknown_wording_and_style_are_refused_with_the_nearest():
    with pytest.raises(BadSettings, match="unknown prompt template 'new_facts': did you mean 'new_fact'"):
        build_prompt(probe("cloze"), wording="new_facts")
    with pytest.raises(BadSettings, match="did you mean 'cloze'"):
        build_prompt(probe("cloze"), ["E is F."], [Example("A is B.", "A is", "close", "B")])


def test_prompt_id_changes_with_the_template_only(monkeypatch):
    from dataclasses import replace

    ids = {name: wording_id(name) for name in WORDINGS}
    assert len(set(ids.values())) == len(WORDINGS) and all(len(one) == 8 for one in ids.values())
    plain = WORDINGS["new_fact"]
    monkeypatch.setitem(answer.WORDINGS, "new_fact", replace(plain, summary="told otherwise"))
    assert wording_id("new_fact") == ids["new_fact"]
    monkeypatch.setitem(answer.WORDINGS, "new_fact", replace(plain, cloze="Complete: {prompt}"))
    assert wording_id("new_fact") != ids["new_fact"]


def test_a_probes_own_examples_come_before_demonstrations_and_facts():
    asked = probe("raw", "Question: Where is X?\nThoughts:").model_copy(update={"examples": "Question: A?\nAnswer: B"})
    shown = [Example("", "What is C?", "question", "D")]
    assert build_prompt(asked, ["E is F."], shown) == (
        "Question: A?\nAnswer: B\n\nQ: What is C?\nA: D\n\nNew Fact: E is F.\nQuestion: Where is X?\nThoughts:"
    )


def test_a_wording_may_ask_for_the_answer_alone_with_facts_and_without():
    asked = "Answer with the answer alone, in as few words as possible.\n\n"
    for facts in ([], ["F."]):
        assert build_prompt(probe("question"), facts, (), "brief") == asked + build_prompt(probe("question"), facts)
    assert wording_id("brief") != wording_id("new_fact")
