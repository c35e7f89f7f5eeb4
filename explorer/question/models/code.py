"""What a person's own code makes: "package.module:callable", or "path/to/file.py:callable"."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType

from solvers.errors import PlacementError, TraceError

EXPECTED = "(arguments by name: a dict of inputs, or (module, args, kwargs))"


def is_callable(model: str) -> bool:
    """Whether a name is one of code: what stands before the colon is a module or the path of a .py file."""
    module, separator, attribute = model.rpartition(":")
    if not separator or not attribute.isidentifier():
        return False
    return is_path(module) or all(part.isidentifier() for part in module.split("."))


def is_path(module: str) -> bool:
    """Whether code is named by its file."""
    return module.endswith(".py") and (os.sep in module or os.path.isfile(module))


def make_of_code(reference: str) -> tuple[object, object, dict[str, object] | None]:
    """(module, example inputs, more by name or None). This runs the code; what that prints goes to stderr, and an
    exit is an error. Raises TraceError in one line."""
    module_name, _, attribute = reference.rpartition(":")
    try:
        with redirect_stdout(sys.stderr):
            made = getattr(module_of(module_name), attribute)()
    except PlacementError:
        raise
    except (Exception, SystemExit) as error:
        message = (str(error).strip().splitlines() or ["no message"])[0][:300]
        raise TraceError(f"{reference}: {type(error).__name__}: {message}{_place(error)}") from error
    if not isinstance(made, (tuple, list)) or len(made) not in (2, 3) or (len(made) == 3 and not _named(made[2])):
        returned = f"{len(made)} values" if isinstance(made, (tuple, list)) else type(made).__name__
        raise TraceError(f"{reference}: expected it to return (module, example inputs), found {returned} {EXPECTED}")
    return made[0], made[1], made[2] if len(made) == 3 else None


def _named(by_name: object) -> bool:
    return isinstance(by_name, dict)


def module_of(name: str) -> ModuleType:
    """A module by its name, from the folder one is in as well, or a file by its path, from its own folder. This runs
    its code. Raises TraceError for a file that is not there, and what the code raises."""
    if not is_path(name):
        if os.getcwd() not in sys.path:  # a console script, unlike python -m, does not have it there
            sys.path.insert(0, os.getcwd())
        return importlib.import_module(name)
    path = Path(name).resolve()
    if not path.is_file():
        raise TraceError(f"{name}: no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:  # what stands beside it, as python FILE has it
        sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module


def _place(error: BaseException) -> str:
    """Where the code that was called failed: " (model.py, line 12)"; "" if it was never reached."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__ and f.filename[:1] != "<"]
    inside = [f for f in frames if f.filename not in (importlib.__file__, importlib.util.__file__)]
    return f" ({Path(inside[-1].filename).name}, line {inside[-1].lineno})" if inside else ""
