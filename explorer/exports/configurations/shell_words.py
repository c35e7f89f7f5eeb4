"""The words of a shell script, as data: nothing of it is run."""

from __future__ import annotations

import ast
import operator
import re
import shlex
from collections.abc import Callable, Mapping

from solvers.errors import InvalidProblem

MAX_CHARACTERS = 1_000_000
MAX_WORDS = 5_000
MAX_VALUE = 100_000
"""Characters of a word once its variables are replaced, or of an array."""
MAX_NUMBER = 2**40
DEPTH = 10
"""Variables inside of variables."""
NAME = r"[A-Za-z_][A-Za-z0-9_]*"
ASSIGNMENT = re.compile(rf"(?P<name>{NAME})(?P<more>\+?)=(?P<value>.*)", re.DOTALL)
VARIABLE = re.compile(rf"\$(?:(?P<plain>{NAME})|\{{(?P<braced>{NAME})(?:\[[@*]\])?(?::?-(?P<usual>[^{{}}]*))?\}})")
COMMENT = re.compile(r"(?m)^\s*#.*$|(?<=\s)#[^\n\"']*$")
BRACKET = "()"
"""Stands for both brackets of an array."""
SUM = re.compile(r"\$\(\((?P<text>[^;|&<>`]*?)\)\)")
OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
}  # fmt: skip


def words_of(script: str, path: str) -> list[str]:
    """Every word after quotes, comments and continued lines. Variables and arrays that the script itself sets are
    replaced by what they are set to, sums of them ("$((NODES * 8))") by their value; others stay as they are written
    ("$HOSTNAME"). What is set and never read comes last, as in a fragment that another script reads.

    Raises InvalidProblem if quotes do not close, or the script or a value in it is too long.
    """
    if len(script) > MAX_CHARACTERS:
        raise InvalidProblem(f"{path}: {len(script):,} characters, at most {MAX_CHARACTERS:,} are read")
    script = re.sub(r"\\\r?\n", " ", COMMENT.sub("", script))
    script = SUM.sub(lambda match: re.sub(r"\s", "", match[0]), script)
    script = re.sub(r"(?<==)\(|(?<!\))\)(?=\s|;|$)", f" {BRACKET} ", script)
    try:
        split = shlex.split(script)
    except ValueError as error:
        raise InvalidProblem(f"{path}: not read as a shell script: {str(error).lower()}") from None
    if len(split) > MAX_WORDS:
        raise InvalidProblem(f"{path}: a script of {len(split):,} words, at most {MAX_WORDS:,} are read")
    set_to: dict[str, str] = {}
    words: list[str] = []
    array = last = ""
    for word in split:
        assigned = ASSIGNMENT.fullmatch(word)
        if word == BRACKET:
            array, last = ("", "") if array else (last, "")
        elif assigned:
            last = assigned["name"]
            before = set_to.get(last, "") + " " if assigned["more"] else ""
            set_to[last] = _limited(before + _replaced(assigned["value"], set_to, path), path)
        elif array:
            set_to[array] = _limited(f"{set_to[array]} {_replaced(word, set_to, path)}", path)
        else:
            words += _replaced(word, set_to, path).split()
    used = {match["plain"] or match["braced"] for match in VARIABLE.finditer(script)}
    used |= {name for match in SUM.finditer(script) for name in re.findall(NAME, match["text"])}
    return words + [word for name, value in set_to.items() if name not in used for word in value.split()]


def _replaced(word: str, set_to: Mapping[str, str], path: str) -> str:
    for _ in range(DEPTH):
        before = word
        grown = sum(len(_value(match, set_to)) for match in VARIABLE.finditer(word))  # before it is made
        _limit(grown + len(word) if grown else 0, path)
        word = VARIABLE.sub(lambda match: _value(match, set_to), word)
        if word == before:
            break
    return SUM.sub(lambda match: _sum(match, set_to), word)


def _limited(value: str, path: str) -> str:
    _limit(len(value), path)
    return value


def _limit(characters: int, path: str) -> None:
    if characters > MAX_VALUE:
        raise InvalidProblem(f"{path}: a variable of {characters:,} characters, at most {MAX_VALUE:,} are read")


def _value(match: re.Match[str], set_to: Mapping[str, str]) -> str:
    usual = match["usual"]
    return set_to.get(match["plain"] or match["braced"], match[0] if usual is None else usual)


def _sum(match: re.Match[str], set_to: Mapping[str, str]) -> str:
    """The value of a sum of whole numbers; what it stands as where it holds anything else."""
    text = re.sub(NAME, lambda name: set_to.get(name[0], name[0]), match["text"]).replace("/", "//")
    try:
        return str(_number(ast.parse(text[:200], mode="eval").body))
    except (ValueError, SyntaxError, ZeroDivisionError, RecursionError):
        return match[0]


def _number(node: ast.expr) -> int:
    """Raises ValueError for anything but sums and products of whole numbers."""
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) <= MAX_NUMBER:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        value = OPERATORS[type(node.op)](_number(node.left), _number(node.right))
        if abs(value) <= MAX_NUMBER:
            return value
    raise ValueError
