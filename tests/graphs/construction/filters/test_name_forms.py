"""Forms of names in texts: which count as naming, and which are other names or other words."""

import pytest

from emend.graphs.construction.filters.name_forms import leaves, names


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Guns N' Roses", "a song by Guns N’ Roses"),
        ("São Paulo", "born in Sao Paulo"),
        ("piano", "three pianists"),
        ("Buddhism", "a Buddhist"),
        ("Japan", "the Japanese crew"),
        ("Nokia Corporation", "made by Nokia"),
        ("Dr. Ines Clair, M.D.", "led by Ines Clair"),
        ("John Ronald Reuel Tolkien", "painted by J. R. R. Tolkien"),
        ("John Ronald Reuel Tolkien", "painted by J.R.R. Tolkien"),
        ("International Business Machines", "a machine of IBM"),
        ("Bremen", "Bremens Hafen"),
        ("武汉", "临江大桥位于武汉。"),
        ("HBO", "该剧由HBO播出"),
        ("Lyon", "里昂（Lyon）"),
        ("서울", "그는 서울에서 태어났다"),
        ("42", "it has 42 floors"),
    ],
)
def test_usual_forms_of_a_name_count_as_naming(name: str, text: str):
    assert names(text, name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Norway", "a lock in the north"),
        ("42", "it has 421 floors"),
        ("iron", "the environment"),
        ("Bath", "a bathroom"),
        ("Lee", "the lees of the wine"),
        ("Ada Novak", "A. Nowak"),
        ("Bob", "IBM"),
        ("", "anything"),
    ],
)
def test_other_words_do_not_count_as_naming(name: str, text: str):
    assert not names(text, name)


@pytest.mark.parametrize(
    ("old", "text", "others"),
    [
        ("Chile", "shipped to Chile", ()),
        ("Philadelphia", "it left PHILADELPHIA", ()),
        ("guitar", "her guitars", ()),
        ("guitar", "Guitar and piano", ()),
        ("Tom Brandt", "Like Brandt before her", ("Halden Rail", "Mira Osei")),
        ("Tom Brandt", "under President Brandt", ("Halden Rail", "Mira Osei")),
        ("Pieter de Vries", "than under Coach de Vries", ()),
        ("Ferrari", "the Ferrari F40 was made for Ferrari", ("Ferrari F40", "Boeing")),
        ("São Paulo", "once in Sao Paulo", ()),
        ("北京", "原在北京", ()),
    ],
)
def test_the_old_object_is_left_in_a_text_that_names_it_alone(old: str, text: str, others: tuple[str, ...]):
    assert leaves(text, old, others)


@pytest.mark.parametrize(
    ("old", "text", "others"),
    [
        ("Ford", "a ford near Oxford", ()),
        ("York", "in New York", ()),
        ("iron", "the environment", ()),
        ("Ferrari", "the Ferrari F40 is fast", ("Ferrari F40", "Boeing")),
        ("Black Sea", "it flows into the Baltic Sea", ("Sulva", "Baltic Sea")),
        ("Tom Brandt", "the painter Karl Brandt", ("Halden Rail",)),
        ("", "anything", ()),
    ],
)
def test_other_names_and_words_are_not_the_old_object(old: str, text: str, others: tuple[str, ...]):
    assert not leaves(text, old, others)
