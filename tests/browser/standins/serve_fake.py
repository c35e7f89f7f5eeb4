"""Serve the page with hand-made plans and pretended runs: ``python -m tests.browser.standins.serve_fake PORT [TOKEN
[ORIGIN ...]]``. With a token the server is one for others."""

import os
import sys
import tempfile

from explorer.web import serve
from explorer.web.serving.secret import Secret
from tests.browser.standins.fake_backend import FakeBackend

if __name__ == "__main__":
    port, token, *origins = *sys.argv[1:], *([""] if len(sys.argv) < 3 else [])
    secret = Secret(token) if token else None
    with tempfile.TemporaryDirectory() as kept:
        os.environ["PLACEMENT_EXPLORER_HOME"] = kept
        serve(backend=FakeBackend(), port=int(port), open_browser=False, secret=secret, origins=tuple(origins))
