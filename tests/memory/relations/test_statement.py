import pytest

from emend.memory.relations.statement import statement_of


@pytest.mark.parametrize(
    "question, answer, statement",
    [
        ("What is the capital of Peru?", "Lima", "The capital of Peru is Lima."),
        ("Who is the CEO of Acme?", "Ann.", "The CEO of Acme is Ann."),
        ("What is the river Brun called now?", "Aske", "The river Brun is now called Aske."),
        ("What is bronze made of?", "copper", "Bronze is made of copper."),
        ("Who was known as the Bear?", "Bo", "Bo was known as the Bear."),
        ("Who wrote Hamlet?", "Ida Holm", "Ida Holm wrote Hamlet."),
        ("Which river flows through Ostrim?", "Aske", "Aske flows through Ostrim."),
        ("In which city is the tower?", "Lyon", "The tower is in Lyon."),
        ("In which year was Acme founded?", "1990", "Acme was founded in 1990."),
        ("Which country is Mount Etna in?", "Norway", "Mount Etna is in Norway."),
        ("Which sport is Ana associated with?", "golf", "Ana is associated with golf."),
        ("Where was Ana born?", "Oslo", "Ana was born in Oslo."),
        ("Where was Ana born?", "at sea", "Ana was born at sea."),
        ("When was Ana born?", "3 May 1990", "Ana was born on 3 May 1990."),
        ("When were flags first used in Peru?", "1902", "Flags first were used in Peru in 1902."),
        ("When did Ana die?", "May 1990", "Ana died in May 1990."),
        ("What does Acme produce?", "bolts", "Acme produces bolts."),
        ("What year did the war end?", "1945", "The war ended in 1945."),
        ("Which club does Bo Lind play for?", "Rook FC", "Bo Lind plays for Rook FC."),
        ("The capital of Peru is", "Lima", "The capital of Peru is Lima."),
    ],
)
def test_a_question_and_its_answer_become_a_statement(question, answer, statement):
    assert statement_of(question, answer) == statement


@pytest.mark.parametrize(
    "question",
    [
        "Which company is Tim Cook the CEO of?",
        "What is the name of the dog that lives in Lyon?",
        "Who is the head of state of the country where the sport originated?",
        "Which duo are associated with the routine?",
        "When is the star coming back?",
        "What was going on in the world?",
        "How many people live in Lyon?",
        "Is Pluto a planet?",
        "¿Cuál es la capital de Francia?",
        "What?",
    ],
)
def test_a_question_in_doubt_stands_before_its_answer(question):
    assert statement_of(question, "Rex") == f"{question} Rex."
