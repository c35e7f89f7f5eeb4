"""Ways to spoil a valid input: its values and structure where it is JSON, its words where it is text, its bytes."""

from __future__ import annotations

import copy
import json
import random
import re
from typing import Any

Tree = Any
"""Parsed JSON, which may hold a Raw."""


class Raw(str):
    """Text that is put into JSON as it is, whatever it is."""


class Twice(dict[str, Any]):
    """An object whose first key is written twice."""


NUMBERS = (
    0, -1, 1, 2, 3, 7, 40, 200, 2**31, 2**53, 2**53 + 1, 2**63, -(2**63), 10**308, 10**400, 0.5, -0.0, -1e-9, 1.5,
    1e18, 1e299, 1e308, 5e-324,
)  # fmt: skip
TEXTS = (
    "", "1", "NaN", "auto", "x" * 20_000, "\x00", "\x1b[31mred\n\r", "two\nlines", "\u2028\u202e", "../../etc/passwd",
    "os:system", "<b>", "__class__", "0F0", "\u0663", "nan", "-inf", "1e999", "1 2",
)  # fmt: skip
CONTAINERS = ([], {}, [[]], [{}], [None], [0], [1, 2], [0] * 50, {"a": 1}, {"nodes": 1})
RAWS = (
    "NaN", "Infinity", "-Infinity", "1e999", "9" * 5_000, "-" + "9" * 4_000, "[" * 500, "[" * 100_000,
    "[" * 40 + "]" * 40, "[" * 900 + "]" * 900, '{"a":' * 33 + "1" + "}" * 33, '"\\ud800"', "0x10", "01", "'a'", "",
)  # fmt: skip
WORDS = (
    "", "-1", "0", "1", "99999999999", "9" * 5_000, "nan", "inf", "-inf", "1e999", "1e308", "0x10", "\u0663", "1_000",
    "true", "none", "[1; 2", "[;]", "[1e299; 1e299]", "{}", "[]", "{a = 1}", '"', "'", "&a [*a]", "*a", "!!python/none",
    "%00", "%ff", "=", ",", ":", "--", "#", "\x00", "\x1b[0m", "\t", "\u2028", "a" * 100_000, "1979-05-27T07:32:00Z",
)  # fmt: skip
TOKEN = re.compile(r'"[^"\n]*"|[\w.+/-]+')
ENDS = ("\n", "\n", "\n", "\r\n", "\r", "\u2028")
WHOLE = (
    b"", b"{", b"[", b"{}", b"[]", b"null", b'"x"', b"1", b"   \n", b"[1" * 1_000, b'{"a":' * 5_000, b"PK", b"\x80\x04",
    b"\x7fELF" + bytes(60), b"\x1f\x8b" + bytes(20), b'{"format":"placement-explorer/graph"}',
    b'{"format":"placement-explorer/plan","version":1}', b'{"nodes":[],"edges":[],"maxFPGAs":1}',
)  # fmt: skip
PIECES = (
    b"\x00", b"\xff\xfe", b"{", b"[", b'"', b"\n", b",", b"}}", b"\xef\xbb\xbf", b"NaN", b"//", b"\xed\xa0\x80", b"-",
    b"1e", b"e9", b".", b"\\u0000",
)  # fmt: skip


def spoiled_tree(tree: Tree, rng: random.Random) -> Tree:
    """A copy with one to six things wrong."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        tree = _spoil(tree, rng)
    return tree


def spoiled_text(text: str, rng: random.Random) -> bytes:
    """With words replaced, lines moved, repeated or left out, or other line ends."""
    lines = text.split("\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        i = rng.randrange(len(lines))
        line = lines[i]
        words = list(TOKEN.finditer(line))
        match rng.randrange(10):
            case 0 | 1 | 2 | 3 if words:
                word = rng.choice(words)
                lines[i] = line[: word.start()] + rng.choice(WORDS) + line[word.end() :]
            case 4 if words:
                word, other = rng.choice(words), TOKEN.findall(rng.choice(lines)) or ["x"]
                lines[i] = line[: word.start()] + rng.choice(other) + line[word.end() :]
            case 5 if len(lines) > 1:
                del lines[i]
            case 6:
                lines.insert(rng.randrange(len(lines) + 1), line)
            case 7:
                lines[i] = line[: rng.randrange(len(line) + 1)]
            case 8:
                lines[i] = rng.choice((line.strip(), "\t" + line, "  " + line, "- " + line, line + rng.choice(WORDS)))
            case _:
                rng.shuffle(lines)
    return rng.choice(ENDS).join(lines).encode("utf-8", "replace")


def spoiled_bytes(data: bytes, rng: random.Random) -> bytes:
    """Cut short, with bytes changed, put in, left out or repeated, in another encoding, or something else."""
    if not data:
        return rng.choice(WHOLE)
    at = rng.randrange(len(data))
    to = min(len(data), at + rng.randrange(1, 400))
    match rng.randrange(10):
        case 0:
            return data[:at]
        case 1 | 2:
            changed = bytearray(data)
            for _ in range(rng.choice((1, 3, 20))):
                changed[rng.randrange(len(data))] = rng.randrange(256)
            return bytes(changed)
        case 3:
            return data[:at] + rng.choice(PIECES) + data[at:]
        case 4:
            return data[:at] + data[to:]
        case 5:
            return data[:to] + data[at:]
        case 6:
            return data + rng.choice((b"x", b"{}", bytes(100), b" " * 100_000, data))
        case 7:
            return data.decode("utf-8", "replace").encode("utf-16")
        case 8:
            return b"\xef\xbb\xbf" + data
        case _:
            return rng.choice(WHOLE)


def written(value: Tree) -> bytes:
    """JSON as `json` would write it, but for Raw and Twice; lone surrogates as UTF-8 does not have them."""
    return _text(value).encode("utf-8", "surrogatepass")


def _text(value: Tree) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        pairs = [f"{json.dumps(str(key))}:{_text(item)}" for key, item in value.items()]
        return "{" + ",".join(pairs[:1] * isinstance(value, Twice) + pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _spoil(tree: Tree, rng: random.Random) -> Tree:
    if not isinstance(tree, (dict, list)) or not tree:
        return _value(rng)
    if rng.random() < 0.02:
        return rng.choice((_value(rng), [tree], {"a": tree}))
    inside, key = _place(tree, rng)
    match rng.randrange(12):
        case 0 | 1 | 2 | 3:
            inside[key] = _value(rng)
        case 4:
            inside[key] = _another_type(inside[key], rng)
        case 5:
            del inside[key]
        case 6:
            other, at = _place(tree, rng)
            inside[key] = copy.deepcopy(other[at])
        case 7 if isinstance(inside, list):
            inside.insert(rng.randrange(len(inside) + 1), copy.deepcopy(inside[key]))
        case 8 if isinstance(inside, list):
            rng.shuffle(inside)
        case 7 if isinstance(inside[key], dict) and inside[key]:
            inside[key] = Twice(inside[key])
        case 8:
            inside[rng.choice(("x", f"{key} ", str(key).upper(), "__class__", "", f"{key}\x00"))] = inside.pop(key)
        case 9 if isinstance(inside, dict):
            inside[f"unknown{rng.randrange(9)}"] = _value(rng)
        case 9 if len(inside) < 1_000:
            inside.extend(copy.deepcopy(inside) * rng.choice((1, 20)))
        case _:  # an id of something else, or of nothing: cycles, loops, ends that hang
            inside[key] = rng.randint(-1, 12)
    return tree


def _place(tree: Tree, rng: random.Random) -> tuple[Any, Any]:
    """A container inside a tree that is not empty, and a key of it; deep ones as likely as shallow ones."""
    while True:
        key = rng.choice(list(tree)) if isinstance(tree, dict) else rng.randrange(len(tree))
        inner = tree[key]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.12:
            return tree, key
        tree = inner


def _value(rng: random.Random) -> Tree:
    kind = rng.randrange(6)
    if kind < 2:
        return rng.choice(NUMBERS)
    if kind == 2:
        return rng.choice((None, True, False, rng.uniform(0, 1e6), rng.randint(-5, 200)))
    return (
        copy.deepcopy(rng.choice(CONTAINERS))
        if kind == 3
        else Raw(rng.choice(RAWS))
        if kind == 4
        else rng.choice(TEXTS)
    )


def _another_type(value: Tree, rng: random.Random) -> Tree:
    if isinstance(value, dict):
        return rng.choice((list(value), list(value.values()), {**value, "zz": 1}, {}))
    if isinstance(value, list):
        return rng.choice((value[::-1], value * 2, value[: len(value) // 2], value * 20, dict(enumerate(value))))
    if isinstance(value, str):
        return rng.choice((value + "x", value[:-1], value.upper(), value * 50, [value], {value: value}, value + "\n"))
    if isinstance(value, (int, float)) and abs(value) < 1e200:
        return rng.choice((value + 1, value - 1, -value, value * 2, str(value), float(value), [value], value == 1))
    return [value]
