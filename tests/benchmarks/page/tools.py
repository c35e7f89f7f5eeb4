"""Other tools that draw a model's graph, served on loopback ports, and how each is opened, searched and expanded.

They are no dependencies. OTHER_TOOLS names the Python of an environment with `netron` and `ai-edge-model-explorer`;
OTHER_TOOLS_PATH a folder of packages with torch, which the latter reads .pt2 files with, where that one has none.
"""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from tests.browser.conftest import ROOT, serve
from tests.browser.fakes.ports import free_port

PYTHON = os.environ.get("OTHER_TOOLS", "")
NETRON = (
    "import netron, sys; netron.start(sys.argv[1], address=('127.0.0.1', int(sys.argv[2])), browse=False); "
    "netron.wait()"
)
MODEL_EXPLORER = (
    "import model_explorer as m, sys; c = m.config(); c.add_model_from_path(sys.argv[1]); "
    "m.visualize_from_config(c, host='127.0.0.1', port=int(sys.argv[2]), no_open_in_browser=True)"
)


@dataclass(frozen=True)
class Tool:
    """code: what serves a file; "" for this page. path: of the file's page ({file}). ready: what is true in the page
    when the graph can be used. open_search: a script. field, answer: selectors, of where one types and what shows the
    answer. at: a place (x, y) from which the graph is dragged. expand: a script that calls its last argument with the
    milliseconds to all operators; "" where they are always drawn."""

    name: str
    code: str
    path: str
    ready: str
    open_search: str
    field: str
    answer: str
    at: tuple[int, int]
    expand: str = ""

    def version(self) -> str:
        """Of the package; "" where it is not there. Raises nothing."""
        package = {"Netron": "netron", "Model Explorer": "ai-edge-model-explorer"}[self.name]
        question = f"import importlib.metadata as m; print(m.version({package!r}))"
        ran = subprocess.run([PYTHON, "-c", question], capture_output=True, text=True)
        return ran.stdout.strip()


EXPLORER = Tool(
    "Placement Explorer",
    "",
    "?model={file}&devices=4&micro_batches=8&effort=quick&v=2",
    "window.explorer && explorer.busy && !explorer.busy() && explorer.gantt.drawn() && explorer.gantt.drawn().pieces"
    " && ['optimal', 'feasible'].includes(document.body.dataset.state)",
    "document.getElementById('find').click()",
    ".find input",
    ".find li",
    (6, 6),
    """
    const done = arguments[arguments.length - 1];
    const boxes = () => document.getElementById('graph')._cyreg.cy.nodes().length;
    const began = performance.now();
    let last = began, count = boxes();
    document.getElementById('deeper').click();
    (function look() {
      const now = performance.now();
      if (boxes() !== count) { count = boxes(); last = now; document.getElementById('deeper').click(); }
      if (now - last > 2500) done([last - began, count]); else setTimeout(look, 4);
    })();
    """,
)
OTHERS = (
    Tool(
        "Netron",
        NETRON,
        "",
        "document.body.className === 'default'",
        "document.dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'f', code: 'KeyF', keyCode: 70, ctrlKey: true, bubbles: true}))",
        "#sidebar input",
        "#sidebar li",
        (300, 400),
    ),
    Tool(
        "Model Explorer",
        MODEL_EXPLORER,
        "?data=%7B%22models%22%3A%20%5B%7B%22url%22%3A%20%22{file}%22%7D%5D%7D",
        "document.querySelector('webgl-renderer canvas') && document.body.innerText.includes('op node count')",
        "",
        "search-bar input",
        "search-bar .title-label",
        (250, 600),
        """
        const done = arguments[arguments.length - 1];
        const began = performance.now();
        window.__worked = 0;
        document.querySelector('.expand-all').click();
        (function look() {
          const now = performance.now();
          if (window.__worked && now - window.__worked > 2500) done([window.__worked - began, 0]);
          else setTimeout(look, 20);
        })();
        """,
    ),
)


@contextmanager
def served(tool: Tool, file: Path) -> Iterator[str]:
    """The address of the tool with the file, once it answers."""
    if not tool.code:
        for address in serve("tests.browser.fakes.serve_real", str(file)):
            yield address + tool.path.format(file=file)
        return
    port = free_port()
    libraries = os.environ.get("OTHER_TOOLS_PATH", "")
    env = dict(os.environ, PYTHONPATH=f"{libraries}:{ROOT}")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([PYTHON, "-c", tool.code, str(file), str(port)], env=env, **quiet) as server:
        try:
            address = f"http://127.0.0.1:{port}/"
            for _ in range(600):
                try:
                    urllib.request.urlopen(address, timeout=5).close()
                    break
                except (URLError, ConnectionError, TimeoutError):
                    time.sleep(0.1)
            yield address + tool.path.format(file=file)
        finally:
            server.kill()
