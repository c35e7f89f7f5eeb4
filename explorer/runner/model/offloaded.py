"""What a forward saves for its backward, in the host's memory in between."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes


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
    what the forward was given). Copies are made one after the other, to pinned memory where there is a GPU. On a CPU
    they are made all the same, and a count of the device's storages does not see them.
    """

    def __init__(self, stays: Iterable[Tensor]) -> None:
        self._stays = {tensor.untyped_storage()._cdata for tensor in stays}
        self._latest: dict[tuple[int, int], tuple[weakref.ref[torch.UntypedStorage], _Copy]] = {}
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
            known = self._latest[key] = weakref.ref(storage), _Copy(tensor.device, _bytes_of(storage, tensor.device))
            self.copies.append(known[1])
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
