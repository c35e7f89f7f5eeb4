"""The most memory that a rank's tensors held in an iteration."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from explorer.runner.engine.machine import Machine


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
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
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

    def __exit__(self, *raised: Any) -> None:
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
    for optimizer in machine.optimizers.values():
        held += [value for value in pytree.tree_leaves(list(optimizer.state.values())) if isinstance(value, Tensor)]
    with CountedStorage(held, machine.samples) as counted:
        machine.iterate()
    return float(counted.peak_bytes)
