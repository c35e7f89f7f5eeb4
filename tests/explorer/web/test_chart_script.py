"""Which build of plotly.js a page gets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

pytest.importorskip("dash", reason="the extra [app] is not installed")

from explorer.web.serving.chart_script import WHOLE, chart_script

HEAD = "/**\n* plotly.js (basic - minified) v{}\n*/\nPlotly = {{}}"


def installed() -> str:
    return WHOLE.read_text(encoding="utf-8")[:100].split("plotly.js v")[1].split()[0]


def test_the_small_build_is_served_if_it_is_of_the_installed_version(tmp_path: Path) -> None:
    small = tmp_path / "small.js"
    small.write_text(HEAD.format(installed()))
    server = FastAPI()
    address = chart_script(server, small)
    route = next(route for route in server.routes if isinstance(route, APIRoute) and route.path == address)
    answer = asyncio.run(route.endpoint())
    assert Path(answer.path) == small
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize("head", [None, HEAD.format("0.0.1"), "no script"])
def test_without_one_that_fits_the_whole_library_is(tmp_path: Path, head: str | None) -> None:
    small = tmp_path / "small.js"
    if head is not None:
        small.write_text(head)
    assert chart_script(FastAPI(), small).startswith("/_dash-component-suites/plotly/package_data/plotly.")
