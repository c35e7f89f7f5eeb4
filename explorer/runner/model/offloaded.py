"""What a forward saves for its backward, in the host's memory in between."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import _disable_current_modes

T = TypeVar("T")
_LEAVES: ContextVar[bool] = ContextVar("leaves", default=False)
"""Whether a call is under way that saves for the host."""


def offloading(module: fx.GraphModule, calls: Collection[str]) -> fx.GraphModule:
    """``module``, in which what these calls save leaves for the host. calls: ``meta["call"]`` of its nodes. Parameters
    and buffers are the module's own."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    for node in graph.nodes:
        if node.meta.get("call") in calls and isinstance(node.target, torch._ops.OpOverload):  # not one of its outputs
            node.args, node.target = (node.target, *node.args), leaving
    return fx.GraphModule(module, graph, "Offloading")


def leaving(target: Callable[..., T], *args: object, **kwargs: object) -> T:
    """A call; what it is the first to save goes to the host, which an `Offloaded` records."""
    token = _LEAVES.set(True)
    try:
        return target(*args, **kwargs)
    finally:
        _LEAVES.reset(token)


@dataclass(slots=True, eq=False)
class _Copy:
    """All bytes of a storage: on the device where they were made, on the host, and on the device again."""

    device: torch.device
    here: Tensor | None
    host: Tensor | None = None

    def leave(self) -> None:
        if self.here is not None:
            with _disable_current_modes(), torch.no_grad():
                host = torch.empty(len(self.here), dtype=torch.uint8, pin_memory=self.device.type == "cuda")
                self.host = host.copy_(self.here)
            self.here = None

    def fetched(self) -> Tensor:
        if self.here is None:
            assert self.host is not None
            self.here = self.host.clone() if self.device.type == "cpu" else self.host.to(self.device)
            self.host = None
        return self.here


class _View(NamedTuple):
    """A tensor as a part of a copy."""

    copy: _Copy
    dtype: torch.dtype
    offset: int
    size: torch.Size
    stride: tuple[int, ...]


class Offloaded:
    """What one forward saves; its hooks are those of `torch.autograd.graph.saved_tensors_hooks`.

    A storage is copied once, however many tensors of it are saved, and not at all if it is one that stays (parameters,
    what the forward was given) or a call that does not offload (`leaving`) was the first to save it. Copies are made
    one after the other, to pinned memory where there is a GPU. On a CPU they are made all the same, and a count of the
    device's storages does not see them.
    """

    def __init__(self, stays: Iterable[Tensor]) -> None:
        self._stays = {tensor.untyped_storage()._cdata for tensor in stays}
        self._latest: dict[tuple[int, int], tuple[weakref.ref[torch.UntypedStorage], _Copy | None]] = {}
        self.copies: list[_Copy] = []

    def pack(self, tensor: Tensor) -> Tensor | _View:
        """In place of a saved tensor: where its bytes are; the tensor itself if it stays."""
        if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
            return tensor
        storage = tensor.untyped_storage()
        if storage._cdata in self._stays or not storage.nbytes():
            return tensor
        key = storage._cdata, tensor._version
        known = self._latest.get(key)
        if known is None or known[0]() is None:  # another storage may have had its place in memory
            copy = _Copy(tensor.device, _bytes_of(storage, tensor.device)) if _LEAVES.get() else None
            known = self._latest[key] = weakref.ref(storage), copy
            self.copies += [] if copy is None else [copy]
        if known[1] is None:
            return tensor
        return _View(known[1], tensor.dtype, int(tensor.storage_offset()), tensor.shape, tensor.stride())

    def unpack(self, packed: Tensor | _View) -> Tensor:
        """The tensor, fetched if that has not been done."""
        if isinstance(packed, Tensor):
            return packed
        back = packed.copy.fetched()
        empty = torch.empty(0, dtype=packed.dtype, device=back.device)
        return empty.set_(back.untyped_storage(), packed.offset, packed.size, packed.stride)

    def leave(self) -> None:
        """Copy everything to the host, and hold none of it on the device."""
        for copy in self.copies:
            copy.leave()

    def fetch(self) -> None:
        """Bring everything back to the device."""
        for copy in self.copies:
            copy.fetched()


def _bytes_of(storage: torch.UntypedStorage, device: torch.device) -> Tensor:
    with _disable_current_modes(), torch.no_grad():
        return torch.empty(0, dtype=torch.uint8, device=device).set_(storage)
