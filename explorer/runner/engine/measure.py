"""The iterations of a run: some to warm up, then those that are measured, and one whose gradients are written down.

Written down, for whoever checks an iteration with a loop of their own:

    tensors-<rank>.npz   gradient/NAME of the mini-batch, parameter/NAME after its update, of those the rank updates;
                         loss, the rank's part

Plain arrays, no pickles; what numpy has no dtype for (bfloat16) is written as float32, which holds it exactly.
`explorer.runner.recipe` makes the parameters and samples that the iteration began with.
"""

from __future__ import annotations

import gc
import io
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch._ops import OpOverload
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from explorer.files import write_file
from explorer.runner.bundles.progress import report
from explorer.runner.bundles.request import RunRequest
from explorer.runner.engine.machine import Machine
from explorer.runner.engine.recording import clock_offsets, start_together
from explorer.runner.measuring import operator_times
from explorer.runner.measuring.operator_times import Subject
from solvers.errors import RunError
from solvers.problem.graph import OpGraph, Phase

GRADIENT, PARAMETER, LOSS = "gradient/", "parameter/", "loss"
BUDGET_S = 2.0
"""Of one rank, for all its segments; each is run a few times in any case."""


@contextmanager
def settled_memory() -> Iterator[None]:
    """Inside, what is there now is not looked through for garbage: torch alone has hundreds of thousands of objects,
    and to look through them all, which Python does every now and then, takes as long as a step. What is made inside
    is collected as ever."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@dataclass
class Measured:
    """One rank's records: of each measured iteration its length, records (`Recorder.iteration`) and loss, and
    the bytes held at most. offset: seconds to add to this rank's clock to get that of rank 0. not_finite: the first
    (iteration from 0, those of the warm-up counted, micro-batch, loss) that is no finite number."""

    lengths_s: list[float] = field(default_factory=list)
    records: list[dict[str, list[list[object]]]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    peak_bytes: float = 0.0
    offset_s: float = 0.0
    not_finite: tuple[int, int, float] | None = None

    def look(self, machine: Machine, iteration: int) -> None:
        """Note a loss of the last iteration that is no finite number, if it is the first."""
        if self.not_finite is None and (first := machine.first_not_finite()) is not None:
            self.not_finite = (iteration, *first)


def measure(machine: Machine, request: RunRequest, floor_bytes: float = 0.0) -> Measured:
    """Runs warm-up and measured iterations, and one that only counts bytes. Every rank calls it. floor_bytes: see
    `peak_of_an_iteration`."""
    measured = Measured()
    measured.offset_s = clock_offsets(machine.processes, machine.process, machine.device)
    with settled_memory():
        for count in range(request.warmup):
            report("warming up", count, request.warmup, waits=True)
            dist.barrier()
            machine.recorder.start()
            machine.iterate()
            measured.look(machine, count)
        for count in range(request.steps):
            report("measuring", count, request.steps, waits=True)
            start = start_together(machine.process, measured.offset_s, machine.device)
            machine.recorder.start()
            machine.iterate()
            machine.recorder.finish()
            measured.lengths_s.append(time.perf_counter() - start)
            measured.records.append(machine.recorder.iteration(start, machine.members.exchanged))
            measured.losses.append(machine.loss())
            measured.look(machine, request.warmup + count)
    report("measuring", request.steps, request.steps)
    report("measuring memory")
    measured.peak_bytes = peak_of_an_iteration(machine, floor_bytes)
    return measured


def dump(machine: Machine, folder: Path) -> Path:
    """One iteration of a machine that has run none, and this rank's file of it, of whole tensors. Every rank calls it.
    Raises NotWritten."""
    names = {id(parameter): name for name, parameter in machine.held.parameters.items()}
    report("dumping")
    machine.iterate()
    placed = machine.program.placed
    tensors = {GRADIENT + name: placed.together(name, gradient) for name, gradient in machine.gradients()}
    for parameters in machine.owned.values():
        for name, p in ((names[id(p)], p) for p in parameters):
            tensors[PARAMETER + name] = placed.together(name, p.detach())
    arrays = {name: _array(value) for name, value in tensors.items()}
    written = io.BytesIO()
    np.savez(written, allow_pickle=False, **arrays, **{LOSS: np.array(machine.loss())})
    path = folder / f"tensors-{machine.rank}.npz"
    if machine.members.member:
        return path  # the first of the group writes what it has put together with the others
    write_file(path, written.getvalue(), "dumping gradients and parameters")
    return path


def _array(value: Tensor) -> np.ndarray:
    here = value.cpu()
    return (here.float() if here.dtype is torch.bfloat16 else here).numpy()


def operator_seconds(machine: Machine, graph: OpGraph) -> dict[str, float]:
    """Operator name -> seconds for one replica's share of a micro-batch; without updates. Every rank calls it:
    all measure at the same time, as they run. The parameters' gradients are not those of a run afterwards. Raises
    RunError where tensors are divided: members of a group would have to repeat an operator equally often."""
    if machine.program.divided is not None:
        raise RunError("operators of a plan whose tensors are divided are not measured one by one")
    report("measuring operators")
    for stage in machine.stages.values():
        stage.remembers = True
    machine.iterate()
    seconds: dict[str, float] = {}
    for number, stage in machine.stages.items():
        report("measuring operators", len(seconds), len(graph))
        module = stage.program.module
        subject = Subject(
            graph,
            module,
            stage.remembered,
            machine.program.owners(module),
            machine.script.segments[number].share,
            machine.device,
        )
        measured = operator_times.measure(subject, BUDGET_S / len(machine.stages))
        own = set(machine.script.segments[number].operators)
        for position, operator in enumerate(graph.operators):
            home = position if operator.forward_of is None else operator.forward_of
            if home in own and operator.phase is not Phase.UPDATE:
                seconds[operator.name] = measured.seconds[position]
        stage.remembers, stage.remembered = False, ()
    return seconds


class CountedStorage(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all storages that operators make while it is on, and those held, until they are freed;
    not what was there before: a view of that is nothing new.

    What an operator holds only while it runs is not seen. The process's resident size would be: but it keeps
    what allocators hold for later, which in small models is most of it.

    Gradients that meet in a backward autograd adds in place where nobody else holds the first of them, but never while
    a mode is on (`isTensorSubclassLike`, in its `InputBuffer`). So the sum that it makes instead is taken for that
    first one if this is gone before the next operator runs.
    """

    def __init__(self, held: Iterable[Tensor], before: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now_bytes = 0
        self.peak_bytes = 0
        self._unless_gone: tuple[int, int] | None = None
        """(a gradient, a peak): one if the gradient is still there when the next operator runs."""
        self._seen = {tensor.untyped_storage()._cdata for tensor in before}
        for tensor in held:
            self._count(tensor)

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        self._settle()
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.add.Tensor and args[0].layout is torch.strided and _goes_back():
            before = self.peak_bytes
            self._count(result)
            self._unless_gone = (args[0].untyped_storage()._cdata, self.peak_bytes)
            self.peak_bytes = before
            return result
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._count(tensor)
        return result

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        self._settle()

    def _settle(self) -> None:
        if self._unless_gone is not None:
            key, peak_bytes = self._unless_gone
            self._unless_gone = None
            self.peak_bytes = max(self.peak_bytes, peak_bytes if key in self._seen else self.now_bytes)

    def _count(self, tensor: Tensor) -> None:
        if tensor.layout is not torch.strided:  # a sparse gradient: what it is made of was counted
            return
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen:
            return
        self._seen.add(key)
        self.now_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.now_bytes)
        weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.now_bytes -= size


def _goes_back() -> bool:
    """Whether a backward is under way, and not a forward that it runs again."""
    return torch._C._current_graph_task_id() >= 0 and not torch.is_grad_enabled()


def allocated_bytes(device: torch.device) -> float:
    """What a GPU's allocator has given out, and forget its peak; 0 on a CPU."""
    if device.type != "cuda":
        return 0.0
    torch.cuda.reset_peak_memory_stats(device)
    return float(torch.cuda.memory_allocated(device))


def peak_of_an_iteration(machine: Machine, floor_bytes: float) -> float:
    """Bytes at most held for parameters, gradients, optimizer states, buffers, activations and messages; without
    the samples. On a GPU by its allocator since `allocated_bytes` gave ``floor_bytes``; on a CPU by running one
    more iteration, so every rank must call it."""
    if machine.device.type == "cuda":
        samples = sum(sample.numel() * sample.element_size() for sample in machine.samples)
        return float(torch.cuda.max_memory_allocated(machine.device)) - floor_bytes - samples
    held: list[Tensor] = [*machine.held.parameters.values(), *machine.held.buffers.values()]
    for optimizer in () if machine.states_on_host else machine.optimizers.values():
        held += [value for value in pytree.tree_leaves(list(optimizer.state.values())) if isinstance(value, Tensor)]
    with CountedStorage(held, machine.samples) as counted:
        machine.iterate()
    return float(counted.peak_bytes)
