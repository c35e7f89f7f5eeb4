"""The widget in Jupyter Notebook 7."""

from __future__ import annotations

import pytest

from tests.notebook.pages.jupyter import Notebook
from tests.notebook.pages.test_jupyterlab import BLUE, CELLS, ORANGE

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("watched")]


def test_a_plan_is_shown_changed_and_selected(chromium, notebook7):
    chromium.set_window_size(1200, 1100)
    notebook = Notebook(chromium, notebook7, CELLS)
    notebook.run_all()
    notebook.solved()
    notebook.until(lambda: {BLUE, ORANGE} <= notebook.painted(".chart canvas"))
    notebook.find("button[aria-label='One GPU more']").click()
    notebook.until(lambda: notebook.python("print(w.result and len(w.result.problem.cluster))") == "5")
    notebook.python("w.selection = 'GPU 1'")
    held = "return [...document.querySelectorAll('.placement-explorer .mem.held')].map((each) => each.dataset.device)"
    notebook.until(lambda: notebook.js(held) == ["1"])
    notebook.find(".mem[data-device='3']").click()
    notebook.until(lambda: notebook.python("print(w.selection.name)") == "GPU 3")
