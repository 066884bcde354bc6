"""Files of facts as Excel, pandas and editors write them, after public reports: read as they were meant, or refused."""

from pathlib import Path

import pytest

from emend.evals.data.facts.fact_file import oddities_of
from emend.evals.data.facts.fact_formats import check_facts, is_fact_file, placed_facts
from emend.evals.data.facts.fact_rows import FactRow, QuestionRow, style_of
from emend.memory.errors import BadData

HEAD = "subject,relation,object,prompt,question"
ROW = "Veldania,capital,Ostrim,The capital of {} is,What is the capital?"
JSON = '{"subject": "Veldania", "relation": "capital", "object": "Ostrim", "prompt": "The capital of {} is"'


def semicolons(text):
    return text.replace(",", ";")


READ = {
    "Excel's CSV UTF-8": ("x.csv", f"\ufeff{HEAD}\r\n{ROW}\r\n".encode()),
    "Excel's Unicode text": ("x.tsv", f"{HEAD}\n{ROW}\n".replace(",", "\t").encode("utf-16")),
    "European Excel": ("x.csv", semicolons(f"\ufeff{HEAD}\r\n{ROW}\r\n").encode()),
    "a line that names the separator": ("x.csv", semicolons(f"sep=,\r\n{HEAD}\r\n{ROW}\r\n").encode()),
    "the line in quotes": ("x.csv", semicolons(f'"sep=,"\n{HEAD}\n{ROW}\n').encode()),
    "tabs in a .csv": ("x.csv", f"{HEAD}\n{ROW}\n".replace(",", "\t").encode()),
    "a .tsv": ("x.TSV", f"{HEAD}\n{ROW}\n".replace(",", "\t").encode()),
    "bars": ("x.csv", f"{HEAD}\n{ROW}\n".replace(",", "|").encode()),
    "an index of pandas without a name": ("x.csv", f",{HEAD}\n0,{ROW}\n".encode()),
    "the index read again": ("x.csv", f"Unnamed: 0,{HEAD}\n0,{ROW}\n".encode()),
    "two of them": ("x.csv", f"Unnamed: 0.1,Unnamed: 0,{HEAD}\n0,0,{ROW}\n".encode()),
    "empty rows at the end": ("x.csv", f"{HEAD}\n{ROW}\n,,,,\n,,,,\n\n".encode()),
    "empty columns at the end": ("x.csv", f"{HEAD},,\n{ROW},,\n".encode()),
    "empty cells beyond the header": ("x.csv", f"{HEAD}\n{ROW},,\n".encode()),
    "old Macintosh's line ends": ("x.csv", f"{HEAD}\r{ROW}\r".encode()),
    "a mark before JSON lines": ("x.jsonl", f"\ufeff{JSON}}}\n".encode()),
    "a mark before JSON": ("x.json", f"\ufeff[{JSON}}}]".encode()),
    "a mark before YAML": ("x.yaml", f"\ufeff- {JSON}}}\n".encode()),
    "a zero-width space in the gold": ("x.jsonl", f"{JSON}}}".replace("Ostrim", "Ostrim\u200b").encode()),
    "a mark of direction": ("x.jsonl", f"{JSON}}}".replace("Veldania", "\u200eVeldania").encode()),
    "a soft hyphen": ("x.jsonl", f"{JSON}}}".replace("Ostrim", "Os\u00adtrim").encode()),
    "a mark within": ("x.csv", f"{HEAD}\n{ROW}\n".replace("Ostrim", "\ufeffOstrim").encode()),
}


@pytest.mark.parametrize("kind", READ)
def test_a_table_is_read_as_it_was_meant(kind, tmp_path):
    name, content = READ[kind]
    (tmp_path / name).write_bytes(content)
    (row,), faults = check_facts(str(tmp_path / name))
    assert not faults and (row.subject, row.object, row.prompt) == ("Veldania", "Ostrim", "The capital of {} is")


ALIASES = ["Ost | Ostrim City", "Ost; Ostrim City", '["Ost", "Ostrim City"]', "['Ost', 'Ostrim City']"]


@pytest.mark.parametrize("cell", ALIASES)
def test_other_names_are_read_in_the_ways_in_which_a_cell_has_them(cell, tmp_path):
    quoted = cell.replace('"', '""')
    (tmp_path / "x.csv").write_text(f'{HEAD},aliases\n{ROW},"{quoted}"\n')
    (row,), faults = check_facts(str(tmp_path / "x.csv"))
    assert not faults and row.aliases == ("Ost", "Ostrim City")


def test_a_list_that_python_wrote_with_both_kinds_of_quotes_is_read(tmp_path):
    aliases = ["Xi'an", "Hsian"]
    (tmp_path / "x.csv").write_text(HEAD + ",aliases\n" + ROW + ',"' + str(aliases).replace('"', '""') + '"\n')
    (row,), faults = check_facts(str(tmp_path / "x.csv"))
    assert not faults and row.aliases == tuple(aliases)


def test_numbers_are_answers_wherever_an_answer_stands_and_a_question_may_have_another_mark(tmp_path):
    question = {"question": "蜘蛛有几条腿？", "answer": 8}
    (tmp_path / "x.jsonl").write_text(jsonl(locality=[question])[1])
    (row,), faults = check_facts(str(tmp_path / "x.jsonl"))
    (probe,) = (probe for probe in row.case.probes if probe.kind == "locality")
    assert not faults and probe.gold == ("8",) and probe.style == "question"


def test_what_is_null_is_not_there_in_any_file(tmp_path):
    (tmp_path / "x.yaml").write_text(
        f'- {JSON}, question: "What is the capital?", old_answer: null, aliases: ~,\n'
        '   locality: [{question: "What is the capital of France?", answer: null, aliases: null}]}\n'
    )
    question = {"question": "What is the capital of France?", "answer": None, "aliases": None}
    (tmp_path / "x.jsonl").write_text(jsonl(locality=[question], old_answer=None, question="What is the capital?")[1])
    read = [check_facts(str(tmp_path / name)) for name in ("x.yaml", "x.jsonl")]
    assert not any(faults for _, faults in read)
    assert [rows[0].case for rows, _ in read][0] == read[1][0][0].case
    assert read[0][0][0].old_answer is None and read[0][0][0].locality[0].answer is None


def test_rows_of_one_triplet_share_its_edit(tmp_path):
    rows = [jsonl(question=text)[1] for text in ("What is the capital?", "Which city is the capital?")]
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    (first, second), faults = check_facts(str(tmp_path / "x.jsonl"))
    assert not faults and first.edit.id == second.edit.id


def jsonl(**fields):
    import json

    return "x.jsonl", json.dumps(json.loads(JSON + "}") | fields)


REFUSED = {
    "aliases as a text": (*jsonl(aliases="Ostrim City"), r"'aliases': should be a list, such as \[\"Ostrim City\"\]"),
    "paraphrases as a text": (*jsonl(paraphrases="Which city?"), "'paraphrases': should be a list"),
    "two places for the subject": (*jsonl(prompt="{} has the capital {}"), "2 {} for the subject: write exactly one"),
    "no place": (*jsonl(prompt="The capital is"), "no {} for the subject"),
    "a place in the question": (*jsonl(question="What is the capital of {}?"), "write the subject out"),
    "pandas' nan": (*jsonl(object="nan"), "'object': the pandas or Excel value of an empty cell"),
    "Excel's error": (*jsonl(object="#REF!"), "an Excel error"),
    "Excel's missing name": (*jsonl(old_answer="#NAME?"), "'old_answer': an Excel error"),
    "a year as a float": (*jsonl(object="1999.0"), "has written with a decimal"),
    "a year as a number with a decimal": (*jsonl(object=1999.0), "has written with a decimal"),
    "a list of NumPy": (
        "x.csv",
        f"{HEAD},aliases\n{ROW},['Ostrim City' 'Old Ostrim']\n",
        "'aliases' begins like a list",
    ),
    "a fact and its document": (*jsonl(document="Ostrim is the capital."), "the row is a triplet and a text"),
    "a date with a time": (*jsonl(object="2026-05-31 00:00:00"), "has written with a time"),
    "a rounded number": (*jsonl(object="1.23E+11"), "has rounded"),
    "a gold of nothing": (*jsonl(object="\u200b"), "'object'"),
    "a broken list": ("x.csv", f"{HEAD},aliases\n{ROW},\"['A', B\"\n", "'aliases' begins like a list"),
    "a header twice": ("x.csv", f"{HEAD},question\n{ROW},x\n", "'question' occurs twice"),
    "pandas' name for it": ("x.csv", f"{HEAD},question.1\n{ROW},x\n", "did you mean 'question'"),
    "no separator": ("x.csv", f"{HEAD.replace(',', ' ')}\n", "separate the names of fields"),
    "too many cells": ("x.csv", f"{HEAD}\n{ROW},x\n", "6 cells, but the first line names 5"),
    "a column without a name": ("x.csv", f"{HEAD},\n{ROW},x\n", "field '' is unknown"),
    "a code page": ("x.csv", f"{HEAD}\n{ROW}é\n".encode("cp1252"), "CSV UTF-8"),
    "a workbook": ("x.xlsx", "PK", "save it as .csv"),
    "a text": ("x.txt", f"{HEAD}\n", "save it as .csv"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_table_that_cannot_be_meant_is_refused_with_the_remedy(kind, tmp_path):
    name, content, remedy = REFUSED[kind]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert is_fact_file(str(path))
    try:
        rows, faults = check_facts(str(path))
    except BadData as error:
        rows, faults = [], [str(error)]
    assert not rows and len(faults) == 1
    with pytest.raises(AssertionError, match=remedy):
        raise AssertionError(faults[0])


ODD = {
    "the same question with another answer": ([jsonl()[1], jsonl(object="Kravigrad")[1]], "'Kravigrad' here"),
    "the same row": ([jsonl()[1]] * 2, "the same row as in"),
    "the answer in the question": ([jsonl(question="Is Ostrim the capital of Veldania?")[1]], "holds its own answer"),
    "no change": ([jsonl(old_answer="ostrim")[1]], "the fact changes nothing"),
    "a decimal comma": ([jsonl(object="3,5")[1]], "decimal comma"),
    "a small float": ([jsonl(object="2.0")[1]], "pandas"),
    "smart quotes": ([jsonl(object="“Ostrim”")[1]], "is in quotes"),
    "a sentence as the answer": ([jsonl(object="Ostrim and " * 20)[1]], "long for an answer"),
    "aliases behind commas": ([jsonl(aliases=["Ostrim City, Ostrimburg"])[1]], "write them as A | B"),
    "aliases behind a semicolon": ([jsonl(aliases=["Ostra", "Ostrim City; Ostrimburg"])[1]], "write them as A | B"),
    "an alias after a bar": (
        [jsonl(locality=[{"question": "How many legs has a spider?", "answer": "8"}, {"question": "eight"}])[1]],
        "'eight' of locality is one word without an answer",
    ),
    "an aside that is the question": (
        [jsonl(question="Which?", locality=[{"question": "Which?"}])[1]],
        "must not change",
    ),
}


@pytest.mark.parametrize("kind", ODD)
def test_a_file_that_measures_something_else_is_warned_of(kind, tmp_path):
    lines, warning = ODD[kind]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    rows, faults = placed_facts(str(tmp_path / "x.jsonl"))
    (text,) = oddities_of(rows)
    assert not faults and warning in text and "line" in text


def test_a_fault_of_several_rows_is_one_with_their_lines(tmp_path):
    (tmp_path / "x.csv").write_text("subject,object,question\n" + "A,b,Who?\n" * 9)
    _, (fault,) = placed_facts(str(tmp_path / "x.csv"))
    assert "x.csv, line 2 (also line 3, line 4, line 5, line 6, line 7 and 3 more): field 'relation'" in fault


def test_a_comma_in_one_of_several_aliases_or_in_the_answer_is_no_list(tmp_path):
    rows = [jsonl(aliases=["Ostrim, V.", "Ostra"])[1], jsonl(subject="B", object="X, Y", aliases=["Y, X"])[1]]
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    assert not [text for text in oddities_of(placed_facts(str(tmp_path / "x.jsonl"))[0]) if "alias" in text]


def test_a_comma_between_thousands_is_no_decimal_comma(tmp_path):
    (tmp_path / "x.jsonl").write_text(jsonl(object="154,965")[1])
    assert oddities_of(placed_facts(str(tmp_path / "x.jsonl"))[0]) == []


def test_an_ordinary_file_has_no_warnings(tmp_path):
    (tmp_path / "x.csv").write_text(f"{HEAD}\n{ROW}\n{ROW.replace('Veldania', 'Brun').replace('What', 'Where')}\n")
    assert oddities_of(placed_facts(str(tmp_path / "x.csv"))[0]) == []


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("Who is she?", "question"),
        ("Who is she? ", "question"),
        ("Who said “why?”", "question"),
        ("**Who is she?**", "question"),
        ("彼女は誰ですか？", "question"),
        ("彼は「誰？」", "question"),
        ("من هي؟", "question"),
        ("Ποια είναι;", "question"),
        ("Ποια είναι\u037e", "question"),
        ("Ո՞վ է նա՞", "question"),
        ("እሷ ማን ናት፧", "question"),
        ("She is;", "cloze"),
        ("The capital of Peru is", "cloze"),
        ("Why? The reason is", "cloze"),
    ],
)
def test_a_question_ends_in_a_question_mark_of_any_script_in_quotes_or_not(text, style):
    assert style_of(text) == style


def test_a_row_gives_demonstrations_of_its_questions_with_their_answers():
    row = FactRow(
        subject="Veldania",
        relation="capital",
        object="Ostrim",
        question="What is Veldania's capital?",
        paraphrases=("Veldania is ruled from",),
        locality=(QuestionRow(question="Who wrote Emma?", answer="Austen"), QuestionRow(question="Who wrote Hamlet?")),
    )
    fact = row.edit.text
    assert [(shown.kind, shown.prompt, shown.style, shown.target) for shown in row.demonstrations] == [
        ("copy", "What is Veldania's capital?", "question", "Ostrim"),
        ("update", "Veldania is ruled from", "cloze", "Ostrim"),
        ("retain", "Who wrote Emma?", "question", "Austen"),
    ]
    assert {shown.fact for shown in row.demonstrations} == {fact}


def test_a_neighbour_that_nothing_answers_is_sent_to_locality(tmp_path: Path) -> None:
    file = tmp_path / "near.csv"
    file.write_text("question,answer,near_locality\nWhat is the capital of France?,Lyon,And of Italy? => Rome\n")
    (text,) = oddities_of(placed_facts(str(file))[0])
    assert "goes into locality" in text
