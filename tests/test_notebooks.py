"""The notebooks run, and what they hold is what comes out, but for digits and verdicts."""

from pathlib import Path

import pytest

from tests.test_docs import digits_apart

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def said(notebook):
    """The texts that the cells of a notebook show; pictures are there or not."""
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    texts = [each.get("text") or each.data["text/plain"] for each in shown if each.get("name") != "stderr"]
    return ["".join(digits_apart(text).split()) for text in texts]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # of Jupyter's own sockets
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_holds_what_comes_out(path, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    stored, run = (nbformat.read(path, as_version=4) for _ in range(2))
    nbclient.NotebookClient(run, timeout=120, resources={"metadata": {"path": tmp_path}}).execute()
    assert said(run) == said(stored)
    assert path.stat().st_size < 40_000
