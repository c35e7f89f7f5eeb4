"""The widget's module: one file, small, that compiles no text and fetches nothing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from explorer.notebook.built import FOLDER, built

ROOT = Path(__file__).parents[2]
MOST_BYTES = 600_000
"""Of the module: it is sent to the browser once for each widget."""
NAMES = ("http://www.w3.org/2000/svg",)
"""Addresses that are names and never fetched."""

pytestmark = pytest.mark.skipif(
    not (FOLDER / "widget.js").exists(), reason="the widget is not built: `make widget` (needs Node)"
)


def without_comments(text: str) -> str:
    """Licences of what is bundled stand in comments, and name addresses."""
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def test_the_module_is_small():
    assert len(built("widget.js").encode()) < MOST_BYTES
    assert len(built("widget.css").encode()) < 60_000


def test_the_module_compiles_no_text():
    code = without_comments(built("widget.js"))
    assert re.findall(r"\beval\s*\(|\bnew Function\b|[^\w.]Function\s*\(|\bimportScripts\b|document\.write", code) == []
    assert re.findall(r"setTimeout\(\s*[\"'`]", code) == []


def test_the_module_fetches_nothing():
    code = without_comments(built("widget.js"))
    assert [url for url in re.findall(r"(?:https?:)?//[\w.-]+\.\w{2,}[^\s\"'`)]*", code) if url not in NAMES] == []
    assert re.findall(r"\bfetch\(|XMLHttpRequest|WebSocket|sendBeacon|\bimport\(|EventSource", code) == []
    assert re.findall(r"url\((?!\"?data:)|@import", built("widget.css")) == []


def test_the_module_is_one_and_leaves_nothing_on_the_window():
    code = built("widget.js")
    assert "window.explorer" not in code
    assert re.search(r"export\s*\{\s*\w+ as default\s*\}", code)
    assert not re.search(r"^import\b|\bfrom\s*[\"']", without_comments(code), flags=re.MULTILINE)


def test_rules_of_the_widget_hold_in_it_only():
    css, before = built("widget.css"), ""
    while css != before:  # what is in parentheses is no selector of its own
        css, before = re.sub(r"\([^()]*\)", "", css), css
    selectors = [s for rule in re.findall(r"(?:^|[}{;])([^{}@;]+)\{", css) for s in rule.split(",") if s.strip()]
    steps = re.compile(r"\s*(from|to|[\d.]+%)\s*")
    assert len(selectors) > 100
    assert [s for s in selectors if ".placement-explorer" not in s and not steps.fullmatch(s)] == []


def test_the_licence_of_what_is_bundled_goes_along():
    assert "The Cytoscape Consortium" in built("widget.js")[:3000]


def test_versions_are_locked_and_are_the_ones_that_were_built():
    wanted = json.loads((ROOT / "package.json").read_text())["devDependencies"]
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert f"cytoscape {wanted['cytoscape']}" in built("widget.js")[:200]


def test_nothing_that_is_built_or_fetched_is_in_the_repository():
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip("not a git checkout")
    names = listing.stdout.splitlines()
    assert [
        name for name in names if name.startswith(("node_modules/", "explorer/notebook/built/", "explorer/web/built/"))
    ] == []


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_what_is_built_is_of_the_sources_that_are_here(tmp_path):
    subprocess.run(["node", "assets/widget/build.mjs", str(tmp_path)], cwd=ROOT, check=True, timeout=240)
    for name in ("widget.js", "widget.css"):
        assert (tmp_path / name).read_text() == built(name), f"{name} is stale: make widget"
