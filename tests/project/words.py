"""``python -m tests.project.words``: find words that are out in what users and developers read.

The words are those of the table "Words that are out" in CONTRIBUTING.md; what is read is prose of the pages, help texts
and settings, messages and labels in Python and in scripts of the page, lessons, and docstrings and comments of Python
and of the scripts. Code, names and addresses are not prose. Names in code have a table of their own, "Identifiers that
are out".
"""

from __future__ import annotations

import ast
import io
import random
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md")
HISTORY = "CHANGELOG.md"
"""Of which only what is not released yet is read: releases stay as they were written."""
HEADING = "### Words that are out"
IDENTIFIERS = "### Identifiers that are out"
CODE_OF = ("explorer/**/*.py", "solvers/**/*.py", "tests/**/*.py")
SCRIPTS = "assets/**/*.js"
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)[^`\n]*\1")
PLACEHOLDER = re.compile(r"\{\w+\}")
ADDRESS = re.compile(r"\]\([^)]*\)|https?://\S+")
SCRIPT_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
SCRIPT_NAME = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`|(?<![\w$.])([A-Za-z_$][\w$]*)(?![\w$]|\s*:)', re.DOTALL
)
"""A name in a script, or a comment or text, in which none is looked for."""
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""A word of an identifier, in snake_case or camelCase."""
PARAGRAPH = re.compile(r"[^\n]*\S[^\n]*(?:\n[^\n]*\S[^\n]*)*")
COMMENT_SIGNS = re.compile(r"^[ \t]*(?:#|//|/?\*+/?)+", re.MULTILINE)


@dataclass(frozen=True)
class Text:
    """A passage that somebody reads, and where it stands."""

    path: Path
    line: int
    words: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {' '.join(self.words.split())[:160]}"


@dataclass(frozen=True)
class Out:
    """A phrase that is out, with what to say in its place."""

    phrase: str
    better: str

    @cached_property
    def expression(self) -> str:
        """Whole words; ``*`` stands for the rest of a word."""
        words = [re.escape(word).replace(r"\*", r"\w*") for word in self.phrase.split()]
        before = r"(?<![\w-])" if re.match(r"\w", self.phrase) else ""
        return before + r"\s+".join(words) + r"(?![\w-])"

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The expression, in any case."""
        return re.compile(self.expression, re.IGNORECASE)


def words_out(heading: str = HEADING) -> list[Out]:
    """A table of CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split(heading, 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    return [Out(phrase, better) for cell, better in rows[2:] for phrase in cell.split("; ")]


def prose(path: Path) -> Iterator[Text]:
    """The lines of a page without code and addresses; of the changelog, those of what is not released."""
    text = path.read_text(encoding="utf-8")
    if path.name == HISTORY:
        text = "\n## ".join(text.split("\n## ")[:2])
    if path.name == "CONTRIBUTING.md":
        before, _, after = text.partition(HEADING)
        table, _, rest = after.partition("\n## ")
        text = before + "\n" * table.count("\n") + "\n" + rest
    text = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    text = ADDRESS.sub("]", CODE.sub("``", text))
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield Text(path, number, line)


@dataclass(frozen=True)
class Python:
    """What is read in a Python file.

    messages: texts of several words that are not docstrings.
    remarks: paragraphs of docstrings (of modules, classes, functions and attributes) and blocks of comments.
    identifiers: the names that it defines, of variables, parameters, attributes, functions, classes and imports. The
        fields of a ``TypedDict`` are keys of a format, not names.
    """

    messages: list[Text]
    remarks: list[Text]
    identifiers: list[Text]


@cache
def of_python(path: Path) -> Python:
    """What is read in a Python file, which is parsed and walked once."""
    text = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(text)))
    docstrings = [
        node.value
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    remarks = [part for docstring in docstrings for part in _paragraphs(path, docstring.lineno, str(docstring.value))]
    remarks += _joined(path, _comments(text))
    return Python(
        list(_messages(path, nodes, {id(docstring) for docstring in docstrings})),
        remarks,
        list(_identifiers(path, nodes)),
    )


def messages(path: Path) -> list[Text]:
    """Texts of several words in a Python file that are not docstrings."""
    return of_python(path).messages


def remarks(path: Path) -> list[Text]:
    """Paragraphs of docstrings and blocks of comments in a Python file."""
    return of_python(path).remarks


def identifiers(path: Path) -> list[Text]:
    """The names that a Python file defines."""
    return of_python(path).identifiers


def _paragraphs(path: Path, line: int, text: str) -> Iterator[Text]:
    """The paragraphs of a docstring or comment without code, addresses and signs of comments; ``line``: its first."""
    plain = COMMENT_SIGNS.sub("", ADDRESS.sub("]", CODE.sub("``", text)))
    for match in PARAGRAPH.finditer(plain):
        yield Text(path, line + plain.count("\n", 0, match.start()), match[0])


@dataclass(frozen=True)
class Comment:
    """A comment, and the line and column where it begins."""

    line: int
    column: int
    words: str


def _comments(text: str) -> Iterator[Comment]:
    """The comments of a Python file."""
    if "#" in text:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield Comment(*token.start, token.string)


def _joined(path: Path, comments: Iterable[Comment]) -> Iterator[Text]:
    """Paragraphs of comments, those below one another together: a phrase may go on in the next line."""
    blocks: list[list[Comment]] = []
    for comment in comments:
        last = blocks[-1][-1] if blocks else None
        if last and comment.column == last.column and comment.line == last.line + last.words.count("\n") + 1:
            blocks[-1].append(comment)
        else:
            blocks.append([comment])
    for block in blocks:
        yield from _paragraphs(path, block[0].line, "\n".join(comment.words for comment in block))


def _messages(path: Path, nodes: list[ast.AST], docstrings: set[int]) -> Iterator[Text]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            words = PLACEHOLDER.sub("{}", CODE.sub("``", node.value))
            if re.search(r"[A-Za-z]+ +[A-Za-z]+", words):
                yield Text(path, node.lineno, words)


def script(path: Path) -> Iterator[Text]:
    """Texts of several words in a script of the page."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.lstrip().startswith(("//", "*", "/*")):
            for match in SCRIPT_TEXT.finditer(line):
                words = match[1] or match[2] or ""
                if re.search(r"[A-Za-z]+ +[A-Za-z]+", words):
                    yield Text(path, number, words)


def script_remarks(path: Path) -> Iterator[Text]:
    """The comments of a script of the page."""
    text = path.read_text(encoding="utf-8")
    comments = [
        Comment(text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start), match[0])
        for match in SCRIPT_NAME.finditer(text)
        if match[0].startswith(("//", "/*"))
        for start in (match.start(),)
    ]
    return _joined(path, comments)


def lesson(path: Path) -> Iterator[Text]:
    """What a lesson says."""
    value = tomllib.loads(path.read_text(encoding="utf-8"))
    for step in [value, *value.get("steps", [])]:
        for words in [*step.values(), *step.get("question", {}).values()]:
            if isinstance(words, str):
                yield Text(path, 1, words)


def _identifiers(path: Path, nodes: list[ast.AST]) -> Iterator[Text]:
    keys = {
        id(field.target)
        for node in nodes
        if isinstance(node, ast.ClassDef) and any("TypedDict" in ast.unparse(base) for base in node.bases)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    }
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                if id(node) not in keys:
                    yield Text(path, node.lineno, name)
            case ast.arg(arg=name):
                yield Text(path, node.lineno, name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield Text(path, node.lineno, name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield Text(path, node.lineno, name)
            case ast.alias(asname=str(name)):
                yield Text(path, node.lineno, name)


def script_names(path: Path) -> Iterator[Text]:
    """The names in a script of the page, but for properties: most are keys of messages."""
    text = path.read_text(encoding="utf-8")
    for match in SCRIPT_NAME.finditer(text):
        if match[1]:
            yield Text(path, text.count("\n", 0, match.start()) + 1, match[1])


def is_out(identifier: str, out: Out) -> bool:
    """Whether an identifier is the word itself, whatever its case; of ``_word_``, whether it has that part."""
    if not out.phrase.startswith("_"):
        return identifier.strip("_").lower() == out.phrase
    return out.phrase.strip("_") in (part.lower() for part in PART.findall(identifier))


@cache
def names() -> list[Text]:
    """All identifiers that are checked, in the order of files."""
    reading = [(glob, identifiers) for glob in CODE_OF] + [(SCRIPTS, script_names)]
    return [name for glob, read in reading for path in sorted(ROOT.glob(glob)) for name in read(path)]


READERS = (
    (PAGES, prose),
    ((HISTORY,), prose),
    (("explorer/**/*.py", "solvers/**/*.py", "demo_models/**/*.py"), messages),
    ((*CODE_OF, "demo_models/**/*.py"), remarks),
    ((SCRIPTS,), script),
    ((SCRIPTS,), script_remarks),
    (("explorer/view/lessons/shipped/*.toml",), lesson),
)


@cache
def texts() -> list[Text]:
    """All that users and developers read, in the order of files."""
    return [
        text for globs, read in READERS for glob in globs for path in sorted(ROOT.glob(glob)) for text in read(path)
    ]


def faults() -> list[str]:
    """Every word that is out, with where it stands and what to say in its place."""
    outs = words_out()
    any_of_them = re.compile("|".join(out.expression for out in outs), re.IGNORECASE)
    passages = [text for text in texts() if any_of_them.search(text.words)]
    phrases = [
        f'{text}\n    "{match[0]}" is out: {out.better}'
        for out in outs
        for text in passages
        if (match := out.pattern.search(text.words))
    ]
    listed = words_out(IDENTIFIERS)
    wrong = {name: [out for out in listed if is_out(name, out)] for name in {name.words for name in names()}}
    return phrases + [
        f'{name}\n    "{out.phrase}" is out as a name: {out.better}' for name in names() for out in wrong[name.words]
    ]


def main(arguments: list[str]) -> int:
    """``--sample N [SEED]`` prints N texts picked at random, in place of the check."""
    if arguments[:1] == ["--sample"]:
        chance = random.Random(int(arguments[2]) if len(arguments) > 2 else 0)
        print(*chance.sample(texts(), int(arguments[1])), sep="\n")
        return 0
    wrong = faults()
    print(*wrong, sep="\n", file=sys.stderr, end="\n" if wrong else "")
    print(
        f"{len(words_out())} phrases and {len(words_out(IDENTIFIERS))} identifiers are out, {len(texts()):,} texts and"
        f" {len(names()):,} names read, {len(wrong)} to be changed"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
