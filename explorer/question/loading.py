"""From what a person calls a model to its workload: a demo name, a file, or package.module:callable."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
import zipfile
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from demo_models import MODELS
from explorer.question.pins import closest
from solvers.errors import InvalidProblem, PlacementError, TraceError
from solvers.formats import graph_json, plan_json
from solvers.formats.json_text import MAX_BYTES, parse_json
from solvers.formats.msr2020 import looks_like_msr2020, read_msr2020
from solvers.formats.pipedream import looks_like_pipedream, read_pipedream
from solvers.formats.piper import looks_like_piper, read_piper
from solvers.formats.workload import Workload

if TYPE_CHECKING:
    import torch

READ_BYTES = 64
"""How much of a file is looked at to tell what it is."""

NOT_YET = {".onnx": "ONNX"}
"""Formats known by their suffix that are not read yet."""

EXPORT_HINT = "export the model with torch.export.save(torch.export.export(module, inputs), 'model.pt2')"


def load(model: str, *, training: bool = True, dtype: torch.dtype | str | None = None) -> Workload:
    """The workload of ``model``. Files are recognised by content, read as data and never executed.

    training and dtype ("bf16", "fp16", "fp32", or torch's) are for models that are traced here, and
    training for .pt2 files: other files say themselves what they hold, and another dtype is refused.
    Raises InvalidProblem or TraceError in one line.
    """
    check_name(model)
    if model in MODELS:
        _need_torch(model)
        from explorer.tracing import trace_demo

        return trace_demo(model, training=training, dtype=dtype)
    if is_callable(model):
        return load_callable(model, training=training, dtype=dtype)
    workload = load_file(model, training=training)
    if isinstance(dtype, str):
        _check_dtype(workload, model, dtype)
    return workload


def is_traced(model: str) -> bool:
    """Whether a model of that name is traced here; other files say themselves what they hold."""
    return model in MODELS or is_callable(model) or Path(model).suffix.lower() == ".pt2"


def _need_torch(model: str) -> None:
    """Files are planned without PyTorch; modules are traced with it."""
    if importlib.util.find_spec("torch") is None:
        raise TraceError(f"{model}: tracing a module needs PyTorch; pip install 'placement-explorer[torch]'")


def _check_dtype(workload: Workload, path: str, asked: str) -> None:
    from explorer.costs.roofline import dtype_of

    if workload.compute is not None:
        raise InvalidProblem(f"{path}: states its own compute times; --dtype is for models that are traced here")
    if asked != (found := dtype_of(workload.graph)):
        raise InvalidProblem(f"{path}: its tensors are {found}; to plan it in {asked}, export or trace it in {asked}")


def check_name(model: str) -> None:
    """Raises InvalidProblem, with the closest demo name, if ``model`` can be none of the three."""
    is_path = os.path.exists(model) or os.sep in model or bool(Path(model).suffix)
    if model not in MODELS and not is_callable(model) and not is_path:
        raise InvalidProblem(
            f"there is no demo model or file {model!r}{closest(model, MODELS)} (`placement-explorer models` lists"
            " them; a module of yours is package.module:callable)"
        )


def load_callable(reference: str, *, training: bool = True, dtype: torch.dtype | str | None = None) -> Workload:
    """Trace what "package.module:callable" returns: (module, example inputs), or (module, args, kwargs).

    This runs its code; what that prints goes to stderr, and an exit is an error.
    """
    _need_torch(reference)
    from explorer.tracing import trace_module

    module_name, _, attribute = reference.partition(":")
    if os.getcwd() not in sys.path:  # a console script, unlike python -m, does not have it there
        sys.path.insert(0, os.getcwd())
    try:
        with redirect_stdout(sys.stderr):
            made = getattr(importlib.import_module(module_name), attribute)()
    except PlacementError:
        raise
    except (Exception, SystemExit) as error:
        where = _place(error)
        raise TraceError(f"{reference}: {type(error).__name__}: {_first_line(error)}{where}") from error
    if not isinstance(made, tuple) or len(made) not in (2, 3) or (len(made) == 3 and not isinstance(made[2], dict)):
        found = f"{len(made)} values" if isinstance(made, tuple) else type(made).__name__
        raise TraceError(
            f"{reference}: expected it to return (module, example inputs), found {found}"
            " (arguments by name: a dict of inputs, or (module, args, kwargs))"
        )
    with redirect_stdout(sys.stderr):
        return trace_module(
            made[0],
            made[1],
            example_kwargs=made[2] if len(made) == 3 else None,
            name=attribute,
            training=training,
            dtype=dtype,
            reference=reference,
        )


def _place(error: BaseException) -> str:
    """Where the code that was called failed: " (model.py, line 12)"; "" if it was never reached."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__ and f.filename[:1] != "<"]
    inside = [f for f in frames if f.filename != importlib.__file__]
    return f" ({Path(inside[-1].filename).name}, line {inside[-1].lineno})" if inside else ""


def load_file(path: str, *, training: bool = True) -> Workload:
    """The workload of a file; training is for exported programs, which hold a forward only.

    Raises InvalidProblem if it is of no kind that is read.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(READ_BYTES)
    except OSError as error:
        raise InvalidProblem(f"{path}: {(error.strerror or str(error)).lower()}") from None
    suffix = Path(path).suffix.lower()
    if head.startswith(b"PK"):
        return _load_zip(path, training)
    if head.startswith(b"\x80"):
        raise InvalidProblem(f"{path}: a pickle, which could run code and is never opened; {EXPORT_HINT}")
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return read_workload(read_file(path), path)
    if looks_like_pipedream(head):
        return read_pipedream(read_file(path), path)
    if suffix in NOT_YET:
        raise InvalidProblem(f"{path}: {NOT_YET[suffix]} files are not supported yet; {EXPORT_HINT}")
    found = "an empty file" if not head else f"a file that begins with {head[:8]!r}"
    raise InvalidProblem(
        f"{path}: expected graph.json, MSR 2020 or Piper .json, PipeDream graph.txt or .pt2, found {found}"
    )


def read_file(path: str) -> bytes:
    """The bytes of a file of text. Raises InvalidProblem if it is too large or cannot be read."""
    try:
        size = os.path.getsize(path)
        if size > MAX_BYTES:
            raise InvalidProblem(f"{path}: {size:,} bytes, at most {MAX_BYTES:,} are read")
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidProblem(f"{path}: {(error.strerror or str(error)).lower()}") from None


def read_workload(data: bytes, where: str) -> Workload:
    """The workload of a JSON text: our graph.json, or a file of the field. Raises InvalidProblem."""
    value = parse_json(data, where)
    kind = value.get("format") if isinstance(value, dict) else None
    if kind == graph_json.FORMAT:
        return graph_json.read_graph(value, where)
    if kind == plan_json.FORMAT:
        raise InvalidProblem(
            f"{where}: this is a plan, not a model; look at it with `placement-explorer simulate` or `check`"
        )
    if isinstance(value, dict) and looks_like_msr2020(value):
        return read_msr2020(value, where)
    if looks_like_piper(value):
        return read_piper(value, where)
    raise InvalidProblem(
        f"{where}: neither a graph.json of ours nor an MSR 2020 workload (nodes, edges, maxFPGAs) nor one of Piper's"
        " (nodes, edges, maxDevices)"
    )


def _load_zip(path: str, training: bool) -> Workload:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise InvalidProblem(f"{path}: a damaged zip archive ({_first_line(error)})") from None
    if any(name.endswith("/data.pkl") and name.count("/") == 1 for name in names):
        kind = "a TorchScript archive" if any("/code/" in name for name in names) else "a pickle made by torch.save"
        raise InvalidProblem(f"{path}: {kind}, not an exported program, and never opened; {EXPORT_HINT}")
    from explorer.tracing import load_pt2

    return replace(load_pt2(path, training=training), reference=path)


def is_callable(model: str) -> bool:
    module, separator, attribute = model.partition(":")
    return bool(separator) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0][:300]
