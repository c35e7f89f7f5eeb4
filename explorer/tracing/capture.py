"""torch.export of a module, run once on fake tensors with autograd: a module becomes a `Captured`."""

from __future__ import annotations

import logging
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from explorer.tracing.captured import Captured
from explorer.tracing.fake import Inputs, batch_of, first_line
from explorer.tracing.recorder import Recorder, Tape
from solvers.errors import TraceError

DATA_DEPENDENT = ("data-dependent", "data dependent", "DataDependent", "Could not guard", "unbacked")
"""How torch says that control flow or a shape depends on the values of a tensor."""


def capture(module: nn.Module, inputs: Inputs, mode: FakeTensorMode, *, name: str, training: bool) -> Captured:
    """``module`` and ``inputs`` are fake (see `fake`). Raises TraceError in one line."""
    with quiet():
        program = _export(module, inputs, name)
        try:
            return _run(program, module, inputs, mode, name, training)
        except TraceError as error:
            # The interpreter adds its own lines to whatever passes through it.
            raise TraceError(f"{name}: {first_line(error)}") from error
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise TraceError(
                f"{name}: the shape or value of a result depends on the values of a tensor ({first_line(error)}),"
                " so the operators have no fixed sizes"
            ) from error
        except (RuntimeError, TypeError, NotImplementedError) as error:
            message = f"{name}: could not run the exported graph on fake tensors: {first_line(error)}"
            raise TraceError(message) from error


def _export(module: nn.Module, inputs: Inputs, name: str) -> ExportedProgram:
    args, kwargs = inputs
    try:
        return torch.export.export(module, args, kwargs, strict=False)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        if any(words in said for words in DATA_DEPENDENT):
            raise TraceError(
                f"{name}: the forward depends on the values of a tensor (an `if` or a shape), which has no"
                f" fixed operator graph; torch.export said: {first_line(error)}"
            ) from error
        raise TraceError(f"{name}: torch.export could not trace it: {first_line(error)}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Export warns and logs about matters that do not change the graph."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _run(
    program: ExportedProgram, module: nn.Module, inputs: Inputs, mode: FakeTensorMode, name: str, training: bool
) -> Captured:
    tape = Tape()
    parameters: dict[str, str] = {}
    buffers: list[str] = []
    given: list[str] = []
    held: dict[str, Any] = dict(module.named_buffers(remove_duplicate=False))
    held.update(module.named_parameters(remove_duplicate=False))
    ties = _names_of_each(module)
    leaves = iter(pytree.tree_leaves(inputs))
    arguments: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            value = next(leaves)
        else:
            value = held.get(str(spec.target))
            if value is None:
                value = _constant(program, str(spec.target), mode)
        arguments.append(value)
        if not isinstance(value, Tensor):
            continue
        label = tape.enter_from_outside(spec.arg.name, value)
        if spec.kind is InputKind.PARAMETER:
            parameters[label] = ties[id(value)]
        elif spec.kind is InputKind.USER_INPUT:
            given.append(label)
        else:
            buffers.append(label)
    hooks = torch.autograd.graph.saved_tensors_hooks(tape.pack, tape.unpack)
    with mode, torch.set_grad_enabled(training), hooks:
        results = Recorder(program.graph_module, tape).run(*arguments, enable_io_processing=False)
    specs = program.graph_signature.output_specs
    user_outputs = {spec.arg.name for spec in specs if spec.kind.name == "USER_OUTPUT"}
    returned = [
        tape.name_of(x)
        for spec, x in zip(specs, pytree.tree_leaves(results), strict=False)
        if isinstance(x, Tensor) and spec.arg.name in user_outputs
    ]
    return Captured(
        name=name,
        samples=batch_of(inputs),
        values=tape.values,
        nodes=tuple(tape.nodes),
        parameters=parameters,
        buffers=tuple(buffers),
        inputs=tuple(given),
        outputs=tuple(dict.fromkeys(returned)),
        saved=tuple(tape.saved),
    )


def _constant(program: ExportedProgram, target: str, mode: FakeTensorMode) -> Any:
    """A tensor literal of the forward, without its values."""
    value = program.constants.get(target)
    if isinstance(value, Tensor):
        with mode:
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
    return value


def _names_of_each(module: nn.Module) -> dict[int, str]:
    """id of a parameter -> all its names, "a = b" when tied."""
    names: dict[int, list[str]] = defaultdict(list)
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names[id(parameter)].append(name)
    return {key: " = ".join(all_names) for key, all_names in names.items()}
