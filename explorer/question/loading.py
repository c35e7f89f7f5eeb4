"""From what a person calls a model to its workload: a demo name, a file, code of theirs, or a library's."""

from __future__ import annotations

import importlib.util
import os
import sys
import zipfile
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from demo_models import MODELS
from explorer.question.graphs import stored
from explorer.question.graphs.demos import traced_before
from explorer.question.models.code import is_callable, make_of_code
from explorer.question.models.example import Example, join_example, of_degree, split_example
from explorer.question.models.libraries import graph_name, library_of, make_of_library
from explorer.question.models.part_degrees import PartDegrees
from explorer.question.models.recognised import config_instead, folder_instead, instead
from explorer.question.nodes.groups import ANY_MEMBERS, Members, divider, parts_divider
from explorer.question.written.closest import closest
from explorer.question.written.kinds import AUTO_DEGREE
from explorer.tracing.files.onnx_model import looks_like_onnx
from explorer.words.text import first_line
from solvers.errors import InvalidProblem, TraceError
from solvers.formats import graph_json, plan_json
from solvers.formats.json_text import MAX_BYTES, parse_json
from solvers.formats.msr2020 import looks_like_msr2020, read_msr2020
from solvers.formats.pipedream import looks_like_pipedream, read_pipedream
from solvers.formats.piper import looks_like_piper, read_piper
from solvers.formats.workload import Workload
from solvers.problem.collectives import Axis

__all__ = ["check_name", "divider_of", "graph_variant", "is_callable", "is_traced", "load", "load_callable",
           "load_file", "read_file", "read_workload", "traced_already", "whole_name"]  # fmt: skip

if TYPE_CHECKING:
    import torch

    from explorer.tracing.trace import Divide

GROUP = ("tensor_parallel", "sequence_parallel", "tensor_parallel_of", "context_parallel", "expert_parallel",
         "expert_load", "redundant_experts")  # fmt: skip
"""Fields of an example that say how tensors are divided."""

READ_BYTES = 64
"""How much of a file is looked at to tell what it is."""

EXPORT_HINT = "export the model with torch.export.save(torch.export.export(module, inputs), 'model.pt2')"


def ignore(_: int) -> None:
    return None


def load(
    model: str,
    *,
    training: bool | None = None,
    dtype: torch.dtype | str | None = None,
    on_call: Callable[[int], None] = ignore,
    graphs: Path | None = None,
    divide: Divide | None = None,
    members: Members = ANY_MEMBERS,
) -> Workload:
    """The workload of ``model``, which may say of its example what `Example` knows ("gpt,batch=8").

    Files are recognised by content, read as data and never executed.

    training and dtype ("bf16", "fp16", "fp32", or torch's) are for models that are traced here, and
    training for .pt2 files: other files say themselves what they hold, and another dtype is refused. Without
    training everything is for training but a .pt2 that was exported in eval mode. on_call: given, while a forward is
    traced, the number of calls that it has made so far. graphs: a folder in which graphs of demos are found, and kept,
    that do not ship; None for none. divide: of a model that is traced here, in place of what its name says (see
    `explorer.tracing.trace.trace_module`); such graphs are neither found nor kept. members: by whose times a model is
    divided over so many devices as its name says.
    Raises InvalidProblem or TraceError in one line.
    """
    check_name(model)
    name, example = split_example(model)
    if name in MODELS:
        return _load_demo(model, training is not False, dtype, on_call, graphs, divide, members)
    if library_of(name) is not None or is_callable(name):
        divide = divide or divider_of(example, dtype, members)
        by_code = load_callable if library_of(name) is None else load_of_library
        return by_code(model, training=training is not False, dtype=dtype, on_call=on_call, divide=divide)
    _knows(model, example)
    workload = load_file(model, training=training)
    if isinstance(dtype, str):
        _check_dtype(workload, model, dtype)
    return workload


def whole_name(model: str) -> str:
    """The name of a model that is traced here as it is before it is divided: with as many samples as its groups have
    members, where these divide samples and nobody says how many there are."""
    name, example = split_example(model)
    made_here = name in MODELS or library_of(name) is not None
    return join_example(of_degree(model, 1), batch=example.samples if made_here else None)


def traced_already(
    model: str, training: bool, dtype: str | None, graphs: Path | None, members: Members = ANY_MEMBERS
) -> Workload | None:
    """The graph of a demo that needs no trace, as it ships or as it was kept in a folder; None for all else. members:
    as `load` takes them. Raises InvalidProblem for what is no example of a demo."""
    name, example = split_example(model)
    if name not in MODELS:
        return None
    _knows(model, example, "batch", "sequence", *GROUP)
    by = graph_variant(example, members)
    shipped = None if by else traced_before(model, training, dtype)
    if shipped is not None or graphs is None:
        return shipped
    return stored.find(graphs, model, training, dtype, by)


def _load_demo(
    model: str, training: bool, dtype: torch.dtype | str | None, on_call: Callable[[int], None], graphs: Path | None,
    divide: Divide | None, members: Members,
) -> Workload:  # fmt: skip
    if divide is not None or (dtype is not None and not isinstance(dtype, str)):
        graphs = None
    elif (known := traced_already(model, training, dtype, graphs, members)) is not None:
        return known
    _need_torch(model)
    from explorer.tracing import trace_demo

    name, example = split_example(model)
    _knows(model, example, "batch", "sequence", *GROUP)
    traced = replace(
        trace_demo(
            name,
            training,
            dtype,
            example.samples,
            on_call,
            divide or divider_of(example, dtype, members),
            example.sequence,
        ),
        reference=model,
    )
    if graphs is not None and (dtype is None or isinstance(dtype, str)):
        stored.store(graphs, traced, dtype, graph_variant(example, members))
    return traced


def graph_variant(example: Example, members: Members) -> str:
    """By what the graph of a demo differs from that of its name: members by whose times it is divided."""
    whole = example.degree == 1 and example.tensor_parallel_of is None
    return "" if members == ANY_MEMBERS or whole else str(members)


def divider_of(example: Example, dtype: torch.dtype | str | None, members: Members = ANY_MEMBERS) -> Divide | None:
    """What divides a model as is said of its example; None where tensors stay whole. Raises InvalidProblem."""
    if example.tensor_parallel == AUTO_DEGREE:
        raise InvalidProblem("--tensor-parallel auto is for plans; give the degree of which the graph is meant")
    if example.tensor_parallel_of is not None:
        parts = PartDegrees.parse(example.tensor_parallel_of)
        return parts_divider(example.tensor_parallel or 1, parts, example.sequence_parallel, dtype, members)
    example.check_axes("the model")
    example.check_replicas()
    degree = example.tensor_parallel if example.axis is Axis.TENSOR else example.degree
    return divider(
        degree, example.sequence_parallel, dtype, members, example.axis, example.expert_load or 1.0,
        example.outer_degree, example.redundant_experts or 0, example.inner_axis,
    )  # fmt: skip


def is_traced(model: str) -> bool:
    """Whether a model of that name is traced here; other files say themselves what they hold."""
    name, _ = split_example(model)
    return name in MODELS or library_of(name) is not None or is_callable(name) or Path(name).suffix.lower() == ".pt2"


def _knows(model: str, example: Example, *fields: str) -> None:
    """Raises InvalidProblem if something is said of an example that such a model does not take."""
    given = [name for name in Example.__slots__ if getattr(example, name) is not None and name not in fields]
    if given:
        raise InvalidProblem(f"{model}: {given[0].replace('_', '-')} is for models whose example is made or given here")


def _need_torch(model: str) -> None:
    """Files are planned without PyTorch; modules are traced with it."""
    if importlib.util.find_spec("torch") is None:
        raise TraceError(f"{model}: tracing a module needs PyTorch; pip install 'placement-explorer[torch]'")


def _check_dtype(workload: Workload, path: str, dtype: str) -> None:
    from explorer.costs.roofline import dtype_of

    if workload.compute is not None:
        raise InvalidProblem(f"{path}: states its own compute times; --dtype is for models that are traced here")
    if dtype != (actual := dtype_of(workload.graph)):
        raise InvalidProblem(f"{path}: its tensors are {actual}; to plan it in {dtype}, export or trace it in {dtype}")


def check_name(model: str) -> None:
    """Raises InvalidProblem, with the closest demo name, if ``model`` can be none of the three."""
    name, _ = split_example(model)
    is_path = os.path.exists(name) or os.sep in name or bool(Path(name).suffix)
    if name not in MODELS and library_of(name) is None and not is_callable(name) and not is_path:
        raise InvalidProblem(
            f"there is no demo model or file {name!r}{closest(name, MODELS)} (`placement-explorer models` lists"
            " them; a module of yours is package.module:callable or file.py:callable; hf:, timm: and torchvision: name"
            " models of those packages)"
        )


def load_of_library(
    model: str,
    *,
    training: bool = True,
    dtype: torch.dtype | str | None = None,
    on_call: Callable[[int], None] = ignore,
    divide: Divide | None = None,
) -> Workload:
    """Trace a model of an installed library (see `libraries`), on meta; nothing is downloaded."""
    _need_torch(model)
    from explorer.tracing import trace_module

    name, example = split_example(model)
    module, inputs, notes = make_of_library(name, example, training=training)
    workload = trace_module(
        module,
        inputs,
        name=graph_name(name),
        training=training,
        dtype=dtype,
        batch_dim=example.batch_dim,
        expert_rows=example.expert_rows,
        on_call=on_call,
        divide=divide or divider_of(example, dtype),
    )
    return replace(workload, reference=model, notes=(*notes, *workload.notes))


def load_callable(
    reference: str,
    *,
    training: bool = True,
    dtype: torch.dtype | str | None = None,
    on_call: Callable[[int], None] = ignore,
    divide: Divide | None = None,
) -> Workload:
    """Trace what "package.module:callable" or "file.py:callable" returns: (module, example inputs), or (module, args,
    kwargs).

    This runs its code; what that prints goes to stderr, and an exit is an error.
    """
    _need_torch(reference)
    from explorer.tracing import trace_module

    name, example = split_example(reference)
    _knows(reference, example, "sequence", "batch_dim", "expert_rows", *GROUP)
    module, inputs, by_name = make_of_code(name)
    with redirect_stdout(sys.stderr):
        workload = trace_module(
            module,
            inputs,
            example_kwargs=by_name,
            name=name.rpartition(":")[2],
            training=training,
            dtype=dtype,
            batch_dim=example.batch_dim,
            expert_rows=example.expert_rows,
            on_call=on_call,
            divide=divide or divider_of(example, dtype),
            sequence=example.sequence,
        )
    return replace(workload, reference=reference)


def load_file(path: str, *, training: bool | None = None) -> Workload:
    """The workload of a file; training (None: unless in eval mode) is for exported programs, which hold a forward only.

    Raises InvalidProblem if it is of no kind that is read.
    """
    if os.path.isdir(path):
        raise InvalidProblem(f"{path}: {folder_instead(path)}")
    try:
        with open(path, "rb") as file:
            head = file.read(READ_BYTES)
    except OSError as error:
        raise InvalidProblem(f"{path}: {(error.strerror or str(error)).lower()}") from None
    if head.startswith(b"PK"):
        return _load_zip(path, training)
    if head.startswith(b"\x80"):
        raise InvalidProblem(f"{path}: a pickle, which could run code and is never opened; {EXPORT_HINT}")
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return read_workload(parse_json(read_file(path), path), path)
    if looks_like_pipedream(head):
        return read_pipedream(read_file(path), path)
    if Path(path).suffix.lower() == ".onnx" or looks_like_onnx(head):
        from explorer.tracing.files.onnx import load_onnx

        return replace(load_onnx(path, training=training), reference=path)
    if advice := instead(path, head):
        raise InvalidProblem(f"{path}: {advice}")
    content = "an empty file" if not head else f"a file that begins with {head[:8]!r}"
    raise InvalidProblem(
        f"{path}: expected graph.json, MSR 2020 or Piper .json, PipeDream graph.txt, .pt2 or .onnx, found {content}"
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


def read_workload(value: object, where: str) -> Workload:
    """The workload of parsed JSON: our graph.json, or a file of the field. Raises InvalidProblem."""
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
    if advice := config_instead(value, where):
        raise InvalidProblem(f"{where}: {advice}")
    raise InvalidProblem(
        f"{where}: neither a graph.json of ours nor an MSR 2020 workload (nodes, edges, maxFPGAs) nor one of Piper's"
        " (nodes, edges, maxDevices)"
    )


def _load_zip(path: str, training: bool | None) -> Workload:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise InvalidProblem(f"{path}: a damaged zip archive ({first_line(error)})") from None
    if any(name.endswith("/data.pkl") and name.count("/") == 1 for name in names):
        kind = "a TorchScript archive" if any("/code/" in name for name in names) else "a pickle made by torch.save"
        raise InvalidProblem(f"{path}: {kind}, not an exported program, and never opened; {EXPORT_HINT}")
    from explorer.tracing import load_pt2

    return replace(load_pt2(path, training=training), reference=path)
