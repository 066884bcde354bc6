"""Tokenizer files from strangers: how much text their steps can make of one character."""

import base64
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, normalizers

from emend.agents.local.token_ids import load_tokenizer
from emend.evals.data.token_count import token_count
from emend.memory.embeddings.tokenizer_growth import LARGEST, LIMIT, check_tokenizer, check_tokenizers, growth
from emend.memory.errors import ModelError
from tests.paths import ROOT

COUNT = 500
TINY = ROOT / "agents" / "tiny" / "model"


def replace(old: str, new: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: old}, "content": new}


def sequence(steps: list[Any], name: str = "normalizers") -> dict[str, Any]:
    return {"type": "Sequence", name: steps}


TEMPLATE = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 2, "special_tokens": {}}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
LONG_MAP = base64.b64encode(bytes(4) + b"a" * 2000 + b"\0").decode()
BOMBS = {
    "doublings": {"normalizer": sequence([replace("e", "ee")] * 32)},
    "nested doublings": {"normalizer": sequence([sequence([replace("e", "ee")] * 4)] * 8)},
    "doublings in turn": {"normalizer": sequence([replace("e", "aa"), replace("a", "ee")] * 16)},
    "doublings in two letter cases": {"normalizer": sequence([replace("e", "EE"), {"type": "Lowercase"}] * 16)},
    "one long text": {"normalizer": replace("e", "e" * 100_000)},
    "insertions": {"normalizer": sequence([replace("(?=e)|x*", "e", "Regex")] * 32)},
    "empty pattern": {"normalizer": sequence([replace("", "e")] * 32)},
    "expressions": {"normalizer": sequence([replace("[a-z]", "ab", "Regex")] * 32)},
    "decompositions": {"normalizer": sequence([{"type": "NFKD"}, replace("ص", "ﷺ")] * 16)},
    "byte levels": {"pre_tokenizer": sequence([BYTES] * 32, "pretokenizers")},
    "templates": {"post_processor": sequence([TEMPLATE] * 32, "processors")},
    "decoders": {"decoder": sequence([replace("e", "ee")] * 32, "decoders")},
    "map of characters": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": LONG_MAP}},
    "without types": {"normalizer": {"normalizers": [{"pattern": {"String": "e"}, "content": "ee"}] * 32}},
}


def write(folder: Path, fields: dict[str, Any]) -> Path:
    shutil.copytree(TINY, folder)
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))
    return folder


@pytest.mark.parametrize("name", BOMBS)
def test_steps_that_make_much_of_a_character_are_refused(name: str, tmp_path: Path):
    folder = write(tmp_path / "model", BOMBS[name])
    for use in (load_tokenizer, token_count):
        with pytest.raises(ModelError, match=f"the {next(iter(BOMBS[name]))} in .*more than 1,000 characters of one.*"):
            use(folder)


def test_a_refused_tokenizer_is_not_built(tmp_path: Path):
    """Added tokens are normalised when they are added, which would use up the memory at once."""
    token = {"id": 999, "content": "e" * 64, "normalized": True, "special": False}
    token |= {"single_word": False, "lstrip": False, "rstrip": False}
    folder = write(tmp_path / "model", BOMBS["doublings"] | {"added_tokens": [token]})
    with pytest.raises(ModelError, match="characters of one"):
        load_tokenizer(folder)


def test_subfolders_of_an_encoder_and_files_of_other_versions_are_checked(tmp_path: Path):
    (tmp_path / "modules.json").write_text("[]")
    write(tmp_path / "0_Transformer", {})
    check_tokenizers(tmp_path)
    (tmp_path / "0_Transformer" / "tokenizer.4.0.0.json").write_text(json.dumps(BOMBS["doublings"]))
    with pytest.raises(ModelError, match=r"tokenizer\.4\.0\.0\.json"):
        check_tokenizers(tmp_path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path):
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(ModelError, match="200,000,000 bytes"):
        check_tokenizers(tmp_path)


@pytest.mark.parametrize("step", [7, "x", {"type": ["NFC"]}, {"type": "Replace", "pattern": 7, "content": "x"}])
def test_steps_that_cannot_be_read_are_refused(step: Any):
    with pytest.raises(ModelError, match="the normalizer in .* cannot be read"):
        check_tokenizer(json.dumps({"normalizer": step}).encode(), Path("tokenizer.json"))


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"[" * 100_000, b'{"model":'])
def test_other_faults_are_left_to_the_library(content: bytes):
    check_tokenizer(content, Path("tokenizer.json"))


def test_steps_of_published_tokenizers_are_accepted():
    longest = "ﷺ: صلى الله عليه وسلم"
    charsmap = base64.b64encode(bytes(4) + f"{longest}\0a".encode()).decode()
    precompiled = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    albert = [replace("``", '"'), replace("''", '"'), {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]
    chains = {
        "ALBERT": [*albert, precompiled],
        "XLM-RoBERTa": [precompiled, replace(" {2,}", " ", "Regex"), {"type": "Metaspace"}],
        "Llama 2": [{"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")],
        "CLIP": [{"type": "NFC"}, replace(r"\s+", " ", "Regex"), {"type": "Lowercase"}, BYTES],
        "quotes and dashes": [replace(f"[{char}]", "-", "Regex") for char in "“”„‟‘’‚‛–—―"],
        "chemistry": [replace(char, f"[{char}H]") for char in "0123456789"],
    }
    assert {name: growth(steps) > LIMIT for name, steps in chains.items()} == dict.fromkeys(chains, False)
    assert growth(chains["quotes and dashes"]) == 1 and growth(chains["chemistry"]) == 4


def test_no_text_becomes_longer_than_the_bound():
    rng = random.Random(7)
    alphabet = "abİﷺ é中"
    grown = 0
    for _ in range(COUNT):
        steps = [random_step(rng, alphabet) for _ in range(rng.randrange(1, 7))]
        state = {"normalizer": sequence(steps), "model": {"type": "WordLevel", "vocab": {"x": 0}, "unk_token": "x"}}
        normalizer = Tokenizer.from_str(json.dumps(state)).normalizer
        assert isinstance(normalizer, normalizers.Normalizer)
        text = "".join(rng.choices(alphabet, k=20))
        try:
            length = len(normalizer.normalize_str(text))
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # of the library, on some insertions
                raise
            continue
        assert length <= growth(steps) * (len(text) + 1), (steps, text)  # insertions at both ends
        grown += length > len(text)
    assert grown > 100


def random_step(rng: random.Random, alphabet: str) -> dict[str, Any]:
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": False}
    plain = [{"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "ByteLevel")]
    if rng.random() < 0.3:
        return rng.choice([*plain, bert | {"lowercase": True}])
    new = "".join(rng.choices(alphabet, k=rng.randrange(3)))
    if rng.random() < 0.3:
        return replace(rng.choice(["a+", "a*", "[ab]", "a|", "(?<=b)", r"\b", "()", "^", "中{0,2}"]), new, "Regex")
    return replace("".join(rng.choices(alphabet, k=rng.randrange(3))), new)
