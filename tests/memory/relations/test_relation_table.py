"""Names and kinds of relations: which wordings are one relation, and how many objects it has at once."""

import tomllib
from dataclasses import replace

import pytest

from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData
from emend.memory.relations.relation_table import BUILTIN, RelationTable
from scripts.benchmarks.bench_relation_names import PairScore, invented, mquake, score
from tests.paths import SHARED

TABLE = RelationTable.load()


@pytest.mark.parametrize(
    ("wording", "name"),
    [
        ("capital", "capital"),
        ("The Capital is", "capital"),
        ("capital_city", "capital"),
        ("lives in", "home city"),
        ("has been living in", "home city"),
        ("is now working for", "employer"),
        ("was born in the city of", "place of birth"),
        ("is married to", "spouse"),
        ("the name of the current head of state", "head of state"),
        ("IS MARRIED TO", "spouse"),
        ("favourite colour", "favourite colour"),
    ],
)
def test_wordings_get_the_name_of_their_relation(wording, name):
    assert TABLE.name_of(wording) == name


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ("boss", "is the boss of"),
        ("child", "child of"),
        ("capital", "is the capital of"),
        ("club", "favourite club"),
        ("name", "pet name"),
        ("place of birth", "place of death"),
        ("head of state", "head of government"),
        ("was founded by", "was founded in"),
        ("likes", "dislikes"),
        ("native language", "official language"),
        ("runs", "is run by"),
        ("owns", "is owned by"),
        ("employs", "employed by"),
    ],
)
def test_other_relations_keep_their_own_name(one, another):
    for table in (TABLE, replace(TABLE, embedding=LexicalEmbedding())):
        assert table.name_of(one) != table.name_of(another)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("capital", "functional"),
        ("friend", "set"),
        ("likes", "undecided"),
        ("favourite colour", "functional"),
        ("tasks", "set"),
        ("runs", "undecided"),
        ("is the boss of", "undecided"),
        ("", "undecided"),
    ],
)
def test_the_kind_is_declared_or_follows_from_grammar(name, kind):
    assert TABLE.kind_of(name) == kind


def test_no_wording_is_declared_twice():
    tables = tomllib.loads(BUILTIN.read_text("utf-8"))
    wordings = [each for names in tables.values() for name, more in names.items() for each in (name, *more)]
    assert len(wordings) == len(set(wordings)) == len(TABLE.names)
    assert all(TABLE.name_of(wording) == name for wording, name in TABLE.names.items())


def test_a_file_declares_further_relations_and_overrides(tmp_path):
    (tmp_path / "own.toml").write_text('[set]\nspouse = ["married to"]\n"ship" = ["sails on"]\n')
    table = RelationTable.load(tmp_path / "own.toml")
    assert table.kind_of("spouse") == table.kind_of(table.name_of("sails on")) == "set"
    assert table.kind_of("capital") == "functional"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("functional = 3", r"\[functional\]"),
        ("[functionl]\nx = []", r"functionl.*must be 'functional'"),
        ("[functional]\nx = 3", "list of wordings"),
        ("[functional]\nx = ['']", "list of wordings"),
        ("= =", "not a TOML table"),
        ("x = " + "[" * 9_000, "not a TOML table"),
    ],
)
def test_a_bad_file_is_refused(text, remedy, tmp_path):
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(BadData, match=remedy):
        RelationTable.load(tmp_path / "own.toml")


def test_the_relations_that_a_question_words_are_named():
    assert "home city" in TABLE.names_in("Where does Ann live?")
    assert set(TABLE.names_in("In which city was Ann born, and to whom is she married?")) >= {
        "place of birth",
        "spouse",
    }
    assert TABLE.names_in("xylophone") == ()


def test_an_embedding_joins_what_is_similar_to_a_declared_wording():
    similar = replace(TABLE, embedding=LexicalEmbedding())
    assert TABLE.name_of("nationalities held") != "country of citizenship"
    assert similar.name_of("birth place") == "place of birth"


def test_pairs_are_counted_by_hand():
    groups = {"a": ["x", "y"], "b": ["z"]}
    assert score(groups, lambda each: each) == PairScore(0.0, 0.0, 3)
    assert score(groups, lambda each: "one") == PairScore(1 / 3, 1.0, 3)
    assert score(groups, lambda each: each.replace("y", "x")) == PairScore(1.0, 1.0, 3)


def test_wordings_that_the_table_has_not_seen_are_joined_more_often_than_not():
    similar = replace(TABLE, embedding=LexicalEmbedding())
    alone, joined = score(invented(), TABLE.name_of), score(invented(), similar.name_of)
    assert joined.precision > 0.85 and joined.recall > alone.recall > 0.15


def test_wordings_of_mquake_are_joined():
    folder = SHARED / "data" / "mquake" / "prompts" / "templates"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent")
    result = score(mquake(folder), TABLE.name_of)
    assert result.precision > 0.85 and result.recall > 0.5
