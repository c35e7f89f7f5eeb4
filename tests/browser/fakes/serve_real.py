"""Serve the page with the real engine: ``python -m tests.browser.fakes.serve_real PORT [MODEL [HOME]]``."""

import os
import sys
import tempfile

from explorer.web import Config, serve
from explorer.web.serving.jobs_backend import JobsBackend

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PLACEMENT_EXPLORER_HOME"] = sys.argv[3] if len(sys.argv) > 3 else folder
        backend = JobsBackend(sys.argv[2] if len(sys.argv) > 2 else None)
        serve(Config(backend), int(sys.argv[1]), open_browser=False)
