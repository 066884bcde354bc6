"""Steps line by line: what ends a line, and what ends a chain."""

import pytest

from emend.agents.roles.conversation import before_label
from emend.agents.roles.line_steps import PastStep, StepLimit, find_end, first_line, leads_away, next_start
from emend.memory.errors import ModelReplyError
from emend.memory.probe import Usage

QUESTION = "Who is the head of state of the country where Ellie Kemper holds a citizenship?"


def test_a_lead_that_a_model_says_again_is_no_part_of_its_line():
    lead = "Retrieved fact contradicts to generated answer, so the intermediate answer is:"
    assert first_line(f"{lead} Chad\nFinal answer: Chad", lead, Usage()) == "Chad"
    with pytest.raises(ModelReplyError, match="nothing follows"):
        first_line(f" {lead}\n", lead, Usage())


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Peru\n**Final answer:** Peru", "Peru"),
        ("Peru. Retrieved fact: Ann is from Chad", "Peru."),
        ("Peru. Subquestion: Who?", "Peru."),
        ("The question: it is open", "The question: it is open"),
        ("A retrieved factor", "A retrieved factor"),
        ("The final answer: Peru", "The final answer: Peru"),
        ("Entity: Ann", ""),
        ("- answer : Ann", ""),
        ("Retrieved fact does not contradict", ""),
        ("Peru\nSubquestion: Who leads Peru?", "Peru"),
        ("Peru\n\n**Subquestion**: Who?", "Peru"),
        ("Peru\nGENERATED ANSWER: Peru", "Peru"),
        ("Peru\nRetrieved fact contradicts to generated answer", "Peru"),
        ("Peru\n  Question: Who is next?", "Peru"),
        ("Peru\nAnswer: Peru", "Peru"),
        ("Peru\nThoughts: none", "Peru"),
        ("Peru\nNew Fact: Ann is from Chad.", "Peru"),
        ("Peru\n_Relations:_ capital", "Peru"),
        ("**Generated answer:** Peru", ""),
        ("Peru, the answer to the question", "Peru, the answer to the question"),
        ("Ann's final answers: none", "Ann's final answers: none"),
        ("Peru\nFinal Answer is: X", "Peru"),
        ("Peru\n**Answer**\nParis", "Peru"),
        ("Peru\n### Final answer\nPeru", "Peru"),
        ("Peru\nSubquestion 2: Who?", "Peru"),
        ("Peru\nSub-question: Who?", "Peru"),
        ("Peru\n1. Subquestion: Who", "Peru"),
        ("Peru\n**Question 2:** Who?", "Peru"),
        ("Peru\nRetrieved facts: a", "Peru"),
        ("Peru\nIntermediate answer: X", "Peru"),
        ("Peru\nFinal answer - Peru", "Peru"),
        ("Peru\nFinal answer： Peru", "Peru"),
        ("Peru\nQ: Who?\nA: Bo", "Peru"),
        ("A: Peru", "A: Peru"),
        ("Answer", "Answer"),
        ("Question 7 is hard", "Question 7 is hard"),
        ("Final Fantasy: The Spirits Within", "Final Fantasy: The Spirits Within"),
        ("In 1912.\n1912", "In 1912.\n1912"),
    ],
)
def test_a_label_ends_the_answer_before_it(text: str, answer: str):
    assert before_label(text).strip() == answer


@pytest.mark.parametrize(
    ("asked", "limit", "end"),
    [
        ([], StepLimit(4), ""),
        (["In which country does Ellie Kemper hold citizenship?"], StepLimit(4), ""),
        (
            ["In which country does Ellie Kemper hold citizenship?", "Who is the head of state of Croatia?"],
            StepLimit(4),
            "words",
        ),
        ([QUESTION], StepLimit(4), ""),
        ([QUESTION, "Who is the head of state of Croatia?"], StepLimit(4), "words"),
        ([QUESTION], StepLimit(2, exactly=True), ""),
        (["Who?"] * 2, StepLimit(2, exactly=True), "given"),
        (["Who?"] * 4, StepLimit(4), "limit"),
    ],
)
def test_a_chain_ends_when_its_subquestions_have_the_words_of_the_question_or_its_number_is_reached(asked, limit, end):
    assert find_end(QUESTION, list(map(PastStep, asked)), limit) == end


def test_a_model_that_continues_text_may_end_after_the_whole_question():
    assert find_end(QUESTION, [PastStep(QUESTION)], StepLimit(4), repeats=False) == "words"


def test_what_a_step_has_led_to_has_words_of_the_question_too():
    question, step = "In which city does Ann live?", PastStep("What is the home of Ann?")
    assert find_end(question, [step], StepLimit(4)) == ""
    assert find_end(question, [step._replace(fact="The city where Ann lives is Oslo.")], StepLimit(4)) == "words"


@pytest.mark.parametrize(
    ("question", "steps", "further", "away"),
    [
        ("Emma was written by whom?", [("Who is the author of Emma?", "Bo Li")], "Who is the spouse of Bo Li?", True),
        ("Who was Emma written by?", [("Who is the author of Emma?", "Bo Li")], "When was it written?", False),
        (QUESTION, [("Which is Ellie Kemper's country?", "Mali")], "Who is the head of Mali?", False),
        (QUESTION, [(QUESTION, "Mali")], "Who leads Mali?", False),
        ("Who is the person who wrote Emma?", [("Who is the author of Emma?", "Bo")], "Which person is Bo?", True),
        ("Is it true that Ann is from Mali?", [("Which is Ann's country?", "Mali")], "Where is Mali?", True),
        ("Who is the spouse of the author of Emma?", [("Who wrote Emma?", "Bo")], "Who has Bo married?", False),
        ("Who is the spouse of Bo?", [("Who has Bo married?", "Al")], "Who has Al met?", True),
        ("Who wrote Emma?", [("Who is the author of Emma?", "Bo")], "", True),
        ("Who wrote Emma?", [], "Who has Bo married?", False),
    ],
    ids=[
        "beyond the answer",
        "a word that was open",
        "the second hop",
        "all words are taken",
        "the person",
        "of the answer",
        "a chain of two nouns",
        "a chain of one",
        "nothing",
        "no step before it",
    ],
)
def test_a_step_leads_away_if_it_asks_for_none_of_the_words_that_are_open(question, steps, further, away):
    assert leads_away(further, question, [PastStep(*step) for step in steps]) == away


def test_the_sort_of_the_answer_counts_once_where_the_question_says_it_twice():
    step = PastStep("What is the native language of Ann?")
    assert find_end("Which language is Ann's native language?", [step], StepLimit(4), repeats=False) == "words"


@pytest.mark.parametrize(
    ("question", "start"),
    [
        ("Who founded the company that makes the Corolla?", "Which company"),
        ("Which language is spoken in the country of which Tom Brask is a citizen?", "Which country"),
        ("Which country does the sport played by Shaun Marcum belong to?", "Which sport"),
        ("What sport does the spouse of Tomas Rell play?", "Who or what is the spouse of Tomas Rell"),
        ("In which city was Ana Rojo's father born?", "Who or what is Ana Rojo's father"),
        ("Who is Ana Rojo's father?", ""),
        ("Which country was baseball created in?", ""),
        ("What is the capital of Peru?", ""),
    ],
)
def test_the_smaller_question_that_a_question_nests_begins_with_its_innermost_phrase(question, start):
    assert next_start(question) == start


def test_the_second_step_of_a_nested_question_does_not_lead_away_for_a_chat_model():
    question, earlier = "Who founded the company that makes the Corolla?", [PastStep("Which company?", "Brenner")]
    assert leads_away("Where is Brenner?", question, earlier)
    assert not leads_away("Where is Brenner?", question, earlier, chats=True)
