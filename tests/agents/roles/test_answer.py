from dataclasses import dataclass

import pytest

from emend.agents.roles import answer
from emend.agents.roles.answer import WORDINGS, build_prompt, clean_answer, read_answer, wording_id
from emend.memory.errors import BadSettings, ModelReplyError
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


@pytest.mark.parametrize(
    ("reply", "cleaned"),
    [
        (" Paris.\nQ: And?", "Paris"),
        ("\n\n Paris . ", "Paris"),
        ("Paris", "Paris"),
        ("", ""),
        ("\n", ""),
        ("St. Louis", "St. Louis"),
    ],
)
def test_answer_is_the_first_line_without_its_full_stop(reply, cleaned):
    assert clean_answer(reply) == cleaned


@pytest.mark.parametrize(
    ("reply", "reading", "kept"),
    [("Rome. ", "line", "Rome."), ("U.S.", "line", "U.S."), ("Well.\nAnswer: Rome.\n\nQuestion:", "thoughts", "Rome.")],
)
def test_the_full_stop_is_kept_for_a_comparison_letter_by_letter(reply, reading, kept):
    assert read_answer(reply, reading, full_stop=True) == kept
    assert read_answer(reply, reading) == kept.removesuffix(".")


def test_a_probes_own_examples_come_before_demonstrations_and_facts():
    asked = probe("raw", "Question: Where is X?\nThoughts:").model_copy(update={"examples": "Question: A?\nAnswer: B"})
    shown = [Example("", "What is C?", "question", "D")]
    assert build_prompt(asked, ["E is F."], shown) == (
        "Question: A?\nAnswer: B\n\nQ: What is C?\nA: D\n\nNew Fact: E is F.\nQuestion: Where is X?\nThoughts:"
    )


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("Dunn is 40 metres deep.\nAnswer: Sorrel.", "Sorrel"),
        ("One. Two.\n\nAnswer:\nSorrel", "Sorrel"),
        ("Answer: Dunn? No.\nanswer: Sorrel", "Sorrel"),
        ("It is Sorrel, so the Answer: Sorrel\n\nQuestion: And Pike?\nThoughts: x\nAnswer: Pike", "Sorrel"),
        ("Salt came later.\n\n**Answer**: Rye", "Rye"),
        ("Salt came later.\n**Answer:** Rye.", "Rye"),
        ("**Answer: Rye.**", "Rye"),
        ("Answer:\n**Rye**", "Rye"),
        ("Answer：Rye", "Rye"),
    ],
)
def test_after_thoughts_the_last_answer_counts_and_never_that_to_a_question_of_the_models_own(reply, said):
    assert read_answer(reply, "thoughts") == said


@pytest.mark.parametrize("reply", ["", "It must be Sorrel.", "It is.\nAnswer: .", "**Answer:** ", "Answer - Sorrel"])
def test_thoughts_that_come_to_no_answer_are_an_error_that_keeps_the_reply(reply):
    with pytest.raises(ModelReplyError, match="come to no 'Answer:'") as caught:
        read_answer(f"<think>Answer: Rye</think>{reply}", "thoughts")
    assert caught.value.reply == f"<think>Answer: Rye</think>{reply}"


@pytest.mark.parametrize(
    ("ends", "reply", "answer"),
    [
        ("Q: Where?\nA:", "A: Paris.", "Paris"),
        ("Q: Where?\nA:", "<think>Hm.</think>\nA: Paris", "Paris"),
        ("Question: Where?\nAnswer:", "Answer:\nParis", "Paris"),
        ("Where? Answer: ", "Where? Answer: Paris", "Paris"),
        ("问：在哪里？\n答：", "答：巴黎", "巴黎"),
        ("Question: Where?\nAnswer:", "A: Paris", "A: Paris"),
        ("Q: Where?\nA:", "It is A: Paris", "It is A: Paris"),
        ("Q: Where?\nA:", "A doctor", "A doctor"),
        ("The capital is", "The capital is Paris", "The capital is Paris"),
        ("", "A: Paris", "A: Paris"),
    ],
)
def test_the_lead_on_which_a_prompt_ends_is_read_off_where_a_line_begins_with_that_very_lead(ends, reply, answer):
    assert read_answer(reply, "line", prompt=ends) == answer
    assert read_answer(reply, "whole", prompt=ends) == read_answer(reply, "whole")


def test_a_whole_answer_keeps_its_lines_and_ends_where_the_model_asks_itself():
    reply = " It will rise.\nIn winter too.\n\nQuestion: And then?\nAnswer: no"
    assert read_answer(reply, "whole") == "It will rise.\nIn winter too."
    assert read_answer(reply, "line") == "It will rise"


@pytest.mark.parametrize(
    ("reply", "reading", "answer"),
    [
        ("<think>\nhmm\n</think>\nNorway.", "line", "Norway"),
        ("Oslo or Bergen?\n</think>\n\nNorway", "line", "Norway"),
        ("<think>Answer: Oslo", "line", ""),
        ("<thinking>so</thinking>It rose.\nIt fell.", "whole", "It rose.\nIt fell."),
        ("<think>Answer: Oslo</think>It is Bergen.\nAnswer: Bergen.", "thoughts", "Bergen"),
    ],
)
def test_a_reasoning_models_thoughts_are_not_its_answer(reply, reading, answer):
    assert read_answer(reply, reading) == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Cecily is a citizen of Germany.", "Germany"),
        ("cecily  is a citizen of: Germany", "Germany"),
        ("Germany.", "Germany"),
        ("Cecily is a citizen of", "Cecily is a citizen of"),
        ("Cecily is a citizen often", "Cecily is a citizen often"),
    ],
)
def test_a_reply_that_says_the_cloze_again_is_read_from_behind_it(reply, answer):
    assert read_answer(reply, "line", "Cecily is a citizen of") == answer


def test_a_wording_may_ask_for_the_answer_alone_with_facts_and_without():
    asked = "Answer with the answer alone, in as few words as possible.\n\n"
    for facts in ([], ["F."]):
        assert build_prompt(probe("question"), facts, (), "brief") == asked + build_prompt(probe("question"), facts)
    assert wording_id("brief") != wording_id("new_fact")
