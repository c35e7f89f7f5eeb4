"""Serve the page with hand-made plans and pretended runs: ``python -m tests.browser.standins.serve_fake PORT``."""

import os
import sys
import tempfile

from explorer.web import serve
from tests.browser.standins.fake_backend import FakeBackend

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as kept:
        os.environ["PLACEMENT_EXPLORER_HOME"] = kept
        serve(backend=FakeBackend(), port=int(sys.argv[1]), open_browser=False)
