"""A file of triplets holds its settings; other settings are refused by name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emend.evals.benchmarks.triples import read_extracted
from emend.evals.components.extraction import document_extractor, settings_of
from emend.evals.components.extraction_file import SourceDocument, extract_to
from emend.graphs.extraction.graph import ExtractContext
from emend.graphs.extraction.llm import LlmExtractor
from emend.graphs.extraction.rules import RulesExtractor
from emend.memory.edit import Edit
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.errors import RunRefused
from tests.fakes import ScriptedChatModel

DOCUMENTS = [SourceDocument(edit=Edit(form="document", text="Ana Ruiz lives in Madrid."))]
USUAL = ExtractContext(RulesExtractor(), LexicalEmbedding())
CHANGES: dict[str, Any] = {
    "extractor": LlmExtractor(ScriptedChatModel(reply=lambda prompt: "")),
    "embedding": LexicalEmbedding(64),
    "coreference": False,
    "validation": "off",
    "deduplication": False,
    "attempts": 2,
    "normalisation": False,
}


def extracted(out: Path, context: ExtractContext) -> None:
    extract_to(out, DOCUMENTS, document_extractor(context), context.fingerprint, settings=settings_of(context))


@pytest.mark.parametrize("name", ExtractContext.__dataclass_fields__)
def test_every_setting_that_changes_the_fingerprint_is_named(tmp_path, name):
    extracted(tmp_path / "t.jsonl", USUAL)
    other = replace(USUAL, **{name: CHANGES[name]})
    assert other.fingerprint != USUAL.fingerprint
    with pytest.raises(RunRefused, match=f"; {name}: was .*, now .*another --out") as refused:
        extracted(tmp_path / "t.jsonl", other)
    assert str(refused.value).count(": was ") == 2


def test_settings_are_read_back_as_written(tmp_path):
    extracted(tmp_path / "t.jsonl", USUAL)
    (row,) = read_extracted(tmp_path / "t.jsonl")
    assert row.settings == settings_of(USUAL)
    assert [type(row.settings[name]) for name in ("coreference", "attempts", "validation")] == [bool, int, str]


def test_a_file_without_settings_is_resumed_and_a_refusal_lists_the_current_ones(tmp_path):
    out = tmp_path / "t.jsonl"
    read = document_extractor(USUAL)
    extract_to(out, DOCUMENTS, lambda edit: read(edit).model_copy(update={"settings": {}}), USUAL.fingerprint)
    out.write_text(out.read_text("utf-8").replace('"settings":{},', ""), "utf-8")
    extracted(out, USUAL)
    with pytest.raises(RunRefused, match="deduplication: was null, now false"):
        extracted(out, replace(USUAL, deduplication=False))
