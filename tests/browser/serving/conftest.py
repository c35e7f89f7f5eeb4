"""Servers for others, each with hand-made plans."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import serve

TOKEN = "dBz5-9hT_x2LqVw0KfRm7uYc"
ORIGIN = "https://lab.example"


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """The address of a server that wants TOKEN and that others reach at ORIGIN."""
    yield from fake({"token": TOKEN, "origins": [ORIGIN]})


def fake(how: dict[str, Any]) -> Iterator[str]:
    yield from serve("tests.browser.fakes.serve_fake", json.dumps(how))
