"""What is made of an input that was read: every text in it, every file that it is exported as, and what a page is sent.

Whatever was put into names, it is shown as text: printable, no markup, no code, no formula.
"""

from __future__ import annotations

import ast
import csv
import dataclasses
import io
import json
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from explorer.exports.formats import FORMATS, export_bytes
from explorer.view import events
from explorer.web.serving.live import encode
from solvers.errors import UnsupportedProblem, printable_lines
from solvers.formats.plan_json import PlanFile
from solvers.formats.workload import Workload

RAN = "placement-explorer-was-here"
"""A file that text which is run by a shell makes."""
LINE_ENDS = ("\r\n", "\n")
MARKUP = frozenset((
    "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "b", "i", "a", "span", "small",
    "div", "ul", "li", "figure", "table", "thead", "tbody", "tr", "th", "td", "section", "header", "footer", "code",
    "img", "svg", "g", "rect", "text", "tspan", "path", "polyline", "polygon", "line", "circle", "defs", "pattern",
))  # fmt: skip
"""Elements that reports and drawings are made of."""


def check_texts(value: object) -> None:
    """Raises AssertionError if a text anywhere in a value is not printable."""
    for words in texts(value):
        assert printable_lines(words) == words, f"not printable: {words[:80]!a}"


def texts(value: object) -> Iterator[str]:
    """All texts in a value: keys, items and fields, however deep."""
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            todo += [*value.keys(), *value.values()]
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            todo += [getattr(value, field.name) for field in dataclasses.fields(value) if field.name != "_derived"]
        elif isinstance(value, (tuple, list, set, frozenset)):
            todo += value


def check_exports(file: PlanFile, formats: Iterable[str] = FORMATS) -> None:
    """Raises AssertionError unless each file is well formed text of its kind; what a format cannot say is refused."""
    for name in formats:
        try:
            content = export_bytes(file, name)
        except UnsupportedProblem:  # what it says is printable, as all messages are
            continue
        ending = FORMATS[name].ending
        if ending == ".png":
            assert content.startswith(b"\x89PNG"), name
            continue
        words = content.decode("utf-8")
        assert printable_lines(words, LINE_ENDS) == words, f"{name} is not printable"
        _CHECKS[ending](words)


def check_page(workload: Workload, file: PlanFile | None = None) -> None:
    """What a page is sent of a model, and of its plan: JSON whose texts are printable."""
    model = events.model(workload)
    shown = [{**model, "skeleton": events.unpacked(model["skeleton"])}]
    if file is not None and file.result is not None:
        shown.append(events.result(file.result))
        view = shown[-1]["plan"]
        shown.append(events.unpacked(view) if isinstance(view, bytes) else view)
    for event in shown:
        check_texts(event)
    encode({"model": shown[0]})


def check_printed(*command: str) -> None:
    """A command of the command line, run here: what it prints is printable."""
    from explorer.cli import main

    out = io.StringIO()
    with redirect_stdout(out):
        main(command)
    words = out.getvalue()
    assert printable_lines(words, LINE_ENDS) == words, f"{command[0]} prints what is not printable"


def _csv(words: str) -> None:
    for row in csv.reader(io.StringIO(words)):
        for cell in row:
            for part in cell.split(";"):
                assert not part.lstrip().startswith(tuple("=+@＝＋－＠")), f"a formula: {cell[:80]!a}"
                assert not part.lstrip().startswith("-") or _is_number(part), f"a formula: {cell[:80]!a}"


def _is_number(words: str) -> bool:
    try:
        float(words)
    except ValueError:
        return False
    return True


def _json(words: str) -> None:
    check_texts(json.loads(words, parse_constant=lambda name: _fail(f"{name} in JSON")))


def _shell(words: str) -> None:
    """It is run: what it sets is nobody's concern, and nothing else may come of it."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(["bash", "-c", words], cwd=folder, capture_output=True, timeout=20)
        assert (ran.returncode, ran.stderr) == (0, b""), ran.stderr[:200]
        assert not list(Path(folder).iterdir()), "a name was run by a shell"


def _python(words: str) -> None:
    names = {node.id for node in ast.walk(ast.parse(words)) if isinstance(node, ast.Name)}
    assert not names & {"alert", "pwned", "__import__", "eval", "exec"}, "a name became code"


def _svg(words: str) -> None:
    for element in ElementTree.fromstring(words).iter():
        _check_element(element.tag.rpartition("}")[2], element.attrib)


def _html(words: str) -> None:
    _Elements(convert_charrefs=True).feed(words)


class _Elements(HTMLParser):
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        _check_element(tag, dict(attrs))


def _check_element(tag: str, attributes: Mapping[str, str | None]) -> None:
    assert tag in MARKUP, f"the element {tag[:40]!a}"
    for name, value in attributes.items():
        assert not name.startswith("on"), f"the attribute {name[:40]!a}"
        if name in ("src", "href"):
            assert str(value).startswith(("data:", "#")), f"{name}={str(value)[:40]!a}"


def _fail(words: str) -> Any:
    raise AssertionError(words)


_CHECKS = {
    ".csv": _csv, ".json": _json, ".sh": _shell, ".py": _python, ".toml": tomllib.loads, ".svg": _svg, ".html": _html,
}  # fmt: skip
