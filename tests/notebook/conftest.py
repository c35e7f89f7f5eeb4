"""A small model, and a widget of it that is answered by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("anywidget", reason="the extra [widget] is not installed")

from solvers.formats.workload import Workload
from tests.explorer.view.small import chain
from tests.notebook.fakes.worker import ListedWidget


@pytest.fixture(scope="session")
def model() -> Workload:
    """Eight blocks in a row, forward and backward: 192 operators."""
    return Workload(chain(), "chain", parameters=1_000_000)


@pytest.fixture
def widget(model: Workload) -> Iterator[ListedWidget]:
    """Asked for four devices, and not answered yet."""
    made = ListedWidget(model, devices=4, memory="16GiB", micro_batches=8)
    yield made
    made.close()
