"""`emend report --references`: RS of a finished run against reference texts."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from emend.evals.case import Record
from emend.evals.cli.main import app
from emend.evals.log.lines import RECORDS
from emend.evals.results.aggregate.rows import consistency_rows
from emend.memory.errors import BadData, MissingData


@pytest.fixture
def references(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    samples = [{"text": "The cello sings."}, {"text": "A cello and a bow."}]
    groups = [{"relation_id": "P1303", "target_id": "Q8371", "samples": samples}]
    (folder / "attribute_snippets.json").write_text(json.dumps(groups))
    (folder / "tfidf_vocab.json").write_text(json.dumps({"cello": 0, "bow": 1}))
    np.save(folder / "idf.npy", np.array([1.0, 2.0]))
    return folder


def run_of(folder, kind="generation"):
    folder.mkdir()
    items = [("rag", "a", "cello"), ("rag", "b", "a bow"), ("rag", "c", None), ("ft", "a", "rain")]
    lines = [
        Record(
            unit=f"{editor}{case}", of=1, case=case, probe="p", kind=kind, editor=editor, model="m", setting="triplet",
            mode="single", prompt="Rurik plays the", gold=("cello",), answer=answer, tags={"reference": "P1303/Q8371"},
        ).model_dump_json()
        for editor, case, answer in items
    ]  # fmt: skip
    (folder / RECORDS).write_text("".join(f"{line}\n" for line in lines))
    return folder


def test_rows_are_in_percent_with_n_and_unscored_texts(references, tmp_path):
    rag, ft = consistency_rows(run_of(tmp_path / "run"), references)
    item, other = 2 / 8**0.5, 2 / 8**0.5  # references: cello twice (weight 1), bow once (weight 2)
    assert rag.mean == pytest.approx(100 * (item + other) / 2) and (rag.n, rag.unscored) == (2, 1)
    assert (ft.mean, ft.n, ft.unscored) == (None, 0, 1)


def test_the_command_prints_a_table_or_json(references, tmp_path):
    run = run_of(tmp_path / "run")
    shown = CliRunner().invoke(app, ["report", str(run), "--references", str(references), "--json"])
    assert shown.exit_code == 0, shown.output
    assert [row["metric"] for row in json.loads(shown.stdout)["rows"]] == ["RS", "RS"]


@pytest.mark.parametrize(("kind", "error"), [("efficacy", BadData), ("generation", MissingData)])
def test_a_run_without_texts_and_a_folder_without_references_are_errors(references, tmp_path, kind, error):
    run = run_of(tmp_path / "run", kind)
    if error is MissingData:
        (references / "idf.npy").unlink()
    with pytest.raises(error, match=r"--benchmark-option generation=100|lacks idf\.npy"):
        consistency_rows(run, references)
