"""Ways to make a valid input hostile that leave it well formed: names that are obeyed where they are not shown, keys
that come twice, numbers of thousands of digits, marks at the begin of a file."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from typing import Any

from tests.fuzz.mutations import Raw, Tree, Twice

RUNS = "touch placement-explorer-was-here"
CONTROLS = (
    "\x00", "\x07", "\b", "\t", "\n", "\r", "\r\n", "\x1b[31m", "\x1b]0;title\x07", "\x1bc", "\x7f", "\x85", "\x9b2J",
    "\xad", "\u061c", "\u200b", "\u200e", "\u200f", "\u2028", "\u2029", "\u202e", "\u2066", "\u2069", "\ufeff",
    "\ufff9", "\uffff", "\ud800", "\udfff", "\udc41\ud801", "\U000e0041", "\U0010ffff",
)  # fmt: skip
CODE = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</title></svg><b onload=alert(1)>", "]]>", "&lt;",
    "&#27;[", "<!--", "javascript:alert(1)", "\"><b>", "' onload='alert(1)", f"$({RUNS})", f"`{RUNS}`", f";{RUNS};",
    f"';{RUNS};'", f'";{RUNS};"', f"|{RUNS}", f"&&{RUNS}", f"\n{RUNS}\n", "${PATH}", "#", "\\", "\\\"", "'''", '"""',
    '""";pwned=1;"""', "{0}", "{x!r}", "%s", "%(x)s", "{{7*7}}", "=1+1", " =1+1", "\t=1+1", "\ufeff=1", "@SUM(1)",
    "+1", "-1", ";=1", "\uff1d1", "a,b", '"', "'", "[x]", "]\n[x]", "\nx = 1\n", "../..", "/etc/passwd", "C:\\x",
    "__class__", "CON", "%0a", "$HOME",
)  # fmt: skip
LEGITIMATE = ("größe", "模型", "👩\u200d🔬", "نمی\u200cخواهم", "a b", "x" * 300)
HOSTILE = (*CONTROLS, *CODE, *LEGITIMATE)
HUGE = (2**53 + 1, 2**64, -(2**64), 10**308, 10**309, 10**4000, -(10**4000), 10**400)
MARKS = (b"\xef\xbb\xbf", b"\xef\xbb\xbf" * 2, b"\xff\xfe", b"\xfe\xff", b"\x00", b"\x0b", b"\xc2\xa0", b"\xe2\x80\xae")
QUOTED = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|[A-Za-z_][\w.]*")
NAMES = re.compile(rb"[A-Za-z_][\w./]{2,40}")
FREE = frozenset((
    "name", "op_type", "module_path", "reference", "costs_from", "colocation", "dtype", "resource", "notes",
    "checkpoint", "title", "about", "text", "hardware", "backend", "torch", "python", "date", "reason", "hosts",
    "devices", "clock", "planner", "target", "model", "message", "description", "cat", "ph", "worst",
))  # fmt: skip
"""Keys of texts that may say anything, in files of ours and of others."""
SHARE_OF_NAMES, SHARE_OF_TEXTS = 0.75, 0.1
"""Of changes, those of such texts, and of any; the rest are of other kinds. They are refused more often."""


def hostile_tree(tree: Tree, rng: random.Random) -> Tree:
    """A copy with one to eight names changed, or keys written twice, or numbers made huge."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        places = list(_places(tree))
        texts = [(inside, key) for inside, key in places if isinstance(inside[key], str)]
        kind = rng.random()
        names = [(inside, key) for inside, key in texts if key in FREE] or texts
        if names and kind < SHARE_OF_NAMES + SHARE_OF_TEXTS:
            inside, key = rng.choice(names if kind < SHARE_OF_NAMES else texts)
            inside[key] = hostile_name(inside[key], rng)
        elif places:
            _other(*rng.choice(places), rng)
    return tree


def hostile_text(text: str, rng: random.Random) -> bytes:
    """With one to four words changed, a line written twice, or a mark before it."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        words = list(QUOTED.finditer(text))
        if not words:
            break
        word = rng.choice(words)
        name = hostile_name(word[0].strip("\"'"), rng)
        escaped = name.encode("unicode_escape").decode().replace('"', '\\"') if rng.random() < 0.4 else name
        text = text[: word.start()] + escaped.join((rng.choice(("", '"', "'", '"')),) * 2) + text[word.end() :]
        if rng.random() < 0.1:
            lines = text.split("\n")
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
            text = "\n".join(lines)
    return marked(text.encode("utf-8", "surrogatepass"), rng)


def hostile_bytes(data: bytes, rng: random.Random) -> bytes:
    """With a few names overwritten by as many bytes, which a format with lengths still reads."""
    changed = bytearray(data)
    names = list(NAMES.finditer(data))
    for name in rng.sample(names, min(len(names), rng.choice((1, 2, 4)))):
        with_ = rng.choice(HOSTILE).encode("utf-8", "surrogatepass")
        at = name.start() + rng.randrange(max(1, len(name[0]) - len(with_) + 1))
        changed[at : at + len(with_)] = with_[: name.end() - at] if at + len(with_) > name.end() else with_
    return bytes(changed)


def marked(data: bytes, rng: random.Random) -> bytes:
    """The same, one time in ten with a mark before it."""
    return rng.choice(MARKS) + data if rng.random() < 0.1 else data


def hostile_name(name: str, rng: random.Random) -> str:
    """A name with something hostile before, behind or in it, or in its place."""
    letters = "".join(rng.choice(HOSTILE) for _ in range(rng.choice((1, 1, 1, 2, 3))))
    at = rng.randrange(len(name) + 1)
    return rng.choice((letters, letters + name, name + letters, name[:at] + letters + name[at:]))


def _places(tree: Tree) -> list[tuple[Any, Any]]:
    places, todo = [], [tree]
    while todo:
        inside = todo.pop()
        items = list(inside.items() if isinstance(inside, dict) else enumerate(inside))
        places += [(inside, key) for key, _ in items]
        todo += [item for _, item in items if isinstance(item, (dict, list))]
    return places


def _other(inside: Any, key: Any, rng: random.Random) -> None:
    """A key, a number or an object changed."""
    changes: list[Callable[[], None]] = [lambda: inside.__setitem__(key, rng.choice(HUGE))]
    if isinstance(inside, dict):
        changes.append(lambda: inside.__setitem__(hostile_name(str(key), rng), inside.pop(key)))
    if isinstance(inside[key], dict) and inside[key]:
        changes += [lambda: inside.__setitem__(key, Twice(_turned(inside[key], rng)))] * 2
    if isinstance(inside[key], str):  # as no JSON holds it: not escaped
        changes.append(lambda: inside.__setitem__(key, Raw(f'"{rng.choice(CONTROLS)}"')))
    rng.choice(changes)()


def _turned(value: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """With another key first, which is the one that `Twice` writes twice."""
    key = rng.choice(list(value))
    return {key: value[key], **value}
