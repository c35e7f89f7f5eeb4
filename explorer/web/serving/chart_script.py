"""The library that draws the schedule: a build of plotly.js with bars and lines alone, or the whole of it.

The whole is four times the size, and parsing it took half of the time to a page's first picture. The small build has to
be fetched (`make charts`, or a wheel's build); a page without it draws the same.
"""

from __future__ import annotations

import re
from pathlib import Path

import plotly
from dash.fingerprint import build_fingerprint
from fastapi import FastAPI
from starlette.responses import FileResponse

BUILT = Path(__file__).parents[1] / "built" / "plotly-basic.min.js"
PATH = "/charts/"
WHOLE = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
_VERSION = re.compile(rb"plotly\.js(?: \(basic - minified\))? v(\d+\.\d+\.\d+)")


def chart_script(server: FastAPI, small: Path = BUILT) -> str:
    """Where the page finds the library; ``small`` is served if it is there and of the version that is installed."""
    version = _version(small)
    if not version or version != _version(WHOLE):
        name = build_fingerprint("package_data/plotly.min.js", plotly.__version__, int(WHOLE.stat().st_mtime))
        return f"/_dash-component-suites/plotly/{name}"
    address = f"{PATH}plotly-basic-{version}.min.js"

    async def fetch() -> FileResponse:
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return FileResponse(small, media_type="text/javascript", headers=headers)

    server.add_api_route(address, fetch, methods=["GET"], response_model=None)
    return address


def _version(file: Path) -> str:
    """Of a build of plotly.js; "" where there is none."""
    try:
        with file.open("rb") as script:
            found = _VERSION.search(script.read(400))
    except OSError:
        return ""
    return found[1].decode() if found else ""
