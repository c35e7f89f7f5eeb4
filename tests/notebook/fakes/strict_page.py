"""A page with a strict policy that holds a widget's module: no compiled text, no script and no request from elsewhere.

A stand-in for the webviews of editors. The kernel is a model in the page that holds the traits and hears what is sent.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
INDEX = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>strict</title><link rel="stylesheet" href="/widget.css">
<link rel="icon" href="data:,"></head>
<body data-jp-theme-light="true"><div id="cell"></div><script type="module" src="/host.js"></script></body></html>"""
HOST = """
import widget from "/widget.js";
const state = await (await fetch("/state.json")).json();
const handlers = {};
window.sent = [];
window.model = {
  get: (name) => state[name],
  on: (name, act) => { (handlers[name] = handlers[name] || []).push(act); },
  off: (name, act) => { handlers[name] = (handlers[name] || []).filter((each) => each !== act); },
  send: (message) => { window.sent.push(message); },
};
window.put = function (changes) {
  Object.assign(state, changes);
  for (const name of Object.keys(changes)) for (const act of handlers["change:" + name] || []) act();
};
window.deliver = (message) => { for (const act of handlers["msg:custom"] || []) act(message); };
window.listeners = () => Object.values(handlers).reduce((sum, acts) => sum + acts.length, 0);
window.dispose = widget.render({ model: window.model, el: document.getElementById("cell") });
window.ready = true;
"""


@contextmanager
def strict_page(state: Mapping[str, Any], script: str, css: str) -> Iterator[str]:
    """The address of a page that shows a widget in this state."""
    files = {
        "/": ("text/html", INDEX),
        "/host.js": ("text/javascript", HOST),
        "/widget.js": ("text/javascript", script),
        "/widget.css": ("text/css", css),
        "/state.json": ("application/json", json.dumps(state, allow_nan=False)),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, text = files.get(self.path, ("text/plain", ""))
            self.send_response(200 if self.path in files else 404)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Security-Policy", POLICY)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Nothing is said of what went well."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
