"""DocTER's documents: topics by the paper's definitions, and lengths by a tokenizer of one's own or by the paper's."""

import json
import struct
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from emend.evals.data import stats as stats_module
from emend.evals.data.docter_documents import topic_of
from emend.evals.data.stats import stats
from emend.evals.data.token_count import token_count
from emend.memory.errors import BadSettings
from tests.paths import DATA, SHARED

TABLES = tomllib.loads(Path(stats_module.__file__).with_name("stats.toml").read_text("utf-8"))
REAL = SHARED / "data" / "docter"

# Section 4.3 of the paper defines its six classes with these facts.
PAPER_EXAMPLES = {
    "{}, in": "Location",
    "The headquarters of {} is located in": "Location",
    "{}'s domain of activity is": "Profession",
    "{}, who works as": "Profession",
    "The mother tongue of {} is": "Language",
    "In {}, an official language is": "Language",
    "{} belongs to the organization of": "Affiliation",
    "{} is a product of": "Affiliation",
    "{} has a citizenship from": "Nationality",
    "{} was originally from": "Nationality",
    "{} is follower of": "Others",
    "{}, which was named for": "Others",
}


@pytest.mark.parametrize(("cloze", "topic"), PAPER_EXAMPLES.items())
def test_the_papers_examples_have_their_classes(cloze, topic):
    assert topic_of(cloze, TABLES["docter_topics"]["topics"]) == topic


def test_a_cloze_without_a_pattern_has_no_topic_and_is_counted_apart(tmp_path):
    assert topic_of("{} weighs", TABLES["docter_topics"]["topics"]) == "no topic"
    write_rows(tmp_path, "en_doc.json", [{"id": n, "src": f"Text {n}."} for n in range(3)])
    facts = [(0, "{} weighs"), (1, "{}, who works as"), (7, "{} speaks")]
    write_rows(tmp_path, "gold_facts.json", [gold(number, cloze) for number, cloze in facts])
    *_, topics = stats("docter", tmp_path)
    counts = {row: topics.cell(row, "documents").here for row in topics.rows}
    assert counts["Profession"] == counts["no topic"] == 1 and counts["Language"] == 0  # 7 is no document's
    assert topics.cell("Profession", "percent").here == 50
    assert topics.notes[0].startswith("1 documents have no fact")


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")
def test_every_cloze_of_the_published_facts_has_a_topic():
    rows = json.loads((REAL / "gold_facts.json").read_text("utf-8"))["data"]
    clozes = {row["prompt_template"] for row in rows}
    assert len(clozes) > 200
    patterns = TABLES["docter_topics"]["topics"]
    assert not [cloze for cloze in clozes if topic_of(cloze, patterns) == "no topic"]


def test_without_a_tokenizer_words_are_counted_and_how_to_get_tokens_is_said():
    _, lengths, _ = stats("docter", DATA / "docter")
    documents = lengths.cell("English documents", "words").here
    assert documents and documents > 5
    assert lengths.cell("English documents", "tokens").here is None
    assert lengths.cell("Chinese documents", "words").here is None  # Chinese has no spaces between words
    assert any("emend data pull docter" in note for note in lengths.notes)


def test_lengths_by_another_tokenizer_are_counted_and_not_compared(tmp_path):
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    _, lengths, _ = stats("docter", DATA / "docter", tmp_path)
    documents = lengths.cell("English documents", "tokens")
    assert documents.here == pytest.approx(lengths.cell("English documents", "words").here)
    assert documents.paper is None and documents.agrees is None


def test_a_sentencepiece_file_cuts_a_text_by_its_scores_with_a_begin_token(tmp_path):
    file = sentencepiece_file(tmp_path / "toy.model")
    # "▁ab" is made of "▁a" and "b" (score -2), before "bc" (score -3) could be; "x" is none of the pieces
    assert token_count(file).counts(["ab", "abc", "abc abc", "abx"]) == [2, 3, 5, 3]
    # With user-defined pieces, these are cut out first.
    own = sentencepiece_file(tmp_path / "own.model", own=("bc",))
    assert token_count(own).counts(["abc"]) == [3]


WORDS: dict[str, Any] = {"type": "WordLevel", "vocab": {}, "unk_token": "[UNK]"}
BROKEN: dict[str, Any] = {
    "no word for the unknown": {"model": WORDS},
    "a template without its token": {
        "model": WORDS | {"vocab": {"[UNK]": 0}},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "X", "type_id": 0}}],
            "pair": [],
            "special_tokens": {},
        },
    },
    "rules that panic": {"model": WORDS, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_tokenizer_that_fails_at_a_text_is_named(case, tmp_path):
    rest = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    fields = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}} | rest | BROKEN[case]
    (path := tmp_path / "tokenizer.json").write_text(json.dumps(fields))
    with pytest.raises(BadSettings, match=r"tokenizer\.json' is not a usable tokenizer"):
        stats("docter", DATA / "docter", path)


def test_a_tokenizer_of_any_size_is_refused_before_it_is_read(tmp_path):
    with (path := tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(20 << 30)
    with pytest.raises(BadSettings, match="200,000,000 bytes"):
        token_count(path)
    long = sentencepiece_file(tmp_path / "t.model", more=[("a" * 2_000_000, -2.0, 1)])
    with pytest.raises(BadSettings, match="a piece of more than 256 characters"):
        token_count(long)


def test_bytes_of_a_text_outside_the_vocabulary_are_a_token_each(tmp_path):
    pieces = [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
    file = sentencepiece_file(tmp_path / "bytes.model", more=pieces)
    assert token_count(file).counts(["a中"]) == [1 + 1 + 3]


@pytest.mark.parametrize(
    ("content", "name"),
    [(b"", "a.model"), (b"\xff" * 40, "b.model"), (b"{}", "c.json"), (b"not a model at all", "d.model")],
)
def test_a_file_that_is_no_tokenizer_is_refused_with_what_is_read(tmp_path, content, name):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadSettings, match="SentencePiece file"):
        token_count(tmp_path / name)


def test_other_types_of_sentencepiece_files_and_other_benchmarks_are_refused(tmp_path):
    unigram = sentencepiece_file(tmp_path / "unigram.model", model_type=1)
    for path in (unigram, tmp_path / "absent.model"):
        with pytest.raises(BadSettings, match="SentencePiece file"):
            stats("docter", DATA / "docter", path)
    with pytest.raises(BadSettings, match="--tokenizer"):
        stats("elken", DATA / "elken", unigram)


def gold(number: int, cloze: str) -> dict[str, object]:
    targets = {"original_target": "a", "altered_target": "b"}
    return {"id": number, "subject": "S", "prompt_template": cloze, **targets}


def write_rows(folder: Path, name: str, rows: Sequence[dict[str, object]]) -> None:
    (folder / name).write_text(json.dumps({"data": rows}), "utf-8")


def sentencepiece_file(
    path: Path,
    model_type: int = 2,
    own: Sequence[str] = (),
    more: Sequence[tuple[str, float, int]] = (),
) -> Path:
    """Write a SentencePiece file: pieces with text (1), score (2) and type (3), then the settings of training (2)
    with the type of model (3), and of normalization (3) with the space before a text (3).
    """
    normal = {"\u2581": -9, "a": -9, "b": -9, "c": -9, "\u2581a": -1, "\u2581ab": -2, "bc": -3}
    pieces = [("<unk>", 0.0, 2), *((text, float(score), 1) for text, score in normal.items() if text not in own)]
    pieces += [(text, 0.0, 4) for text in own]
    content = b"".join(field(1, piece(*row)) for row in (*pieces, *more))
    path.write_bytes(content + field(2, bytes([3 << 3, model_type])) + field(3, bytes([3 << 3, 1])))
    return path


def piece(text: str, score: float, number: int) -> bytes:
    return field(1, text.encode()) + bytes([2 << 3 | 5]) + struct.pack("<f", score) + bytes([3 << 3, number])


def field(number: int, value: bytes) -> bytes:
    size, digits = len(value), []
    while size >= 128:
        digits.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | 2, *digits, size]) + value
