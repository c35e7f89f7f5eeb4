"""Which rank has which tensor of the model, by the names that the model has, and the files that hold them.

Files are as torch.distributed.checkpoint writes and reads them: a failure to write is said as the system says it, and
nothing is unpickled but what describes tensors.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata

from explorer.runner.engine.machine import Machine
from explorer.runner.model.construct import Built
from explorer.runner.model.divided import Placed
from explorer.runner.training.ranks import Ranks
from solvers.errors import RunError

Meta = tuple[tuple[int, ...], torch.dtype]
"""Shape and dtype."""


@dataclass
class Catalogue:
    """tensors: what this rank has, by name (of tied ones the first): parameters, and buffers that belong to the state.
    owners: of every tensor of the model the rank that saves it, of a buffer one that changes it if any does; metas: its
    shape and dtype. keys: of the model's state dict, in order, each with the name of its tensor. placed: of which of
    them it has a share, as one member of a group; shapes are those of whole tensors."""

    ranks: Ranks
    tensors: dict[str, Tensor]
    owners: dict[str, int]
    metas: dict[str, Meta]
    keys: dict[str, str]
    placed: Placed

    def is_gathered_here(self, name: str) -> bool:
        """Whether this process is of the group that gathers a tensor, for its first member to save."""
        return self.owners[name] // self.placed.members == self.ranks.rank // self.placed.members

    @property
    def owned(self) -> dict[str, Tensor]:
        """The tensors that this rank saves, whole. All members of a group call it together."""
        whole = {n: self.placed.together(n, v.detach()) for n, v in self.tensors.items() if self.is_gathered_here(n)}
        return {name: value for name, value in whole.items() if self.owners[name] == self.ranks.rank}

    def whole(self) -> dict[str, Tensor]:
        """The model's state dict, on rank 0 and on the CPU; {} elsewhere. Every rank must call it."""
        tensors: dict[str, Tensor] = {}
        for name, owner in self.owners.items():
            whole = self.placed.together(name, self.tensors[name].detach()) if self.is_gathered_here(name) else None
            if whole is not None and self.ranks.rank == owner == 0:
                tensors[name] = whole.cpu().clone()
            elif whole is not None and self.ranks.rank == owner:
                dist.send(whole.contiguous(), 0)
            elif self.ranks.rank == 0:
                shape, dtype = self.metas[name]
                room = torch.empty(shape, dtype=dtype, device=self.ranks.device)
                dist.recv(room, owner)
                tensors[name] = room.cpu()
        return {key: tensors[name] for key, name in self.keys.items()} if self.ranks.rank == 0 else {}


def make_catalogue(machine: Machine, ranks: Ranks, built: Built, idle: dict[str, Tensor]) -> Catalogue:
    """Every rank must call it. built: the module, whose names count; idle: parameters that nothing reads, on rank 0."""
    keys = _keys(built)
    inside = {id(tensor) for stage in machine.stages.values() for tensor in stage.program.module.buffers()}
    buffers = {name: machine.held.buffers[name] for name in keys.values() if name in machine.held.buffers}
    local: dict[str, Tensor] = {**machine.held.parameters, **idle}
    local |= {name: tensor for name, tensor in buffers.items() if id(tensor) in inside}
    operators = [operator for segment in machine.stages for operator in machine.script.segments[segment].operators]
    written = {id(machine.held.buffers[name]) for name in machine.program.buffer_names_changed(operators)}
    placed = machine.program.placed
    names_of = ranks.all_of(
        {name: (placed.whole_shape(name, t.shape), t.dtype, id(t) in written) for name, t in local.items()}
    )
    each = [(name, rank, *meta) for rank, names in enumerate(names_of) for name, meta in names.items()]
    metas: dict[str, Meta] = {name: (shape, dtype) for name, _, shape, dtype, _ in each}
    owners: dict[str, int] = {}
    for name, rank, *_ in sorted(each, key=lambda one: not one[-1]):
        owners.setdefault(name, rank)
    for name, tensor in buffers.items():  # in no segment: as it was made, on every rank alike
        if name not in owners:
            owners[name], metas[name] = 0, (tuple(tensor.shape), tensor.dtype)
            local[name] = tensor
    order = list(dict.fromkeys(keys.values()))
    return Catalogue(
        ranks, local, {name: owners[name] for name in order}, {name: metas[name] for name in order}, keys, placed
    )  # fmt: skip


def _keys(built: Built) -> dict[str, str]:
    """Key of the module's state dict -> the first name of its tensor."""
    first: dict[int, str] = {}
    for name, tensor in (*built.module.named_parameters(), *built.module.named_buffers()):
        first.setdefault(id(tensor), name)
    state = built.module.state_dict(keep_vars=True)
    return {key: first[id(value)] for key, value in state.items() if isinstance(value, Tensor)}


class Writer(FileSystemWriter):
    """Writes tensors in files that say why they cannot be written."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fs = _Files()


class _Files(FileSystem):
    """Files whose failure is the system's: torch's own, after a write that failed, is of a place in the file."""

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[io.IOBase]:
        with super().create_stream(path, mode) as stream:
            failures: list[OSError] = []
            write = stream.write

            def noting(data: Any) -> int:
                try:
                    return int(write(data))
                except OSError as error:
                    failures.append(error)
                    raise

            stream.write = noting
            try:
                yield stream
            except Exception:
                if failures:
                    raise failures[0] from None
                raise


class Reader(FileSystemReader):
    """Reads the list of tensors with only those classes that describe tensors."""

    def read_metadata(self, *_: object, rank: int | None = None, **__: object) -> Metadata:
        with self.fs.create_stream(self._get_metadata_path(rank), "rb") as file:
            metadata = _Describing(io.BytesIO(file.read())).load()
        if not isinstance(metadata, Metadata):
            raise RunError(f"checkpoint {self.path}: its list of tensors is a {type(metadata).__name__}")
        for name, kind in metadata.state_dict_metadata.items():
            if not isinstance(kind, TensorStorageMetadata):  # torch would unpickle it
                raise RunError(f"checkpoint {self.path}: {name} is no tensor")
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


class _Describing(pickle.Unpickler):
    """Knows the classes of torch.distributed.checkpoint's own list, and no others."""

    KNOWN = frozenset(
        {("torch", "Size"), ("torch", "device"), ("torch.serialization", "_get_layout"), ("pathlib", "PosixPath"),
         ("torch.distributed.checkpoint.filesystem", "_StorageInfo")}
        | {("torch.distributed.checkpoint.metadata", name) for name in (
            "Metadata", "MetadataIndex", "ChunkStorageMetadata", "TensorStorageMetadata", "BytesStorageMetadata",
            "TensorProperties", "StorageMeta", "_MEM_FORMAT_ENCODING")}
        | {("torch", str(value).removeprefix("torch.")) for value in vars(torch).values()
           if isinstance(value, torch.dtype)}
    )  # fmt: skip

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.KNOWN:
            raise RunError(f"a checkpoint's list of tensors names {module}.{name}, which describes none")
        return super().find_class(module, name)
