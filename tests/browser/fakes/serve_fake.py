"""Serve the page with hand-made plans and pretended runs: ``python -m tests.browser.fakes.serve_fake PORT [HOW]``.

HOW is a JSON object of fields of `explorer.web.Config`, "token" for its secret: then it is a server for others.
"""

import json
import os
import sys
import tempfile

from explorer.web import Config, serve
from explorer.web.serving.quotas import Quotas
from explorer.web.serving.secret import Secret
from tests.browser.fakes.fake_backend import FakeBackend

if __name__ == "__main__":
    how = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    if "quotas" in how:
        how["quotas"] = Quotas(**how["quotas"])
    secret = Secret(how.pop("token")) if "token" in how else None
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PLACEMENT_EXPLORER_HOME"] = folder
        serve(Config(FakeBackend(), secret=secret, **how), int(sys.argv[1]), open_browser=False)
