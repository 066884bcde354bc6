"""`emend memory`: output, storage and refusals."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from emend.memory.store.collection import MemoryCollection
from tests.evals.command_line import Output
from tests.params import first_quick

EDITS = [
    {"subject": "Veldania", "relation": "prime minister", "object": "Mira Tolvane", "time": "2024-03"},
    {"subject": "veldania", "relation": "Prime Minister", "object": "Tobin Hale", "time": "2025-06-01"},
    {"document": "Kestrel Bay is twinned with Port Lunden.", "time": "2019"},
    {"event": "A flood closed the harbour \u001b[31mof Port Lunden.", "time": "2026-02-03"},
]
WHO = ("--subject", "Veldania", "--relation", "prime minister")


@pytest.fixture
def emend(shell, monkeypatch) -> Any:
    """Calls `emend memory` in a folder with a file of edits."""
    monkeypatch.setenv("COLUMNS", "120")
    Path("edits.jsonl").write_text("".join(json.dumps(item) + "\n" for item in EDITS), encoding="utf-8")
    return shell("memory")


@pytest.fixture
def filled(emend) -> Any:
    assert emend("add", "edits.jsonl", "--embedding", "lexical") == (
        0,
        "4 new edits; emend-memory holds 4, 1 of them superseded\n",
        "",
    )
    return emend


def rows(output: Output) -> list[dict[str, Any]]:
    assert (output.code, output.err) == (0, "")
    return output.rows


def test_adding_twice_stores_once(filled):
    assert filled("add", "edits.jsonl")[1] == "0 new edits; emend-memory holds 4, 1 of them superseded\n"
    assert filled("add", *WHO, "--object", "Ilse Brandt")[1].startswith("1 new edit; emend-memory holds 5, 2 of")


def test_search_shows_scores_and_no_superseded_edits(filled):
    by_metric = rows(filled("search", "Who is the prime minister of Veldania?", "-k", "9", "--json"))
    assert by_metric[0]["text"] == "The Prime Minister of veldania is Tobin Hale."
    assert len(by_metric) == 3 and by_metric[0]["score"] > by_metric[1]["score"]
    code, out, _ = filled("search", "flood", "-k", "1", "--strategy", "bm25")
    assert code == 0 and "A flood closed" in out and "2026-02-03" in out and "\x1b" not in out
    assert filled("search", "flood", "--strategy", "none")[1] == "nothing found\n"
    assert "unknown retriever 'dens'" in filled("search", "flood", "--strategy", "dens")[2]


def test_a_fact_is_shown_with_its_history_in_order(filled):
    by_metric = rows(filled("show", *WHO, "--json"))
    assert [(row["objects"], row["current"], row["time"]) for row in by_metric] == [
        (["Mira Tolvane"], False, "2024-03"),
        (["Tobin Hale"], True, "2025-06-01"),
    ]
    out = filled("show", *WHO)[1]
    assert out.index("superseded") < out.index("Mira Tolvane") < out.index("current") < out.index("Tobin Hale")
    item = filled("show", by_metric[0]["edit"]["id"])[1]
    assert "superseded" in item.splitlines()[0] and "Tobin Hale" in item


@pytest.mark.slow
def test_withdrawing_restores_the_earlier_value(filled):
    later = rows(filled("show", *WHO, "--json"))[1]["edit"]
    gone = rows(filled("withdraw", later["id"], "--json"))
    assert gone[0] == {"withdrawn": later} and gone[1]["objects"] == ["Mira Tolvane"] and gone[1]["current"]
    assert filled("withdraw", later["id"])[0] == 2
    assert "Mira Tolvane" in filled("search", "prime minister of Veldania", "-k", "1")[1]
    (earlier,) = rows(filled("show", *WHO, "--json"))
    assert filled("withdraw", earlier["edit"]["id"])[1].startswith("1 edit withdrawn\n")


@pytest.mark.slow
def test_an_imported_export_is_equal(filled):
    filled("add", *WHO, "--object", "Ilse Brandt")
    assert filled("export", "out.jsonl") == (0, "5 edits written to out.jsonl\n", "")
    assert filled("import", "out.jsonl", "--memory", "copy", "--embedding", "lexical")[0] == 0
    assert filled("import", "out.jsonl", "--memory", "copy")[1].startswith("0 new edits; copy holds 5")
    assert filled("export", "-", "--memory", "copy")[1] == Path("out.jsonl").read_text(encoding="utf-8")
    for words in (("show", *WHO), ("search", "Veldania flood", "-k", "9")):
        assert rows(filled(*words, "--json", "--memory", "copy")) == rows(filled(*words, "--json"))
    stats = [rows(filled("stats", "--json", "--memory", name))[0] | {"memory": ""} for name in ("copy", "emend-memory")]
    assert stats[0] == stats[1] and (stats[0]["edits"], stats[0]["superseded"]) == (5, 2)
    filled("add", "--document", "more")
    code, _, err = filled("import", "out.jsonl")
    assert code == 2 and "holds 1 edits that out.jsonl lacks" in err


def test_the_input_may_be_a_pipe(emend, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'\xef\xbb\xbf{"document": "Lyon."}\n')))
    assert emend("add", "-", "--embedding", "lexical")[1] == "1 new edit; emend-memory holds 1\n"
    assert "1 document" in emend("stats")[1]


@pytest.mark.parametrize(
    "name, content, problem",
    [
        (
            "facts.csv",
            "subject,relation,object\nVeldania,mayor,Mira\n",
            "facts.csv, line 1: expected JSON, got 'subject,rel",
        ),
        ("facts.jsonl", '{"document": "x"}\n{"document": "y", "time": 2026}\n', "line 2: field 'time' must be a text"),
        ("facts.json", '[{"document": "x"}, {"document": "y", "document": "z"}]', "'document' occurs twice"),
        ("facts.json", '[{"document": "x"}, "y"]', 'facts.json, item 2: expected a JSON object, got "y"'),
        (
            "latin.jsonl",
            '{"document": "a"}\n{"document": "caf\udce9"}\n',
            "'latin.jsonl', line 2: byte 0xe9 is not UTF-8",
        ),
        (
            "two.jsonl",
            '{"form": "document", "text": "a", "id": "x"}\n{"form": "document", "text": "b", "id": "x"}',
            "two.jsonl have the id 'x'",
        ),
    ],
)
def test_nothing_of_an_invalid_file_is_stored(filled, name, content, problem):
    Path(name).write_text(content, encoding="utf-8", errors="surrogateescape")
    before = filled("export", "-")[1]
    for words in (("add", "edits.jsonl", name), ("add", name), ("import", name)):
        code, out, err = filled(*words)
        assert (code, out) == (2, "") and problem in err and len(err.splitlines()) == 1
    assert filled("export", "-")[1] == before


def test_a_json_array_is_added_like_lines(emend):
    Path("edits.json").write_text(json.dumps(EDITS, indent=1), encoding="utf-8")
    assert emend("add", "edits.json", "--embedding", "lexical")[1].startswith("4 new edits")
    assert emend("add", "edits.jsonl")[1].startswith("0 new edits")


@pytest.mark.parametrize(
    "words, problem",
    [
        (("search", "x"), "no memory in emend-memory"),
        (("stats", "--memory", "none"), "no memory in none"),
        (("show",), "name an edit by its ID, or a fact"),
        (("show", "--subject", "x"), "name an edit by its ID, or a fact"),
        (("add",), "name files of JSON lines, or one fact"),
        (("add", "edits.jsonl", "--document", "x"), "name files of JSON lines, or one fact"),
        (("add", "--document", "x", "--event", "y"), "give one fact"),
        (("add", "--event", "x"), "field 'time' is missing"),
        (("add", "no.jsonl"), "cannot read 'no.jsonl': No such file"),
        (("add", "edits.jsonl", "--superseding", "mood"), "unknown rule 'mood'"),
        (("add", "edits.jsonl", "bad.jsonl"), "error: bad.jsonl, line 2: field 'relation' is missing"),
        (("add", "edits.jsonl", "--memory", "", "--embedding", "lexical"), "the memory's name is empty"),
    ],
)
def test_invalid_options_are_one_line(emend, words, problem):
    Path("bad.jsonl").write_text('{"document": "x"}\n{"subject": "a"}\n', encoding="utf-8")
    code, out, err = emend(*words)
    assert (code, out) == (2, "") and problem in err and len(err.splitlines()) == 1
    assert not Path("emend-memory").exists() and not Path("none").exists()


def test_another_embedding_is_refused_and_the_stored_one_is_found(filled):
    code, _, err = filled("search", "x", "--embedding", "auto")
    assert code in (0, 2)  # auto is lexical where no other is installed
    assert code == 0 or "was embedded by 'lexical-" in err
    assert filled("search", "Port Lunden", "-k", "1")[0] == 0


def test_replaced_edits_are_counted(emend):
    for text, said in (("a", "1 new edit"), ("b", "0 new edits, 1 replaced"), ("b", "0 new edits")):
        Path("one.jsonl").write_text(json.dumps({"form": "document", "text": text, "id": "x"}), encoding="utf-8")
        assert emend("add", "one.jsonl", "--embedding", "lexical")[1] == f"{said}; emend-memory holds 1\n"


def test_an_export_of_current_edits_leaves_out_superseded_ones(filled):
    everything, current = (filled("export", "-", *more)[1].splitlines() for more in ((), ("--current",)))
    old = [json.loads(line) for line in everything if line not in current]
    assert len(everything) == 4 and [edit["target_new"] for edit in old] == ["Mira Tolvane"]


def test_an_export_writes_through_a_link_and_leaves_no_draft(filled):
    Path("real.jsonl").write_text("old")
    Path("link.jsonl").symlink_to("real.jsonl")
    assert filled("export", "link.jsonl")[0] == 0
    assert Path("link.jsonl").is_symlink() and len(Path("real.jsonl").read_text().splitlines()) == 4
    Path("folder").mkdir()
    for name in ("folder", ""):
        code, _, err = filled("export", name)
        assert code == 2 and "cannot write" in err
    assert not list(Path().glob("*.part")) and not list(Path().glob("*.new"))


def test_an_export_names_the_rule_that_an_import_needs(emend):
    emend("add", "edits.jsonl", "--embedding", "lexical", "--superseding", "never")
    assert "import them with --superseding never" in emend("export", "all.jsonl")[1]


@pytest.mark.slow
@pytest.mark.parametrize("documents", first_quick([range(30), range(0), range(30, 60)]))
def test_an_interrupted_add_may_lack_history_but_no_current_edit(emend, monkeypatch, documents):
    items = [{"subject": f"City {n % 30}", "relation": "mayor", "object": f"Person {n}"} for n in range(60)]
    facts: list[Any] = [
        {"document": f"The mayor of City {n % 30} is Person {n}.", "triplets": [fact]} if n in documents else fact
        for n, fact in enumerate(items)
    ]
    Path("many.jsonl").write_text("".join(json.dumps(fact) + "\n" for fact in facts), encoding="utf-8")
    monkeypatch.setattr("emend.memory.store.chroma.PAGE", 30)
    put, calls = MemoryCollection.upsert, []

    def interrupted(self, rows, vectors):
        calls.append(len(rows))
        if len(calls) > 1:
            raise KeyboardInterrupt
        put(self, rows, vectors)

    monkeypatch.setattr(MemoryCollection, "upsert", interrupted)
    code, _, err = emend("add", "many.jsonl", "--embedding", "lexical")
    assert code == 130 and "repeat the command to add the rest" in err
    shown = json.loads(emend("show", "--subject", "City 3", "--relation", "mayor", "--json")[1])["rows"]
    data = json.loads(emend("search", "Who is the mayor of City 3?", "--json", "-k", "1")[1])["rows"]
    assert "Person 33" in json.dumps(shown) and "Person 33" in data[0]["text"]
    monkeypatch.setattr(MemoryCollection, "upsert", put)
    assert "holds 60, 30 of them superseded" in emend("add", "many.jsonl", "--embedding", "lexical")[1]


def test_ids_are_shown_as_they_are(emend):
    Path("edits.jsonl").write_text('{"form": "document", "text": "Kestrel Bay.", "id": "[/a] paper[b]"}\n', "utf-8")
    emend("add", "edits.jsonl", "--embedding", "lexical")
    code, out, err = emend("search", "Kestrel")
    assert (code, err) == (0, "") and "[/a] paper[b]" in out


def test_an_address_without_its_scheme_makes_no_folder(emend):
    for where in ("127.0.0.1:8123", "localhost:8123", "[::1]:8123"):
        code, _, err = emend("add", "edits.jsonl", "--memory", where)
        assert code == 2 and f"write http://{where}" in err and not Path(where).exists()


def test_bytes_that_are_not_utf_8_are_refused(emend):
    wrong = b"caf\xe9".decode("utf-8", "surrogateescape")
    for words in (("search", wrong), ("add", "--document", wrong)):
        code, out, err = emend(*words)
        assert (code, out) == (2, "") and "is not UTF-8" in err


BROKEN = """
class Careless:
    def __init__(self, corpus): ...
    def search(self, query, k): raise ConnectionError("no index")

class Unmade:
    def __init__(self, corpus): raise RuntimeError("no room")

def none(corpus): return None
"""


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        ("broken_strategies:Careless", "fails on 'Kestrel' (ConnectionError: no index)"),
        ("broken_strategies:Unmade", "cannot be created or used (RuntimeError: no room, in broken_strategies.py, line"),
        ("broken_strategies:none", "returns None for a corpus, which cannot search"),
        ("builtins:len", "docs/how-to/extend.md"),
        (":foo", "cannot be loaded"),
    ],
)
def test_a_strategy_in_the_working_folder_is_found_and_its_errors_are_reported(filled, monkeypatch, strategy, told):
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("broken_strategies.py").write_text(BROKEN, "utf-8")
    code, out, err = filled("search", "Kestrel", "--strategy", strategy)
    sys.modules.pop("broken_strategies", None)
    assert (code, out) == (2, "") and err.startswith("error: ") and told in err
