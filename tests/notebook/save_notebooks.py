"""The notebooks of docs/examples, run as they are read.

``python -m tests.notebook.save_notebooks [NAME...]`` runs them, by default all, and keeps their outputs, with pictures
for where no kernel is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "docs" / "examples"
LIMIT_S = 240
"""Of one cell."""


def executed(path: Path) -> Any:
    """The notebook with the outputs of its cells. Raises CellExecutionError where one fails."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=LIMIT_S, kernel_name="python3", resources={"metadata": {"path": str(FOLDER.parents[1])}},
        store_widget_state=False,
    )  # fmt: skip
    client.execute()
    return notebook


def main() -> None:
    """Run each and keep what it says, without the times at which it was run."""
    import nbformat

    for path in [FOLDER / f"{name}.ipynb" for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        notebook = executed(path)
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
        notebook.metadata.pop("widgets", None)
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
