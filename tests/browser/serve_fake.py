"""Serve the page with hand-made plans: ``python -m tests.browser.serve_fake PORT``."""

import sys

from explorer.web import serve
from tests.browser.fake_backend import FakeBackend

if __name__ == "__main__":
    serve(backend=FakeBackend(), port=int(sys.argv[1]), open_browser=False)
