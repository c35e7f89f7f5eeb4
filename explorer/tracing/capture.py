"""torch.export of a module, run once on fake tensors with autograd: a module becomes a `Captured`."""

from __future__ import annotations

import io
import logging
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import traceback
from torch.nn.modules import transformer
from torch.utils import _pytree as pytree
from torch.utils import checkpoint

from explorer.tracing.captured import Captured
from explorer.tracing.fake import Inputs, batch_of, first_line
from explorer.tracing.recorder import REGION, Recorder, Tape
from explorer.tracing.refusals import refusal, value_dependent
from explorer.tracing.shims.calling import standing_in
from explorer.tracing.shims.devices import ignore
from solvers.errors import TraceError

CHECKPOINTED = (
    "activation checkpointing is honoured: of {} only what comes in is kept until the backward, which runs the forward"
    " again first; --recompute none plans without"
)


def capture(
    module: nn.Module,
    inputs: Inputs,
    mode: FakeTensorMode,
    *,
    name: str,
    training: bool,
    rows: int | None = None,
    batch_dim: int = 0,
    on_call: Callable[[int], None] = ignore,
) -> tuple[Captured, ExportedProgram]:
    """What was captured, and the exported program: its calls have the names of the captured nodes, those in a block
    the block's name and a dot before theirs.

    ``module`` and ``inputs`` are fake (see `fake`). rows: how many a selection by value is taken to select.
    batch_dim: the dimension of the first input that counts samples. on_call: given the number of calls of the forward
    so far. Raises TraceError in one line.
    """
    with quiet():
        program, notes = _export(module, inputs, name, training, rows, on_call)
        try:
            return _run(program, module, inputs, mode, name, training, notes, batch_dim), program
        except TraceError as error:
            # The interpreter adds its own lines to whatever passes through it.
            raise TraceError(f"{name}: {first_line(error)}") from error
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise TraceError(f"{name}: {value_dependent(error)}") from error
        except (RuntimeError, TypeError, NotImplementedError) as error:
            message = f"{name}: could not run the exported graph on fake tensors: {first_line(error)}"
            raise TraceError(message) from error


def _export(
    module: nn.Module,
    inputs: Inputs,
    name: str,
    training: bool,
    rows: int | None,
    on_call: Callable[[int], None],
) -> tuple[ExportedProgram, tuple[str, ...]]:
    """The program, and notes on what it leaves out or takes for granted."""
    args, kwargs = inputs
    try:
        # nn.Transformer looks whether a mask happens to be causal: the mask is taken as any other.
        with (
            _marking_checkpoints() as seen,
            standing_in(module, rows, on_call, training=training) as notes,
            patch.object(transformer, "_detect_is_causal_mask", _stated_causal),
        ):
            program = torch.export.export(module, args, kwargs, strict=False)
    except Exception as error:
        raise TraceError(f"{name}: {refusal(error)}") from error
    regions = f"{len(seen)} region{'s' * (len(seen) != 1)}"
    return program, (*notes, *((CHECKPOINTED.format(regions),) if seen and training else ()))


@contextmanager
def _marking_checkpoints() -> Iterator[list[str]]:
    """An export sees through torch.utils.checkpoint: what is called there bears the name of a region (`recorder`).
    Gives the names of all; a call inside another is part of that."""
    seen: list[str] = []
    inside = False
    inner = checkpoint._checkpoint_without_reentrant_generator

    @contextmanager
    def marked() -> Iterator[None]:
        nonlocal inside
        if inside:
            yield
            return
        inside = True
        seen.append(f"checkpoint {len(seen)}")
        try:
            with traceback.preserve_node_meta(), traceback.annotate({REGION: seen[-1]}):
                yield
        finally:
            inside = False

    def noticed(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with marked():
            yield from inner(*args, **kwargs)

    class Reentrant:
        """This variant cannot be exported; what it runs can."""

        @staticmethod
        def apply(function: Any, preserve_random_state: bool, *args: Any) -> Any:
            with marked():
                return function(*args)

    with (
        patch.object(checkpoint, "_checkpoint_without_reentrant_generator", noticed),
        patch.object(checkpoint, "CheckpointFunction", Reentrant),
    ):
        yield seen


def _stated_causal(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    return bool(is_causal)


@contextmanager
def quiet() -> Iterator[None]:
    """Export warns and logs about matters that do not change the graph, and prints a half-made graph
    to stderr where it fails."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _run(
    program: ExportedProgram,
    module: nn.Module,
    inputs: Inputs,
    mode: FakeTensorMode,
    name: str,
    training: bool,
    notes: tuple[str, ...],
    batch_dim: int,
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
    # oneDNN's fused LSTM does not tell a fake run how much it saves; the kernels that all builds have do.
    with mode, torch.set_grad_enabled(training), hooks, torch.backends.mkldnn.flags(enabled=False):
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
        samples=batch_of(inputs, batch_dim),
        values=tape.values,
        nodes=tuple(tape.nodes),
        parameters=parameters,
        buffers=tuple(buffers),
        inputs=tuple(given),
        outputs=tuple(dict.fromkeys(returned)),
        saved=tuple(tape.saved),
        notes=notes,
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
