"""What the page's scripts send and read, found in their text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
ASSETS = ROOT / "assets"
OPENERS = {"(": ")", "{": "}", "[": "]"}
SHARED = {
    "finding().draw": ("shared/find.js", "draw"),
    "ex.clock.drawn": ("time/clock.js", "drawn"),
    "chart.draw": ("shared/chart.js", "draw"),
    "chart.refine": ("shared/chart.js", "refine"),
    "ex.graph.draw": ("shared/boxes.js", "draw"),
    "ex.graph.values": ("shared/boxes.js", "values"),
    "ex.graph.peeked": ("shared/boxes.js", "peeked"),
    "ex.graph.overlay": ("shared/boxes.js", "overlay"),
}
"""Methods of the drawings that the page shares with the widget: where each is written."""


@cache
def scripts() -> dict[str, str]:
    """The text of every script of the page, without comments."""
    sources = {}
    for path in sorted(ASSETS.rglob("*.js")):
        name = path.relative_to(ASSETS).as_posix()
        if not name.startswith("widget/"):
            sources[name] = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return sources


def enclosed(text: str, start: int) -> str:
    """What stands between the bracket at ``start`` and the one that closes it."""
    depth, closers = 0, []
    for at in range(start, len(text)):
        char = text[at]
        if char in OPENERS:
            closers.append(OPENERS[char])
            depth += 1
        elif closers and char == closers[-1]:
            closers.pop()
            if not closers:
                return text[start + 1 : at]
    raise AssertionError(f"nothing closes {text[start : start + 40]!r}")


def sent() -> Iterator[tuple[str, frozenset[str]]]:
    """Type and other keys of every message that is written out where it is sent."""
    for text in scripts().values():
        for match in re.finditer(r"\b(?:ex|host)\.send\(\{", text):
            inside = enclosed(text, match.end() - 1)
            kind = re.match(r'\s*type: "([\w-]+)"', inside)
            if kind:
                plain = re.sub(r"\([^()]*\)", "", inside)
                yield kind[1], frozenset(re.findall(r"[{,]\s*(\w+):", "{" + plain)) - {"type"}


def acts() -> frozenset[str]:
    """What buttons with ``data-act`` send: their types."""
    collected: set[str] = set()
    for path in [*(ROOT / "explorer" / "web").rglob("*.py"), ROOT / "explorer/view/graph/inspect.py"]:
        text = path.read_text(encoding="utf-8")
        collected |= set(re.findall(r'"data-act": "([\w-]+)"', text))
        collected |= set(re.findall(r'_button\("[^"]+", "([\w-]+)"', text))
        collected |= set(re.findall(r'actions\.append\(\("([\w-]+)"', text))
    for text in scripts().values():
        collected |= set(re.findall(r'(?:"data-act": |dataset\.act = )"([\w-]+)"', text))
    return frozenset(collected)


def local_acts() -> frozenset[str]:
    """Those that are not sent to the server."""
    return frozenset(
        re.findall(r'"([\w-]+)"', enclosed(scripts()["controls.js"], scripts()["controls.js"].index("HERE = [") + 7))
    )


def received() -> dict[str, frozenset[str]]:
    """For every type of message that some script acts on, the fields that any script reads of it."""
    fields: dict[str, frozenset[str]] = {}
    table = scripts()["connection.js"]
    body = enclosed(table, table.index("{", table.index("ex.on =")))
    for match in re.finditer(r"^\s+(\w+): function \((\w*)", body, flags=re.MULTILINE):
        inside = enclosed(body, body.index("{", match.end()))
        fields[match[1]] = frozenset(_read("connection.js", inside, match[2], set()))
    for name, text in scripts().items():
        for match in re.finditer(r"ex\.on\.(\w+) = function \((\w+)\)", text):
            inside = enclosed(text, text.index("{", match.end()))
            fields[match[1]] = frozenset(_read(name, inside, match[2], set()))
    return fields


def _read(script: str, body: str, message: str, seen: set[tuple[str, str]]) -> set[str]:
    """The fields that a function reads of a message, and those that it is handed on to."""
    if not message:
        return set()
    fields = set(re.findall(rf"\b{message}\.(\w+)", body))
    for alias in re.findall(rf"\b(\w+) = {message};", body):
        fields |= set(re.findall(rf"(?<![\w.]){alias}\.(\w+)", scripts()[script]))
    for names in re.findall(rf"\(\{{([^}}]*)\}} = {message}\)", body):
        fields |= {name.strip() for name in names.split(",")}
    for called in re.findall(rf"([\w.]+(?:\(\)\.\w+)?)\((?:{message})\b(?!\.)", body):
        where = _function(script, called)
        if where not in seen:
            seen.add(where)
            fields |= _read(where[0], *_body(*where), seen)
    return fields


def _function(script: str, called: str) -> tuple[str, str]:
    """Script and name of a function that is called by ``called``."""
    if called in SHARED:
        return SHARED[called]
    parts = called.split(".")
    if parts[0] != "ex":
        return script, called
    if len(parts) == 2:
        return next(name for name, text in scripts().items() if f"{called} = function" in text), parts[1]
    for name, text in scripts().items():
        match = re.search(rf"\bex\.{parts[1]} = \{{", text)
        if match:
            inside = enclosed(text, match.end() - 1)
            other = re.search(rf"\b{parts[2]}: ([\w.]+)(?:,|\s*$)", inside)
            return _function(name, other[1]) if other else (name, parts[2])
    raise AssertionError(f"{script}: nothing is called {called}")


def _body(script: str, name: str) -> tuple[str, str]:
    """Body of a function and what it calls the message, its first argument."""
    text = scripts()[script]
    match = re.search(rf"(?:function {name}\(|\b{name}(?: = |: )function \(|\b{name}: \()(\w+)", text)
    assert match, f"{script}: no function {name}"
    rest = text[match.end() :]
    if re.match(r"[^)]*\) => [^{]", rest):
        return rest[: rest.index("\n")], match[1]
    return enclosed(text, text.index("{", match.end())), match[1]
