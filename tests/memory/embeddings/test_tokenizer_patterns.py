"""Tokenizer files from strangers: how long their regular expressions take, and tokenizers of models on the hub."""

import json
import shutil
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from emend.memory.embeddings.embed import load_encoder
from emend.memory.embeddings.hub import tokenizer_folders
from emend.memory.embeddings.tokenizer_growth import check_tokenizer, check_tokenizers
from emend.memory.errors import ModelError
from tests.paths import ROOT

TINY = ROOT / "agents" / "tiny" / "model"
SLOW = r"(?:.|..){20}(?!)"
# of GPT-2, of o200k, and of DeepSeek
PUBLISHED = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
)


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def check(fields: dict[str, Any]) -> None:
    check_tokenizer(json.dumps(fields).encode(), Path("tokenizer.json"))


@pytest.mark.parametrize(
    "pattern", [SLOW, r"(.+)+(?!)", r"(?:a|aa){18}(?!)", r"(\s+)+(?!)", r"(\d+)+(?!)", "a" * 20_000]
)
def test_an_expression_that_takes_long_is_refused_soon(pattern: str):
    start = time.thread_time()
    with pytest.raises(ModelError, match="regular expression .*in tokenizer.json"):
        check({"pre_tokenizer": split(pattern)})
    assert time.thread_time() - start < 20


@pytest.mark.parametrize("part", ["normalizer", "decoder"])
def test_expressions_of_replacements_are_checked_too(part: str):
    with pytest.raises(ModelError, match="takes too long"):
        check({part: {"type": "Replace", "pattern": {"Regex": r"(.+)+(?!)"}, "content": ""}})


def test_many_expressions_share_their_time():
    steps = [split(r"(?:.|..){12}(?!)") for _ in range(5_000)]
    with pytest.raises(ModelError, match="takes too long"):
        check({"pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}})


def test_expressions_of_published_tokenizers_are_accepted_and_faulty_ones_left_to_the_library():
    for pattern in (*PUBLISHED, "(", r"(?<x>\g<x>|a)"):
        check({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(pattern)] * 20}})


def cached_model(cache: Path, owner: str, pattern: str) -> None:
    """Put a model into the hub's local cache, as if it had been downloaded."""
    repository = cache / f"models--{owner}--encoder"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    folder = repository / "snapshots" / ("0" * 40)
    shutil.copytree(TINY, folder)
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"pre_tokenizer": split(pattern)}))


@pytest.mark.parametrize("name", ["acme/encoder", "encoder"])
def test_tokenizers_of_a_model_on_the_hub_are_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    cached_model(tmp_path, "acme" if "/" in name else "cross-encoder", r"(.+)+(?!)")
    (folder,) = tokenizer_folders(name)
    with pytest.raises(ModelError, match="takes too long"):
        check_tokenizers(folder)
    assert list(tokenizer_folders("acme/missing")) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SentenceTransformer", "CrossEncoder"])
def test_encoders_of_the_hub_with_such_a_tokenizer_are_not_loaded(
    kind: Literal["SentenceTransformer", "CrossEncoder"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    cached_model(tmp_path, "acme", r"(.+)+(?!)")
    with pytest.raises(ModelError, match="takes too long"):
        load_encoder(kind, "acme/encoder", "encoder", "a folder")
