"""The pool of demonstrations of `ike`, and its warning when there are too few."""

import json

import numpy as np
import pytest

from emend.editors.base import Demonstration, EditorContext
from emend.editors.conformance import CAPITAL, CURRENCY, EXAMPLES, probe_of
from emend.editors.conformance_toys import PlainMemory, ReadingModel
from emend.editors.memory_based.demonstration_pool import MemoryEmbedding, RowDemonstrations, read_pool
from emend.editors.registry import EDITORS
from emend.graphs.ike import Pool
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import BadData, MissingData
from emend.memory.retrieval.exact import ExactCorpus
from emend.memory.retrieval.registry import RETRIEVERS

LINE = {"kind": "update", "fact": "The river of Orland is Aske.", "prompt": "Which river?", "target": "Aske"}


class Rows(tuple[Demonstration, ...]):
    """As a benchmark gives them: hand-written ones, and behind them those of its rows."""

    def rows(self, count):
        return [of_land(n) for n in range(40)]


class CountingEmbedding(LexicalEmbedding):
    """Similar is what has as many words."""

    def __init__(self):
        super().__init__(dimensions=2)
        self.asked: list[str] = []

    def queries(self, texts):
        self.asked += texts
        turns = np.array([len(text.split()) for text in texts]) / 20
        return np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)


class CountingMemory(PlainMemory):
    """A memory that embeds its own way."""

    def __init__(self):
        super().__init__()
        self.embedding = CountingEmbedding()

    def view(self, edit_ids=None):
        found = [e for e in self.entries.values() if edit_ids is None or e.edit_id in edit_ids]
        return ExactCorpus.of(found, self.embedding)


def of_land(n, kind="copy", fact=None):
    told = fact or f"The river of Land{n} is Aske{n}."
    return Demonstration(kind=kind, fact=told, prompt=f"The river of Land{n} is", target=f"Aske{n}")


def build(shown=EXAMPLES, memory=None, **settings):
    given = EditorContext(ReadingModel(), memory or PlainMemory(), RETRIEVERS.load("dense"), shown, settings=settings)
    return EDITORS.load("ike")(given)


def shown_to(editor, edits, probe):
    with editor.edit(edits) as answerer:
        answer = answerer.answer(probe)
    return next(step.update["demonstrations"] for step in answer.steps if step.node == "demonstrate")


def written(tmp_path, *lines):
    file = tmp_path / "pool.jsonl"
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return file


def test_the_datas_own_rows_are_shown_but_for_those_of_applied_edits():
    given = [of_land(1, fact=CAPITAL.text), of_land(2, fact=f"It rains. {CAPITAL.text}"), of_land(3)]
    asked = probe_of(CAPITAL).model_copy(update={"subject": ""})
    assert [one["fact"] for one in shown_to(build(given), [CAPITAL, CURRENCY], asked)] == [of_land(3).fact]
    assert len(shown_to(build(given), [CURRENCY], asked)) == 3
    assert isinstance(Rows(), RowDemonstrations) and not isinstance(EXAMPLES, RowDemonstrations)
    assert len(shown_to(build(Rows(EXAMPLES), demonstrations=32), [CAPITAL], probe_of(CAPITAL))) == 32


def test_a_file_replaces_the_benchmarks_demonstrations_if_it_is_there_and_not_empty(tmp_path):
    file = written(tmp_path, LINE | {"style": "question"}, "", LINE | {"kind": "copy"})
    editor = build(Rows(EXAMPLES), pool=str(file))
    shown = shown_to(editor, [CAPITAL], probe_of(CAPITAL))
    assert {(one["kind"], one["style"]) for one in shown} == {("update", "question"), ("copy", "cloze")}
    assert editor.fingerprint["pool_size"] == 2
    assert editor.fingerprint["examples"] != build(Rows(EXAMPLES)).fingerprint["examples"]
    with pytest.raises(MissingData, match=r"no examples in '.*none.jsonl'"):
        build(pool=str(tmp_path / "none.jsonl"))
    with pytest.raises(BadData, match="has no line"):
        read_pool(written(tmp_path, ""))


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("{torn", "the whole line"),
        ("[]", "the whole line"),
        (LINE | {"kind": "retian"}, "kind"),
        (LINE | {"style": "verse"}, "style"),
        (LINE | {"target": " "}, "target"),
        (LINE | {"answer": "Aske"}, "answer"),
        ({name: text for name, text in LINE.items() if name != "fact"}, "fact"),
    ],
)
def test_a_bad_line_is_refused_with_file_and_number(tmp_path, line, field):
    file = written(tmp_path, LINE, "", line)
    with pytest.raises(BadData, match=f"pool.jsonl, line 3, field {field}: .*A line has the form"):
        build(pool=str(file))


def test_similar_is_what_the_memorys_embedding_finds_similar_or_the_words_of_a_lexical_one():
    memory = CountingMemory()
    long = of_land(1, fact="The river of that land that is told of in many old books and songs is Aske.")
    probe = probe_of(CAPITAL).model_copy(update={"subject": "", "query": f"{long.fact} {long.prompt}"})
    editor = build([of_land(2), long, of_land(3)], memory, demonstrations=1)
    assert [one["fact"] for one in shown_to(editor, [CAPITAL], probe)] == [long.fact]
    assert editor.fingerprint["similarity"] == MemoryEmbedding.identity
    given = [of_land(n) for n in range(30)]
    by_memory, by_words = build(given).pool, Pool(given)
    for asked in ("The river of Land7 is", "Which river flows in Land12?", "Aske3"):
        assert by_memory.by_similarity(asked) == by_words.by_similarity(asked)


def test_a_pool_is_embedded_once_however_many_probes_there_are():
    memory = CountingMemory()
    editor = build([of_land(n) for n in range(9)], memory)
    for edit in (CAPITAL, CURRENCY, CAPITAL):
        shown_to(editor, [edit], probe_of(edit))
    assert sum("Land5" in text for text in memory.embedding.asked) == 1


def test_too_few_demonstrations_are_logged_once_with_numbers_and_remedy(caplog):
    editor = build(EXAMPLES[:3], demonstrations=32)
    for edit in (CAPITAL, CURRENCY):
        shown_to(editor, [edit], probe_of(edit))
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("editor 'ike' needs 32 demonstrations, but has 3 to choose from (the pool has only 3)")
    assert "--set ike.pool=FILE" in told and "--set ike.demonstrations=3" in told
    assert editor.fingerprint["pool_size"] == 3


def test_demonstrations_excluded_because_their_edits_are_applied_are_reported(caplog):
    editor = build([of_land(1, fact=CAPITAL.text), of_land(2)], demonstrations=2)
    shown_to(editor, [CURRENCY], probe_of(CURRENCY))
    assert not caplog.records
    shown_to(editor, [CAPITAL], probe_of(CAPITAL))
    assert "has 1 to choose from (the other examples in 2 are of applied edits)" in caplog.text


def test_ask_without_a_benchmark_reports_that_there_are_no_demonstrations(caplog):
    assert shown_to(build(()), [CAPITAL], probe_of(CAPITAL)) == []
    assert "needs 6 demonstrations, but has 0 to choose from" in caplog.text


def test_enough_demonstrations_or_none_requested_are_not_logged(caplog):
    for editor in (build(Rows(EXAMPLES), demonstrations=32), build((), demonstrations=0)):
        shown_to(editor, [CAPITAL], probe_of(CAPITAL))
    assert not caplog.records
