"""Serve the page with the whole of plotly.js, as where there is no small build: ``... serve_whole PORT [MODEL]``."""

import os
import sys
import tempfile
from functools import partial
from pathlib import Path

from explorer.web import app
from explorer.web.serving.chart_script import chart_script

if __name__ == "__main__":
    app.chart_script = partial(chart_script, small=Path("there-is-none"))
    with tempfile.TemporaryDirectory() as kept:
        os.environ["PLACEMENT_EXPLORER_HOME"] = kept
        app.serve(sys.argv[2] if len(sys.argv) > 2 else None, port=int(sys.argv[1]), open_browser=False)
