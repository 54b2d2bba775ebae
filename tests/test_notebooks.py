"""The notebooks run, and what they hold is what comes out, but for digits and verdicts."""

from pathlib import Path

import pytest

from tests.test_docs import digits_apart

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def said(notebook):
    """What each cell shows as text; pictures are there or not. Prints of a cell arrive as one message or as several."""
    cells = [[each for each in cell.outputs if each.get("name") != "stderr"] for cell in code_of(notebook)]
    texts = ["".join(each.get("text") or each.data["text/plain"] for each in shown) for shown in cells]
    return ["".join(digits_apart(text).split()) for text in texts]


def code_of(notebook):
    """The cells that run."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # of Jupyter's own sockets
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_holds_what_comes_out(path, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    stored, run = (nbformat.read(path, as_version=4) for _ in range(2))
    nbclient.NotebookClient(run, timeout=120, resources={"metadata": {"path": tmp_path}}).execute()
    assert said(run) == said(stored)
    assert path.stat().st_size < 40_000
