"""Nobody writes a file past `explorer.files.write_file`, but for those named here, each with its reason."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SANCTIONED = {
    "explorer/files.py": "the one place",
    "explorer/library/layout.py": "an empty file, which SQLite then fills: it has its own ways to be whole",
    "explorer/runner/bundles/heartbeats.py": "a few bytes that a rank overwrites as it goes, and that are then removed",
    "explorer/runner/targets/log.py": "a log grows line by line while a run goes on; it tells a full disk itself",
    "explorer/runner/targets/ray_package.py": "a zip in memory",
    "explorer/runner/engine/measure.py": "arrays in memory, which `write_file` then writes",
    "explorer/cli/__init__.py": "opens /dev/null in place of a standard output that nobody reads",
    "solvers/programs/processes/process.py": "pipes between processes, and a folder of scratch files that is removed",
    "solvers/programs/processes/entry.py": "pipes between processes",
    "explorer/__main__.py": "a pipe that signals are read from, and the null device",
    "solvers/kernels/kernel_cache.py": "what compiled kernels were made of, beside them, which may be lost; where"
    " nothing else can be written a folder for kernels, that is removed",
    "solvers/programs/mip.py": "a folder of scratch files, for programs of other people, that is removed",
    "explorer/web/serving/files.py": "a file that arrives, into the part that the shelf made for it",
    "explorer/web/state/shelf.py": "a scratch folder of what was handed in, which is removed with the server",
    "explorer/runner/targets/ray_ranks.py": "makes the folder of a rank, which is removed",
}
METHODS = {"write_text", "write_bytes", "touch", "rename", "symlink_to", "hardlink_to", "to_csv", "to_json", "savefig",
           "write_html", "write_image", "writeLP", "writeMPS", "toJson", "export_chrome_trace", "tofile"}  # fmt: skip
FUNCTIONS = {"json.dump", "pickle.dump", "marshal.dump", "yaml.dump", "torch.save", "np.save", "np.savez", "np.savetxt",
             "np.savez_compressed", "numpy.save", "numpy.savez", "os.replace", "os.rename", "os.fdopen", "os.link",
             "os.symlink", "os.mknod", "os.truncate", "shutil.copy", "shutil.copy2", "shutil.copyfile",
             "shutil.copytree", "shutil.move", "shutil.copyfileobj", "logging.FileHandler", "tempfile.mkstemp",
             "tempfile.mkdtemp", "tempfile.NamedTemporaryFile", "tempfile.TemporaryFile",
             "tempfile.TemporaryDirectory", "tempfile.SpooledTemporaryFile"}  # fmt: skip
OPENERS = {"open", "ZipFile"}
MODULES = {"io", "gzip", "bz2", "lzma", "tarfile", "codecs", "zipfile", "builtins"}
"""Whose `open` takes a name first, and then the mode."""
FILES = sorted(path for package in ("explorer", "solvers") for path in (ROOT / package).rglob("*.py"))


def writes(source: str) -> list[str]:
    """The calls that may write a file, each as "line: call"."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and _writes(node))
    return [f"{call.lineno}: {ast.unparse(call)[:60]}" for call in calls]


def _writes(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    last = name.rsplit(".", 1)[-1]
    if name in FUNCTIONS or (isinstance(call.func, ast.Attribute) and last in METHODS):
        return True
    if name == "os.open":
        return any(flag in ast.unparse(call) for flag in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND")) or not any(
            isinstance(node, ast.Attribute) and node.attr.startswith("O_") for node in ast.walk(call)
        )
    if last == "replace" and isinstance(call.func, ast.Attribute):  # of a path: it takes one, that of a text two
        return len(call.args) == 1 and not call.keywords and name not in ("dataclasses.replace", "copy.replace")
    if last in OPENERS:
        of_path = isinstance(call.func, ast.Attribute) and name.split(".")[0] not in MODULES
        place = 0 if of_path else 1
        modes = (*call.args[place : place + 1], *(word.value for word in call.keywords if word.arg == "mode"))
        return any(_is_mode(value) for value in modes)
    return False


def _is_mode(value: ast.expr) -> bool:
    """Whether this could be the mode of a file that is written: "w", "xb", or one that is only known when it runs."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, str) and bool(set(value.value) & set("wax+")) and len(value.value) < 4
    return isinstance(value, ast.Name) and value.id == "mode"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_written_in_one_place(path: Path) -> None:
    calls = writes(path.read_text(encoding="utf-8"))
    name = str(path.relative_to(ROOT))
    if name in SANCTIONED:
        assert calls, f"{name} writes nothing any more: take it off the list"
    else:
        assert not calls, f"{name} writes past explorer.files.write_file: {calls}"


@pytest.mark.parametrize(
    "source",
    [
        "open('a', 'w')", "open('a', mode='xb')", "Path('a').open('a')", "io.open('a', 'r+')", "path.write_text('')",
        "json.dump(1, file)", "gzip.open('a', 'wb')", "zipfile.ZipFile('a', 'w')", "os.open('a', os.O_CREAT)",
        "os.open('a', flags)", "part.replace(path)", "os.replace('a', 'b')", "open('a', mode)", "torch.save(1, 'a')",
        "fig.write_html('a')",
    ],
)  # fmt: skip
def test_a_writer_is_detected(source: str) -> None:
    assert writes(source)


@pytest.mark.parametrize(
    "source",
    ["open('wax')", "open('a', 'rb')", "'a'.replace('b', 'c')", "replace(plan, order=())", "path.open()",
     "os.open('a', os.O_RDONLY)", "dataclasses.replace(x)", "json.dumps(1)"],
)  # fmt: skip
def test_a_reader_is_not(source: str) -> None:
    assert not writes(source)
