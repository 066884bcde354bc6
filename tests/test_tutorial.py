"""The notebook of the documentation runs from its first cell to its last, as a newcomer runs it."""

import pytest

from tests.paths import ROOT


@pytest.mark.slow
def test_the_tutorial_notebook_runs(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("EMEND_CACHE", str(tmp_path / "cache"))
    notebook = nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4)
    stored = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert stored and not [
        output for output in stored if output.output_type == "error" or output.get("name") == "stderr"
    ]
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    tables = [output["data"]["text/plain"] for output in code[0].outputs if "data" in output]
    assert len(tables) == 1 and all(name in tables[0] for name in ("unedited", "rag", "ft", "efficacy"))
    assert "\\begin{tabular}" in code[-1].outputs[0]["text"]
